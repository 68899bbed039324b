# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Judges hosts after a load by what changed since before it; the gate that ran the load has the outcome.

What was there before the load belongs to gate nodes: a counter that is not 0 but does not grow, an XID of last week.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

from ...collect.loads import Bracket, LoadBrackets, XidCatalogue, load_brackets, load_xids
from ...collect.tool_reading import ProbeFailure
from ...outcome.codec import from_plain
from ...outcome.errors import InputError
from ...outcome.model import Basis, Evidence, Expectation, Outcome, Subject, SubjectKind
from ...probe.ibstat import Hca
from ...probe.kernel_log import KernelLog, Xid
from ...probe.nvidia_smi_nvlink import NvlinkStatus
from ...probe.nvidia_smi_nvlink_errors import NvlinkErrors
from ...probe.nvidia_smi_xml import Gpu, SmiLog
from ...probe.port_counters import PortCounters
from ...runtime.host_tools import load_host_tools
from ...site.model import DriverOwner, Site
from ..spec import CheckSpec, Disturbance, JudgeContext, ObserveContext, Observer, needs
from .finding import Finding, Report
from .host_context import HostContext, per_host
from .settings import setting

# Counters of NVLinks and of network ports are judged by what the load added to them. NVLink as DCGM's health watch does
# (NVIDIA/DCGM, DcgmHealthWatch): one more replay, recovery or failed recovery is an error, one of the others is a
# warning. Ports as in gate fabric: a link that went down is an error.

Key = TypeVar("Key")
_NVLINK_FATAL = ("Replay Errors", "Recovery Errors", "Link recovery failed events")
_NVLINK_DOUBT = (
    "CRC Errors", "Malformed packet Errors", "Buffer overrun Errors", "Rx Errors", "Rx remote Errors",
    "Rx General Errors", "Local link integrity Errors", "Tx discards", "Link recovery successful events",
    "Effective Errors", "Symbol Errors",
)  # fmt: skip
_PORT_FATAL = "link_downed"
_DISCARDS = "_discards_phy"
# Linux: drivers/infiniband/hw/efa/efa_verbs.c names them; what they count: AWS, "Monitor an Elastic Fabric Adapter".
_EFA = ("rx_drops", "retrans_timeout_events")


def nvlink_findings(before: NvlinkErrors, after: NvlinkErrors, part: Callable[[int], Subject]) -> list[Finding]:
    """Return the errors that the NVLinks of a host counted during the load; packets, FEC and rates are not errors.

    Args:
        before: first reading.
        after: second reading.
        part: makes the subject of the GPU of that index.
    """
    earlier = {gpu.index: gpu.counters for gpu in before.gpus}
    findings: list[Finding] = []
    for gpu in after.gpus:
        grown = _grown(earlier.get(gpu.index, {}), gpu.counters)
        fatal = {key: added for key, added in grown.items() if key[1] in _NVLINK_FATAL}
        doubt = {key: added for key, added in grown.items() if key[1] in _NVLINK_DOUBT}
        hint = "`nvidia-smi nvlink -e -i <gpu>` and the kernel log (XID 74, 144 to 150); reset the GPU, then reseat it"
        for cause, counters, marginal in (
            ("nvlink-errors-under-load", fatal, False), ("nvlink-noise-under-load", doubt, True),
        ):  # fmt: skip
            if counters:
                named = {f"{name} of link {link}": added for (link, name), added in counters.items()}
                text = f"GPU {gpu.index}: {_listed(named)}"
                finding = Finding(cause=cause, text=text, hint=hint, subjects=(part(gpu.index),), marginal=marginal)
                findings.append(finding)
    return findings


