# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Check bmc-fans: every fan of a host turns and is healthy, as its BMC reports."""

from __future__ import annotations

from ...collect.redfish import THERMAL
from ...outcome.model import Basis, Expectation, Measure, Outcome, SubjectKind
from ...outcome.wording import count
from ...probe.redfish_thermal import Fan
from ..kit.finding import Finding, Report
from ..spec import Bmc, Check, CheckSpec, JudgeContext, needs
from .observe_bmcs import OBSERVER, BmcContext, SeenBmcs, per_bmc

SPEC = CheckSpec(
    id="bmc-fans",
    gate="facility",
    title="Fans turn",
    per=SubjectKind.NODE,
    applies=(needs("bmc", "bmc_address"), Bmc()),
    causes=("fan-failed", "fan-stopped"),
)
_HINT = "replace the fan; the event log of the BMC says when it failed"


def judge(observed: SeenBmcs, context: JudgeContext) -> tuple[Outcome, ...]:
    return per_bmc(SPEC, observed, context, _judge, part=THERMAL)


def _judge(host: BmcContext) -> Report | Outcome:
    fans = [fan for fan in host.facts.fans if not fan.condition.absent]
    evidence = host.evidence("; ".join(f"{fan.name} {_speed(fan)}, {fan.condition}" for fan in fans) or "no fan")
    if not fans:
        if host.sku.cooling == "liquid":
            return Report(summary=f"liquid cooled: the BMC of a {host.sku.name} shows no fan", evidence=evidence)
        hint = "see whether the account may read them, and what the BMC's own page shows"
        return host.answer.unknown("no-fans", "the BMC shows no fan", hint, evidence=evidence)
    unclear = [fan for fan in fans if not fan.condition.state or (not fan.condition.health and fan.speed is None)]
    if unclear:
        text = f"the BMC does not say whether these turn: {', '.join(fan.name for fan in unclear)}"
        return host.answer.unknown("fan-health-unknown", text, "look at the BMC's own page", evidence=evidence)
    findings = [finding for fan in fans if (finding := _finding(fan)) is not None]
    return Report(
        summary=f"{count(len(fans), 'fan')} turn",
        findings=tuple(findings),
        measured=(Measure("fans that turn", len(fans) - len(findings), "count"),),
        expected=(Expectation("fans that turn", "==", len(fans), Basis.RULE, "count"),),
        evidence=evidence,
    )


def _finding(fan: Fan) -> Finding | None:
    state, health = fan.condition.state, fan.condition.health
    if state not in ("Enabled", "StandbySpare") or health == "Critical":
        return Finding(cause="fan-failed", text=f"{fan.name}: {fan.condition}, {_speed(fan)}", hint=_HINT)
    if fan.speed is not None and fan.speed <= 0 and state == "Enabled":
        return Finding(cause="fan-stopped", text=f"{fan.name}: {_speed(fan)}", hint=_HINT)
    if health == "Warning":
        return Finding(cause="fan-warning", text=f"{fan.name}: {fan.condition}", hint=_HINT, marginal=True)
    return None


def _speed(fan: Fan) -> str:
    if fan.rpm is not None:
        return f"{fan.rpm:g} turns a minute"
    return f"{fan.percent:g} %" if fan.percent is not None else "no speed stated"


CHECK = Check(SPEC, OBSERVER, judge)
