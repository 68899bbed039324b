# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Check: the scheduler admits a gang as a whole or not at all."""

from __future__ import annotations

from typing import Any

from ...outcome.model import Basis, Evidence, Expectation, Measure, Outcome, Subject, SubjectKind
from ..kit.answer import Answer
from ..spec import Check, CheckSpec, Disturbance, JudgeContext
from .observe_gang import OBSERVER, GangSettings, GangView

SPEC = CheckSpec(
    id="gang-admission",
    gate="gpu_stack",
    title="Gangs are admitted all or nothing",
    per=SubjectKind.CLUSTER,
    disturbs=Disturbance.TEST_PODS,
    duration_s=20.0,
    requires=("kubernetes",),
    causes=("gang-not-admitted", "gang-overcommitted", "gang-partial", "no-gang-scheduler"),
    settings=GangSettings,
)


def judge(view: GangView, context: JudgeContext) -> tuple[Outcome, ...]:
    """Return the one outcome."""
    answer = Answer(SPEC, context, Subject(SubjectKind.CLUSTER, context.site.name))
    if view.problem:
        return (_not_tried(answer, view),)
    if len(view.bound) != 2 or view.gang_size < 1:
        return (answer.unknown("no-data", "the test saw no two gangs", "run the gate again"),)
    return (_decided(answer, view),)


def _not_tried(answer: Answer, view: GangView) -> Outcome:
    if view.problem == "no-gang-scheduler":
        hint = "add volcano or kai-scheduler to the recipe, or enable the scheduler's own gangs (scheduling.k8s.io)"
        return answer.failed("no-gang-scheduler", f"no gang scheduler: {view.reason}", hint)
    if view.problem == "scheduler-not-ready":
        return answer.blocked(by="component-health", because=f"{view.provider} is not ready: {view.reason}")
    hint = "free GPUs on the nodes in scope: kubectl get pods -A -o wide; kubectl describe nodes"
    return answer.unknown(view.problem, f"not tried: {view.reason}", hint)


def _decided(answer: Answer, view: GangView) -> Outcome:
    facts = _facts(view)
    least, most = sorted(view.bound.values())
    size, pods = view.gang_size, ", ".join(f"{name} {count} of {view.gang_size}" for name, count in view.bound.items())
    look = f"read the log of the scheduler ({view.provider}) and the FailedScheduling events"
    if most == 0:
        return answer.failed(
            "gang-not-admitted", f"no gang was admitted although one fits: {pods} bound", look, **facts
        )
    if least >= size:
        text = f"both gangs were admitted to room for one: {pods} bound on {view.slots} slots"
        return answer.failed("gang-overcommitted", text, "compare allocatable GPUs with the hosts", **facts)
    if least > 0 or most < size:
        text = f"gangs were admitted in part: {pods} bound"
        return answer.failed("gang-partial", text, f"switch gang scheduling on in {view.provider}; {look}", **facts)
    if view.leftovers:
        return answer.unknown(
            "cleanup-incomplete",
            f"admitted as it should be, but left behind: {view.leftovers[0]}",
            "kubectl get ns -l gpufleet.io/purpose=test; delete what the run left",
            **facts,
        )
    text = f"{view.provider}: one gang of {size} placed whole, the other with no pod bound, on {view.slots} slots"
    return answer.passed(text, **facts)


def _facts(view: GangView) -> dict[str, Any]:
    least, most = sorted(view.bound.values())
    conditions = "\n".join(f"{name}: {text}" for name, text in view.conditions.items())
    return {
        "measured": (
            Measure("pods bound, winner", most, "count"),
            Measure("pods bound, loser", least, "count"),
            Measure("settled after", view.settled_s, "s"),
        ),
        "expected": (
            Expectation(
                "pods bound, winner",
                "==",
                view.gang_size,
                Basis.RULE,
                "count",
                f"{view.slots} slots: {view.slots} // 2 + 1 = {view.gang_size}; two gangs need {2 * view.gang_size}",
            ),
            Expectation("pods bound, loser", "==", 0, Basis.RULE, "count"),
        ),
        "evidence": (Evidence(f"PodGroups of {view.provider} and their pods", ", ".join(view.nodes), conditions),),
    }


CHECK = Check(SPEC, OBSERVER, judge)
