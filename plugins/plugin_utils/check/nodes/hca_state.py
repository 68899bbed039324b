# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Check hca-state: every adapter for GPU traffic is there, active and at its rated speed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Literal

from ...collect.host_facts import FleetFacts
from ...collect.tool_reading import ProbeFailure
from ...outcome.model import Basis, Expectation, Measure, Outcome, Subject, SubjectKind, node_subject
from ...outcome.wording import natural
from ...probe.ibstat import Hca, IbPort
from ...probe.ibv_devinfo import VerbsPort
from ...probe.kernel_repeats import seconds
from ...site.adapters import (
    LINK_LAYERS,
    VARIABLE,
    ComputeAdapters,
    carries_gpu_traffic,
    port_names,
    stated_by,
)
from ...verdict.majority import more_than_any_other
from ..kit.finding import Finding, Report
from ..kit.settings import setting
from ..spec import Check, CheckSpec, Disturbance, JudgeContext, needs
from .node_context import NodeContext, per_host, value_of
from .observe_hosts import OBSERVER
from .uniform import uniformity

# Compared over the hosts of a rail: what a subnet manager sets on an InfiniBand port, that is the manager itself and
# the MTU. A port with another subnet manager is cabled into another subnet, or one subnet has two managers; a port with
# a smaller MTU makes every connection to it that small. Rails may be separate subnets, so a rail is compared only with
# itself.

Fact = Literal["SM lid", "active MTU"]
Ports = Sequence[tuple[str, IbPort]]
_CAUSES: dict[Fact, tuple[str, str]] = {
    "SM lid": (
        "subnet-manager-differs",
        "`sminfo -C <hca>` on both hosts must name one master; compare the cable of the port with the plan",
    ),
    "active MTU": (
        "ib-mtu-differs",
        "`ibv_devinfo -d <hca>`; look at the MTU that the subnet manager gives the partition (opensm: partitions.conf) "
        "and at the switch port",
    ),
}


def rail_differences(hosts: Iterable[tuple[NodeContext, Ports]]) -> dict[str, list[Finding]]:
    """Return, by host, how its ports differ from most ports of their rail.

    Where no value has most ports, the ports of both values are reported.

    Args:
        hosts: hosts of InfiniBand SKUs with all ports for GPU traffic, in the order of the rails.
    """
    rails: dict[tuple[str, int, Fact], dict[str, tuple[NodeContext, str, str]]] = {}
    for host, ports in hosts:
        mtus = _mtus(host)
        for rail, (name, port) in enumerate(ports):
            reported: dict[Fact, int | None] = {"SM lid": port.sm_lid, "active MTU": mtus.get(_numbered(name))}
            for fact, value in reported.items():
                if port.state == "Active" and value is not None:
                    place = (host.entry.sku, rail, fact)
                    rails.setdefault(place, {})[host.name] = (host, name, str(value))
    found: dict[str, list[Finding]] = {}
    for (_sku, _rail, fact), members in rails.items():
        usual = uniformity({host: read for host, (_context, _name, read) in members.items()})
        most = f"most ports of its rail {usual.expected}" if usual.expected else f"its rail: {usual.text()}"
        for host_name, (context, hca, read) in members.items():
            if read != usual.expected:
                finding = _finding(context, hca, fact, f"{hca}: {fact} {read}, {most}")
                found.setdefault(host_name, []).append(finding)
    return found


def _finding(host: NodeContext, port: str, fact: Fact, text: str) -> Finding:
    cause, hint = _CAUSES[fact]
    hint = hint.replace("<hca>", port.partition(":")[0])
    return Finding(cause=cause, text=text, hint=hint, subjects=(host.part(SubjectKind.HCA, port),), marginal=True)


def _numbered(name: str) -> str:
    return name if ":" in name else f"{name}:1"


def _mtus(host: NodeContext) -> dict[str, int]:
    """Return the MTU by port. Empty where the tool is not installed: only check roce-setup, on RoCE, requires it."""
    ports: tuple[VerbsPort, ...] | ProbeFailure = host.facts.read("verbs_ports", tuple)
    return {} if isinstance(ports, ProbeFailure) else {f"{port.device}:{port.port}": port.mtu for port in ports}


# Whether a line of the kernel log was written soon after the boot.


def settling(began: str, time: str, settle_s: float) -> bool:
    """Whether `time` is less than `settle_s` seconds after the boot; False for a log that does not begin with the
    boot."""
    first, then = _seconds(began), _seconds(time)
    return first is not None and then is not None and 0 <= then - first < settle_s


