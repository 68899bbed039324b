# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Check ibdiagnet: the vendor's own diagnosis finds no error. Declared where the site says that it is installed."""

from __future__ import annotations

from ...collect.host_facts import ProbeFailure
from ...outcome.model import Measure, Outcome, SubjectKind
from ..spec import CheckSpec, Disturbance, JudgeContext
from .case import REQUIRES, Finding, before_links, conclude, unusable
from .facts import FabricFacts

SPEC = CheckSpec(
    id="ibdiagnet",
    gate="fabric",
    title="ibdiagnet finds no error",
    observation="fabric",
    per=SubjectKind.SITE,
    disturbs=Disturbance.HOST_COMMAND,
    duration_s=120.0,
    requires=(*REQUIRES, "ibdiagnet"),
    causes=("ibdiagnet-errors",),
)
_COMMAND = "ibdiagnet --pc -P all=1 --get_cable_info"


def judge(value: FabricFacts, context: JudgeContext) -> tuple[Outcome, ...]:
    """Every stage without an error; warnings are told and do not count."""
    stopped = before_links(SPEC, value, context)
    if stopped is not None:
        return stopped
    findings: list[Finding] = []
    stages = 0
    for subnet in value.subnets:
        diagnosis = subnet.diagnosis or ProbeFailure("ibdiagnet", "not-collected", "ibdiagnet was not run")
        if isinstance(diagnosis, ProbeFailure):
            return unusable(SPEC, value, context, diagnosis, _COMMAND)
        stages += len(diagnosis.stages)
        for stage in diagnosis.stages:
            if stage.errors:
                text = f"{stage.name}: {stage.errors} errors {stage.comment}".strip()
                hint = f"read what `{_COMMAND}` wrote on {value.host} about {stage.name}"
                measured = (Measure("errors", stage.errors, "count"),)
                findings.append(Finding(cause="ibdiagnet-errors", text=text, hint=hint, measured=measured))
    return conclude(SPEC, value, context, findings, f"{stages} stages without an error", _COMMAND)
