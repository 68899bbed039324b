# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Check link-quality: ports for GPU traffic have no bit errors after error correction, and no cable module is too hot.

Forward error correction hides a bad cable until it can no longer; the errors that it leaves are effective errors
(NVIDIA's ibdiagnet manual, Bit Error Rate). How often a port lost its link is judged by hca-state and
host-state-after-diag.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ...collect.host_facts import FleetFacts
from ...collect.tool_reading import ProbeFailure
from ...outcome.model import Basis, Expectation, Measure, Outcome, SubjectKind
from ...outcome.wording import count
from ...probe.mlxlink import PortLink
from ...site.adapters import carries_gpu_traffic
from ..kit.finding import Finding, Report
from ..kit.settings import setting
from ..spec import Check, CheckSpec, Disturbance, JudgeContext, needs
from .hca_state import SPEC as HCA_STATE
from .node_context import NodeContext, per_host
from .observe_hosts import OBSERVER
from .roce_ports import adapter_names


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkQualitySettings:
    """Settings of check link-quality."""

    # As an operator of RoCE clusters judges its own shapes (ai2-compute-gpu/oci-dr-hpc-v2, link check).
    effective_ber: float = setting("Largest bit error rate that error correction may leave.", default=1e-12, above=0)
    # Published healthy links print 15E-255; three decades before the limit are no good link any more.
    effective_ber_marginal: float = setting(
        "Bit error rate behind the correction from which a person decides: a good link leaves none at all.",
        default=1e-15,
        above=0,
    )
    raw_ber: float = setting(
        "Largest bit error rate before error correction; above it a person decides.", default=1e-05, above=0
    )
    module_temperature_c: float | None = setting(
        "Temperature that no cable module may exceed; null: the limit that the module itself states.",
        default=None,
        unit="°C",
        above=0,
    )
    # At the rate above a port of 100 Gb/s has six errors behind the correction in a minute.
    counted_min: float = setting(
        "Time that error rates must cover to prove anything; a port whose counters were cleared later is unknown.",
        default=1.0,
        unit="min",
        minimum=0,
    )
    required: bool = setting(
        "Whether a host without mlxlink is held; false: it passes with the note that error rates were not read.",
        default=True,
    )


SPEC = CheckSpec(
    id="link-quality",
    gate="nodes",
    title="Links without bit errors, cable modules cool",
    per=SubjectKind.NODE,
    disturbs=Disturbance.HOST_COMMAND,
    applies=(needs("host_access", "infiniband|roce"),),
    causes=("link-ber-high", "cable-module-hot"),
    settings=LinkQualitySettings,
)
_FACT = "port_links"
# Virtual functions have no physical port (device ids of the Linux kernel's mlx5 driver).
_VIRTUAL = ("MT4114", "MT4116", "MT4118", "MT4120", "MT4122", "MT4124", "MT4126")
_BARE_METAL = "none"
_ACTIVE, _NO_ISSUE = "Active", "0"
_HINT = "clean or replace cable and module, on both ends; then `mlxlink -d {} -m -c` again"


def judge(observed: FleetFacts, context: JudgeContext) -> tuple[Outcome, ...]:
    """Judge every port: errors after the correction and hot modules fail; many errors before it are for a person to
    decide."""
    return per_host(SPEC, observed, context, _judge)


def _judge(host: NodeContext) -> Report | Outcome:
    if not carries_gpu_traffic(host.sku):
        return Report(summary=f"{host.sku.name} has no InfiniBand or RoCE adapter for GPU traffic")
    virtual, hcas = host.facts.read("virtual", str), host.facts.hcas
    if isinstance(virtual, str) and virtual != _BARE_METAL:
        text = f"a virtual machine ({virtual}): its ports are virtual functions, and the provider's to judge"
        return Report(summary=text, evidence=host.evidence("virtual"))
    if isinstance(hcas, ProbeFailure):
        return host.tool_failure("hcas", hcas)
    names = adapter_names(host)
    physical = [hca.name for hca in hcas if hca.name in names and hca.kind not in _VIRTUAL]
    if not names or (not physical and not any(hca.name in names for hca in hcas)):
        return host.answer.blocked(by=HCA_STATE.id, because="the adapters for GPU traffic are not known, or not there")
    if not physical:
        return Report(summary="all adapters for GPU traffic are virtual functions", evidence=host.evidence("hcas"))
    return _links(host, physical)


def _links(host: NodeContext, physical: Sequence[str]) -> Report | Outcome:
    links, settings = host.facts.read(_FACT, tuple), host.settings(LinkQualitySettings)
    if isinstance(links, ProbeFailure):
        if links.kind == "missing" and not settings.required:
            return Report(summary="mlxlink is not installed, so that error rates of links were not read")
        return host.tool_failure(_FACT, links)
    reported: dict[str, PortLink] = {link.device: link for link in links}
    mine = {name: reported[name] for name in physical if name in reported}
    up = {name: link for name, link in mine.items() if link.state == _ACTIVE}
    findings = [finding for name, link in up.items() for finding in _findings(host, name, link, settings)]
    if not findings and (unknown := _unknown(host, physical, mine, up)) is not None:
        return unknown
    worst_raw = max((link.worst_raw_ber for link in up.values() if link.worst_raw_ber is not None), default=0.0)
    worst = max((link.effective_ber for link in up.values() if link.effective_ber is not None), default=0.0)
    warmest = max((link.temperature_c for link in up.values() if link.temperature_c is not None), default=None)
    warm = "" if warmest is None else f", modules at most {warmest:g} °C"
    return Report(
        summary=f"{count(len(up), 'port')} with a bit error rate of at most {worst:.0e}, {worst_raw:.0e} raw{warm}",
        findings=tuple(findings),
        measured=(
            Measure("effective_ber_max", worst),
            Measure("raw_ber_max", worst_raw),
            *(() if warmest is None else (Measure("module_temperature_max", warmest, "°C"),)),
        ),
        expected=(
            Expectation("effective_ber_max", "<=", settings.effective_ber, Basis.RULE),
            Expectation("raw_ber_max", "<=", settings.raw_ber, Basis.RULE),
        ),
        evidence=host.evidence(_FACT),
    )


def _unknown(
    host: NodeContext, physical: Sequence[str], mine: dict[str, PortLink], up: dict[str, PortLink]
) -> Outcome | None:
    """Return why the links cannot be judged: no report, a port that is down, or one without error rates."""
    proof = host.evidence(_FACT)
    gone = [name for name in physical if name not in mine or (mine[name].state is None and mine[name].complaint)]
    if gone:
        reported = next((mine[name].complaint for name in gone if name in mine), "nothing is printed of it")
        text = f"mlxlink does not report {', '.join(gone)}: {reported}"
        return host.answer.unknown("link-quality-not-reported", text, f"`mlxlink -d {gone[0]} -m -c`", evidence=proof)
    down = [name for name in physical if name not in up]
    if down:
        because = f"{', '.join(down)} is {mine[down[0]].state}"
        return host.answer.blocked(by=HCA_STATE.id, because=because)
    blind = [name for name, link in up.items() if link.raw_ber is None or link.effective_ber is None]
    if blind:
        text = f"mlxlink prints no bit error rate of {', '.join(blind)}"
        hint = f"`mlxlink -d {blind[0]} -c`; update firmware and MFT"
        return host.answer.unknown("link-quality-not-reported", text, hint, evidence=proof)
    least = host.settings(LinkQualitySettings).counted_min
    young = {name: time for name, link in up.items() if (time := link.since_clear_min) is not None and time < least}
    if young:
        first = next(iter(young))
        text = f"counters of {', '.join(young)} were cleared {young[first]:g} min ago, rates need {least:g} min"
        return host.answer.unknown("link-counters-young", text, "run the gate again later", evidence=proof)
    return None


def _findings(host: NodeContext, name: str, link: PortLink, settings: LinkQualitySettings) -> list[Finding]:
    found: list[Finding] = []
    subjects, hint = (host.part(SubjectKind.HCA, name),), _HINT.format(name)
    where = f" ({link.module_vendor or 'cable'} {link.module_part}, {link.module_serial})" if link.module_part else ""
    bad = link.effective_ber is not None and link.effective_ber > settings.effective_ber
    if bad:
        errors = "" if link.effective_errors is None else f", {count(link.effective_errors, 'error')}"
        text = f"{name}: bit error rate {link.effective_ber:.0e} behind the correction{errors}{where}"
        measured = (Measure("effective_ber", link.effective_ber or 0.0),)
        found.append(Finding(cause="link-ber-high", text=text, hint=hint, subjects=subjects, measured=measured))
    elif link.effective_ber is not None and link.effective_ber > settings.effective_ber_marginal:
        decides = f"from {settings.effective_ber_marginal:.0e} on a person decides"
        text = f"{name}: bit error rate {link.effective_ber:.0e} behind the correction, {decides}{where}"
        measured = (Measure("effective_ber", link.effective_ber),)
        finding = Finding(
            cause="link-ber-marginal", text=text, hint=hint, subjects=subjects, measured=measured, marginal=True
        )
        found.append(finding)
    elif link.worst_raw_ber is not None and link.worst_raw_ber > settings.raw_ber:
        lane = " of the worst lane" if link.worst_raw_ber in link.raw_ber_per_lane else ""
        rate = f"{link.worst_raw_ber:.0e}{lane}"
        text = f"{name}: bit error rate {rate} before the correction, which still corrects it{where}"
        finding = Finding(cause="link-raw-ber-high", text=text, hint=hint, subjects=subjects, marginal=True)
        found.append(finding)
    reported = [*link.faults, *_recommended(link)]
    if reported and not found:
        text = f"{name}: mlxlink reports {'; '.join(reported)}{where}"
        found.append(Finding(cause="link-reported-bad", text=text, hint=hint, subjects=subjects, marginal=True))
    limit = link.temperature_limit_c if settings.module_temperature_c is None else settings.module_temperature_c
    if link.temperature_c is not None and limit is not None and link.temperature_c > limit:
        text = f"{name}: cable module at {link.temperature_c:g} °C, limit {limit:g} °C{where}"
        cool = "look at the airflow at the port; swap the module with a cool one, and see which of both it follows"
        found.append(Finding(cause="cable-module-hot", text=text, hint=cool, subjects=subjects))
    return found


def _recommended(link: PortLink) -> list[str]:
    """Return what the tool reports about a port that is up: opcode 0 is "no issue" (NVIDIA, Link Diagnostic Per
    Port)."""
    if link.status_opcode in (None, _NO_ISSUE):
        return []
    return [f"status {link.status_opcode}, {link.recommendation or 'no recommendation'}"]


CHECK = Check(SPEC, OBSERVER, judge)
