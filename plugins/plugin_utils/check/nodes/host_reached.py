# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Check host-reached: every host of the inventory was looked at."""

from __future__ import annotations

from ...collect.host_facts import FleetFacts
from ...outcome.model import Evidence, Outcome, SubjectKind, node_subject
from ..kit.answer import Answer
from ..spec import Check, CheckSpec, Disturbance, JudgeContext
from .observe_hosts import OBSERVER

SPEC = CheckSpec(
    id="host-reached",
    gate="nodes",
    title="Every host was reached and probed",
    per=SubjectKind.NODE,
    disturbs=Disturbance.HOST_COMMAND,
    requires=("host_access",),
)
_CAUSES = {"unreachable": "host-unreachable", "missing": "evidence-missing", "unreadable": "evidence-unreadable"}


def judge(value: FleetFacts, context: JudgeContext) -> tuple[Outcome, ...]:
    """A host that was not reached is not known, never passed."""
    outcomes: list[Outcome] = []
    for host in context.site.in_scope:
        answer = Answer(SPEC, context, node_subject(host.name))
        facts = value.hosts.get(host.name)
        if facts is None:
            outcomes.append(answer.unknown("evidence-missing", "nothing was collected", "run the gate again"))
            continue
        seen = (Evidence("host_probe", host.name, facts.reason, facts.evidence),)
        if facts.reached:
            outcomes.append(answer.passed("reached and probed", evidence=seen))
            continue
        cause = _CAUSES.get(facts.unread, "host-unreachable")
        hint = f"make `ansible {host.name} -m ping` succeed, or quarantine the node, then run the gate again"
        outcomes.append(answer.unknown(cause, facts.reason or "not reached", hint, evidence=seen))
    return tuple(outcomes)


CHECK = Check(SPEC, OBSERVER, judge)