def _seconds(stamp: str) -> float | None:
    """Return a time stamp of the kernel log in seconds; only differences between stamps of one form are meaningful."""
    known = seconds(stamp)
    if known is not None:
        return known
    try:
        return datetime.strptime(f"2000 {stamp}", "%Y %b %d %H:%M:%S").timestamp()
    except ValueError:
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class HcaStateSettings:
    """Settings of check hca-state."""

    hcas: tuple[str, ...] = setting(
        "Names of the adapters for GPU traffic, such as [mlx5_0, mlx5_3]; each must be good. Empty: those of "
        "gpufleet_hcas or the cabling plan; where neither states any, those beside the GPUs by nvidia-smi topo -m, by "
        "link layer and rate, as the SKU names them.",
        default=[],
    )
    rate_gbps: int | None = setting(
        "Rate that every port must have; null: that of the cabling plan, else of the SKU; 0: not judged here.",
        default=None,
        unit="Gb/s",
        minimum=0,
    )
    link_flaps: int = setting(
        "How often one port may lose its link since it has settled.", default=5, unit="times", minimum=0
    )
    # Oracle's own check of its RoCE clusters leaves out the first 30 minutes (oracle-quickstart/oci-hpc,
    # rdma_link_flapping.py).
    link_settle_s: float = setting(
        "How long links go up and down after a boot without anything being wrong: switches negotiate, drivers load.",
        default=1800,
        unit="s",
        minimum=0,
    )


SPEC = CheckSpec(
    id="hca-state",
    gate="nodes",
    title="All HCAs present, active, at rated speed",
    per=SubjectKind.NODE,
    disturbs=Disturbance.HOST_COMMAND,
    applies=(needs("host_access", "infiniband|roce"),),
    causes=(
        "hca-missing",
        "hca-names-wrong",
        "hca-down",
        "no-subnet-manager",
        "hca-rate-reduced",
        "hca-wrong-link-layer",
    ),
    settings=HcaStateSettings,
)
# Models as `ibstat` and as `lspci` print them (pci-ids.ucw.cz).
_MODELS = {
    "MT4123": "ConnectX-6",
    "MT4125": "ConnectX-6 Dx",
    "MT4129": "ConnectX-7",
    "MT4131": "ConnectX-8",
}
_CABLE = "look at the port's LEDs and cable on both ends, then `ibstat`, `mlxlink -d <hca> -m -c`"


@dataclass(frozen=True, slots=True)
class _Port:
    name: str
    port: IbPort


def judge(observed: FleetFacts, context: JudgeContext) -> tuple[Outcome, ...]:
    """Judge the adapters for GPU traffic, as site/adapters.py resolves them, and no others.

    Configured names that no host of a SKU has are a wrong setting: one outcome for all of those hosts.
    """
    hosts = [
        NodeContext(SPEC, context, observed, entry) for entry in context.site.in_scope if entry.name in observed.hosts
    ]
    wrong = wrong_names([host for host in hosts if _has_adapters(host)])
    alike = rail_differences(_rails([host for host in hosts if _has_adapters(host)]))
    outcomes = per_host(SPEC, observed, context, lambda h: wrong.get(h.name) or _judge(h, alike.get(h.name, [])))
    return tuple({id(outcome): outcome for outcome in outcomes}.values())


def _has_adapters(host: NodeContext) -> bool:
    sku = host.context.hardware.get(host.entry.sku)
    return sku is not None and carries_gpu_traffic(sku)


def _rails(hosts: Sequence[NodeContext]) -> list[tuple[NodeContext, list[tuple[str, IbPort]]]]:
    """Return the InfiniBand hosts that have every adapter, with their ports rail by rail."""
    known = [(host, host.adapters(host.settings(HcaStateSettings).hcas)) for host in hosts if _on_infiniband(host)]
    rows = [
        (host, found, [(e.name, e.port) for e in _ports(value_of(host.facts.hcas), found)]) for host, found in known
    ]
    return [(host, ports) for host, found, ports in rows if found.complete and len(ports) == found.wanted]


def _on_infiniband(host: NodeContext) -> bool:
    return host.sku.fabric == "infiniband" and not isinstance(host.facts.hcas, ProbeFailure)


