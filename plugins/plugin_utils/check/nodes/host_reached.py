# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Check host-reached: every host of the inventory was reached and probed."""

from __future__ import annotations

from ...collect.host_facts import FleetFacts
from ...outcome.model import Evidence, Outcome, SubjectKind
from ..kit import host_context
from ..spec import Check, CheckSpec, Disturbance, JudgeContext, needs
from .node_context import NodeContext
from .observe_hosts import OBSERVER

SPEC = CheckSpec(
    id="host-reached",
    gate="nodes",
    title="Every host was reached and probed",
    per=SubjectKind.NODE,
    disturbs=Disturbance.HOST_COMMAND,
    applies=(needs("host_access"),),
)
_CAUSES = {"unreachable": "host-unreachable", "missing": "evidence-missing", "unreadable": "evidence-unreadable"}


def judge(observed: FleetFacts, context: JudgeContext) -> tuple[Outcome, ...]:
    """Judge every host; one that was not reached is unknown, never passed."""
    return host_context.per_host(NodeContext, SPEC, observed, context, _judge_host, needs_sku=False)


def _judge_host(host: NodeContext) -> Outcome:
    facts = host.seen.hosts.get(host.name)
    if facts is None:
        return host.answer.unknown("evidence-missing", "nothing was collected", "run the gate again")
    evidence = (Evidence("host_probe", host.name, facts.reason, facts.evidence),)
    if facts.reached:
        return host.answer.passed("reached and probed", evidence=evidence)
    cause = _CAUSES.get(facts.unread, "host-unreachable")
    hint = f"make `ansible {host.name} -m ping` succeed, or quarantine the node, then run the gate again"
    return host.answer.unknown(cause, facts.reason or "not reached", hint, evidence=evidence)


CHECK = Check(SPEC, OBSERVER, judge)