def port_findings(
    before: tuple[PortCounters, ...],
    after: tuple[PortCounters, ...],
    allowed: Mapping[str, int],
    part: Callable[[str], Subject],
) -> list[Finding]:
    """Return the errors that the ports of a host counted during the load.

    Args:
        before: first reading.
        after: second reading.
        allowed: by how much each counter may grow; a counter that is not listed is not judged.
        part: makes the subject of the adapter of that name.
    """
    earlier = {port.port: port.counters for port in before}
    findings: list[Finding] = []
    for port in after:
        grown = _grown(earlier.get(port.port, {}), port.counters)
        adapter = part(port.port.partition(":")[0])
        if lost := grown.get(_PORT_FATAL, 0):
            text = f"{port.port} lost its link {lost} times ({_PORT_FATAL})"
            hint = "look at cable and module on both ends, then `mlxlink -d <hca> -m -c`"
            findings.append(Finding(cause="port-lost-under-load", text=text, hint=hint, subjects=(adapter,)))
        over = {name: added for name, added in grown.items() if name in allowed and added > allowed[name]}
        if over:
            text = f"{port.port}: {_listed(over)}"
            hint = "look at cable and module on both ends, then `mlxlink -d <hca> -m -c`"
            if all(_DISCARDS in name for name in over):
                hint = (
                    "`rdma link show <hca>/1` names the interface: compare its PFC and ECN (`mlnx_qos -i` and that "
                    "name) with those of the switch port"
                )
            elif all(name in _EFA for name in over):
                hint = (
                    "`rdma -p statistic show` on the node; if it grows again, start the instance anew on other hardware"
                )
            finding = Finding(cause="port-errors-under-load", text=text, hint=hint, subjects=(adapter,), marginal=True)
            findings.append(finding)
    return findings


def unmatched(before: tuple[PortCounters, ...], after: tuple[PortCounters, ...]) -> str:
    """Return the ports or counters that only one of the readings has; empty if both have the same."""
    names = [{f"{port.port} {name}" for port in ports for name in port.counters} for ports in (before, after)]
    return ", ".join(sorted(names[0] ^ names[1]))[:200]


def unmatched_links(before: NvlinkErrors, after: NvlinkErrors) -> str:
    """Return the NVLink counters that only one of the readings has; empty if both have the same."""
    found = [
        {f"GPU {gpu.index} link {link} {name}" for gpu in one.gpus for link, name in gpu.counters}
        for one in (before, after)
    ]
    return ", ".join(sorted(found[0] ^ found[1]))[:200]


def _grown(before: Mapping[Key, int], after: Mapping[Key, int]) -> dict[Key, int]:
    return {key: added for key, value in after.items() if (added := value - before.get(key, value)) > 0}


def _listed(counters: Mapping[str, int]) -> str:
    return ", ".join(f"{name} +{added}" for name, added in list(counters.items())[:6])


# What only one of two readings of a host has cannot be compared, so it does not count as unchanged. A GPU, link or port
# that is gone after the load is a finding of its own; these functions find values that a reading lacks.

_LONGEST = 200


def unmatched_gpus(before: SmiLog, after: SmiLog) -> str:
    """Return the GPUs, or their compared values, that only one of the readings has; empty if both have the same.

    A GPU that the driver cannot talk to has no values and is left out.
    """
    lost = {gpu.bus_id for gpu in (*before.gpus, *after.gpus) if gpu.trouble}
    readings = [
        {word for gpu in log.gpus if gpu.bus_id not in lost for word in _reported(gpu)} for log in (before, after)
    ]
    return _only_one(*readings)


def unmatched_nvlinks(before: NvlinkStatus, after: NvlinkStatus) -> str:
    """Return the NVLinks that only one of the readings lists; empty if both list the same."""
    listed = [
        {f"GPU {gpu.index} link {link}" for gpu in log.gpus for link, _speed in gpu.links} for log in (before, after)
    ]
    return _only_one(*listed)


def unmatched_ports(before: tuple[Hca, ...], after: tuple[Hca, ...]) -> str:
    """Return the ports of adapters that only one of the readings lists; empty if both list the same."""
    listed = [{f"{hca.name}:{port.number}" for hca in hcas for port in hca.ports} for hcas in (before, after)]
    return _only_one(*listed)


