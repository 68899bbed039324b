# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Check switch-health: fans turn, supplies work and no switch is too hot. Declared where the site configures it.

Unmanaged switches have no management network; ibswinfo reads them over the fabric (stanford-rc/ibswinfo).
"""

from __future__ import annotations

from dataclasses import dataclass

from ...collect.tool_reading import ProbeFailure
from ...outcome.model import Measure, Outcome, Subject, SubjectKind
from ...probe.ibswinfo import SwitchHealth
from ...runtime.host_tools import load_host_tools
from ..kit.answer import Answer
from ..kit.finding import Finding, Report
from ..kit.settings import setting
from ..spec import Check, CheckSpec, Disturbance, JudgeContext, needs
from .fabric_facts import FabricFacts
from .links import REQUIRES, evidence_of, judge_links, unusable
from .observe_fabric import OBSERVER
from .view import fabric_view


@dataclass(frozen=True, slots=True, kw_only=True)
class SwitchHealthSettings:
    """Settings of check switch-health, which is declared where they are configured, also as {}."""

    temperature_c: float | None = setting(
        "Temperature that no switch may exceed; null: not judged.", default=None, unit="°C", above=0
    )


SPEC = CheckSpec(
    id="switch-health",
    gate="fabric",
    title="Fans and supplies of switches work",
    per=SubjectKind.SITE,
    disturbs=Disturbance.HOST_COMMAND,
    duration_s=60.0,
    applies=(needs(*REQUIRES, "switch_health"),),
    causes=("switch-fan-failed", "switch-supply-failed", "switch-hot"),
    settings=SwitchHealthSettings,
)
_TOOL, _OK = "ibswinfo", "OK"


def judge(observed: FabricFacts, context: JudgeContext) -> tuple[Outcome, ...]:
    """Judge every switch of the fabric; each must respond."""
    settings = context.settings_of(SPEC.id, SwitchHealthSettings)
    return judge_links(SPEC, observed, context, lambda answer, facts: _judge(answer, facts, settings))


def _judge(answer: Answer, observed: FabricFacts, settings: SwitchHealthSettings) -> Report | Outcome:
    view, tool = fabric_view(observed), load_host_tools().named(_TOOL)
    names = {end.lid: view.end(end).node for end in view.ends.values() if view.is_switch(end)}
    answers = {lid: reported for subnet in observed.subnets for lid, reported in subnet.switches.items()}
    findings: list[Finding] = []
    for lid, name in sorted(names.items(), key=lambda item: item[1]):
        reported = answers.get(lid)
        if isinstance(reported, SwitchHealth):
            findings += _findings(name, reported, settings)
    not_reporting = [lid for lid in names if not isinstance(answers.get(lid), SwitchHealth)]
    if not_reporting and not findings:
        failure = answers.get(not_reporting[0])
        if not isinstance(failure, ProbeFailure):
            failure = ProbeFailure(tool, "not-collected", f"ibswinfo was not asked about {names[not_reporting[0]]}")
        return unusable(answer, observed, failure)
    warmest = max(
        (reported.temperature_c for reported in answers.values() if isinstance(reported, SwitchHealth)), default=0
    )
    return Report(
        summary=f"fans and supplies of all switches ({len(names)}) work, {warmest} °C at most",
        findings=tuple(findings),
        measured=(Measure("switch_temperature_max", warmest, "°C"),),
        evidence=evidence_of(observed, tool.shown),
    )


def _findings(name: str, health: SwitchHealth, settings: SwitchHealthSettings) -> list[Finding]:
    about = (Subject(SubjectKind.SWITCH, name),)
    found: list[Finding] = []
    if health.fan_status != _OK:
        still = [str(number) for number, rpm in health.fans_rpm.items() if rpm == 0]
        which = f", still: {', '.join(still)}" if still else ""
        text = f"{name}: fans {health.fan_status}{which}"
        hint = f"replace the fan unit of {name}"
        found.append(Finding(cause="switch-fan-failed", text=text, hint=hint, subjects=about))
    for supply in health.supplies:
        words = {"supply": supply.status, "DC power": supply.dc_power, "fan": supply.fan_status}
        bad = [f"{what} {word}" for what, word in words.items() if word not in (_OK, "")]
        if bad:
            text = f"{name}: PSU{supply.number}: {', '.join(bad)}"
            hint = f"look at the cord and the feed of PSU{supply.number} of {name}, then replace it"
            found.append(Finding(cause="switch-supply-failed", text=text, hint=hint, subjects=about))
    if settings.temperature_c is not None and health.temperature_c > settings.temperature_c:
        text = f"{name}: {health.temperature_c} °C, expected {settings.temperature_c:g} °C or less"
        hint = f"look at the air through {name}: fans, blanks, direction of the flow"
        found.append(Finding(cause="switch-hot", text=text, hint=hint, subjects=about))
    return found


CHECK = Check(SPEC, OBSERVER, judge)
