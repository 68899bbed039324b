# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Parsed tool output of every host, what hosts have in common, and their adapters for GPU traffic."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from ..hardware.sku import Sku
from ..outcome.codec import load
from ..outcome.errors import BringupError
from ..probe.ibstat import Hca
from ..probe.nvidia_smi_topo import Topology
from ..runtime.files import CABLING
from ..runtime.host_tools import load_host_tools
from ..site.adapters import ComputeAdapters, compute_adapters, port_names
from ..site.cabling import CablingPlan
from ..site.model import DriverOwner, Host, Site
from .host_evidence import DRIVERS, HOSTS, HostEvidence, ToolRun, evidence_file
from .identity import host_facts_of
from .loads import Bracket, XidCatalogue, after_diagnostic, diagnostic_bracket
from .tool_reading import ProbeFailure, evidence_of, read_tools, value_of

if TYPE_CHECKING:
    from ..probe.chronyc import Tracking
    from ..probe.dcgmi_diag import DiagReport
    from ..probe.ibstat import Hca
    from ..probe.kernel_log import KernelLog
    from ..probe.lspci import PciDevice
    from ..probe.lspci_bridges import PciBridge
    from ..probe.nvidia_smi_nvlink import NvlinkStatus
    from ..probe.nvidia_smi_topo import Topology
    from ..probe.nvidia_smi_xml import SmiLog
    from ..probe.os_release import OsRelease

# Parsed tool output of every host. A value that is missing is a ProbeFailure with the reason.

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class HostFacts:
    """One host, parsed.

    - `evidence`, `driver_evidence`: files, relative to the run directory.
    - `unread`: why nothing is known of a host that was not reached: `unreachable`, `missing` (no evidence file) or
      `unreadable` (a broken one).
    - `started`: when the host was read (RFC 3339).
    - `clock_off_s`: lower and upper bound (s) of how far its clock is ahead of the controller's.
    - `cut`: names of tools whose output was too long to keep whole.
    - `exits`: exit status by fact, for tools whose output counts whatever the status.
    - `around_diag`: state before and after the diagnostic.
    """

    host: str
    reached: bool
    reason: str = ""
    unread: str = ""
    evidence: str = ""
    driver_evidence: str = ""
    diag_level: int = 0
    started: str = ""
    clock_off_s: tuple[float, ...] = ()
    cut: frozenset[str] = frozenset()
    exits: dict[str, int] = field(default_factory=dict)
    around_diag: Bracket | None = None
    values: dict[str, Any]

    def read(self, fact: str, kind: type[T]) -> T | ProbeFailure:
        """Return the parsed output of a tool, by the `fact` of its entry in recipes/gates/<gate>/tools.yaml.

        Raises:
            TypeError: its parser makes something else than `kind`.
        """
        value = self.values[fact]
        if not isinstance(value, (kind, ProbeFailure)):
            raise TypeError(f"fact {fact} is {type(value).__name__}, expected {kind.__name__}")
        return value

    # Each property imports its parser itself, so that reading one fact does not load all parsers.
    @property
    def smi(self) -> SmiLog | ProbeFailure:
        from ..probe.nvidia_smi_xml import SmiLog

        return self.read("smi", SmiLog)

    @property
    def topo(self) -> Topology | ProbeFailure:
        from ..probe.nvidia_smi_topo import Topology

        return self.read("topo", Topology)

    @property
    def nvlink(self) -> NvlinkStatus | ProbeFailure:
        from ..probe.nvidia_smi_nvlink import NvlinkStatus

        return self.read("nvlink", NvlinkStatus)

    @property
    def diag(self) -> DiagReport | ProbeFailure:
        from ..probe.dcgmi_diag import DiagReport

        return self.read("diag", DiagReport)

    @property
    def fabric_manager(self) -> str | ProbeFailure:
        return self.read("fabric_manager", str)

    @property
    def pci(self) -> tuple[PciDevice, ...] | ProbeFailure:
        return self.read("pci", tuple)

    @property
    def bridges(self) -> tuple[PciBridge, ...] | ProbeFailure:
        return self.read("bridges", tuple)

    @property
    def hcas(self) -> tuple[Hca, ...] | ProbeFailure:
        return self.read("hcas", tuple)

    @property
    def kernel(self) -> KernelLog | ProbeFailure:
        from ..probe.kernel_log import KernelLog

        return self.read("kernel", KernelLog)

    @property
    def clock(self) -> Tracking | ProbeFailure:
        from ..probe.chronyc import Tracking

        return self.read("clock", Tracking)

    @property
    def kernel_release(self) -> str | ProbeFailure:
        return self.read("kernel_release", str)

    @property
    def cgroup(self) -> str | ProbeFailure:
        return self.read("cgroup", str)

    @property
    def os(self) -> OsRelease | ProbeFailure:
        from ..probe.os_release import OsRelease

        return self.read("os", OsRelease)

    @property
    def ofed(self) -> str | ProbeFailure:
        return self.read("ofed", str)


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetFacts:
    """Input of the checks of gate nodes.

    - `hosts`: every host by name.
    - `xids`: meaning of XIDs.
    - `slots`: by SKU the PCI addresses of the GPUs of complete hosts.
    - `rated_gbps`: by host the rate of its adapters in the site's cabling plan.
    - `planned_hcas`: by host the names of its adapters in that plan, rail by rail.
    """

    hosts: dict[str, HostFacts]
    xids: XidCatalogue
    slots: dict[str, tuple[str, ...]]
    rated_gbps: dict[str, int] = field(default_factory=dict)
    planned_hcas: dict[str, tuple[str, ...]] = field(default_factory=dict)


