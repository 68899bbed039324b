# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The adapters for GPU traffic of every host, from what its tools printed in this run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from ..hardware.sku import Sku
from ..probe.ibstat import Hca
from ..probe.nvidia_smi_topo import Topology
from ..runtime.host_tools import load_host_tools
from ..site.adapters import ComputeAdapters, compute_adapters, port_names
from ..site.model import Host, Site
from .printed import read_tools
from .tool_reading import ProbeFailure

_TOOLS = ("hcas", "topo")


@dataclass(frozen=True, slots=True, kw_only=True)
class HostAdapters:
    """The adapters of one host: which are for GPU traffic, the GUID of every port by its name, and why `ibstat` gave
    nothing."""

    compute: ComputeAdapters
    guids: dict[str, int] = field(default_factory=dict)
    unread: str = ""

    @property
    def problem(self) -> str:
        """Why the adapters for GPU traffic are not all known; empty if they are."""
        found = self.compute
        if found.complete or found.names:
            return ""
        if self.unread:
            return f"nothing is known of its adapters: {self.unread}"
        if found.open_between:
            return (
                f"{len(found.open_between)} adapters fit ({', '.join(found.open_between)}), the SKU has {found.wanted} "
                f"for GPU traffic, and nothing tells which"
            )
        return f"it has no adapter for GPU traffic, the SKU has {found.wanted}"


def read_adapters(run_dir: Path, site: Site, hardware: Mapping[str, Sku]) -> dict[str, HostAdapters]:
    """Return the adapters of every host of the site whose SKU is known; hosts without evidence are among them."""
    return {
        host.name: _host_adapters(run_dir, site, host, hardware[host.sku])
        for host in site.hosts
        if host.sku in hardware
    }


def _host_adapters(run_dir: Path, site: Site, host: Host, sku: Sku) -> HostAdapters:
    tools = [load_host_tools().of_fact(fact) for fact in _TOOLS]
    hcas, topology = read_tools(host.name, run_dir, site.driver_owner, tools)
    there: tuple[Hca, ...] | None = None if isinstance(hcas, ProbeFailure) else hcas
    matrix: Topology | None = None if isinstance(topology, ProbeFailure) else topology
    guids = {port: entry.guid for port, entry in port_names(there or ()).items() if entry.guid}
    unread = hcas.text if isinstance(hcas, ProbeFailure) else ""
    return HostAdapters(compute=compute_adapters(host, sku, there, matrix), guids=guids, unread=unread)
