# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Check nvlink: every link of every GPU is active, and the GPUs are registered with their NVLink fabric."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass

from ...collect.host_facts import FleetFacts
from ...collect.tool_reading import ProbeFailure
from ...outcome.model import Basis, Expectation, Measure, Outcome, Subject, SubjectKind
from ...probe.nvidia_smi_nvlink import NvlinkGpu
from ...probe.nvidia_smi_nvlink_errors import NvlinkCounters, NvlinkErrors
from ...probe.nvidia_smi_xml import Gpu, SmiLog
from ...verdict.majority import more_than_any_other
from ..kit.finding import Finding, Report
from ..kit.settings import setting
from ..spec import Check, CheckSpec, Disturbance, JudgeContext
from .mig_mode import expected_mode
from .node_context import NodeContext, per_host
from .observe_hosts import OBSERVER

# NVLink domains of a whole rack: every GPU has joined one, and a rack has only one.

# By rack, the domain of most of its GPUs, empty where two domains are equally frequent.
Domains = dict[str, str]
_NVLINK_DOMAIN_HINT = "`nvidia-smi -q | grep -A8 Fabric`; check nvidia-imex and the rack's NVLink switches"


def rack_domains(observed: FleetFacts, context: JudgeContext) -> Domains:
    """Return, by rack, the cluster and clique of most of its GPUs, empty where two are equally frequent."""
    counts: dict[str, Counter[str]] = {}
    for host in context.site.in_scope:
        facts, sku = observed.hosts.get(host.name), context.hardware.get(host.sku)
        if facts is None or sku is None or sku.nvlink_domain != "rack" or not isinstance(facts.smi, SmiLog):
            continue
        joined = [_domain(gpu) for gpu in facts.smi.gpus if _joined(gpu)]
        if host.rack and joined:
            counts.setdefault(host.rack, Counter()).update(joined)
    return {rack: more_than_any_other(found) or "" for rack, found in counts.items()}


def domain_findings(host: NodeContext, domains: Domains) -> tuple[Finding, ...]:
    """Return the findings about GPUs of a rack-wide SKU in no domain, or in another one than the rest of their rack."""
    if host.sku.nvlink_domain != "rack":
        return ()
    findings: list[Finding] = []
    rack = host.entry.rack
    usual = domains.get(rack, "")
    for gpu in host.live_gpus:
        parts = (host.gpu(gpu.bus_id),)
        if not _joined(gpu):
            text = f"{gpu.bus_id}: clique {gpu.fabric.clique_id or 'N/A'} of cluster {gpu.fabric.cluster_uuid or 'N/A'}"
            findings.append(
                Finding(cause="nvlink-domain-not-joined", text=text, hint=_NVLINK_DOMAIN_HINT, subjects=parts)
            )
        elif rack in domains and _domain(gpu) != usual:
            others = f"most of {rack} in {usual}" if usual else f"and no domain has most GPUs of {rack}"
            text = f"{gpu.bus_id} is in {_domain(gpu)}, {others}"
            findings.append(Finding(cause="nvlink-domain-split", text=text, hint=_NVLINK_DOMAIN_HINT, subjects=parts))
    return tuple(findings)


def _domain(gpu: Gpu) -> str:
    return f"{gpu.fabric.cluster_uuid}.{gpu.fabric.clique_id}"


def _joined(gpu: Gpu) -> bool:
    cluster = (gpu.fabric.cluster_uuid or "").strip("0-")
    return bool(cluster) and gpu.fabric.clique_id not in (None, "0")


# Error counters of NVLinks from the time before the gate: a link that flapped for days is due to fail. What a load adds
# to them is judged by checks host-state-after-….

_HINT = (
    "`nvidia-smi nvlink -e -i <gpu>` and the kernel log (XID 74, 144 to 150); reset the GPU, which sets the counters "
    "to 0, and run the gate again: replace what counts again"
)


def past_errors(
    host: NodeContext, errors: NvlinkErrors, allowed: Mapping[str, int], rates: Mapping[str, float]
) -> tuple[Finding, ...]:
    """Return a finding for each GPU with a link above a limit.

    Args:
        host: the host.
        errors: the parsed `nvidia-smi nvlink -e`.
        allowed: the highest value of a counter since the driver was loaded, by its name; others are not judged.
        rates: the highest bit error rate, by its name; others are not judged.
    """
    return tuple(finding for gpu in errors.gpus for finding in _gpu(host, gpu, allowed, rates))


