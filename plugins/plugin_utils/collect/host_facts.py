# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""What the tools of every host say, parsed: each value, or the ProbeFailure that says why there is none."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from ..outcome.errors import InputError
from ..probe import (
    chronyc,
    dcgmi_diag,
    ibstat,
    kernel_log,
    lspci,
    lspci_bridges,
    nvidia_smi_nvlink,
    nvidia_smi_topo,
    os_release,
)
from ..probe.nvidia_smi_model import SmiLog
from ..runtime.host_tools import HostTool, load_host_tools
from ..site.model import DriverOwner, Site
from .host_evidence import DRIVERS, HOSTS, HostEvidence, ToolRun, evidence_file, read_evidence
from .load_state import Bracket, after_diagnostic, diagnostic_bracket
from .tool_reading import ProbeFailure, read_tool
from .xid_catalogue import XidCatalogue

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class HostFacts:
    """One host, parsed. `evidence` and `driver_evidence` are files relative to the run directory.

    `unread` says why a host that was not reached is unknown: `unreachable`, `missing` (no evidence file) or
    `unreadable` (a broken one). `around_diag` is the state before and after the diagnostic. `cut` names the tools whose
    output was too long to keep whole, `exits` gives by fact the exit status of tools whose output counts in any case.
    """

    host: str
    reached: bool
    reason: str = ""
    unread: str = ""
    evidence: str = ""
    driver_evidence: str = ""
    diag_level: int = 0
    cut: frozenset[str] = frozenset()
    exits: dict[str, int] = field(default_factory=dict)
    around_diag: Bracket | None = None
    values: dict[str, Any]

    def read(self, fact: str, kind: type[T]) -> T | ProbeFailure:
        """Return what a tool printed, parsed, by the `fact` of its entry in recipes/tools.yaml.

        Raises:
            TypeError: its parser makes something else than `kind`.
        """
        value = self.values[fact]
        if not isinstance(value, (kind, ProbeFailure)):
            raise TypeError(f"fact {fact} is {type(value).__name__}, expected {kind.__name__}")
        return value

    @property
    def smi(self) -> SmiLog | ProbeFailure:
        return self.read("smi", SmiLog)

    @property
    def topo(self) -> nvidia_smi_topo.Topology | ProbeFailure:
        return self.read("topo", nvidia_smi_topo.Topology)

    @property
    def nvlink(self) -> nvidia_smi_nvlink.NvlinkStatus | ProbeFailure:
        return self.read("nvlink", nvidia_smi_nvlink.NvlinkStatus)

    @property
    def diag(self) -> dcgmi_diag.DiagReport | ProbeFailure:
        return self.read("diag", dcgmi_diag.DiagReport)

    @property
    def fabric_manager(self) -> str | ProbeFailure:
        return self.read("fabric_manager", str)

    @property
    def pci(self) -> tuple[lspci.PciDevice, ...] | ProbeFailure:
        return self.read("pci", tuple)

    @property
    def bridges(self) -> tuple[lspci_bridges.PciBridge, ...] | ProbeFailure:
        return self.read("bridges", tuple)

    @property
    def hcas(self) -> tuple[ibstat.Hca, ...] | ProbeFailure:
        return self.read("hcas", tuple)

    @property
    def kernel(self) -> kernel_log.KernelLog | ProbeFailure:
        return self.read("kernel", kernel_log.KernelLog)

    @property
    def clock(self) -> chronyc.Tracking | ProbeFailure:
        return self.read("clock", chronyc.Tracking)

    @property
    def kernel_release(self) -> str | ProbeFailure:
        return self.read("kernel_release", str)

    @property
    def cgroup(self) -> str | ProbeFailure:
        return self.read("cgroup", str)

    @property
    def os(self) -> os_release.OsRelease | ProbeFailure:
        return self.read("os", os_release.OsRelease)

    @property
    def ofed(self) -> str | ProbeFailure:
        return self.read("ofed", str)


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetFacts:
    """What gate nodes judges: every host, what XIDs mean, by SKU the PCI addresses that its complete hosts have,
    and by host what the site's cabling plan rates its adapters at, and how it calls them, rail by rail."""

    hosts: dict[str, HostFacts]
    xids: XidCatalogue
    slots: dict[str, tuple[str, ...]]
    rated_gbps: dict[str, int] = field(default_factory=dict)
    planned_hcas: dict[str, tuple[str, ...]] = field(default_factory=dict)


def load_hosts(run_dir: Path, site: Site, only: Collection[str] = ()) -> dict[str, HostFacts]:
    """Return the facts of every host of the site from the evidence files of the run.

    Args:
        run_dir: the run.
        site: whose hosts.
        only: the facts that are asked for (`smi`); empty for all. What is not asked for is not parsed.
    """
    return {host.name: host_facts(host.name, run_dir, site.driver_owner, only) for host in site.hosts}


