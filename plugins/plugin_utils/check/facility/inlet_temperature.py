# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Check inlet-temperature: the air at a host's inlet is within the host's limit, as its BMC reports."""

from __future__ import annotations

from dataclasses import dataclass
from fnmatch import fnmatchcase

from ...collect.redfish import THERMAL
from ...outcome.model import Basis, Expectation, Measure, Outcome, SubjectKind
from ...probe.redfish_thermal import Temperature
from ..kit.finding import Finding, Report
from ..kit.settings import setting
from ..spec import Bmc, Check, CheckSpec, JudgeContext, needs
from .observe_bmcs import OBSERVER, BmcContext, SeenBmcs, per_bmc


@dataclass(frozen=True, slots=True, kw_only=True)
class InletSettings:
    """Settings of check inlet-temperature."""

    # ASHRAE TC 9.9, Thermal Guidelines for Data Processing Environments: classes A1 (to 32 C) and A2 (to 35 C).
    max_c: float = setting(
        "The warmest air that a host may take in; state the figure of the server's data sheet where it has one. May be "
        "stated by SKU.",
        default=35,
        unit="C",
        above=0,
        maximum=80,
    )
    warning_c: float = setting("Above this a person has to accept it.", default=32, unit="C", above=0, maximum=80)
    min_c: float = setting(
        "Below this the sensor is not believed, or the host is too cold.", default=5, unit="C", minimum=-20
    )
    sensors: tuple[str, ...] = setting(
        "Patterns of the names of the sensors at the air inlet, where the BMC does not say which they are.", default=[]
    )


SPEC = CheckSpec(
    id="inlet-temperature",
    gate="facility",
    title="Air at the inlet within the host's limit",
    per=SubjectKind.NODE,
    applies=(needs("bmc", "bmc_address"), Bmc()),
    causes=("inlet-too-hot", "sensor-above-its-limit"),
    settings=InletSettings,
)


def judge(observed: SeenBmcs, context: JudgeContext) -> tuple[Outcome, ...]:
    return per_bmc(SPEC, observed, context, _judge, part=THERMAL)


def _judge(host: BmcContext) -> Report | Outcome:
    settings = host.settings(InletSettings)
    readings = [entry for entry in host.facts.temperatures if entry.reading_c is not None]
    inlets = [entry for entry in readings if _is_inlet(entry, settings)]
    shown = "; ".join(f"{entry.name} {entry.reading_c:g} C" for entry in inlets or readings[:40])
    evidence = host.evidence(shown or "no temperature")
    hot = _above_their_own(readings)
    if not inlets:
        if host.sku.cooling == "liquid" and readings:
            # Trays of rack systems have no sensor for the room's air: GB300 in spyroot/redfish_ctl.
            text = f"liquid cooled, no sensor at an air inlet; {len(readings)} temperatures below their own limits"
            return Report(summary=text, findings=tuple(hot), evidence=evidence)
        names = ", ".join(entry.name for entry in readings[:20]) or "none at all"
        text = f"no sensor of the BMC says that it is at the air inlet; temperatures: {names}"
        hint = "name it in gpufleet_settings inlet-temperature.sensors"
        return host.answer.unknown("no-inlet-sensor", text, hint, evidence=evidence)
    warmest = max(inlets, key=lambda entry: entry.reading_c or 0.0)
    value = warmest.reading_c or 0.0
    if min(entry.reading_c or 0.0 for entry in inlets) < settings.min_c:
        text = f"{shown}: below {settings.min_c:g} C, so either the sensor is wrong or the room is"
        return host.answer.unknown("inlet-not-believed", text, "look at the sensor and the room", evidence=evidence)
    return Report(
        summary=f"{warmest.name}: {value:g} C, at most {settings.max_c:g} C",
        findings=(*_warm(warmest.name, value, settings), *hot),
        measured=(Measure("inlet temperature", value, "C"),),
        expected=(Expectation("inlet temperature", "<=", settings.max_c, Basis.RULE, "C"),),
        evidence=evidence,
    )


def _is_inlet(entry: Temperature, settings: InletSettings) -> bool:
    if settings.sensors:
        return any(fnmatchcase(entry.name, pattern) for pattern in settings.sensors)
    return entry.intake


def _warm(name: str, value: float, settings: InletSettings) -> list[Finding]:
    hint = "see cold aisle, blanking panels, the units of the room, and hosts that blow at the front of this one"
    if value > settings.max_c:
        text = f"{name}: {value:g} C, {value - settings.max_c:.1f} C above the {settings.max_c:g} C that it may take in"
        return [Finding(cause="inlet-too-hot", text=text, hint=hint)]
    if value > settings.warning_c:
        text = f"{name}: {value:g} C, above {settings.warning_c:g} C and at most {settings.max_c:g} C"
        return [Finding(cause="inlet-warm", text=text, hint=hint, marginal=True)]
    return []


def _above_their_own(readings: list[Temperature]) -> list[Finding]:
    """Return the findings of sensors above the limit that the BMC itself has for them."""
    found = []
    for entry in readings:
        limit = entry.upper_critical_c
        if limit is not None and entry.reading_c is not None and entry.reading_c >= limit:
            text = f"{entry.name}: {entry.reading_c:g} C, the BMC's own critical limit is {limit:g} C"
            hint = "see fans and coolant of the host, then the event log of the BMC"
            found.append(Finding(cause="sensor-above-its-limit", text=text, hint=hint))
    return found


CHECK = Check(SPEC, OBSERVER, judge)
