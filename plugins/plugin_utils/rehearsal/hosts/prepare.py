# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Prepares the simulated hosts: for each a directory with its tools, what they print, and its own files.

    <rehearsal dir>/hosts/<host>/bin      the tools (POSIX sh); usable from outside too: put it first on PATH
                                 /out      what they print
                                 /layers   what tasks wrote on the host
                                 /run      its /run
                                 /host.json what the connection must know
    <rehearsal dir>/shared/proc-sys        a copy of the kernel settings, which tasks may change

The tools need nothing but their own directory. GPUFLEET_REHEARSAL_HOST names the host for whoever wants to know.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import BinaryIO, Protocol

from ...outcome.errors import NotFoundError, UnavailableError
from ..model.values import ClusterModel, Node, ToolState
from . import dcgm, host_settings, imex, machine, mlxlink, nvidia_smi_text, pci_bridges, roce, system_tools
from .accelerators import printed_facts
from .host_record import SCHEMA_VERSION, host_directory
from .loaded import loaded_node
from .nvidia_smi_xml import XmlRenderer

_BOOTED_BEFORE = timedelta(days=2)
_BROKEN_TOOLS = {
    "hang": "#!/bin/sh\nexec sleep 86400\n",
    "empty": "#!/bin/sh\nexit 0\n",
    "garbage": "#!/bin/sh\nprintf '\\000\\001<<%%!!segment\\377\\n}{ 12 ]] not what you asked for\\n'\n",
}


class RealTools(Protocol):
    """Real tools bound to a simulated device: their names, and what they read on a host."""

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
    """Write the directories of all hosts of the model; what an earlier call left is replaced.

    Args:
        model: the cluster with its faults.
        root: the rehearsal directory.
        data: the collection's recipes/rehearsal directory.
        now: the time that the logs end at; the present if not given.
        fabric: the simulated InfiniBand fabric; without one `ibstat` prints what the model says.
        kernel_settings: what the hosts' /proc/sys starts as.
        progress: told how many of how many hosts are done.

    Raises:
        UnavailableError: the directory cannot be written.
        InputError: the data files are not valid.
    """
    moment = now or datetime.now(UTC)
    try:
        _clear(root)
        writer = HostWriter(root, data, moment, fabric)
        for done, node in enumerate(model.nodes, 1):
            writer.write(node, imex.domain(node, model.nodes))
            progress(done, len(model.nodes))
        _copy_kernel_settings(kernel_settings, root / "shared" / "proc-sys")
    except OSError as error:
        hint = "give the rehearsal a directory on a local disk with room"
        raise UnavailableError(str(root), f"cannot be written: {error.strerror} ({error.filename}).", hint) from None


def remove_hosts(root: Path) -> None:
    """Remove every simulated host and all that tasks wrote there.

    Raises:
        OSError: a file cannot be removed.
    """
    for name in ("hosts", "shared"):
        tree = root / name
        if tree.exists():
            # The kernel leaves directories in an overlay's work area that only root may enter as they are.
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
    """Writes one host after the other; the same content is on the disk once. `kept` are files that are there."""

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
            "mlxlink.txt": mlxlink.every_port(node),
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
            **{f"{program}.printed": f"{text}\n" for program, text in node.printed.items()},
            "ecn.txt": roce.ecn(node),
            **host_settings.outputs(node),
            **machine.outputs(node),
            **system_tools.kernel_logs(node, self._now - _BOOTED_BEFORE),
        }

    def _write_tool(self, path: Path, script: bytes, state: ToolState) -> None:
        if state != "missing":
            self._link(path, script if state == "ok" else _BROKEN_TOOLS[state].encode(), 0o755)

    def _write_own_files(self, etc: Path, node: Node) -> None:
        # This directory covers the machine's /etc, so it must look like it.
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
            # The file system's limit of links to one file: go on with a fresh copy.
            path.write_bytes(content)
            path.chmod(mode)
            self._kept[key] = path


def _copy_kernel_settings(origin: Path, target: Path) -> None:
    """Copy /proc/sys as far as it can be read: the settings that a simulated host starts with."""
    for directory, _folders, names in os.walk(origin):
        here = os.path.join(target, os.path.relpath(directory, origin))
        os.makedirs(here, exist_ok=True)
        for name in names:
            try:
                source = os.open(os.path.join(directory, name), os.O_RDONLY)
            except OSError:
                # Settings that can only be written: the host has an empty file to write to.
                Path(here, name).touch()
                continue
            with open(source, "rb") as settings, open(os.path.join(here, name), "wb") as copy:
                copy.write(_readable(settings))


def _readable(settings: BinaryIO) -> bytes:
    try:
        return settings.read()
    except OSError:
        return b""