def fleet_facts(
    hosts: dict[str, HostFacts],
    xids: XidCatalogue,
    site: Site,
    rated_gbps: Mapping[str, int] | None = None,
    planned_hcas: Mapping[str, Sequence[str]] | None = None,
) -> FleetFacts:
    """Return the hosts together with what follows from all of them: the usual PCI addresses by SKU."""
    return FleetFacts(
        hosts=hosts,
        xids=xids,
        slots=_slots(hosts, site),
        rated_gbps=dict(rated_gbps or {}),
        planned_hcas={host: tuple(names) for host, names in (planned_hcas or {}).items()},
    )


def host_facts(host: str, run_dir: Path, owner: DriverOwner, only: Collection[str] = ()) -> HostFacts:
    """Return the facts of one host (arguments as load_hosts)."""
    evidence, unread = _read(host, run_dir, HOSTS)
    driver, _unread = (evidence, "") if owner is DriverOwner.HOST else _read(host, run_dir, DRIVERS)
    tools = [tool for tool in load_host_tools().used_by("host_probe") if not only or tool.fact in only]
    sources = {tool.name: driver if tool.asks_driver else evidence for tool in tools}
    kept = {name: source.tools[name] for name, source in sources.items() if name in source.tools}
    values = {tool.fact: _value(tool, sources[tool.name]) for tool in tools}
    return HostFacts(
        host=host,
        reached=evidence.reached,
        reason=evidence.reason,
        unread=unread,
        evidence=evidence_file(host),
        driver_evidence=evidence_file(host, HOSTS if owner is DriverOwner.HOST else DRIVERS),
        diag_level=_diag_level(kept),
        cut=frozenset(key for key, run in kept.items() if run.truncated),
        exits={
            tool.fact: rc
            for tool in tools
            if tool.rc_is_answer and tool.name in kept and (rc := kept[tool.name].rc) is not None
        },
        # A bracket compares several facts: who asks for single ones asks for none.
        around_diag=None
        if only
        else _around_diag(driver, values, evidence_file(host, HOSTS if driver is evidence else DRIVERS)),
        values=values,
    )


def read_tools(host: str, run_dir: Path, owner: DriverOwner, tools: Sequence[HostTool]) -> list[Any]:
    """Return what these tools printed on a host, parsed, each a ProbeFailure where there is nothing usable."""
    evidence, _unread = _read(host, run_dir, HOSTS)
    driver = evidence if owner is DriverOwner.HOST else _read(host, run_dir, DRIVERS)[0]
    return [_value(tool, driver if tool.asks_driver else evidence) for tool in tools]


def _around_diag(driver: HostEvidence, before: Mapping[str, Any], file: str) -> Bracket | None:
    """Return the state of the host before and after the diagnostic, None if the tools were not asked again.

    The diagnostic is run where the driver's tools are: on the host, or in the operator's pods.
    """
    after = after_diagnostic(driver.tools)
    return diagnostic_bracket(before, driver.tools, after, file) if driver.reached and after else None


def _read(host: str, run_dir: Path, kind: str) -> tuple[HostEvidence, str]:
    path = run_dir / evidence_file(host, kind)
    if not path.is_file():
        return HostEvidence(host=host, reached=False, reason="nothing was collected from this host"), "missing"
    try:
        evidence = read_evidence(path)
    except InputError as error:
        return HostEvidence(host=host, reached=False, reason=str(error)), "unreadable"
    return evidence, "" if evidence.reached else "unreachable"


def _value(tool: HostTool, evidence: HostEvidence) -> Any:
    run = evidence.tools.get(tool.name) if evidence.reached else None
    return read_tool(tool, run, evidence.reason)


def _diag_level(tools: Mapping[str, ToolRun]) -> int:
    """Return the level that `dcgmi diag` was asked for, 0 if it was not run."""
    argv = tools["dcgmi_diag"].argv if "dcgmi_diag" in tools else ()
    for flag, value in itertools.pairwise(argv):
        if flag == "-r" and value.isdecimal():
            return int(value)
    return 0


def _gpu_addresses(facts: HostFacts) -> tuple[str, ...]:
    """Return the addresses of the GPUs that the driver lists, without a driver those on the PCI bus."""
    if not isinstance(facts.smi, ProbeFailure):
        return tuple(gpu.bus_id for gpu in facts.smi.gpus)
    if isinstance(facts.pci, ProbeFailure):
        return ()
    return tuple(device.address for device in facts.pci if device.is_nvidia_gpu)


def _slots(hosts: Mapping[str, HostFacts], site: Site) -> dict[str, tuple[str, ...]]:
    """Return by SKU the PCI addresses of its GPUs: those that most hosts with the most GPUs have.

    With them the place of a GPU that is gone still has a name.
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
