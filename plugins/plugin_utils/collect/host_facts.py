# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Host facts: the evidence of every host parsed, tool by tool. A tool that gave nothing usable is a ProbeFailure."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ..outcome.errors import InputError
from ..probe import (
    chronyc,
    dcgmi_diag,
    ibstat,
    kernel_log,
    lspci,
    nvidia_smi_nvlink,
    nvidia_smi_topo,
    nvidia_smi_xml,
    os_release,
)
from ..probe.nvidia_smi_model import SmiLog
from ..site.model import DriverOwner, Site
from .host_evidence import DRIVERS, HOSTS, HostEvidence, ToolRun, evidence_file, read_evidence
from .node_rules import NodeRules
from .tool_reading import ProbeFailure, ToolFacts, read_tool


@dataclass(frozen=True, slots=True, kw_only=True)
class HostFacts:
    """One host, parsed. `evidence` and `driver_evidence` are files relative to the run directory.

    `unread` tells why a host that was not reached is unknown: `unreachable`, `missing` (no evidence file) or
    `unreadable` (a broken one). `cut` names the tools whose output was too long to keep whole.
    """

    host: str
    reached: bool
    reason: str = ""
    unread: str = ""
    evidence: str = ""
    driver_evidence: str = ""
    diag_level: int = 0
    cut: frozenset[str] = frozenset()
    smi: SmiLog | ProbeFailure
    topo: nvidia_smi_topo.Topology | ProbeFailure
    nvlink: nvidia_smi_nvlink.NvlinkStatus | ProbeFailure
    diag: dcgmi_diag.DiagReport | ProbeFailure
    fabric_manager: str | ProbeFailure
    pci: tuple[lspci.PciDevice, ...] | ProbeFailure
    hcas: tuple[ibstat.Hca, ...] | ProbeFailure
    kernel: kernel_log.KernelLog | ProbeFailure
    clock: chronyc.Tracking | ProbeFailure
    kernel_release: str | ProbeFailure
    os: os_release.OsRelease | ProbeFailure
    ofed: str | ProbeFailure


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetFacts:
    """What gate nodes judges: every host, the rules, by SKU the PCI addresses that its complete hosts have, and by host
    what the site's cabling plan rates its adapters at."""

    hosts: dict[str, HostFacts]
    rules: NodeRules
    slots: dict[str, tuple[str, ...]]
    rated_gbps: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class HostTool:
    """A tool that is run on every host: how its output becomes a field of HostFacts; `driver`: it asks the driver."""

    facts: ToolFacts
    parse: Callable[[str], Any]
    driver: bool = False


def _tool(key: str, slug: str, command: str, owner: str, *, rc_is_answer: bool = False, cut: bool = False) -> ToolFacts:
    return ToolFacts(key=key, slug=slug, command=command, owner=owner, rc_is_answer=rc_is_answer, may_be_cut=cut)


# By field of HostFacts.
TOOLS: Mapping[str, HostTool] = {
    "smi": HostTool(
        _tool("nvidia_smi_xml", "nvidia-smi", "nvidia-smi -q -x", "gpu-census", rc_is_answer=True),
        nvidia_smi_xml.parse, driver=True,
    ),
    "topo": HostTool(
        _tool("nvidia_smi_topo", "nvidia-smi-topo", "nvidia-smi topo -m", "topology"),
        nvidia_smi_topo.parse, driver=True,
    ),
    "nvlink": HostTool(
        _tool("nvidia_smi_nvlink", "nvidia-smi-nvlink", "nvidia-smi nvlink -s", "nvlink"),
        nvidia_smi_nvlink.parse, driver=True,
    ),
    "diag": HostTool(
        _tool("dcgmi_diag", "dcgmi-diag", "dcgmi diag", "dcgm-diag", rc_is_answer=True),
        dcgmi_diag.parse, driver=True,
    ),
    "fabric_manager": HostTool(
        _tool(
            "fabric_manager", "fabric-manager", "systemctl is-active nvidia-fabricmanager", "fabric-manager",
            rc_is_answer=True,
        ),
        lambda text: os_release.parse_word(text, "systemctl is-active"), driver=True,
    ),
    "pci": HostTool(_tool("lspci", "lspci", "lspci -Dnn", "pci-census"), lspci.parse),
    "hcas": HostTool(_tool("ibstat", "ibstat", "ibstat", "hca-state"), ibstat.parse),
    "kernel": HostTool(
        _tool("kernel_log", "kernel-log", "journalctl -k -b", "kernel-xid", cut=True), kernel_log.parse
    ),
    "clock": HostTool(_tool("chronyc", "chronyc", "chronyc tracking", "clock-sync"), chronyc.parse),
    "kernel_release": HostTool(
        _tool("uname", "uname", "uname -r", "kernel-uniform"), lambda text: os_release.parse_word(text, "uname -r")
    ),
    "os": HostTool(_tool("os_release", "os-release", "cat /etc/os-release", "os-uniform"), os_release.parse),
    "ofed": HostTool(
        _tool("ofed_info", "ofed-info", "ofed_info -s", "ofed-uniform"),
        lambda text: os_release.parse_word(text, "ofed_info -s"),
    ),
}  # fmt: skip


