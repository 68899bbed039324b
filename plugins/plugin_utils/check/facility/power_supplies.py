# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Check power-supplies: every power supply of a host is present, works and has its input, as its BMC reports."""

from __future__ import annotations

from dataclasses import dataclass

from ...collect.redfish import POWER
from ...outcome.model import Basis, Expectation, Measure, Outcome, SubjectKind
from ...probe.redfish_power import PowerSupply
from ..kit.finding import Finding, Report
from ..kit.settings import setting
from ..spec import Bmc, Check, CheckSpec, JudgeContext, needs
from .observe_bmcs import OBSERVER, BmcContext, SeenBmcs, per_bmc

# A standby supply, which waits for another one to fail, works.
WORKING = frozenset({"Enabled", "StandbySpare"})
_GOOD_INPUT = frozenset({"", "Normal"})


@dataclass(frozen=True, slots=True, kw_only=True)
class PowerSupplySettings:
    """Settings of check power-supplies."""

    supplies: int = setting(
        "How many supplies a host has; 0: one in every bay that the BMC shows. May be stated by SKU.",
        default=0,
        minimum=0,
    )


SPEC = CheckSpec(
    id="power-supplies",
    gate="facility",
    title="Power supplies present, healthy and fed",
    per=SubjectKind.NODE,
    applies=(needs("bmc", "bmc_address"), Bmc()),
    causes=("supply-missing", "supply-not-working", "supply-without-input"),
    settings=PowerSupplySettings,
)


def judge(observed: SeenBmcs, context: JudgeContext) -> tuple[Outcome, ...]:
    return per_bmc(SPEC, observed, context, _judge, part=POWER)


def lacks_input(supply: PowerSupply) -> bool:
    """Whether a supply has no input power."""
    return supply.line_input not in _GOOD_INPUT or (supply.input_v == 0 and supply.condition.health not in ("", "OK"))


def _judge(host: BmcContext) -> Report | Outcome:
    supplies = host.facts.supplies
    wanted = host.settings(PowerSupplySettings).supplies
    present = [supply for supply in supplies if not supply.condition.absent]
    shown = "; ".join(f"{supply.name}: {supply.condition}" for supply in supplies)
    evidence = host.evidence(shown or "no power supply")
    if not supplies and not wanted:
        if host.sku.rack_hosts:
            text = f"the BMC shows no supply of its own, as a {host.sku.name} has none: its rack's shelves feed it"
            return Report(summary=text, evidence=evidence)
        hint = "see whether the account may read them, and what the BMC's own page shows"
        return host.answer.unknown("no-supplies", "the BMC shows no power supply and no bay", hint, evidence=evidence)
    unclear = [supply for supply in present if _unclear(supply)]
    if unclear:
        names = "; ".join(f"{supply.name}: {supply.condition}" for supply in unclear)
        text = f"the BMC does not say whether these work and are fed: {names}"
        return host.answer.unknown("supply-health-unknown", text, "look at the BMC's own page", evidence=evidence)
    expected = wanted or len(supplies)
    return Report(
        summary=f"{len(present)} of {expected} power supplies work and are fed",
        findings=tuple(_missing(host, supplies, present, wanted)) + tuple(_bad(present)),
        measured=(Measure("power supplies", len(present), "count"),),
        expected=(Expectation("power supplies", ">=", expected, Basis.INVENTORY if wanted else Basis.RULE, "count"),),
        evidence=evidence,
    )


def _unclear(supply: PowerSupply) -> bool:
    """Whether state or health is not reported, or a supply with health OK reports 0 V."""
    reported = supply.condition.state and supply.condition.health
    return not reported or (
        supply.input_v == 0 and supply.condition.health == "OK" and supply.line_input in _GOOD_INPUT
    )


def _missing(
    host: BmcContext, supplies: tuple[PowerSupply, ...], present: list[PowerSupply], wanted: int
) -> list[Finding]:
    if len(present) >= (wanted or len(supplies)):
        return []
    empty = ", ".join(supply.name for supply in supplies if supply.condition.absent) or "no bay says so"
    text = f"{len(present)} power supplies of {wanted or len(supplies)}; empty: {empty}"
    # Bays may be empty by design, which only the site knows. A number that it configures must be met.
    hint = (
        f"put the supply in, or state how many there are in gpufleet_settings power-supplies.supplies (or in the "
        f"settings of SKU {host.sku.name})"
    )
    return [Finding(cause="supply-missing", text=text, hint=hint, marginal=not wanted)]


def _bad(present: list[PowerSupply]) -> list[Finding]:
    found = []
    for supply in present:
        if lacks_input(supply):
            volts = f", {supply.input_v:g} V" if supply.input_v is not None else ""
            text = f"{supply.name}: input {supply.line_input or 'lost'}{volts}"
            hint = "see its cord, the outlet of the PDU and the breaker of that feed"
            found.append(Finding(cause="supply-without-input", text=text, hint=hint))
        elif supply.condition.state not in WORKING or supply.condition.health == "Critical":
            text = f"{supply.name}: {supply.condition}"
            hint = "reseat or replace it; the event log of the BMC says when it failed"
            found.append(Finding(cause="supply-not-working", text=text, hint=hint))
        elif supply.condition.health != "OK":
            text, hint = f"{supply.name}: {supply.condition}", "see the event log of the BMC, and accept or replace it"
            found.append(Finding(cause="supply-warning", text=text, hint=hint, marginal=True))
    return found


CHECK = Check(SPEC, OBSERVER, judge)