def _judge(host: NodeContext, alike: list[Finding]) -> Report | Outcome:
    sku = host.sku
    if not _has_adapters(host):
        if sku.fabric in LINK_LAYERS:
            text = f"{sku.name} has fabric {sku.fabric}, and no source says how many adapters"
            hint = "count them (`ibstat -l`) and give the site an SKU of its own with compute_hcas and hca_rate_gbps"
            return host.answer.unknown("fact-not-known", text, hint)
        return Report(summary=f"{sku.name} has no InfiniBand or RoCE adapter for GPU traffic")
    hcas = host.facts.hcas
    if isinstance(hcas, ProbeFailure):
        return host.tool_failure("hcas", hcas)
    found = host.adapters(host.settings(HcaStateSettings).hcas)
    if found.open_between:
        return _ambiguous(host, found)
    ports = _ports(hcas, found)
    problems = {entry.name: finding for entry in ports if (finding := _port_finding(host, entry)) is not None}
    findings = [*_missing(host, found, ports), *problems.values(), *_disputed(host, found), *_from_kernel(host, found)]
    findings += alike if not problems else []
    rates = [entry.port.rate_gbps for entry in ports if entry.name not in problems]
    return Report(
        summary=f"{len(rates)} ports Active, LinkUp, {min(rates, default=0)} Gb/s or more; {found.basis_text}",
        findings=tuple(findings),
        measured=(
            Measure("hca_ports_good", len(rates), "count"),
            Measure("hca_rate_min", min((entry.port.rate_gbps for entry in ports), default=0), "Gb/s"),
        ),
        expected=(
            Expectation("hca_ports_good", ">=", sku.compute_hcas, Basis.HARDWARE, "count"),
            Expectation("hca_rate_min", ">=", _rate(host), Basis.HARDWARE, "Gb/s"),
        ),
        evidence=host.evidence("hcas"),
    )


def _ambiguous(host: NodeContext, found: ComputeAdapters) -> Outcome:
    looked = "" if not isinstance(host.facts.topo, ProbeFailure) else "; `nvidia-smi topo -m` said nothing"
    text = (
        f"{len(found.open_between)} adapters fit ({', '.join(found.open_between)}), "
        f"{host.sku.name} has {found.wanted} for GPU traffic{looked}"
    )
    hint = f"state which they are: {VARIABLE} of the host or its group"
    evidence = (*host.evidence("hcas"), *host.evidence("topo"))
    return host.answer.unknown("adapters-not-known", text, hint, evidence=evidence)


def _disputed(host: NodeContext, found: ComputeAdapters) -> list[Finding]:
    """Return the finding that the site configures other adapters than those beside the GPUs: NCCL would use those."""
    if not found.contradicts:
        return []
    configured = [name for name in found.names if name not in found.contradicts]
    beside = [name for name in found.contradicts if name not in found.names]
    field = _field(host)
    text = f"{field} states {', '.join(configured)}; beside the GPUs are {', '.join(beside)}, which it does not state"
    hint = f"compare {field} with `nvidia-smi topo -m`; correct it, or accept it (gpufleet_acceptances)"
    subjects = tuple(_subject(host, name) for name in (*configured, *beside))
    return [Finding(cause="adapters-disputed", text=text, hint=hint, subjects=subjects, marginal=True)]


def _configured(host: NodeContext) -> tuple[str, ...]:
    found = host.adapters(host.settings(HcaStateSettings).hcas)
    return found.names if found.basis == "stated" else ()


def wrong_names(hosts: Sequence[NodeContext]) -> dict[str, Outcome]:
    """Return, by host, the outcome about configured names that the host lacks, where other adapters are in their place.

    Nothing is broken then: the setting is wrong. The adapters in their place are known where every GPU has an adapter
    beside it. Elsewhere a name that some hosts of the SKU have is right; with one host, which has no others to compare
    with, all names must be wrong.
    """
    alike: dict[tuple[str, tuple[str, ...]], list[tuple[NodeContext, tuple[Hca, ...]]]] = {}
    for host in hosts:
        hcas = host.facts.hcas
        if not isinstance(hcas, ProbeFailure) and (names := _configured(host)):
            alike.setdefault((host.sku.name, names), []).append((host, hcas))
    found: dict[str, Outcome] = {}
    for (_sku, named), members in alike.items():
        gone = [name for name in named if not any(name == hca.name for _host, hcas in members for hca in hcas)]
        sure = [(host, set(beside) - set(named)) for host, _hcas in members if (beside := _replaced(host, named))]
        others = [(host, _others(host, hcas, named)) for host, hcas in members]
        renamed = [(host, names) for host, names in others if len(names) >= len(gone) > 0]
        if not (len(renamed) > 1 or (renamed and len(gone) == len(named))):
            renamed = []
        renamed = sure + [entry for entry in renamed if entry[0].name not in {host.name for host, _names in sure}]
        if renamed:
            outcome = _names_outcome(renamed, named, gone)
            found |= {host.name: outcome for host, _names in renamed}
    return found


