# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Whether ready workloads stay ready, from what the observer recorded.

One time window applies to everything installed.
"""

from __future__ import annotations

from collections.abc import Iterable

from ...component_stack.workloads import Workload
from ...outcome.model import Outcome
from ..kit.answer import Answer
from ..spec import JudgeContext
from .settings import GATE, GpuStackSettings

# A single loss is a restart, as when an operator changes a configuration. It restarts the time window.
_FLAPS = 2
_NODES_NAMED = 8


def flaps(
    workloads: Iterable[Workload], context: JudgeContext, bad: frozenset[str]
) -> tuple[Workload, str, str] | None:
    """Return the first workload that repeatedly lost its readiness and is not back for long enough, with text and hint.

    None: there is none.

    Args:
        workloads: those to judge.
        context: has the required time.
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
    """Return the outcome for a workload that is ready, but not for long enough yet. None: all are."""
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
    """Return a suffix for a text about the nodes whose DaemonSet pods did not count. Empty: there are none."""
    nodes = sorted({node for workload in workloads for node in workload.left_out})
    if not nodes:
        return ""
    named = ", ".join(nodes[:_NODES_NAMED]) + (f" and {len(nodes) - _NODES_NAMED} more" if nodes[_NODES_NAMED:] else "")
    return f"; pods of DaemonSets on {named}, not of this site and not Ready for long enough, do not count"


def excused(workload: Workload, bad: frozenset[str]) -> bool:
    """Return whether a workload waits only for pods on nodes that do not work."""
    missing = workload.desired - workload.ready
    return bool(workload.nodes) and set(workload.nodes) <= bad and missing <= len(workload.nodes)


def _wanted_s(context: JudgeContext) -> float:
    return context.settings_of(GATE, GpuStackSettings).stays_ready_s
