# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Check link-errors-under-load: while NCCL loaded the fabric, error counters of no switch port grew.

Gate fabric reads the counters over some idle seconds. A cable between leaf and spine that has errors only under load is
found here alone: host-state-after-nccl reads the ports of hosts, and what a switch receives is counted at the switch.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from ...collect.tool_reading import ProbeFailure
from ...outcome.model import Outcome, Subject, SubjectKind
from ...probe.ibqueryerrors import PortErrors
from ..fabric.fabric_facts import FabricFacts
from ..fabric.link_errors import growth_report
from ..fabric.links import REQUIRES, conclude_parts, unusable
from ..fabric.view import FabricView, fabric_view
from ..kit.answer import Answer
from ..kit.finding import Finding, Report
from ..spec import Check, CheckSpec, Disturbance, JudgeContext, needs
from .observe_fabric_load import OBSERVER

CAUSE, LOST = "link-errors-under-load", "link-lost-under-load"
SPEC = CheckSpec(
    id="link-errors-under-load",
    gate="fabric_validation",
    title="Error counters of switches do not grow under load",
    per=SubjectKind.SITE,
    disturbs=Disturbance.HOST_COMMAND,
    duration_s=5.0,
    applies=(needs(*REQUIRES),),
    causes=(CAUSE, LOST),
)
_AGAIN = "run playbook gpufleet.bringup.site, which reads the fabric from one host before and after the load"


def judge(observed: FabricFacts, context: JudgeContext) -> tuple[Outcome, ...]:
    """Judge by the limits of check link-errors, over the time between both readings.

    Host ports are left to their host's own check.
    """
    answer = Answer.about_site(SPEC, context)
    if observed.reason:
        return (
            answer.unknown(
                "fabric-load-not-read", f"the fabric was not read around the load: {observed.reason}", _AGAIN
            ),
        )
    for subnet in observed.subnets:
        for value in (subnet.links_before, subnet.links):
            if isinstance(value, ProbeFailure):
                return (unusable(answer, observed, value),)
    found = growth_report(answer, observed, CAUSE, _at_switch)
    if not isinstance(found, Report):
        return (found,)
    gone = tuple(_gone(observed))
    return conclude_parts(answer, replace(found, findings=(*found.findings, *gone)))


def _at_switch(view: FabricView, port: PortErrors) -> bool:
    return port.guid in view.switches or port.guid not in view.names


def _gone(observed: FabricFacts) -> Iterator[Finding]:
    """Yield the cables between switches that had link before the load and have none after it."""
    before, after = fabric_view(observed, before=True), fabric_view(observed)
    named: set[str] = set()
    for place, end in before.ends.items():
        peer = before.peer(end)
        if peer is None or not (before.is_switch(end) and before.is_switch(peer)):
            continue
        later = after.ends.get(place)
        name = " - ".join(sorted((str(before.end(end)), str(before.end(peer)))))
        if name in named or (later is not None and later.up):
            continue
        named.add(name)
        yield Finding(
            cause=LOST,
            text=f"{name} carried a signal before the load and carries none after it",
            hint="`iblinkinfo -l` on the host that reads the fabric; look at the cable and both logs",
            subjects=(Subject(SubjectKind.LINK, name),),
        )


CHECK = Check(SPEC, OBSERVER, judge)