def _replaced(host: NodeContext, named: tuple[str, ...]) -> tuple[str, ...]:
    """Return the adapters beside the GPUs if all are known and the host lacks one that is configured."""
    hcas = host.facts.hcas
    there = {hca.name for hca in hcas} if not isinstance(hcas, ProbeFailure) else set()
    lacks = any(name.partition(":")[0] not in there for name in named)
    return host.adapters(named).contradicts if lacks else ()


def _others(host: NodeContext, hcas: tuple[Hca, ...], named: tuple[str, ...]) -> set[str]:
    """Return the adapters without a configured name that could carry GPU traffic.

    They have the right link layer and the type of the adapters with a configured name.
    """
    types = {hca.kind for hca in hcas if hca.name in named}
    layer = LINK_LAYERS[host.sku.fabric]
    return {
        hca.name
        for hca in hcas
        if hca.name not in named
        and (not types or hca.kind in types)
        and any(port.link_layer in ("", None, layer) for port in hca.ports)
    }


def _field(host: NodeContext) -> str:
    if host.settings(HcaStateSettings).hcas:
        return f"setting hcas of {SPEC.id}"
    return stated_by(host.entry, host.sku) if host.entry.hcas else "the cabling plan"


def _names_outcome(renamed: list[tuple[NodeContext, set[str]]], named: tuple[str, ...], gone: list[str]) -> Outcome:
    first = renamed[0][0]
    field = _field(first)
    shared = set.intersection(*(names for _host, names in renamed)) or renamed[0][1]
    there = {hca.name for hca in first.facts.hcas} if not isinstance(first.facts.hcas, ProbeFailure) else set()
    lacking = gone or [name for name in named if name not in there]
    who = f"no host of SKU {first.sku.name}" if gone else "not every host"
    text = (
        f"{field} states {', '.join(named)}; {who} has {', '.join(lacking)}, "
        f"which are called {', '.join(sorted(shared, key=natural))} there"
    )
    hint = f"correct {field} (`ibstat -l` on a host lists the names); nothing has to be reseated"
    return first.answer.failed(
        "hca-names-wrong",
        text,
        hint,
        more_subjects=tuple(node_subject(host.name) for host, _names in renamed[1:]),
        evidence=first.evidence("hcas"),
    )


def _rate(host: NodeContext) -> int:
    """Return the rated speed in Gb/s: that of the site, else of its cabling plan, else of the SKU; 0: gate fabric
    judges it."""
    configured = host.settings(HcaStateSettings).rate_gbps
    return host.seen.rated_gbps.get(host.name, host.sku.hca_rate_gbps) if configured is None else configured


def _ports(hcas: tuple[Hca, ...], found: ComputeAdapters) -> list[_Port]:
    """Return the ports for GPU traffic that are present. A configured name without port number means all ports of the
    adapter."""
    named = {name for entry in found.names for name in (entry, entry.removesuffix(":1"))}
    return [
        _Port(name, port)
        for hca in hcas
        for name, port in port_names((hca,)).items()
        if name in named or hca.name in found.names
    ]


def _subject(host: NodeContext, name: str) -> Subject:
    return host.part(SubjectKind.HCA, name)


def _missing(host: NodeContext, found: ComputeAdapters, ports: list[_Port]) -> list[Finding]:
    present = {entry.name.partition(":")[0] for entry in ports}
    gone = [name for name in found.names if name.partition(":")[0] not in present]
    if not gone and len(ports) >= found.wanted:
        return []
    gone = gone or _usual_but_gone(host, found)
    bare = [f"GPU{place}" for place in found.bare_gpus]
    lacking = [f"no {', '.join(gone)}"] if gone else []
    lacking += [f"nothing beside {', '.join(bare)}"] if bare else []
    parts = [_subject(host, name) for name in gone] or [host.gpu_at(place) for place in found.bare_gpus]
    return [
        Finding(
            cause="hca-missing",
            text=": ".join([f"{len(ports)} of {found.wanted} adapter ports", *filter(None, [", ".join(lacking)])]),
            hint="`lspci -d 15b3:` and `dmesg | grep mlx5_core` on the node; reseat the adapter",
            subjects=tuple(parts),
        )
    ]


def _usual_but_gone(host: NodeContext, found: ComputeAdapters) -> list[str]:
    """Return the usual names of the adapters that this host lacks, those of the SKU or of its other hosts.

    Empty if the adapters of this host have other names.
    """
    peers = [
        names.names
        for entry in host.context.site.in_scope
        if entry.sku == host.entry.sku and entry.name in host.seen.hosts
        if (names := replace(host, entry=entry).adapters()).complete and names.basis != "stated"
    ]
    usual = host.sku.hca_names or more_than_any_other(Counter(peers)) or ()
    hcas = host.facts.hcas
    there = {hca.name for hca in hcas} if not isinstance(hcas, ProbeFailure) else set()
    gone = [name for name in usual if name not in there] if set(found.names) <= set(usual) else []
    return gone if len(gone) == found.wanted - len(found.names) else []


