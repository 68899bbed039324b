# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""What the checks of gate fabric share: when the links cannot be judged, and what was read."""

from __future__ import annotations

from collections.abc import Callable

from ...collect.tool_reading import ProbeFailure
from ...outcome.model import Evidence, Outcome
from ..kit.answer import Answer
from ..kit.finding import Report, conclude
from ..kit.tool_failure import tool_failure
from ..spec import CheckSpec, JudgeContext
from .fabric_facts import FabricFacts

REQUIRES = ("infiniband", "multi_node", "subnet_manager", "host_access")
CABLE = "look at the LEDs and reseat the cable on both ends; `mlxlink -d <hca> -m -c` shows module and signal"


def evidence_of(facts: FabricFacts, source: str) -> tuple[Evidence, ...]:
    """Return the evidence that a command left on the host that looked at the fabric."""
    return (Evidence(source, facts.host, "", facts.evidence),)


def unusable(answer: Answer, facts: FabricFacts, failure: ProbeFailure) -> Outcome:
    """Return the outcome for a tool that gave nothing usable."""
    return tool_failure(answer, failure, facts.host, facts.evidence)


def judge_links(
    spec: CheckSpec,
    seen: FabricFacts,
    context: JudgeContext,
    judge_seen: Callable[[Answer, FabricFacts], Report | Outcome],
) -> tuple[Outcome, ...]:
    """Return the outcomes of a check about links, where the links can be judged; `judge_seen` makes them."""
    answer = Answer.about_site(spec, context)
    result = _not_judgeable(answer, seen) or judge_seen(answer, seen)
    return conclude(answer, result) if isinstance(result, Report) else (result,)


def _not_judgeable(answer: Answer, facts: FabricFacts) -> Outcome | None:
    """Return why the links cannot be judged (nothing seen, no subnet manager, no list of links), None if they can."""
    if not facts.subnets:
        return answer.blocked(by="subnet-manager", because="nothing of the fabric was seen")
    if any(subnet.master is None and subnet.master_again is None for subnet in facts.subnets):
        return answer.blocked(by="subnet-manager", because="there is no subnet manager, so no link is Active")
    for subnet in facts.subnets:
        if isinstance(subnet.links, ProbeFailure):
            return unusable(answer, facts, subnet.links)
    return None