def _gpu(
    host: NodeContext, gpu: NvlinkCounters, allowed: Mapping[str, int], rates: Mapping[str, float]
) -> tuple[Finding, ...]:
    links: dict[int, list[str]] = defaultdict(list)
    for (link, name), count in gpu.counters.items():
        if count > allowed.get(name, count):
            links[link].append(f"{name} {count}")
    for (link, name), rate in gpu.rates.items():
        if rate > rates.get(name, rate):
            links[link].append(f"{name} {rate:.2g}, limit {rates[name]:g}")
    if not links:
        return ()
    shown = "; ".join(f"link {link}: {', '.join(words)}" for link, words in list(links.items())[:3])
    more = f"; and {len(links) - 3} more links" if len(links) > 3 else ""
    text = f"GPU {gpu.index}, since the driver was loaded: {shown}{more}"
    part = host.gpu_named(gpu.index, gpu.uuid)
    hint = _HINT.replace("<gpu>", str(gpu.index))
    return (Finding(cause="nvlink-errors-before", text=text, hint=hint, subjects=(part,), marginal=True),)


@dataclass(frozen=True, slots=True, kw_only=True)
class NvlinkSettings:
    """Settings of check nvlink."""

    fabric_state_from_nvlink_generation: int = setting(
        "From this NVLink generation on GPUs behind NVSwitches register with the fabric; there a fabric state of N/A "
        "is no answer.",
        default=4,
        minimum=1,
    )
    # The same documents: 580 prints Healthy on B200, GB200 and GB300; nothing is published of 570 on them.
    fabric_health_from_driver: int = setting(
        "From this driver branch on GPUs whose kind reports the health of the fabric must report it.",
        default=580,
        unit="branch",
        minimum=1,
    )
    # GoogleCloudPlatform/cluster-toolkit#5942 alerts on the rates and on every counter but those of FEC; what a link
    # repaired by itself (replays, CRC errors, recoveries that succeeded) is judged by what a load adds.
    error_counters: dict[str, int] = setting(
        "How high an error counter of a link may stand since the driver was loaded before a person looks; those that "
        "are not listed are not judged by how they stand.",
        default={
            "Recovery Errors": 0,
            "Link recovery failed events": 0,
            "Malformed packet Errors": 0,
            "Buffer overrun Errors": 0,
            "Rx Errors": 0,
            "Rx remote Errors": 0,
            "Rx General Errors": 0,
            "Local link integrity Errors": 0,
        },
        unit="count by counter",
        minimum=0,
    )
    bit_error_rates: dict[str, float] = setting(
        "Above which bit error rate of a link a person looks, by the name that `nvidia-smi nvlink -e` gives it.",
        default={"Effective BER": 1e-09, "Symbol BER": 1e-25},
        unit="errors a bit, by rate",
        minimum=0,
    )


SPEC = CheckSpec(
    id="nvlink",
    gate="nodes",
    title="All NVLinks active, fabric registered",
    per=SubjectKind.NODE,
    disturbs=Disturbance.HOST_COMMAND,
    needs_driver=True,
    causes=(
        "nvlink-inactive", "nvlink-rate-reduced", "nvlink-fabric-not-ready", "nvlink-fabric-unhealthy",
        "nvlink-domain-not-joined", "nvlink-domain-split",
    ),
    settings=NvlinkSettings,
)  # fmt: skip
_LINKS = "reset the GPU; if the link stays down, look at the kernel log (XID 74, SXid) and the NVSwitch"
# GB/s of one link in one direction by generation: NVIDIA's white papers of A100 (12 links, 600 GB/s both ways), H100
# (18, 900) and Blackwell (18, 1,800). nvidia-smi prints 25, 26.562 and 53.125, by generation and encoding.
_LINK_GBPS = {2: 25.0, 3: 25.0, 4: 25.0, 5: 50.0}
_LINK_TOLERANCE = 0.05
_FABRIC = "`nvidia-smi -q | grep -A4 Fabric`; restart nvidia-fabricmanager, then reset the GPU"


def judge(observed: FleetFacts, context: JudgeContext) -> tuple[Outcome, ...]:
    """Judge links against the SKU, and the fabric state where GPUs of that generation are behind NVSwitches."""
    domains = rack_domains(observed, context)
    return per_host(SPEC, observed, context, lambda host: _host(host, domains), needs=("smi",))