# Link types as mlxconfig numbers them (docs.nvidia.com, MFT, "mlxconfig": LINK_TYPE_P1 is IB(1) or ETH(2)).
_LINK_TYPES = {"InfiniBand": 1, "Ethernet": 2}


def _port_finding(host: NodeContext, entry: _Port) -> Finding | None:
    port, rated, layer = entry.port, _rate(host), LINK_LAYERS[host.sku.fabric]
    parts = (_subject(host, entry.name),)
    observed = f"{entry.name}: {port.state}, {port.physical_state}"
    if port.link_layer and port.link_layer != layer:
        text = f"{entry.name}: link layer {port.link_layer}, expected {layer}"
        hint = f"`mlxconfig -d <hca> set LINK_TYPE_P1={_LINK_TYPES[layer]}` on the node, then reboot it"
        return Finding(cause="hca-wrong-link-layer", text=text, hint=hint, subjects=parts)
    if port.state == "Initializing" and port.physical_state == "LinkUp" and port.sm_lid == 0:
        hint = "start the subnet manager (`systemctl start opensm`, or on the switch); `sminfo` must name a master"
        return Finding(
            cause="no-subnet-manager", text=f"{observed}, no subnet manager (SM lid 0)", hint=hint, subjects=parts
        )
    if port.state != "Active" or port.physical_state != "LinkUp":
        return Finding(cause="hca-down", text=f"{observed}, expected Active, LinkUp", hint=_CABLE, subjects=parts)
    if port.rate_gbps < rated:
        text = f"{entry.name}: {port.rate_gbps} Gb/s, rated {rated} Gb/s"
        return Finding(cause="hca-rate-reduced", text=text, hint=_CABLE, subjects=parts)
    return None


def _from_kernel(host: NodeContext, found: ComputeAdapters) -> list[Finding]:
    """Return what the kernel log reports about the adapters; check kernel-xid reports a missing log."""
    log = host.facts.kernel
    if isinstance(log, ProbeFailure):
        return []
    findings: list[Finding] = []
    settings, compute = host.settings(HcaStateSettings), set(found.names)
    hcas = host.facts.hcas
    others = {hca.name for hca in hcas} - compute if not isinstance(hcas, ProbeFailure) else set()
    flaps = [
        device
        for device, time in log.flaps
        if device not in others and not settling(log.began, time, settings.link_settle_s)
    ]
    limit = settings.link_flaps
    for device, times in Counter(flaps).items():
        if times > limit:
            text = f"{device} lost its link {times} times since boot, usual are {limit} or fewer"
            findings.append(
                Finding(
                    cause="link-flapping", text=text, hint=_CABLE, subjects=(_subject(host, device),), marginal=True
                )
            )
    unplugged = [address for address, time in log.unplugged if not settling(log.began, time, settings.link_settle_s)]
    for address, times in Counter(unplugged).items():
        if times > limit and not findings and _is_compute(host, found, address):
            text = f"{address}: its cable was unplugged {times} times since boot, usual are {limit} or fewer"
            findings.append(Finding(cause="link-flapping", text=text, hint=_CABLE, marginal=True))
    for limited in log.pcie_limits:
        if limited.driver == "mlx5_core" and _is_compute(host, found, limited.address):
            text = f"{limited.address}: {limited.available_gbps} of {limited.capable_gbps} Gb/s PCIe ({limited.at})"
            hint = "compare the slot with the SKU's wiring; reseat the adapter"
            findings.append(Finding(cause="hca-pcie-limited", text=text, hint=hint, marginal=True))
    return findings


def _is_compute(host: NodeContext, found: ComputeAdapters, address: str) -> bool:
    """Whether the adapter at that address is of the model for GPU traffic: the SKU's, else that of the host's named
    adapters."""
    hcas, pci = host.facts.hcas, host.facts.pci
    if isinstance(pci, ProbeFailure):
        return False
    kinds = {hca.kind for hca in hcas if hca.name in found.names} if not isinstance(hcas, ProbeFailure) else set()
    models = [host.sku.hca_model] if host.sku.hca_model else [_MODELS[kind] for kind in kinds if kind in _MODELS]
    return any(device.address == address and f"[{model}]" in device.name for device in pci for model in models)


CHECK = Check(SPEC, OBSERVER, judge)