def _reported(gpu: Gpu) -> Iterable[str]:
    values = {
        "recovery action": gpu.recovery_action,
        "PCIe replays": gpu.replay_count,
        "remapped rows": gpu.remapped_rows,
        "SRAM errors": gpu.ecc_volatile.sram_uncorrectable,
        "DRAM errors": gpu.ecc_volatile.dram_uncorrectable,
    }
    yield gpu.bus_id
    yield from (f"{gpu.bus_id} {name}" for name, value in values.items() if value is not None)
    yield from (f"{gpu.bus_id} {name}" for name in gpu.slowdown_us)


def _only_one(before: set[str], after: set[str]) -> str:
    return ", ".join(sorted(before ^ after))[:_LONGEST]


CAUSES = (
    "gpu-lost-under-load", "gpu-reset-under-load", "memory-error-under-load", "gpu-throttled-under-load",
    "xid-under-load", "nvlink-lost-under-load", "nvlink-errors-under-load", "port-down-under-load",
    "port-lost-under-load", "hardware-error-under-load",
)  # fmt: skip
_ACTION_XID = 154
_MARGINAL_EVENTS = ("pcie-uncorrected", "transceiver-error")
_THERMAL, _BRAKE, _SOFT = "hw_therm_slowdown", "hw_power_brake", "sw_therm_slowdown"
_DRIVER_FACTS, _HOST_FACTS = ("smi", "nvlink", "nvlink_errors"), ("kernel", "hcas", "port_counters", "efa_counters")
_LOSSLESS = {"roce": "nic_counters", "efa": "efa_counters"}


