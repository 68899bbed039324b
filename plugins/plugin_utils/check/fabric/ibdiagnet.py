# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Check ibdiagnet: the vendor's diagnosis finds no error. Declared where the site's inventory has it as installed."""

from __future__ import annotations

from ...collect.tool_reading import ProbeFailure
from ...outcome.model import Measure, Outcome, SubjectKind
from ...outcome.wording import count
from ...runtime.host_tools import load_host_tools
from ..kit.answer import Answer
from ..kit.finding import Finding, Report
from ..spec import Check, CheckSpec, Disturbance, JudgeContext, needs
from .fabric_facts import FabricFacts
from .links import REQUIRES, evidence_of, judge_links, unusable
from .observe_fabric import OBSERVER

SPEC = CheckSpec(
    id="ibdiagnet",
    gate="fabric",
    title="ibdiagnet finds no error",
    per=SubjectKind.SITE,
    disturbs=Disturbance.HOST_COMMAND,
    duration_s=120.0,
    applies=(needs(*REQUIRES, "ibdiagnet"),),
    causes=("ibdiagnet-errors",),
)


def judge(observed: FabricFacts, context: JudgeContext) -> tuple[Outcome, ...]:
    """Judge that every stage has no error and no line reports one; warnings do not count."""
    return judge_links(SPEC, observed, context, _judge)


def _judge(answer: Answer, observed: FabricFacts) -> Report | Outcome:
    tool = load_host_tools().named("ibdiagnet")
    findings: list[Finding] = []
    stages = 0
    for subnet in observed.subnets:
        diagnosis = subnet.diagnosis or ProbeFailure(tool, "not-collected", "ibdiagnet was not run")
        if isinstance(diagnosis, ProbeFailure):
            return unusable(answer, observed, diagnosis)
        stages += len(diagnosis.stages)
        for stage in diagnosis.stages:
            if stage.errors:
                text = f"{stage.name}: {stage.errors} errors {stage.comment}".strip()
                hint = f"read what `{tool.shown}` wrote on {observed.host} about {stage.name}"
                measured = (Measure("errors", stage.errors, "count"),)
                findings.append(Finding(cause="ibdiagnet-errors", text=text, hint=hint, measured=measured))
        if diagnosis.errors and not any(stage.errors for stage in diagnosis.stages):
            number = len(diagnosis.errors)
            text = f"no stage has an error, and {count(number, 'line')} of one: {diagnosis.errors[0]}"
            hint = f"read what `{tool.shown}` wrote on {observed.host}, and accept it if it is no error of the fabric"
            findings.append(Finding(cause="ibdiagnet-error-lines", text=text, hint=hint, marginal=True))
    summary = f"{stages} stages without an error"
    evidence = evidence_of(observed, tool.shown)
    return Report(summary=summary, findings=tuple(findings), evidence=evidence)


CHECK = Check(SPEC, OBSERVER, judge)
