# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""What the checks of gate fabric share: when links cannot be judged, and the evidence."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from ...collect.tool_reading import ProbeFailure
from ...outcome.model import Evidence, Outcome, Status, node_subject
from ...site.adapters import VARIABLE
from ..kit.answer import Answer
from ..kit.finding import Report, conclude
from ..spec import CheckSpec, JudgeContext
from .fabric_facts import FabricFacts

REQUIRES = ("infiniband", "multi_node", "subnet_manager", "host_access")
CABLE = "look at the LEDs and reseat the cable on both ends; `mlxlink -d <hca> -m -c` shows module and signal"


def evidence_of(facts: FabricFacts, source: str) -> tuple[Evidence, ...]:
    """Return the evidence of a command on the host that observed the fabric."""
    return (Evidence(source, facts.host, "", facts.evidence),)


def unusable(answer: Answer, facts: FabricFacts, failure: ProbeFailure) -> Outcome:
    """Return the outcome of a tool that gave nothing usable."""
    return answer.tool_failure(failure, facts.host, facts.evidence)


def judge_links(
    spec: CheckSpec,
    observed: FabricFacts,
    context: JudgeContext,
    judge_seen: Callable[[Answer, FabricFacts], Report | Outcome],
) -> tuple[Outcome, ...]:
    """Return the outcomes of a check about links. `judge_seen` makes them where the links can be judged."""
    answer = Answer.about_site(spec, context)
    result = _not_judgeable(answer, observed) or judge_seen(answer, observed)
    outcomes = conclude_parts(answer, result) if isinstance(result, Report) else (result,)
    unplanned = [name for name in observed.plan.unknown if name not in context.site.quarantined]
    if not unplanned:
        return outcomes
    because = f"the adapters for GPU traffic of {', '.join(unplanned)} are not known"
    waits = answer.blocked(by="link-present", because=because) if spec.id != "link-present" else None
    return (*(found for found in outcomes if found.status is not Status.PASSED), waits or _unplanned(answer, unplanned))


def conclude_parts(answer: Answer, report: Report) -> tuple[Outcome, ...]:
    """Return one outcome about the site if all is good, else one for every finding.

    An outcome of a finding is about the links and switches that it names, so that a waiver for one of them does not
    cover the others.
    """
    if not report.findings:
        return conclude(answer, report)
    outcomes: list[Outcome] = []
    for finding in sorted(report.findings, key=lambda finding: finding.marginal):
        about = replace(answer, subject=finding.subjects[0]) if finding.subjects else answer
        (made,) = conclude(about, replace(report, findings=(finding,)))
        outcomes.append(replace(made, subjects=finding.subjects or made.subjects))
    return tuple(outcomes)


def _unplanned(answer: Answer, hosts: list[str]) -> Outcome:
    text = f"nobody knows which adapters of {', '.join(hosts)} are for GPU traffic, so none of their links is planned"
    hint = f"state {VARIABLE} of these hosts, or a cabling plan (docs/fabric.md); `ibstat` must answer on them"
    return answer.unknown("adapters-not-known", text, hint, more_subjects=tuple(map(node_subject, hosts)))


def _not_judgeable(answer: Answer, facts: FabricFacts) -> Outcome | None:
    """Return why the links cannot be judged (nothing observed, no subnet manager, no list of links), None if they
    can."""
    if not facts.subnets:
        return answer.blocked(by="subnet-manager", because="nothing of the fabric was seen")
    if any(subnet.master is None and subnet.master_again is None for subnet in facts.subnets):
        return answer.blocked(by="subnet-manager", because="there is no subnet manager, so no link is Active")
    for subnet in facts.subnets:
        if isinstance(subnet.links, ProbeFailure):
            return unusable(answer, facts, subnet.links)
    return None