# As gate fabric judges them for an hour (link-errors). Discards are congestion or a dead switch, so they are told only.
PORT_COUNTERS = {
    "symbol_error": 10,
    "link_error_recovery": 0,
    "port_rcv_errors": 10,
    "port_rcv_remote_physical_errors": 10,
    "local_link_integrity_errors": 0,
    "excessive_buffer_overrun_errors": 0,
    # Of RoCE, whose traffic is paused and not dropped (ethtool -S).
    "rx_discards_phy": 0,
    # Of EFA (rdma -p statistic show).
    "rx_drops": 0,
    "retrans_timeout_events": 0,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadGrowthSettings:
    """Settings of a check that compares hosts before and after a load."""

    # Healthy H100s stand at 106 to 174 since their driver was loaded (NVIDIA/k8s-test-infra, qx-h100).
    pcie_replays: int = setting(
        "PCIe replays by which the counter of a GPU may grow during the load before a person looks.",
        default=50,
        unit="replays",
        minimum=0,
    )
    port_counters: dict[str, int] = setting(
        "By how much a counter of a network port may grow during the load before a person looks; those that are not "
        "listed are read and not judged, and a link that goes down fails.",
        default={**PORT_COUNTERS, "tx_discards_phy": 0},
        unit="count by counter",
        minimum=0,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class SavedCatalogue:
    """What is saved of a load bracket beside its two readings: the meaning of XIDs."""

    catalogue: XidCatalogue
    schema_version: int = 1


def growth_spec(
    check: str,
    gate: str,
    title: str,
    *,
    in_nodes: bool = False,
    settings: type[LoadGrowthSettings] = LoadGrowthSettings,
) -> CheckSpec:
    """Return the specification of a check that compares hosts before and after the load of its gate."""
    return CheckSpec(
        id=check,
        gate=gate,
        title=title,
        per=SubjectKind.NODE,
        disturbs=Disturbance.HOST_COMMAND,
        applies=() if in_nodes else (needs("host_access"),),
        needs_driver=in_nodes,
        causes=CAUSES,
        settings=settings,
    )


def growth_observer(gate: str) -> Observer[LoadBrackets]:
    """Return the observer of a gate's load brackets.

    The second reading is made after the load, so the files are read at judging.
    """

    def observe(_context: ObserveContext) -> SavedCatalogue:
        return SavedCatalogue(catalogue=load_xids())

    def restore(data: Any, run_dir: Path, site: Site) -> LoadBrackets:
        if not isinstance(data, dict) or data.get("schema_version") != 1:
            raise InputError("observation host_state", "its schema_version is not 1.", "judge it with its own release")
        xids = from_plain(XidCatalogue, data.get("catalogue"), "observation host_state")
        return load_brackets(run_dir, gate, tuple(host.name for host in site.in_scope), xids)

    return Observer("host_state", LoadBrackets, observe, restore, saved=SavedCatalogue)


@dataclass(frozen=True, slots=True)
class LoadedHost(HostContext[LoadBrackets]):
    """One host before and after the load."""

    @property
    def limits(self) -> LoadGrowthSettings:
        """The limits of the check, whose class may have defaults of its own."""
        kind: type[LoadGrowthSettings] = self.spec.settings or LoadGrowthSettings
        return self.settings(kind)

    @property
    def bracket(self) -> Bracket:
        return self.seen.hosts[self.name]

    def pair(self, fact: str, kind: type[Any]) -> tuple[Any, Any] | None:
        """Return both values of a fact, None where a reading lacks it."""
        values = (self.bracket.before.values.get(fact), self.bracket.after.values.get(fact))
        return values if all(isinstance(value, kind) for value in values) else None


def judge_growth(
    spec: CheckSpec,
    observed: LoadBrackets,
    context: JudgeContext,
    before: Callable[[LoadedHost], Outcome | None] = lambda _host: None,
) -> tuple[Outcome, ...]:
    """Return an outcome for every host; `before` returns the outcome of a host that cannot be judged."""
    return per_host(LoadedHost, spec, observed, context, _judge, before=lambda host: before(host) or _unseen(host))


def _unseen(host: LoadedHost) -> Outcome | None:
    again = "run playbook gpufleet.bringup.site, which reads the hosts before and after the load"
    if host.name not in host.seen.hosts:
        return host.answer.unknown("host-state-missing", "this run did not record the host before and after it", again)
    for reading in (host.bracket.before, host.bracket.after):
        if not reading.reached:
            text = f"the host was not reached: {reading.reason}"
            return host.answer.unknown("host-state-unreachable", text[:400], again)
    for fact in required_facts(host):
        for moment, reading in (("before", host.bracket.before), ("after", host.bracket.after)):
            value = reading.values.get(fact)
            if _no_counters(host, fact):
                continue
            if isinstance(value, ProbeFailure) or value is None:
                reported = value.text if isinstance(value, ProbeFailure) else "nothing"
                text = f"`{load_host_tools().of_fact(fact).shown}` {moment} the load: {reported}"
                return host.answer.unknown("host-state-unreadable", text[:400], again, evidence=_evidence(host))
    return None


def required_facts(host: LoadedHost) -> tuple[str, ...]:
    """Return the facts that both readings must have.

    Where the operator owns the driver, these are the facts of the driver for a check that needs it, and those of the
    host for any other.
    """
    owned = host.context.site.driver_owner is DriverOwner.OPERATOR
    facts: tuple[str, ...] = _DRIVER_FACTS + _HOST_FACTS
    if owned:
        facts = _DRIVER_FACTS if host.spec.needs_driver else _HOST_FACTS
    links, verbs = host.sku.nvlink_links > 0, host.sku.fabric in ("infiniband", "roce")
    has = {"nvlink": links, "nvlink_errors": links, "hcas": verbs, "port_counters": verbs}
    has["efa_counters"] = host.sku.fabric == "efa" and host.sku.compute_hcas > 0
    return tuple(fact for fact in facts if has.get(fact, True))


def _no_counters(host: LoadedHost, fact: str) -> bool:
    """Whether the host's ports have no counters at all, like virtual functions: both readings printed nothing."""
    values = [reading.values.get(fact) for reading in (host.bracket.before, host.bracket.after)]
    return fact in ("port_counters", "efa_counters") and all(
        isinstance(v, ProbeFailure) and v.kind == "empty" for v in values
    )


def _counters(host: LoadedHost, findings: list[Finding], compared: list[str], missing: str) -> Outcome | None:
    """Judge error counters of NVLinks and ports.

    Returns:
        The outcome where the readings cannot be compared; else None. `missing` is what else only one of them has.
    """
    if links := host.pair("nvlink_errors", NvlinkErrors):
        findings += nvlink_findings(*links, lambda index: host.part(SubjectKind.GPU, f"gpu{index}"))
        missing = missing or unmatched_links(*links)
        compared.append("NVLink errors")
    if ports := host.pair("port_counters", tuple):
        allowed = host.limits.port_counters
        findings += port_findings(*ports, allowed, lambda name: host.part(SubjectKind.HCA, name))
        missing = missing or unmatched(*ports)
        compared.append("port counters")
    # RoCE and EFA are meant to lose no packets; a card for files and images drops what it has no room for.
    if (lossless := _LOSSLESS.get(host.sku.fabric)) and (nics := host.pair(lossless, tuple)):
        allowed = host.limits.port_counters
        findings += port_findings(*nics, allowed, lambda name: host.part(SubjectKind.HCA, name))
        missing = missing or unmatched(*nics)
        compared.append("discards")
    if not missing or findings:
        return None
    text = f"only one of the readings has {missing}"
    hint = "run the gate again; an adapter or a link that is gone now is the fault"
    return host.answer.unknown("counters-not-comparable", text, hint, evidence=_evidence(host))


def _judge(host: LoadedHost) -> Report | Outcome:
    notes: list[str] = []
    findings: list[Finding] = []
    missing = ""
    if smi := host.pair("smi", SmiLog):
        findings += _gpus(host, *smi)
        missing = unmatched_gpus(*smi)
    if nvlink := host.pair("nvlink", NvlinkStatus):
        # A GPU that is gone has no links either, and is reported already.
        gone = {finding.subjects for finding in findings if finding.cause == "gpu-lost-under-load"}
        findings += [finding for finding in _nvlinks(host, *nvlink) if finding.subjects not in gone]
        missing = missing or unmatched_nvlinks(*nvlink)
    if hcas := host.pair("hcas", tuple):
        findings += _ports(host, *hcas)
        missing = missing or unmatched_ports(*hcas)
    if logs := host.pair("kernel", KernelLog):
        findings += _kernel(host, *logs, notes)
    if not findings and logs and not host.bracket.log_continues:
        text = "the kernel log does not go on where the one before the load ended: a reboot, or lines were lost"
        hint = "`journalctl --list-boots` on the node; run the gate again"
        return host.answer.unknown("kernel-log-restarted", text, hint, evidence=_evidence(host))
    counted: list[str] = []
    if (incomparable := _counters(host, findings, counted, missing)) is not None:
        return incomparable
    pairs = {"GPUs": smi, "NVLinks": nvlink, "ports": hcas, "kernel log": logs}
    compared = [word for word, pair in pairs.items() if pair] + counted
    note = f"; noted: {', '.join(notes)}" if notes else ""
    return Report(
        summary=f"{', '.join(compared)} as before the load{note}",
        findings=tuple(findings),
        expected=(Expectation("errors_added", "==", 0, Basis.RULE, "count"),),
        evidence=_evidence(host),
    )


def _evidence(host: LoadedHost) -> tuple[Evidence, ...]:
    files = dict.fromkeys((host.bracket.before.evidence, host.bracket.after.evidence))
    return tuple(Evidence("state of the host", host.name, "", file) for file in files)


def _gpus(host: LoadedHost, before: SmiLog, after: SmiLog) -> list[Finding]:
    # Matched by PCI address, since two GPUs may print one UUID.
    later = {gpu.bus_id: gpu for gpu in after.gpus}
    findings: list[Finding] = []
    for index, gpu in enumerate(before.gpus):
        now = later.get(gpu.bus_id)
        part = host.part(SubjectKind.GPU, f"gpu{index}")
        found = _gpu(host, gpu, now) if now is not None and not now.trouble else []
        if not gpu.trouble and (now is None or now.trouble):
            reported = f"the driver says {now.trouble!r}" if now is not None else "not listed any more"
            hint = "drain the node and reboot it; read the kernel log for its XID first"
            found = [Finding(cause="gpu-lost-under-load", text=f"{gpu.bus_id}: {reported}", hint=hint)]
        findings += [replace(finding, text=f"{gpu.bus_id}: {finding.text}" if now and not now.trouble else finding.text,
                             subjects=(part,)) for finding in found]  # fmt: skip
    return findings


def _gpu(host: LoadedHost, before: Gpu, now: Gpu) -> list[Finding]:
    reset = "drain the node, reset the GPU and run `dcgmi diag -r 3`; replace it if it comes back"
    findings: list[Finding] = []
    if now.ecc_volatile.uncorrectable > before.ecc_volatile.uncorrectable:
        added = now.ecc_volatile.uncorrectable - before.ecc_volatile.uncorrectable
        findings.append(Finding(cause="memory-error-under-load", text=f"{added} uncorrectable errors more", hint=reset))
    rows, old = now.remapped_rows, before.remapped_rows
    if rows is not None and old is not None and (rows.uncorrectable, rows.correctable, rows.pending, rows.failure) != (
        old.uncorrectable, old.correctable, old.pending, old.failure,
    ):  # fmt: skip
        text = f"rows remapped: {rows.correctable + rows.uncorrectable}, before {old.correctable + old.uncorrectable}"
        text += ", one pending" * rows.pending + ", one failed" * rows.failure
        findings.append(Finding(cause="memory-error-under-load", text=text, hint=reset))
    action = now.recovery_action
    if action not in (None, "None") and action != before.recovery_action:
        hint = f"drain {host.name} and do what the driver asks for ({action})"
        findings.append(Finding(cause="gpu-reset-under-load", text=f"the driver asks for {action!r}", hint=hint))
    findings += _slowdowns(host, before, now)
    replays = (now.replay_count or 0) - (before.replay_count or 0)
    if replays > host.limits.pcie_replays:
        hint = "reseat the GPU or its riser; accept it only with a reason"
        text = f"{replays} PCIe replays more"
        findings.append(Finding(cause="pcie-replays-under-load", text=text, hint=hint, marginal=True))
    return findings


def _slowdowns(host: LoadedHost, before: Gpu, now: Gpu) -> list[Finding]:
    """Judge the time for which heat or the power brake slowed a GPU down; its own power cap is no fault."""
    added = {name: us - before.slowdown_us.get(name, 0) for name, us in now.slowdown_us.items()}
    hints = {
        _THERMAL: f"look at fans, airflow and heat sinks or coolant of {host.name}",
        _SOFT: f"look at fans, airflow and heat sinks or coolant of {host.name}",
        _BRAKE: f"look at the power supplies of {host.name} in its BMC",
    }
    return [
        Finding(
            cause="gpu-warm-under-load" if name == _SOFT else "gpu-throttled-under-load",
            text=f"{name} for {added[name] / 1e6:.1f} s",
            hint=hint,
            marginal=name == _SOFT,
        )
        for name, hint in hints.items()
        if added.get(name, 0) > 0
    ]


def _nvlinks(host: LoadedHost, before: NvlinkStatus, after: NvlinkStatus) -> list[Finding]:
    later = {entry.uuid: entry.active for entry in after.gpus}
    return [
        Finding(
            cause="nvlink-lost-under-load",
            text=f"GPU {entry.index}: {later.get(entry.uuid, 0)} NVLinks active, {entry.active} before",
            hint="look at the kernel log (XID 74, SXid), reset the GPU and run `dcgmi diag -r 3`",
            subjects=(host.part(SubjectKind.GPU, f"gpu{entry.index}"),),
        )
        for entry in before.gpus
        if later.get(entry.uuid, 0) < entry.active
    ]


def _ports(host: LoadedHost, before: tuple[Hca, ...], after: tuple[Hca, ...]) -> list[Finding]:
    def active(hcas: Iterable[Hca]) -> dict[str, int]:
        ports = ((f"{hca.name}:{port.number}", port) for hca in hcas for port in hca.ports)
        return {name: port.rate_gbps for name, port in ports if port.state == "Active"}

    later = active(after)
    return [
        Finding(
            cause="port-down-under-load",
            text=f"{name}: {f'{later[name]} Gb/s' if name in later else 'not Active'}, before {rate} Gb/s",
            hint="look at cable and module on both ends, then `mlxlink -d <hca> -m -c`",
            subjects=(host.part(SubjectKind.HCA, name.partition(":")[0]),),
        )
        for name, rate in active(before).items()
        if later.get(name, 0) < rate
    ]


def _kernel(host: LoadedHost, before: KernelLog, after: KernelLog, notes: list[str]) -> list[Finding]:
    findings = [_of_gpu(host, xid, _xid(host, xid, notes)) for xid in _added(before.xids, after.xids)]
    findings += [_sxid(xid, notes) for xid in _added(before.sxids, after.sxids)]
    for event, times in (Counter(after.hardware) - Counter(before.hardware)).items():
        text = f"{event.kind} ({times} times): {event.text[:200]}"
        hint = "read the event log of the BMC and compare the device with `lspci -D`"
        marginal = event.kind in _MARGINAL_EVENTS
        cause = "hardware-warning-under-load" if marginal else "hardware-error-under-load"
        findings.append(Finding(cause=cause, text=text, hint=hint, marginal=marginal))
    for device, times in (Counter(d for d, _t in after.flaps) - Counter(d for d, _t in before.flaps)).items():
        text = f"{device} lost its link {times} times"
        hint = "look at cable and module on both ends; accept it if the port carries nothing"
        part = host.part(SubjectKind.HCA, device)
        findings.append(Finding(cause="link-flap-under-load", text=text, hint=hint, subjects=(part,), marginal=True))
    return [finding for finding in findings if finding is not None]


def _of_gpu(host: LoadedHost, xid: Xid, finding: Finding | None) -> Finding | None:
    """Return the finding as one about the GPU that the XID names, where the driver lists it."""
    smi = host.bracket.before.values.get("smi")
    gpus = smi.gpus if isinstance(smi, SmiLog) else ()
    places = [n for n, gpu in enumerate(gpus) if gpu.bus_id.lower().startswith(xid.address.lower())]
    if finding is None or len(places) != 1:
        return finding
    return replace(finding, subjects=(host.part(SubjectKind.GPU, f"gpu{places[0]}"),))


def _added(before: tuple[Xid, ...], after: tuple[Xid, ...]) -> list[Xid]:
    """Return the events that only the second log has. Line numbers are ignored: the logs may begin at different
    lines."""
    known = Counter(replace(xid, line=0) for xid in before)
    found: list[Xid] = []
    for xid in after:
        same = replace(xid, line=0)
        if known[same] > 0:
            known[same] -= 1
        else:
            found.append(xid)
    return found


def _xid(host: LoadedHost, xid: Xid, notes: list[str]) -> Finding | None:
    rule = host.seen.xids.rule(xid.number)
    text = f"XID {xid.number} on {xid.address}: {xid.text[:160]}"
    if xid.number == _ACTION_XID:
        if xid.action.lower() == "none":
            return None
        return Finding(cause="xid-under-load", text=text, hint=f"drain {host.name} and do it ({xid.action})")
    meaning = "marginal" if rule is None else rule.meaning_of([xid.text])
    if meaning == "note":
        notes.append(f"XID {xid.number} on {xid.address}")
        return None
    fatal = meaning == "fatal"
    hint = rule.action if rule is not None else f"look up XID {xid.number} in NVIDIA's catalogue"
    cause = "xid-under-load" if fatal else "xid-marginal-under-load"
    return Finding(cause=cause, text=text, hint=hint, marginal=not fatal)


def _sxid(xid: Xid, notes: list[str]) -> Finding | None:
    text = f"SXid {xid.number} on NVSwitch {xid.address}: {xid.text[:160]}"
    if xid.text.lower().startswith(("non-fatal", "non fatal")):
        notes.append(f"SXid {xid.number} on {xid.address}")
        return None
    fatal = xid.text.lower().startswith("fatal")
    cause = "xid-under-load" if fatal else "xid-marginal-under-load"
    hint = "drain the node and reset all its GPUs and NVSwitches; if it comes back, look at the NVLink it names"
    return Finding(cause=cause, text=text, hint=hint, marginal=not fatal)
