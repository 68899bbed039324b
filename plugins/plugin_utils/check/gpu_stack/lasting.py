# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Whether what is ready stays so: judged by what the observer saw in its window, one for everything installed."""

from __future__ import annotations

from collections.abc import Iterable

from ...component_stack.workloads import Workload
from ...outcome.model import Outcome
from ..kit.answer import Answer
from ..spec import JudgeContext
from .settings import GATE, GpuStackSettings

# One loss is a restart, as of an operator that changes a configuration; it begins the window again.
_FLAPS = 2
_NODES_NAMED = 8


def flaps(
    workloads: Iterable[Workload], context: JudgeContext, bad: frozenset[str]
) -> tuple[Workload, str, str] | None:
    """Return the first workload that lost its readiness again and again and is not back for long enough, with a text
    and a hint; None if none does.

    Args:
        workloads: those to look at.
        context: how long is long enough.
        bad: nodes that explain what happens on them.
    """
    wanted_s = _wanted_s(context)
    for workload in workloads:
        lost = {node: times for node, times in workload.losses.items() if node not in bad and times >= _FLAPS}
        if not lost or (workload.state == "ready" and (workload.ready_for_s or 0.0) >= wanted_s):
            continue
        where = ", ".join(sorted(node for node in lost if node)[:_NODES_NAMED])
        pod = f"a pod on {where}" if where else "a pod"
        text = f"{workload.kind} {workload.name}: {pod} lost its readiness {max(lost.values())} times while watched"
        place = f"-n {workload.namespace}"
        hint = f"kubectl get pods {place} -w; kubectl logs --previous {place} of the one that restarts; else its probe"
        return workload, text, hint
    return None


def not_lasting(answer: Answer, workloads: Iterable[Workload], bad: frozenset[str]) -> Outcome | None:
    """Return the answer where nobody knows yet that what is ready stays so, None where all of it does."""
    wanted_s = _wanted_s(answer.context)
    running = [entry for entry in workloads if entry.kind != "Job" and entry.ready and not excused(entry, bad)]
    young = [entry for entry in running if entry.ready_for_s is None or entry.ready_for_s < wanted_s]
    worst = min(young, key=lambda workload: workload.ready_for_s or 0.0, default=None)
    if worst is None:
        return None
    what = f"{worst.kind} {worst.name}"
    if worst.ready_for_s is None:
        text = f"this run did not record for how long {what} has been ready"
        return answer.unknown("readiness-not-timed", text, "run the gate again with this release of the collection")
    lost = f", after it lost its readiness {max(worst.losses.values())} times" if worst.losses else ""
    text = f"{what} has been ready for {worst.ready_for_s:.0f} s{lost}; {wanted_s:.0f} s are wanted"
    return answer.unknown("not-ready-for-long", text, "run the gate again; what is ready meanwhile counts")


def passed_over(workloads: Iterable[Workload]) -> str:
    """Return a text about the nodes whose pods of DaemonSets did not count, to be put behind another; empty if none."""
    nodes = sorted({node for workload in workloads for node in workload.left_out})
    if not nodes:
        return ""
    named = ", ".join(nodes[:_NODES_NAMED]) + (f" and {len(nodes) - _NODES_NAMED} more" if nodes[_NODES_NAMED:] else "")
    return f"; pods of DaemonSets on {named}, not of this site and not Ready for long enough, do not count"


def excused(workload: Workload, bad: frozenset[str]) -> bool:
    """Tell whether a workload waits only for pods on nodes that do not work."""
    missing = workload.desired - workload.ready
    return bool(workload.nodes) and set(workload.nodes) <= bad and missing <= len(workload.nodes)


def _wanted_s(context: JudgeContext) -> float:
    return context.settings_of(GATE, GpuStackSettings).stays_ready_s
