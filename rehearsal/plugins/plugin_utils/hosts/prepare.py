# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Prepares the simulated hosts: for each a directory with its tools, their output, and its own files.

    <rehearsal dir>/hosts/<host>/bin      the tools (POSIX sh); usable from outside too: put it first on PATH
                                 /out      their output
                                 /layers   files that tasks wrote on the host
                                 /run      its /run
                                 /host.json data for the connection
    <rehearsal dir>/shared/proc-sys        a copy of the kernel settings, which tasks may change

The tools need nothing but their own directory. GPUFLEET_REHEARSAL_HOST has the name of the host.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import os
import shutil
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, BinaryIO, Protocol
from xml.sax.saxutils import escape

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.errors import (
    InputError,
    NotFoundError,
    UnavailableError,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.runtime.host_tools import load_host_tools
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.runtime.strict import read_yaml

from ..model.values import ClusterModel, Gpu, Node, ToolState
from . import dcgm, host_settings, machine, nvidia_smi_text, pci_bridges, roce, system_tools
from .accelerators import PrintedFacts, printed_facts
from .host_record import SCHEMA_VERSION, host_directory
from .loaded import loaded_node

# Renders `nvidia-smi -q -x` of the 580 driver branch from the cluster model.

LOST = "GPU is lost"
ABSENT = "(absent)"
_IDLE_CLOCK_MHZ, _CLOCK_STEP_MHZ = 345, 15
_SLOWDOWNS = ("hw_thermal_slowdown", "sw_thermal_slowdown", "hw_power_brake_slowdown")
# As in a complete document of a GB200 (NVIDIA/k8s-test-infra). A host with its own NVSwitches prints 0.
_RACK_CLIQUE = "2"
_NO_CLUSTER = "00000000-0000-0000-0000-000000000000"


class XmlRenderer:
    """Templates compiled once from the outline in rehearsal/recipes/, filled in for each GPU."""

    def __init__(self, directory: Path) -> None:
        path = directory / "nvidia_smi_580.yaml"
        outline = read_yaml(path)
        if not isinstance(outline, dict) or set(outline) != {"dtd", "gpu", "lost"}:
            raise InputError(str(path), "must have exactly the keys dtd, gpu, lost.", "correct the file")
        self._dtd = str(outline["dtd"])
        self._outline = outline
        self._templates: dict[tuple[bool, tuple[tuple[str, str], ...]], str] = {}
        self._clocks: dict[tuple[int, int], str] = {}
        self._compressed: dict[str, bytes] = {}

    def render(self, node: Node, facts: PrintedFacts, timestamp: str) -> str:
        """Return the complete document of a node."""
        gpus = node.listed_gpus
        head = (
            f'<?xml version="1.0" ?>\n<!DOCTYPE nvidia_smi_log SYSTEM "{self._dtd}">\n<nvidia_smi_log>\n'
            f"\t<timestamp>{timestamp}</timestamp>\n\t<driver_version>{escape(node.driver_version)}</driver_version>\n"
            f"\t<cuda_version>{node.cuda_version}</cuda_version>\n\t<attached_gpus>{len(gpus)}</attached_gpus>\n"
        )
        blocks = [self._block(node, gpu, position, facts) for position, gpu in enumerate(gpus)]
        return head + "\n".join(blocks) + "</nvidia_smi_log>\n"

    def render_compressed(self, node: Node, facts: PrintedFacts, timestamp: str) -> bytes:
        """Return the document as gzip. The long list of clocks is the same for every GPU and compressed only once."""
        clocks = self._supported_clocks(facts)
        if clocks not in self._compressed:
            self._compressed[clocks] = _compressed(clocks)
        # A gzip file may consist of several members, one after the other.
        return self._compressed[clocks].join(
            _compressed(part) for part in self.render(node, facts, timestamp).split(clocks)
        )

    def _block(self, node: Node, gpu: Gpu, position: int, facts: PrintedFacts) -> str:
        template = self._template(node, gpu)
        words = {**_identity(node, gpu, position, facts), **_state(gpu, facts), **_health(gpu, facts)}
        words["fabric_health"] = facts.fabric_health if gpu.fabric_state != "N/A" else "N/A"
        words["supported_clocks"] = self._supported_clocks(facts)
        return f'\t<gpu id="{gpu.pci_bus_id}">\n{template.format_map(words)}\t</gpu>\n'

    def _template(self, node: Node, gpu: Gpu) -> str:
        """Return the template of a GPU: it depends on whether the GPU responds, and on the node's changed elements."""
        key = gpu.presence == "lost", tuple(sorted(node.smi_xml.items()))
        if key not in self._templates:
            tree = self._outline["gpu"]
            for path, text in node.smi_xml.items():
                tree = _changed(tree, path.split("/"), text, path)
            lost = frozenset(self._outline["lost"]) if key[0] else frozenset()
            self._templates[key] = "".join(_lines(tree, "", 2, lost))
        return self._templates[key]

    def _supported_clocks(self, facts: PrintedFacts) -> str:
        key = (facts.mem_clock_mhz, facts.max_clock_mhz)
        if key not in self._clocks:
            blocks = [
                _clock_block(rate, facts.max_clock_mhz) for rate in (facts.mem_clock_mhz, facts.mem_clock_low_mhz)
            ]
            self._clocks[key] = "\n" + "".join(blocks) + "\t\t"
        return self._clocks[key]


def _compressed(text: str) -> bytes:
    return gzip.compress(text.encode(), compresslevel=1, mtime=0)


def _clock_block(mem_clock_mhz: int, max_clock_mhz: int) -> str:
    indent = "\t" * 4
    rows = [f"\t\t\t<supported_mem_clock>\n{indent}<value>{mem_clock_mhz} MHz</value>\n"]
    for rate in range(max_clock_mhz, _IDLE_CLOCK_MHZ - 1, -_CLOCK_STEP_MHZ):
        rows.append(f"{indent}<supported_graphics_clock>{rate} MHz</supported_graphics_clock>\n")
    return "".join([*rows, "\t\t\t</supported_mem_clock>\n"])


def _changed(tree: dict[str, Any], way: list[str], text: str, path: str) -> dict[str, Any]:
    """Return the outline with another text at one place, or without it. A missing place is added."""
    first, *rest = way
    if not rest:
        return {k: v for k, v in tree.items() if k != first} if text == ABSENT else {**tree, first: text}
    inner = tree.get(first)
    if not isinstance(inner, dict):
        raise InputError(f"smi_xml {path}", f"the document has no {first!r} with elements.", "correct the path")
    return {**tree, first: _changed(inner, rest, text, path)}


def _lines(tree: dict[str, Any], path: str, depth: int, lost: frozenset[str]) -> list[str]:
    found: list[str] = []
    indent = "\t" * depth
    for name, value in tree.items():
        here = f"{path}/{name}" if path else name
        if here in lost or f"{path}/*" in lost:
            found.append(f"{indent}<{name}>{LOST}</{name}>\n")
        elif isinstance(value, dict):
            found += [f"{indent}<{name}>\n", *_lines(value, here, depth + 1, lost), f"{indent}</{name}>\n"]
        elif value is None:
            found.append(f"{indent}<{name}>\n{indent}</{name}>\n")
        elif str(value).startswith("|"):
            found.append(f"{indent}<{name}>\n{indent}\t{str(value)[1:]}\n{indent}</{name}>\n")
        else:
            found.append(f"{indent}<{name}>{value}</{name}>\n")
    return found


def _word(value: bool) -> str:
    return "Yes" if value else "No"


def _switch(value: bool) -> str:
    return "Enabled" if value else "Disabled"


def _identity(node: Node, gpu: Gpu, position: int, facts: PrintedFacts) -> dict[str, object]:
    domain, bus, _slot = gpu.pci_bus_id.split(":")
    vendor, _colon, device = node.gpu_pci_id.partition(":")
    return {
        "product": escape(gpu.product),
        "architecture": facts.architecture,
        "serial": gpu.serial,
        "uuid": gpu.uuid,
        "pdi": "0x" + gpu.uuid.replace("-", "")[-16:],
        "position": position,
        "vbios": gpu.vbios or facts.vbios,
        "board_id": f"0x{int(bus, 16) << 8:x}",
        "board_part": facts.board_part,
        "gpu_part": facts.gpu_part,
        "module_id": gpu.module_id,
        "inforom": facts.inforom,
        "driver_version": node.driver_version,
        "gsp_firmware": node.driver_version if gpu.gsp else "N/A",
        "pci_bus": bus,
        "pci_domain": domain[-4:],
        "pci_device_id": (device + vendor).upper(),
        "pci_bus_id": gpu.pci_bus_id,
        "pci_sub_system_id": facts.pci_sub_system_id,
    }


def _state(gpu: Gpu, facts: PrintedFacts) -> dict[str, object]:
    in_fabric = gpu.fabric_state != "N/A"
    return {
        "persistence": _switch(gpu.persistence),
        "mig": _switch(gpu.mig),
        "recovery_action": gpu.recovery_action,
        "pcie_generation": gpu.pcie_generation,
        "pcie_width": gpu.pcie_width,
        "pcie_width_max": gpu.pcie_width_max,
        "replay_counter": gpu.replay_counter,
        "util": "N/A" if gpu.mig else "0 %",
        "fb_total": gpu.memory_mib,
        "fb_reserved": facts.reserved_mib,
        "fb_free": gpu.memory_mib - facts.reserved_mib,
        "bar1_total": facts.bar1_mib,
        "bar1_free": facts.bar1_mib - 1,
        "temperature": gpu.temperature_c,
        "tlimit": 87 - gpu.temperature_c,
        "memory_temperature": gpu.temperature_c + 8,
        "power": f"{gpu.power_w:.2f}",
        "power_limit": f"{facts.power_limit_w:.2f}",
        "power_limit_now": f"{facts.power_limit_w * gpu.power_limit:.2f}",
        "compute_mode": gpu.compute_mode,
        "clock_limited": "Active" if gpu.clock_limit_mhz else "Not Active",
        "application_clock": gpu.clock_limit_mhz or facts.max_clock_mhz,
        **{name: "Active" if gpu.slowdown == name else "Not Active" for name in _SLOWDOWNS},
        "power_limit_min": f"{facts.power_limit_min_w:.2f}",
        "max_clock": facts.max_clock_mhz,
        "mem_clock": facts.mem_clock_mhz,
        "fabric_state": gpu.fabric_state,
        "fabric_status": gpu.fabric_status,
        "fabric_clique": (_RACK_CLIQUE if gpu.fabric_cluster else "0") if in_fabric else "N/A",
        "fabric_cluster": (gpu.fabric_cluster or _NO_CLUSTER) if in_fabric else "N/A",
    }


def _health(gpu: Gpu, facts: PrintedFacts) -> dict[str, object]:
    rows = gpu.remapped_rows
    used = 1 if rows.failure else 0
    return {
        "ecc_volatile_correctable": gpu.ecc.volatile_correctable,
        "ecc_volatile_uncorrectable": gpu.ecc.volatile_uncorrectable,
        "ecc_aggregate_correctable": gpu.ecc.aggregate_correctable,
        "ecc_aggregate_uncorrectable": gpu.ecc.aggregate_uncorrectable,
        "sram_threshold_exceeded": _word(gpu.ecc.sram_threshold_exceeded),
        "remapped_correctable": rows.correctable,
        "remapped_uncorrectable": rows.uncorrectable,
        "remap_pending": _word(rows.pending),
        "remap_failure": _word(rows.failure),
        "banks_max": facts.remap_banks - used,
        "banks_high": 0,
        "banks_none": used,
    }


_BOOTED_BEFORE = timedelta(days=2)
_BROKEN_TOOLS = {
    "hang": "#!/bin/sh\nexec sleep 86400\n",
    "empty": "#!/bin/sh\nexit 0\n",
    "garbage": "#!/bin/sh\nprintf '\\000\\001<<%%!!segment\\377\\n}{ 12 ]] not what you asked for\\n'\n",
}


class RealTools(Protocol):
    """Real tools bound to a simulated device: their names, and their files on a host."""

    @property
    def tools(self) -> tuple[str, ...]:
        """Names of the tools."""

    def host_files(self, node: Node) -> Mapping[str, str]:
        """Return the files of that host by name."""

    @property
    def pipes(self) -> tuple[Path, ...]:
        """Named pipes that every host has beside those files."""


def prepare_hosts(
    model: ClusterModel,
    root: Path,
    data: Path,
    *,
    now: datetime | None = None,
    fabric: RealTools | None = None,
    kernel_settings: Path = Path("/proc/sys"),
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> None:
    """Write the directories of all hosts of the model. Those of an earlier call are replaced.

    Args:
        model: the cluster with its faults.
        root: the rehearsal directory.
        data: the collection's rehearsal/recipes directory.
        now: the time that the logs end at; by default the current time.
        fabric: the simulated InfiniBand fabric; without one `ibstat` prints the model's values.
        kernel_settings: initial content of the hosts' /proc/sys.
        progress: called with the number of hosts that are done, and of all.

    Raises:
        UnavailableError: the directory cannot be written.
        InputError: the data files are not valid.
    """
    moment = now or datetime.now(UTC)
    try:
        _clear(root)
        writer = HostWriter(root, data, moment, fabric)
        for done, node in enumerate(model.nodes, 1):
            writer.write(node, dcgm.domain(node, model.nodes))
            progress(done, len(model.nodes))
        _copy_kernel_settings(kernel_settings, root / "shared" / "proc-sys")
    except OSError as error:
        hint = "give the rehearsal a directory on a local disk with room"
        raise UnavailableError(str(root), f"cannot be written: {error.strerror} ({error.filename}).", hint) from None


def remove_hosts(root: Path) -> None:
    """Remove every simulated host and all files that tasks wrote there.

    Raises:
        OSError: a file cannot be removed.
    """
    for name in ("hosts", "shared"):
        tree = root / name
        if tree.exists():
            # The kernel leaves directories in an overlay's work area that only root can enter.
            for directory, names, _files in os.walk(tree):
                for inner in {"work", "index"}.intersection(names):
                    os.chmod(os.path.join(directory, inner), 0o700)
            shutil.rmtree(tree)


def _clear(root: Path) -> None:
    remove_hosts(root)
    (root / "shared").mkdir(parents=True)
    (root / "hosts").mkdir()
    os.chmod(root, 0o700)


class HostWriter:
    """Writes one host after the other. Equal content is on the disk once. `kept` are existing files."""

    def __init__(
        self, root: Path, data: Path, now: datetime, fabric: RealTools | None, kept: Iterable[Path] = ()
    ) -> None:  # fmt: skip
        self._root = root
        self._now = now
        self._data = data
        self._xml = XmlRenderer(data)
        self._tools = {path.stem: path.read_bytes() for path in sorted((data / "tools").glob("*.sh"))}
        self._fabric = fabric
        if fabric is not None:
            self._tools |= dict.fromkeys(fabric.tools, (data / "fabric" / "tool.sh").read_bytes())
        # A tool without a script prints what its entry in tools.yaml has, or what the node's model has in its place.
        self._samples = {
            program: tool.healthy.removesuffix("\n")
            for tool in load_host_tools().tools
            for program in tool.programs
            if tool.healthy and program not in self._tools
        }
        self._tools |= {
            program: f'#!/bin/sh\nexec cat "${{0%/*}}/../out/{program}.printed"\n'.encode() for program in self._samples
        }
        self._kept = {(hashlib.sha256(path.read_bytes()).digest(), path.stat().st_mode & 0o777): path for path in kept}
        if not self._tools:
            raise NotFoundError(str(data / "tools"), "has no tools.", "reinstall the collection")

    def write(self, node: Node, imex_domain: str) -> None:
        home = host_directory(self._root, node.name)
        for name in ("bin", "out", "run", "layers/root/upper/etc", "layers/root/work"):
            (home / name).mkdir(parents=True)
        bound = self._fabric.host_files(node) if self._fabric is not None else {}
        outputs = self._outputs(node)
        files = {**outputs, **bound, "hurt-by.txt": f"{node.hurt_by}\n", "imex.json": imex_domain}
        if node.hurt_by:
            (home / "out" / "loaded").mkdir()
            files |= {f"loaded/{name}": text for name, text in self._outputs(loaded_node(node)).items()}
        for name, text in files.items():
            self._link(home / "out" / name, text if isinstance(text, bytes) else text.encode(), 0o644)
        for pipe in self._fabric.pipes if self._fabric is not None else ():
            os.link(pipe, home / "out" / pipe.name)
        for tool, script in self._tools.items():
            self._write_tool(home / "bin" / tool, script, node.tools.get(tool, "ok"))
        self._write_own_files(home / "layers" / "root" / "upper" / "etc", node)
        facts = {"schema_version": SCHEMA_VERSION, "name": node.name, "reachable": node.reachable}
        facts |= {"prepared": self._now.isoformat()}
        (home / "host.json").write_text(json.dumps(facts) + "\n", encoding="utf-8")

    def _outputs(self, node: Node) -> dict[str, str | bytes]:
        facts = printed_facts(node.accelerator, self._data)
        xml = self._xml.render_compressed(node, facts, f"{self._now:%a %b %d %H:%M:%S %Y}")
        diags, diag_rc = dcgm.diagnostics(node, facts)
        health, health_rc = dcgm.health(node)
        fields = nvidia_smi_text.query_fields(node, facts)
        listing = nvidia_smi_text.gpu_list(node)
        return {
            "nvidia-smi.xml.gz": xml,
            "nvidia-smi.txt": f"NVIDIA-SMI {node.driver_version}  CUDA Version: {node.cuda_version}\n{listing}",
            "gpus.txt": listing,
            "pcie-under-load.csv": nvidia_smi_text.pcie_under_load(node),
            "query.tsv": "".join("\t".join([name, unit, *row]) + "\n" for name, (unit, row) in fields.items()),
            "topo.txt": nvidia_smi_text.topology(node),
            "nvlink.txt": nvidia_smi_text.nvlink_status(node, facts),
            "nvlink-errors.txt": nvidia_smi_text.nvlink_errors(node, facts),
            "port-counters.txt": system_tools.port_counters(node),
            "mlxlink.txt": roce.every_port(node),
            "rdma-link.txt": roce.rdma_link(node),
            "gids.txt": roce.show_gids(node),
            "devinfo.txt": roce.ibv_devinfo(node),
            "qos.txt": roce.mlnx_qos(node),
            "fi-info.txt": roce.fi_info(node),
            "nic-counters.txt": roce.nic_counters(node),
            **{f"dcgmi-diag-{level}.json": text for level, text in diags.items()},
            "dcgmi-diag.rc": f"{diag_rc}\n",
            "dcgmi-health.txt": health,
            "dcgmi-health.rc": f"{health_rc}\n",
            "dmi.txt": system_tools.dmi_tables(node),
            "dcgmi-discovery.txt": dcgm.discovery(node),
            "dcgmi-version.txt": f"\ndcgmi  version: {node.dcgm_version}\n\n",
            "lspci.txt": system_tools.pci_devices(node, facts),
            "bridges.txt": pci_bridges.bridge_details(node),
            "virtualisation.txt": f"{node.virtualisation}\n",
            "ibstat.txt": system_tools.ibstat(node),
            "chronyc.txt": system_tools.chrony_tracking(node, self._now),
            "clock-ahead.txt": f"{node.clock.ahead_s}\n",
            "uname.txt": f"{node.kernel}\n",
            "ofed.txt": f"{node.ofed_version}:\n",
            "services.txt": "".join(f"{name} {state}\n" for name, state in sorted(node.services.items())),
            **{f"{program}.printed": f"{text}\n" for program, text in {**self._samples, **node.printed}.items()},
            "ecn.txt": roce.ecn(node),
            **host_settings.outputs(node),
            **machine.outputs(node),
            **system_tools.kernel_logs(node, self._now - _BOOTED_BEFORE),
        }

    def _write_tool(self, path: Path, script: bytes, state: ToolState) -> None:
        if state != "missing":
            self._link(path, script if state == "ok" else _BROKEN_TOOLS[state].encode(), 0o755)

    def _write_own_files(self, etc: Path, node: Node) -> None:
        # This directory covers the machine's /etc, so it needs the same mode.
        os.chmod(etc, 0o755)
        files = {
            "hostname": f"{node.name}\n",
            "machine-id": f"{node.machine_id}\n",
            "os-release": system_tools.os_release(node),
            "hosts": f"127.0.0.1 localhost\n127.0.1.1 {node.name}\n",
        }
        for name, text in files.items():
            (etc / name).write_text(text, encoding="utf-8")

    def _link(self, path: Path, content: bytes, mode: int) -> None:
        key = (hashlib.sha256(content).digest(), mode)
        kept = self._kept.get(key)
        if kept is None:
            path.write_bytes(content)
            path.chmod(mode)
            self._kept[key] = path
            return
        try:
            os.link(kept, path)
        except OSError:
            # The file system's limit of links to one file: continue with a fresh copy.
            path.write_bytes(content)
            path.chmod(mode)
            self._kept[key] = path


def _copy_kernel_settings(origin: Path, target: Path) -> None:
    """Copy the readable part of /proc/sys: the initial settings of a simulated host."""
    for directory, _folders, names in os.walk(origin):
        here = os.path.join(target, os.path.relpath(directory, origin))
        os.makedirs(here, exist_ok=True)
        for name in names:
            try:
                source = os.open(os.path.join(directory, name), os.O_RDONLY)
            except OSError:
                # For write-only settings the host gets an empty file.
                Path(here, name).touch()
                continue
            with open(source, "rb") as settings, open(os.path.join(here, name), "wb") as copy:
                copy.write(_readable(settings))


def _readable(settings: BinaryIO) -> bytes:
    try:
        return settings.read()
    except OSError:
        return b""
