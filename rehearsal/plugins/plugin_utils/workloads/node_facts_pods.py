# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Pods that read the kernel of their node for a snapshot, from an unprivileged container.

/proc is the node's, whatever the container may do: modules (proc(5)), the boot parameters, the files of the driver
(NVIDIA/open-gpu-kernel-modules, kernel-open/nvidia/nv-procfs.c, with its tabs); sysctls of the pod's own namespaces are
not the node's. cgroup.events has `populated` and `frozen` (Linux, cgroup-v2.rst). nvidia-smi is there only with a
RuntimeClass that adds it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from ..model.values import Node
from .pod_simulator import STDOUT, Json, PodGroup, PodOutput, PodSimulator, SimContext, words_of

_ASKED = re.compile(r"^ask (\w+) ", re.MULTILINE)
_UNITS = ("containerd", "kubelet", "dbus")
_MODULES = ("nvidia_uvm", "nvidia_modeset", "nvidia", "mlx5_ib", "mlx5_core", "overlay")
_VBIOS = "96.00.74.00.01"


def handles(pod: Json) -> bool:
    return "/proc/driver/nvidia/version" in " ".join(words_of(pod))


def simulate(group: PodGroup, context: SimContext) -> Mapping[str, PodOutput] | None:
    """Return the output of the pod's script, tool by tool."""
    if not group.running:
        return None
    pod = group.running[0]
    node = context.model.node(pod["spec"]["nodeName"])
    lines: list[str] = []
    for tool in _ASKED.findall(" ".join(words_of(pod))):
        reported = _SAYS[tool](node) if tool in _SAYS else ""
        rc = 0 if reported else 127
        trouble = "" if reported else f"timeout: failed to run command: {tool}: No such file or directory"
        lines += [f"gpufleet-begin {tool} {rc}", *reported.splitlines(), ""]
        lines += [f"gpufleet-stderr {tool}", trouble, "", f"gpufleet-end {tool}"]
    lines.append("gpufleet-done")
    return {pod["metadata"]["name"]: PodOutput(lines=tuple((STDOUT, line) for line in lines))}


def _os_release(node: Node) -> str:
    return (
        f'ID={node.os_name.lower()}\nVERSION_ID="{node.os_version[:5]}"\nPRETTY_NAME="{node.os_name} {node.os_version}"'
    )


def _modules(_node: Node) -> str:
    rows = (f"{name} 1048576 0 - Live 0x0000000000000000" for name in _MODULES)
    return "\n".join(("Module Size Used by", *rows))


def _sysctl(node: Node) -> str:
    values = {"kernel/osrelease": node.kernel, "kernel/numa_balancing": "0", "vm/swappiness": "60"}
    return "\n".join(f"/proc/sys/{name}:{value}" for name, value in values.items())


def _units(_node: Node) -> str:
    return "\n".join(f"/host/cgroup/system.slice/{name}.service/cgroup.events:populated 1" for name in _UNITS)


def _driver(node: Node) -> str:
    head = f"NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  {node.driver_version}  Release Build  (builder)"
    lines = [f"/proc/driver/nvidia/version:{head}"]
    for gpu in node.working_gpus:
        place = f"/proc/driver/nvidia/gpus/{gpu.pci}/information"
        lines += [
            f"{place}:Model: \t\t {gpu.product}",
            f"{place}:GPU UUID: \t {gpu.uuid}",
            f"{place}:Video BIOS: \t {gpu.vbios or _VBIOS}",
            f"{place}:Bus Location: \t {gpu.pci}",
        ]
    return "\n".join(lines)


def _adapters(node: Node) -> str:
    lines = []
    for hca in node.all_hcas:
        place = f"/sys/class/infiniband/{hca.name}"
        digits = hca.guid.removeprefix("0x").zfill(16)
        lines += [
            f"{place}/fw_ver:{hca.firmware}",
            f"{place}/hca_type:{hca.model}",
            f"{place}/node_guid:{':'.join(re.findall('....', digits))}",
            f"{place}/ports/1/link_layer:{hca.link_layer}",
        ]
    return "\n".join(lines) or "no adapters"


_SAYS = {
    "lsmod": _modules,
    "uname": lambda node: node.kernel,
    "os_release": _os_release,
    "sysctl": _sysctl,
    "kernel_cmdline": lambda node: f"BOOT_IMAGE=/boot/vmlinuz-{node.kernel} root=UUID=0 ro iommu=pt",
    "cgroup_units": _units,
    "nvidia_proc": _driver,
    "infiniband_class": _adapters,
}
SIMULATOR = PodSimulator(name="node-facts", handles=handles, simulate=simulate)