def _host(host: NodeContext, domains: Domains) -> Report | Outcome:
    if host.sku.nvlink_links == 0:
        return Report(summary=f"{host.sku.name} has no NVLink")
    if isinstance(host.facts.nvlink, ProbeFailure):
        return host.tool_failure("nvlink", host.facts.nvlink)
    status = host.facts.nvlink
    mig = [entry for entry in status.gpus if entry.mig]
    if mig and expected_mode(host.context) != "Enabled":
        return host.answer.blocked(by="mig-mode", because="the driver reports no NVLinks of a GPU in MIG mode")
    if mig:
        return Report(
            summary="MIG is wanted here, and a GPU in MIG mode uses no NVLink", evidence=host.evidence("nvlink")
        )
    errors = host.facts.read("nvlink_errors", NvlinkErrors)
    if isinstance(errors, ProbeFailure) and errors.kind != "not-collected":
        return host.tool_failure("nvlink_errors", errors)
    return _links(host, status.gpus, domains)


def _links(host: NodeContext, entries: tuple[NvlinkGpu, ...], domains: Domains) -> Report | Outcome:
    expected, live = host.sku.nvlink_links, host.live_gpus
    if len(entries) < len(live):
        text = f"`nvidia-smi nvlink -s` names {len(entries)} GPUs, `nvidia-smi -q` {len(live)}"
        return host.answer.unknown("nvidia-smi-inconsistent", text, "run both on the node again")
    lost = {host.gpu(gpu.bus_id) for gpu in host.smi.gpus if gpu.trouble}
    few = [entry for entry in entries if entry.active < expected]
    short = tuple(_short(host, entry) for entry in few if host.gpu_named(entry.index, entry.uuid) not in lost)
    if short and not host.sku.nvswitches and len(live) < host.sku.gpus:
        return host.answer.blocked(
            by="gpu-census", because="GPUs are wired to each other, and one that is gone takes links with it"
        )
    fabric = tuple(finding for gpu in live for finding in _fabric(host, gpu))
    own = bool(host.sku.nvswitches) and isinstance(host.facts.fabric_manager, str)
    # The switches of a rack-wide domain have their fabric manager in the switch trays.
    if fabric and own and host.facts.fabric_manager != "active":
        if not short:
            return host.answer.blocked(
                by="fabric-manager", because=f"nvidia-fabricmanager is {host.facts.fabric_manager}"
            )
        fabric = ()
    slow = tuple(
        f for entry in entries if host.gpu_named(entry.index, entry.uuid) not in lost for f in _slow(host, entry)
    )
    slow += tuple(f for entry in entries if (f := _c2c(host, entry, entries)) is not None)
    findings = short + slow + fabric + (() if fabric else domain_findings(host, domains))
    findings += _past(host, {part for finding in findings for part in finding.subjects} | lost)
    if not findings and lost:
        return host.answer.blocked(by="gpu-census", because=f"{len(lost)} of {len(host.smi.gpus)} GPUs do not answer")
    blind = [gpu.bus_id for gpu in live if _health_unknown(host, gpu)]
    if not findings and blind:
        text = f"the driver reports no health of the NVLink fabric for {', '.join(blind)}"
        return host.answer.unknown("nvlink-fabric-health-unknown", text, _FABRIC, evidence=host.evidence("smi"))
    return _report(host, entries, findings)


def _past(host: NodeContext, known: set[Subject]) -> tuple[Finding, ...]:
    """Return the findings about what links counted before the gate, without GPUs that have a finding already."""
    errors = host.facts.read("nvlink_errors", NvlinkErrors)
    if isinstance(errors, ProbeFailure):
        return ()
    limits = host.settings(NvlinkSettings)
    found = past_errors(host, errors, limits.error_counters, limits.bit_error_rates)
    return tuple(finding for finding in found if not known.intersection(finding.subjects))


def _health_unknown(host: NodeContext, gpu: Gpu) -> bool:
    first = host.settings(NvlinkSettings).fabric_health_from_driver
    judged = host.sku.gpu_kind.fabric_health and _switched(host) and host.driver_branch >= first
    return judged and gpu.fabric.health is None


def _switched(host: NodeContext) -> bool:
    return bool(host.sku.nvswitches) or host.sku.nvlink_domain == "rack"


