# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""What the checks of gate fabric share: when the links cannot be judged, and what was read."""

from __future__ import annotations

from ...collect.tool_reading import ProbeFailure
from ...outcome.model import Evidence, Outcome
from ..kit.answer import Answer
from ..kit.tool_failure import tool_failure
from .fabric_facts import FabricFacts

REQUIRES = ("infiniband", "multi_node", "subnet_manager", "host_access")
CABLE = "look at the LEDs and reseat the cable on both ends; `mlxlink -d <hca> -m -c` shows module and signal"


def evidence_of(facts: FabricFacts, source: str) -> tuple[Evidence, ...]:
    """Return the evidence that a command left on the host that looked at the fabric."""
    return (Evidence(source, facts.host, "", facts.evidence),)


def unusable(answer: Answer, facts: FabricFacts, failure: ProbeFailure) -> Outcome:
    """Return the outcome for a tool that gave nothing usable."""
    return tool_failure(answer, failure, facts.host, facts.evidence)


def before_links(answer: Answer, facts: FabricFacts) -> Outcome | None:
    """Return why the links cannot be judged (nothing seen, no subnet manager, no list of links), None if they can."""
    if not facts.subnets:
        return answer.blocked(by="subnet-manager", because="nothing of the fabric was seen")
    if any(subnet.master is None and subnet.master_again is None for subnet in facts.subnets):
        return answer.blocked(by="subnet-manager", because="there is no subnet manager, so no link is Active")
    for subnet in facts.subnets:
        if isinstance(subnet.links, ProbeFailure):
            return unusable(answer, facts, subnet.links)
    return None
