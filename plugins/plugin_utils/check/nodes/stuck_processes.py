# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Check stuck-processes: no program waits for a device or a file system that does not respond (state D).

Such a process cannot be killed, keeps GPUs and mounts in use, and in the end the node must be rebooted. A process may
be in this state for a moment; one that was started a minute ago and is in it in three readings is for a person to
decide.
"""

from __future__ import annotations

from ...collect.host_facts import FleetFacts
from ...outcome.model import Measure, Outcome, SubjectKind
from ...probe.waiting_processes import Waiting
from ..kit.finding import Finding, Report
from ..spec import Check, CheckSpec, Disturbance, JudgeContext, needs
from .node_context import NodeContext, per_host
from .observe_hosts import OBSERVER

SPEC = CheckSpec(
    id="stuck-processes",
    gate="nodes",
    title="No program waits without end",
    per=SubjectKind.NODE,
    disturbs=Disturbance.HOST_COMMAND,
    applies=(needs("host_access"),),
)
# Younger processes may be tools of this very probe.
_AGE_S = 60
_NAMED = 4


def judge(seen: FleetFacts, context: JudgeContext) -> tuple[Outcome, ...]:
    """Judge processes that wait in every reading. A person decides, because a busy disk causes some too."""
    return per_host(SPEC, seen, context, _judge, needs=("waiting",))


def _judge(host: NodeContext) -> Report:
    waiting: tuple[Waiting, ...] = host.facts.values["waiting"]
    stuck = [process for process in waiting if process.age_s >= _AGE_S]
    findings: tuple[Finding, ...] = ()
    if stuck:
        named = ", ".join(f"{process.program} (pid {process.pid})" for process in stuck[:_NAMED])
        more = f" and {len(stuck) - _NAMED} more" if len(stuck) > _NAMED else ""
        text = f"{len(stuck)} in state D in three readings: {named}{more}"
        where = f"`cat /proc/{stuck[0].pid}/stack` on the node says on what it waits"
        hint = f"{where}; a GPU or a mount that hangs needs a reboot"
        findings = (Finding(cause="processes-stuck", text=text, hint=hint, marginal=True),)
    return Report(
        summary="no program waits without end",
        findings=findings,
        measured=(Measure("processes_stuck", len(stuck), "count"),),
        evidence=host.evidence("waiting"),
    )


CHECK = Check(SPEC, OBSERVER, judge)