def _report(host: NodeContext, entries: tuple[NvlinkGpu, ...], findings: tuple[Finding, ...]) -> Report:
    expected = host.sku.nvlink_links
    return Report(
        summary=f"{expected} links active on each of {len(entries)} GPUs",
        findings=findings,
        measured=(Measure("nvlinks_active_min", min((entry.active for entry in entries), default=0), "count"),),
        expected=(Expectation("nvlinks_active_min", ">=", expected, Basis.HARDWARE, "count"),),
        evidence=host.evidence("nvlink"),
    )


def _short(host: NodeContext, entry: NvlinkGpu) -> Finding:
    off = [str(number) for number, speed in entry.links if speed <= 0]
    which = f", inactive: {', '.join(off)}" if off else ""
    reported = f" ({entry.notes[0]})" if entry.notes else ""
    text = f"GPU {entry.index}: {entry.active} of {host.sku.nvlink_links} links active{which}{reported}"
    return Finding(cause="nvlink-inactive", text=text, hint=_LINKS, subjects=(host.gpu_named(entry.index, entry.uuid),))


def _slow(host: NodeContext, entry: NvlinkGpu) -> list[Finding]:
    """Judge the rate of each active link against its generation."""
    rate = _LINK_GBPS.get(host.sku.nvlink_generation or 0, 0.0)
    slow = [(number, gbps) for number, gbps in entry.links if 0 < gbps < rate * (1 - _LINK_TOLERANCE)]
    if not slow:
        return []
    which = ", ".join(f"link {number} at {gbps:g} GB/s" for number, gbps in slow[:3])
    more = f" and {len(slow) - 3} more" if len(slow) > 3 else ""
    text = f"GPU {entry.index}: {which}{more}, NVLink {host.sku.nvlink_generation} has {rate:g} GB/s"
    part = host.gpu_named(entry.index, entry.uuid)
    return [Finding(cause="nvlink-rate-reduced", text=text, hint=_LINKS, subjects=(part,))]


def _c2c(host: NodeContext, entry: NvlinkGpu, entries: tuple[NvlinkGpu, ...]) -> Finding | None:
    """Judge the links to the processor (NVLink-C2C) against those of the host's other GPUs, where there are any."""
    usual = max((gbps for other in entries for _number, gbps in other.c2c), default=0.0)
    most = max(len(other.c2c) for other in entries)
    low = [f"C2C link {number} at {gbps:g} GB/s" for number, gbps in entry.c2c if gbps < usual * (1 - _LINK_TOLERANCE)]
    if len(entry.c2c) < most:
        low.append(f"{len(entry.c2c)} C2C links, other GPUs of the host have {most}")
    if not low:
        return None
    hint = "reset the GPU, then power-cycle the host; replace the module if it comes back"
    part = host.gpu_named(entry.index, entry.uuid)
    text = f"GPU {entry.index}: {', '.join(low[:3])}; {usual:g} GB/s are usual here"
    return Finding(cause="nvlink-rate-reduced", text=text, hint=hint, subjects=(part,))


def _fabric(host: NodeContext, gpu: Gpu) -> list[Finding]:
    """Judge the registration. N/A is valid only where the GPU or the machine has no such fabric."""
    first = host.settings(NvlinkSettings).fabric_state_from_nvlink_generation
    switched = _switched(host)
    parts = (host.gpu(gpu.bus_id),)
    state = (gpu.fabric.state or "N/A", gpu.fabric.status or "N/A")
    judged = state != ("N/A", "N/A") or (switched and (host.sku.nvlink_generation or 0) >= first)
    if judged and state != ("Completed", "Success"):
        text = f"{gpu.bus_id}: fabric state {state[0]}, status {state[1]}, expected Completed and Success"
        return [Finding(cause="nvlink-fabric-not-ready", text=text, hint=_FABRIC, subjects=parts)]
    if gpu.fabric.health not in (None, "Healthy"):
        text = f"{gpu.bus_id}: fabric health {gpu.fabric.health}"
        return [Finding(cause="nvlink-fabric-unhealthy", text=text, hint=_FABRIC, subjects=parts)]
    if gpu.fabric.conditions:
        text = f"{gpu.bus_id}: fabric health: {', '.join(gpu.fabric.conditions)}"
        return [Finding(cause="nvlink-fabric-unhealthy", text=text, hint=_FABRIC, subjects=parts)]
    return []


CHECK = Check(SPEC, OBSERVER, judge)
