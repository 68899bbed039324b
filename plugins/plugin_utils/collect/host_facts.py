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
from typing import Any, Literal

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
from ..runtime.redaction import excerpt
from ..site.model import DriverOwner, Site
from .host_evidence import DRIVERS, HOSTS, HostEvidence, ToolRun, evidence_file, read_evidence
from .node_rules import NodeRules

FailureKind = Literal["missing", "timeout", "empty", "garbage", "failed", "not-collected"]


@dataclass(frozen=True, slots=True)
class ProbeFailure:
    """Why a tool's output is not there: `tool` is its evidence key, `text` what was found."""

    tool: str
    kind: FailureKind
    text: str


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
class _Tool:
    """How one tool's output becomes a field. `rc_is_answer`: it exits non-zero to say what it found, and prints it."""

    key: str
    field: str
    parse: Callable[[str], Any]
    driver: bool = False
    rc_is_answer: bool = False


_TOOLS = (
    _Tool("nvidia_smi_xml", "smi", nvidia_smi_xml.parse, driver=True, rc_is_answer=True),
    _Tool("nvidia_smi_topo", "topo", nvidia_smi_topo.parse, driver=True),
    _Tool("nvidia_smi_nvlink", "nvlink", nvidia_smi_nvlink.parse, driver=True),
    _Tool("dcgmi_diag", "diag", dcgmi_diag.parse, driver=True, rc_is_answer=True),
    _Tool(
        "fabric_manager", "fabric_manager", lambda text: os_release.parse_word(text, "systemctl is-active"),
        driver=True, rc_is_answer=True,
    ),
    _Tool("lspci", "pci", lspci.parse),
    _Tool("ibstat", "hcas", ibstat.parse),
    _Tool("kernel_log", "kernel", kernel_log.parse),
    _Tool("chronyc", "clock", chronyc.parse),
    _Tool("uname", "kernel_release", lambda text: os_release.parse_word(text, "uname -r")),
    _Tool("os_release", "os", os_release.parse),
    _Tool("ofed_info", "ofed", lambda text: os_release.parse_word(text, "ofed_info -s")),
)  # fmt: skip
# A log may be cut and still tell of a fault; anything else that is cut is not what the tool said.
_MAY_BE_CUT = frozenset(("kernel_log",))


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
    fields = {tool.field: _value(tool, driver if tool.driver else evidence) for tool in _TOOLS}
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
    return any(tool.driver and tool.key == key for tool in _TOOLS)


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


def _value(tool: _Tool, evidence: HostEvidence) -> Any:
    run = evidence.tools.get(tool.key)
    if not evidence.reached or run is None:
        return ProbeFailure(tool.key, "not-collected", evidence.reason or "the tool was not run")
    failure = _failure(tool, run)
    if failure is not None:
        return failure
    try:
        return tool.parse(run.stdout)
    except InputError as error:
        if run.rc == 0:
            return ProbeFailure(tool.key, "garbage", error.reason)
        return ProbeFailure(tool.key, "failed", _said(run))


def _failure(tool: _Tool, run: ToolRun) -> ProbeFailure | None:
    command = " ".join(run.argv)
    if run.missing:
        return ProbeFailure(tool.key, "missing", f"{run.argv[0] if run.argv else tool.key} is not installed")
    if run.timed_out or run.rc is None:
        return ProbeFailure(tool.key, "timeout", f"`{command}` did not end within {run.duration_s:.0f} s")
    if run.rc != 0 and not (tool.rc_is_answer and run.stdout.strip()):
        return ProbeFailure(tool.key, "failed", _said(run))
    if not run.stdout.strip():
        return ProbeFailure(tool.key, "empty", f"`{command}` ended with 0 and printed nothing")
    if run.truncated and tool.key not in _MAY_BE_CUT:
        return ProbeFailure(
            tool.key, "garbage", f"the output of `{command}` was cut after {len(run.stdout)} characters"
        )
    return None


def _said(run: ToolRun) -> str:
    return f"`{' '.join(run.argv)}` ended with {run.rc}: {excerpt(f'{run.stdout.strip()} {run.stderr.strip()}', 300)}"


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
