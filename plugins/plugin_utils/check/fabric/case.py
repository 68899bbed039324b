# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""What every check of gate fabric shares: when it cannot answer, and findings to outcomes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ...collect.host_facts import ProbeFailure
from ...outcome.model import Evidence, Expectation, Measure, Outcome, Subject, SubjectKind
from ..kit.answer import Answer
from ..spec import CheckSpec, JudgeContext
from .facts import FabricFacts

REQUIRES = ("infiniband", "multi_node", "subnet_manager", "host_access")
CABLE = "look at the LEDs and reseat the cable on both ends; `mlxlink -d <hca> -m -c` tells about module and signal"
_ADVICE = {
    "missing": "install infiniband-diags there, or look from another host (gpufleet_fabric_host)",
    "timeout": "run it there by hand; raise fabric_tool_timeout if the fabric is very large",
    "empty": "run it there and read its exit code",
    "garbage": "run it there and compare",
    "failed": "run it there and mend what it says",
    "not-collected": "run the gate again",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One thing that is not good, and what it is about."""

    cause: str
    text: str
    hint: str
    subjects: tuple[Subject, ...] = ()
    measured: tuple[Measure, ...] = ()
    expected: tuple[Expectation, ...] = ()
    marginal: bool = False


def site_answer(spec: CheckSpec, context: JudgeContext) -> Answer:
    """Return what makes the outcomes of a check of this gate: each is about the site, and about what it names."""
    return Answer(spec, context, Subject(SubjectKind.SITE, context.site.name))


def conclude(
    spec: CheckSpec,
    facts: FabricFacts,
    context: JudgeContext,
    findings: Sequence[Finding],
    summary: str,
    source: str,
    measured: tuple[Measure, ...] = (),
) -> tuple[Outcome, ...]:
    """Return one outcome for every finding, or that the check passed, with `summary` and `measured`."""
    answer = site_answer(spec, context)
    evidence = (Evidence(source, facts.host, "", facts.evidence),)
    if not findings:
        return (answer.passed(summary, evidence=evidence, measured=measured),)
    outcomes = []
    for finding in findings:
        make = answer.marginal if finding.marginal else answer.failed
        outcomes.append(
            make(
                finding.cause, finding.text, finding.hint, more_subjects=finding.subjects, measured=finding.measured,
                expected=finding.expected, evidence=evidence,
            )
        )  # fmt: skip
    return tuple(outcomes)


def unusable(
    spec: CheckSpec, facts: FabricFacts, context: JudgeContext, failure: ProbeFailure, command: str
) -> tuple[Outcome, ...]:
    """Return the outcome of the check that owns a tool which gave nothing usable."""
    hint = f"`{command}` on {facts.host}: {_ADVICE[failure.kind]}"
    evidence = (Evidence(command, facts.host, failure.text[:400], facts.evidence),)
    answer = site_answer(spec, context)
    return (answer.unknown(f"{failure.tool}-{failure.kind}", failure.text[:400], hint, evidence=evidence),)


def before_links(spec: CheckSpec, facts: FabricFacts, context: JudgeContext) -> tuple[Outcome, ...] | None:
    """Return why a check about links cannot answer: nothing seen, no subnet manager, or no list of links."""
    if not facts.subnets:
        return (site_answer(spec, context).blocked(by="subnet-manager", because="nothing of the fabric was seen"),)
    if any(subnet.master is None and subnet.master_again is None for subnet in facts.subnets):
        return (
            site_answer(spec, context).blocked(
                by="subnet-manager", because="there is no subnet manager, so no link is Active"
            ),
        )
    for subnet in facts.subnets:
        if isinstance(subnet.links, ProbeFailure):
            if spec.id == "link-present":
                return unusable(spec, facts, context, subnet.links, "iblinkinfo -l")
            return (site_answer(spec, context).blocked(by="link-present", because="`iblinkinfo` gave nothing usable"),)
    return None