def load_hosts(run_dir: Path, site: Site, only: Collection[str] = ()) -> dict[str, HostFacts]:
    """Return the facts of every host of the site from the evidence files of the run.

    Args:
        run_dir: the run.
        site: its hosts are read.
        only: facts to parse (`smi`); empty for all.
    """
    return {host.name: host_facts(host.name, run_dir, site.driver_owner, only) for host in site.hosts}


def fleet_facts(
    hosts: dict[str, HostFacts],
    xids: XidCatalogue,
    site: Site,
    rated_gbps: Mapping[str, int] | None = None,
    planned_hcas: Mapping[str, Sequence[str]] | None = None,
) -> FleetFacts:
    """Return the hosts together with the usual PCI addresses by SKU, which follow from all of them."""
    return FleetFacts(
        hosts=hosts,
        xids=xids,
        slots=_slots(hosts, site),
        rated_gbps=dict(rated_gbps or {}),
        planned_hcas={host: tuple(names) for host, names in (planned_hcas or {}).items()},
    )


def host_facts(host: str, run_dir: Path, owner: DriverOwner, only: Collection[str] = ()) -> HostFacts:
    """Return the facts of one host (arguments as in load_hosts)."""
    evidence, unread = evidence_of(host, run_dir, HOSTS)
    driver, _unread = (evidence, "") if owner is DriverOwner.HOST else evidence_of(host, run_dir, DRIVERS)
    tools = [tool for tool in load_host_tools().used_by("host_probe") if not only or tool.fact in only]
    sources = {tool.name: driver if tool.asks_driver else evidence for tool in tools}
    kept = {name: source.tools[name] for name, source in sources.items() if name in source.tools}
    values = {tool.fact: value_of(tool, sources[tool.name]) for tool in tools}
    return HostFacts(
        host=host,
        reached=evidence.reached,
        reason=evidence.reason,
        unread=unread,
        evidence=evidence_file(host),
        driver_evidence=evidence_file(host, HOSTS if owner is DriverOwner.HOST else DRIVERS),
        diag_level=_diag_level(kept),
        started=evidence.started,
        clock_off_s=evidence.clock_off_s if len(evidence.clock_off_s) == 2 else (),
        cut=frozenset(key for key, run in kept.items() if run.truncated),
        exits={
            tool.fact: rc
            for tool in tools
            if tool.rc_is_answer and tool.name in kept and (rc := kept[tool.name].rc) is not None
        },
        # A bracket compares several facts, so there is none where single facts are requested.
        around_diag=None
        if only
        else _around_diag(driver, values, evidence_file(host, HOSTS if driver is evidence else DRIVERS)),
        values=values,
    )


