# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Check hca-state: every compute adapter is there, active and at its rated speed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from ...collect.host_facts import FleetFacts
from ...collect.tool_reading import ProbeFailure
from ...outcome.model import Basis, Expectation, Measure, Outcome, Subject, SubjectKind, node_subject
from ...probe.ibstat import Hca, IbPort
from ...site.adapters import stated_by, stated_hcas
from ..kit.finding import Finding, Report
from ..kit.settings import setting
from ..spec import Check, CheckSpec, Disturbance, JudgeContext
from .node_context import NodeContext, per_host
from .observe_hosts import OBSERVER


@dataclass(frozen=True, slots=True, kw_only=True)
class HcaStateSettings:
    """Settings of check hca-state."""

    hcas: tuple[str, ...] = setting(
        "Names of the adapters for GPU traffic, such as [mlx5_0, mlx5_3]; each must be good. Empty: those that "
        "gpufleet_hcas or the SKU state; where nobody does, as many good ones as the SKU has, whatever they are called."
    )
    rate_gbps: int | None = setting(
        "Rate that every port must have; null: that of the cabling plan, else of the SKU; 0: not judged here.",
        unit="Gb/s",
        minimum=0,
    )
    link_flaps: int = setting("How often one interface may lose its carrier since boot.", unit="times", minimum=0)