def load_hosts(run_dir: Path, site: Site) -> dict[str, HostFacts]:
    """Return the facts of every host of the site from the evidence files of the run; nothing is left out."""
    return {host.name: host_facts(host.name, run_dir, site.driver_owner) for host in site.hosts}


def fleet_facts(
    hosts: dict[str, HostFacts], rules: NodeRules, site: Site, rated_gbps: Mapping[str, int] | None = None
) -> FleetFacts:
    """Return the hosts together with what only the fleet as a whole tells."""
    return FleetFacts(hosts=hosts, rules=rules, slots=_slots(hosts, site), rated_gbps=dict(rated_gbps or {}))


def host_facts(host: str, run_dir: Path, owner: DriverOwner) -> HostFacts:
    """Return the facts of one host."""
    evidence, unread = _read(host, run_dir, HOSTS)
    driver, _unread = (evidence, "") if owner is DriverOwner.HOST else _read(host, run_dir, DRIVERS)
    fields = {name: _value(tool, driver if tool.driver else evidence) for name, tool in TOOLS.items()}
    kept = {**evidence.tools, **{key: run for key, run in driver.tools.items() if _is_driver(key)}}
    return HostFacts(
        host=host,
        reached=evidence.reached,
        reason=evidence.reason,
        unread=unread,
        evidence=evidence_file(host),
        driver_evidence=evidence_file(host, HOSTS if owner is DriverOwner.HOST else DRIVERS),
        diag_level=_diag_level(kept),
        cut=frozenset(key for key, run in kept.items() if run.truncated),
        **fields,
    )


def _is_driver(key: str) -> bool:
    return any(tool.driver and tool.facts.key == key for tool in TOOLS.values())


def _read(host: str, run_dir: Path, kind: str) -> tuple[HostEvidence, str]:
    path = run_dir / evidence_file(host, kind)
    if not path.is_file():
        return HostEvidence(host=host, reached=False, reason="nothing was collected from this host"), "missing"
    try:
        evidence = read_evidence(path)
    except InputError as error:
        return HostEvidence(host=host, reached=False, reason=str(error)), "unreadable"
    if evidence.host != host:
        found = f"{path.name} holds the evidence of {evidence.host!r}"
        return HostEvidence(host=host, reached=False, reason=found), "unreadable"
    return evidence, "" if evidence.reached else "unreachable"


def _value(tool: HostTool, evidence: HostEvidence) -> Any:
    run = evidence.tools.get(tool.facts.key) if evidence.reached else None
    return read_tool(tool.facts, run, tool.parse, evidence.reason)


def _diag_level(tools: Mapping[str, ToolRun]) -> int:
    """Return the level that `dcgmi diag` was asked for, 0 if it was not run."""
    argv = tools["dcgmi_diag"].argv if "dcgmi_diag" in tools else ()
    for flag, value in itertools.pairwise(argv):
        if flag == "-r" and value.isdigit():
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
