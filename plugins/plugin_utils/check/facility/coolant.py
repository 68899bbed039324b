# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Check coolant: the host's coolant does not leak and is within its limits, as far as its BMC has such sensors."""

from __future__ import annotations

from collections.abc import Iterator

from ...collect.redfish import COOLANT
from ...outcome.model import Outcome, SubjectKind
from ...outcome.wording import count
from ...probe.redfish_coolant import CoolantSensor, LeakDetector
from ..kit.finding import Finding, Report
from ..spec import Bmc, Check, CheckSpec, JudgeContext, needs
from .observe_bmcs import OBSERVER, BmcContext, SeenBmcs, per_bmc

SPEC = CheckSpec(
    id="coolant",
    gate="facility",
    title="No leak, coolant within its limits",
    per=SubjectKind.NODE,
    applies=(needs("bmc", "bmc_address"), Bmc()),
    causes=("coolant-leak", "coolant-out-of-limits"),
)
_LEAK = "shut the host down, close its valves, and look for the leak; the BMC's event log says since when"
_LOOP = "see the cooling unit of the rack: supply temperature, flow and pressure, filters, air in the loop"
_OFF = "see the BMC's own page: a detector that is off or broken finds no leak"


def judge(observed: SeenBmcs, context: JudgeContext) -> tuple[Outcome, ...]:
    return per_bmc(SPEC, observed, context, _judge, part=COOLANT)


def _judge(host: BmcContext) -> Report | Outcome:
    detectors = [entry for entry in host.facts.leak_detectors if not entry.condition.absent]
    sensors = [entry for entry in host.facts.coolant if not entry.condition.absent]
    shown = [f"{entry.name} {entry.state or 'says nothing'}" for entry in detectors]
    shown += [f"{entry.name} {_value(entry)}" for entry in sensors]
    if not shown:
        liquid = host.sku.cooling == "liquid"
        text = "liquid cooled, and its BMC has no sensor of coolant or leaks" if liquid else "no coolant in this host"
        return Report(summary=text, evidence=host.evidence(text))
    found = (*_of_detectors(detectors), *_of_sensors(sensors))
    summary = (
        f"{count(len(detectors), 'leak detector')} dry, {count(len(sensors), 'sensor')} of coolant in their limits"
    )
    return Report(summary=summary, findings=found, evidence=host.evidence("; ".join(shown)))


def _of_detectors(detectors: list[LeakDetector]) -> Iterator[Finding]:
    for entry in detectors:
        works = entry.enabled and entry.condition.state in ("Enabled", "")
        text = f"{entry.name}: {entry.state or 'no state'}, {entry.condition}"
        # A reported leak counts whatever else the detector reports.
        if entry.state == "Critical":
            yield Finding(cause="coolant-leak", text=text, hint=_LEAK, marginal=not works)
        elif entry.state == "Warning":
            yield Finding(cause="coolant-leak-warning", text=text, hint=_LEAK, marginal=True)
        elif entry.state != "OK" or not works:
            yield Finding(cause="leak-detector-silent", text=text, hint=_OFF, marginal=True)


def _of_sensors(sensors: list[CoolantSensor]) -> Iterator[Finding]:
    for entry in sensors:
        low, high, value = entry.critical_low, entry.critical_high, entry.value
        text = f"{entry.name}: {_value(entry)}"
        if value is not None and ((low is not None and value <= low) or (high is not None and value >= high)):
            limits = " and ".join(f"{limit:g}" for limit in (low, high) if limit is not None)
            more = f"{text}, the BMC's own critical limits are {limits} {entry.units}"
            yield Finding(cause="coolant-out-of-limits", text=more, hint=_LOOP)
        elif entry.condition.health == "Critical":
            yield Finding(cause="coolant-out-of-limits", text=f"{text}, {entry.condition}", hint=_LOOP)
        elif entry.condition.health == "Warning":
            yield Finding(cause="coolant-warning", text=f"{text}, {entry.condition}", hint=_LOOP, marginal=True)


def _value(entry: CoolantSensor) -> str:
    return f"{entry.value:g} {entry.units}" if entry.value is not None else "no reading"


CHECK = Check(SPEC, OBSERVER, judge)