def _around_diag(driver: HostEvidence, before: Mapping[str, Any], file: str) -> Bracket | None:
    """Return the state of the host before and after the diagnostic, None if the tools ran only once.

    The diagnostic runs where the driver's tools are: on the host, or in the operator's pods.
    """
    after = after_diagnostic(driver.tools)
    return diagnostic_bracket(before, driver.tools, after, file) if driver.reached and after else None


def _diag_level(tools: Mapping[str, ToolRun]) -> int:
    """Return the level that `dcgmi diag` was run with, 0 if it was not run."""
    argv = tools["dcgmi_diag"].argv if "dcgmi_diag" in tools else ()
    for flag, value in itertools.pairwise(argv):
        if flag == "-r" and value.isdecimal():
            return int(value)
    return 0


def _gpu_addresses(facts: HostFacts) -> tuple[str, ...]:
    """Return the PCI addresses of the GPUs that the driver lists. Without a driver: those on the PCI bus."""
    if not isinstance(facts.smi, ProbeFailure):
        return tuple(gpu.bus_id for gpu in facts.smi.gpus)
    if isinstance(facts.pci, ProbeFailure):
        return ()
    return tuple(device.address for device in facts.pci if device.is_nvidia_gpu)


def _slots(hosts: Mapping[str, HostFacts], site: Site) -> dict[str, tuple[str, ...]]:
    """Return by SKU the PCI addresses of its GPUs.

    Of the hosts with the most GPUs, the list that most of them have counts. So the place of a missing GPU still has a
    name.
    """
    lists: dict[str, Counter[tuple[str, ...]]] = {}
    for host in site.hosts:
        facts = hosts.get(host.name)
        addresses = _gpu_addresses(facts) if facts is not None else ()
        if addresses:
            lists.setdefault(host.sku, Counter())[addresses] += 1
    return {
        sku: max(counts, key=lambda addresses: (len(addresses), counts[addresses], addresses))
        for sku, counts in lists.items()
    }


# What hosts share with each other, and what can therefore be the reason that they are slow.

# Only facts that several hosts can share. Serial numbers and GUIDs are unique to a host.
_KINDS = ("driver", "GPU firmware", "adapter firmware", "OFED", "kernel")


def shared_facts(run_dir: Path, site: Site) -> dict[str, dict[str, str]]:
    """Return by host and kind what it may share with others: rack, leaf switches, driver, firmware, OFED, kernel.

    Kinds are in the order in which they are blamed: cables before software. What was not observed is left out.
    """
    leaves = _leaves(run_dir)
    observed = host_facts_of(run_dir, site)
    found = {}
    for host in site.in_scope:
        facts = {"rack": host.rack, "leaf": leaves.get(host.name, "")}
        facts |= {kind: observed.get(host.name, {}).get(kind, "") for kind in _KINDS}
        found[host.name] = {kind: value for kind, value in facts.items() if value}
    return found


def _leaves(run_dir: Path) -> dict[str, str]:
    path = run_dir / CABLING
    try:
        plan = load(CablingPlan, path) if path.is_file() else None
    except BringupError:
        # Gate fabric reports what is wrong with the plan. Here the leaf switches are unknown.
        return {}
    found: dict[str, set[str]] = {}
    for link in plan.links if plan is not None else ():
        if link.host and link.far is not None:
            found.setdefault(link.host, set()).add(link.far.node)
    return {host: ", ".join(sorted(names)) for host, names in found.items()}


# Adapters for GPU traffic of every host, from the tool output of this run.

_TOOLS = ("hcas", "topo")


@dataclass(frozen=True, slots=True, kw_only=True)
class HostAdapters:
    """Adapters of one host.

    - `compute`: which of them are for GPU traffic.
    - `guids`: GUID of every port by its name.
    - `unread`: why `ibstat` gave nothing.
    """

    compute: ComputeAdapters
    guids: dict[str, int] = field(default_factory=dict)
    unread: str = ""

    @property
    def problem(self) -> str:
        """Why not all adapters for GPU traffic are known; empty if they are."""
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
    """Return the adapters of every host of the site whose SKU is known, also of hosts without evidence."""
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