SPEC = CheckSpec(
    id="hca-state",
    gate="nodes",
    title="All HCAs present, active, at rated speed",
    per=SubjectKind.NODE,
    disturbs=Disturbance.HOST_COMMAND,
    requires=("host_access",),
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
_LAYERS = {"infiniband": "InfiniBand", "roce": "Ethernet"}
_CABLE = "look at the port's LEDs and cable on both ends, then `ibstat`, `mlxlink -d <hca> -m -c`"


@dataclass(frozen=True, slots=True)
class _Port:
    name: str
    port: IbPort


def judge(seen: FleetFacts, context: JudgeContext) -> tuple[Outcome, ...]:
    """The stated adapters, else as many good ones as the SKU has compute adapters.

    Names that no host of a SKU has are a statement to be corrected: one outcome for all of those hosts.
    """
    hosts = [NodeContext(SPEC, context, seen, entry) for entry in context.site.in_scope if entry.name in seen.hosts]
    wrong = wrong_names([host for host in hosts if _has_adapters(host)])
    outcomes = per_host(SPEC, seen, context, lambda host: wrong.get(host.name) or _judge(host))
    return tuple({id(outcome): outcome for outcome in outcomes}.values())


def _has_adapters(host: NodeContext) -> bool:
    sku = host.context.hardware.get(host.entry.sku)
    return sku is not None and sku.compute_hcas > 0 and sku.fabric in _LAYERS


def _judge(host: NodeContext) -> Report | Outcome:
    sku = host.sku
    if not _has_adapters(host):
        return Report(summary=f"{sku.name} has no InfiniBand or RoCE adapter for compute")
    hcas = host.facts.hcas
    if isinstance(hcas, ProbeFailure):
        return host.tool_failure("hcas", hcas)
    ports = _ports(host, hcas)
    problems = {entry.name: finding for entry in ports if (finding := _port_finding(host, entry)) is not None}
    findings = _missing(host, ports)
    # More ports than compute adapters: storage and management are among them, and only as many as needed must be good.
    if len(ports) - len(problems) < sku.compute_hcas or _named(host):
        findings += list(problems.values())
    findings += _from_kernel(host)
    rates = [entry.port.rate_gbps for entry in ports if entry.name not in problems]
    return Report(
        summary=f"{len(rates)} ports Active, LinkUp, {min(rates, default=0)} Gb/s or more",
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


def _named(host: NodeContext) -> tuple[str, ...]:
    return host.settings(HcaStateSettings).hcas or stated_hcas(host.entry, host.sku)


def wrong_names(hosts: Sequence[NodeContext]) -> dict[str, Outcome]:
    """Return by host the outcome about names of adapters that no host has for which they are stated.

    A name that some hosts of the SKU have is a good name, and a host without it lacks an adapter. So does a host
    without as many other adapters of that kind as there are such names. With one host nothing can be compared: then all
    names must be wrong.
    """
    alike: dict[tuple[str, tuple[str, ...]], list[tuple[NodeContext, tuple[Hca, ...]]]] = {}
    for host in hosts:
        hcas = host.facts.hcas
        if not isinstance(hcas, ProbeFailure) and _named(host):
            alike.setdefault((host.sku.name, _named(host)), []).append((host, hcas))
    found: dict[str, Outcome] = {}
    for (_sku, named), members in alike.items():
        gone = [name for name in named if not any(name == hca.name for _host, hcas in members for hca in hcas)]
        others = [(host, _others(host, hcas, named)) for host, hcas in members]
        renamed = [(host, names) for host, names in others if len(names) >= len(gone) > 0]
        if len(renamed) > 1 or (renamed and len(gone) == len(named)):
            outcome = _names_outcome(renamed, named, gone)
            found |= {host.name: outcome for host, _names in renamed}
    return found


def _others(host: NodeContext, hcas: tuple[Hca, ...], named: tuple[str, ...]) -> set[str]:
    """Return the adapters without a stated name that could carry GPU traffic: of the right link layer, and of the same
    type as those with a stated name."""
    types = {hca.kind for hca in hcas if hca.name in named}
    layer = _LAYERS[host.sku.fabric]
    return {
        hca.name
        for hca in hcas
        if hca.name not in named
        and (not types or hca.kind in types)
        and any(port.link_layer in ("", None, layer) for port in hca.ports)
    }


def _names_outcome(renamed: list[tuple[NodeContext, set[str]]], named: tuple[str, ...], gone: list[str]) -> Outcome:
    first = renamed[0][0]
    own = bool(first.settings(HcaStateSettings).hcas)
    field = f"setting hcas of {SPEC.id}" if own else stated_by(first.entry, first.sku)
    shared = set.intersection(*(names for _host, names in renamed)) or renamed[0][1]
    text = (
        f"{field} states {', '.join(named)}; no host of SKU {first.sku.name} has {', '.join(gone)}, "
        f"which are called {', '.join(sorted(shared, key=_number))} there"
    )
    hint = f"correct {field} (`ibstat -l` on a host lists the names); nothing has to be reseated"
    return first.answer.failed(
        "hca-names-wrong",
        text,
        hint,
        more_subjects=tuple(node_subject(host.name) for host, _names in renamed[1:]),
        evidence=first.evidence("hcas"),
    )


def _number(name: str) -> tuple[int, str]:
    digits = name.rpartition("_")[2]
    return (int(digits) if digits.isdigit() else 0, name)


def _rate(host: NodeContext) -> int:
    """Return the rated speed: stated by the site, else by its cabling plan, else by the SKU; 0: gate fabric judges."""
    stated = host.settings(HcaStateSettings).rate_gbps
    return host.seen.rated_gbps.get(host.name, host.sku.hca_rate_gbps) if stated is None else stated


def _ports(host: NodeContext, hcas: tuple[Hca, ...]) -> list[_Port]:
    named = _named(host)
    return [
        _Port(hca.name if len(hca.ports) == 1 else f"{hca.name}:{port.number}", port)
        for hca in hcas
        for port in hca.ports
        if not named or hca.name in named
    ]


def _subject(host: NodeContext, name: str) -> Subject:
    return host.part(SubjectKind.HCA, name)


def _missing(host: NodeContext, ports: list[_Port]) -> list[Finding]:
    named, present = _named(host), {entry.name.partition(":")[0] for entry in ports}
    gone = [name for name in named if name not in present]
    expected = host.sku.compute_hcas
    if not gone and len(ports) >= expected:
        return []
    if not named:
        # Adapters are numbered from 0 where they are not renamed: then the gap has a name.
        usual = [f"mlx5_{n}" for n in range(expected)]
        gone = [name for name in usual if name not in present] if present < set(usual) else []
    where = f": no {', '.join(gone)}" if gone else ""
    return [
        Finding(
            cause="hca-missing",
            text=f"{len(ports)} of {expected} adapter ports{where}",
            hint="`lspci -d 15b3:` and `dmesg | grep mlx5_core` on the node; reseat the adapter",
            subjects=tuple(_subject(host, name) for name in gone),
        )
    ]


def _port_finding(host: NodeContext, entry: _Port) -> Finding | None:
    port, rated, layer = entry.port, _rate(host), _LAYERS[host.sku.fabric]
    parts = (_subject(host, entry.name),)
    seen = f"{entry.name}: {port.state}, {port.physical_state}"
    if port.link_layer and port.link_layer != layer:
        text = f"{entry.name}: link layer {port.link_layer}, expected {layer}"
        hint = "`mlxconfig -d <hca> set LINK_TYPE_P1=...` and reboot"
        return Finding(cause="hca-wrong-link-layer", text=text, hint=hint, subjects=parts)
    if port.state == "Initializing" and port.physical_state == "LinkUp" and port.sm_lid == 0:
        hint = "start the subnet manager (`systemctl start opensm`, or on the switch); `sminfo` must name a master"
        return Finding(
            cause="no-subnet-manager", text=f"{seen}, no subnet manager (SM lid 0)", hint=hint, subjects=parts
        )
    if port.state != "Active" or port.physical_state != "LinkUp":
        return Finding(cause="hca-down", text=f"{seen}, expected Active, LinkUp", hint=_CABLE, subjects=parts)
    if port.rate_gbps < rated:
        text = f"{entry.name}: {port.rate_gbps} Gb/s, rated {rated} Gb/s"
        return Finding(cause="hca-rate-reduced", text=text, hint=_CABLE, subjects=parts)
    return None


def _from_kernel(host: NodeContext) -> list[Finding]:
    """Return what the kernel log says about the adapters; check kernel-xid reports a log that is missing."""
    log = host.facts.kernel
    if isinstance(log, ProbeFailure):
        return []
    findings: list[Finding] = []
    limit = host.settings(HcaStateSettings).link_flaps
    for device, times in Counter(device for device, _time in log.flaps).items():
        if times > limit:
            text = f"{device} lost its carrier {times} times since boot, usual are {limit} or fewer"
            findings.append(
                Finding(
                    cause="link-flapping", text=text, hint=_CABLE, subjects=(_subject(host, device),), marginal=True
                )
            )
    for limited in log.pcie_limits:
        if limited.driver == "mlx5_core" and _is_compute(host, limited.address):
            text = f"{limited.address}: {limited.available_gbps} of {limited.capable_gbps} Gb/s PCIe ({limited.at})"
            hint = "compare the slot with the SKU's wiring; reseat the adapter"
            findings.append(Finding(cause="hca-pcie-limited", text=text, hint=hint, marginal=True))
    return findings


def _is_compute(host: NodeContext, address: str) -> bool:
    """Tell whether the adapter at that address is of the model that carries compute traffic."""
    if isinstance(host.facts.pci, ProbeFailure) or not host.sku.hca_model:
        return False
    return any(device.address == address and host.sku.hca_model in device.name for device in host.facts.pci)


CHECK = Check(SPEC, OBSERVER, judge)
