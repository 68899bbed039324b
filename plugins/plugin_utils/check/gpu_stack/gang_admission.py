# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Check: the scheduler admits a gang as a whole or not at all."""

from __future__ import annotations

from typing import Any

from ...outcome.model import Basis, Evidence, Expectation, Measure, Outcome, SubjectKind
from ..kit.answer import Answer
from ..spec import Check, CheckSpec, Disturbance, JudgeContext, needs
from .kueue_gang import KUEUE
from .observe_gang import OBSERVER, GangResult, GangSettings

SPEC = CheckSpec(
    id="gang-admission",
    gate="gpu_stack",
    phase="conformance",
    title="Gangs are admitted all or nothing",
    per=SubjectKind.CLUSTER,
    disturbs=Disturbance.TEST_PODS,
    duration_s=20.0,
    applies=(needs("kubernetes"),),
    causes=("gang-not-admitted", "gang-overcommitted", "gang-partial", "no-gang-scheduler"),
    settings=GangSettings,
)


def judge(observed: GangResult, context: JudgeContext) -> tuple[Outcome, ...]:
    """Return one outcome. Two gangs compete for room that fits one: exactly one must be placed, as a whole."""
    return judged(Answer.about_cluster(SPEC, context), observed)


def judged(answer: Answer, observed: GangResult) -> tuple[Outcome, ...]:
    """Return the outcome of a test with two gangs."""
    if observed.problem:
        return (_not_tried(answer, observed),)
    if len(observed.bound) != 2 or observed.gang_size < 1:
        return (answer.unknown("no-data", "the test saw no two gangs", "run the gate again"),)
    if observed.gang_size != observed.slots // 2 + 1 or max(observed.bound.values()) > observed.gang_size:
        text = (
            f"what was saved contradicts itself: {observed.bound} bound, gangs of {observed.gang_size} on "
            f"{observed.slots} slots"
        )
        return (answer.unknown("no-data", text, "run the gate again"),)
    return (_decided(answer, observed),)


def _not_tried(answer: Answer, result: GangResult) -> Outcome:
    if result.problem == "no-gang-scheduler":
        hint = "add volcano or kai-scheduler to the recipe, or enable the scheduler's own gangs (scheduling.k8s.io)"
        return answer.failed("no-gang-scheduler", f"no gang scheduler: {result.reason}", hint)
    if result.problem == "scheduler-not-ready":
        return answer.blocked(by="component-health", because=f"{result.provider} is not ready: {result.reason}")
    hint = result.hint or "free GPUs on the nodes in scope: kubectl get pods -A -o wide; kubectl describe nodes"
    return answer.unknown(result.problem, f"not tried: {result.reason}", hint)


def _decided(answer: Answer, result: GangResult) -> Outcome:
    facts = _facts(result)
    if result.gpus_per_pod < 1:
        text = "its pods asked for no GPU, so gangs were not tried with any"
        return answer.unknown("no-gpus-asked", text, "run the gate again", **facts)
    least, most = sorted(result.bound.values())
    size, pods = (
        result.gang_size,
        ", ".join(f"{name} {count} of {result.gang_size}" for name, count in result.bound.items()),
    )
    look = f"read the log of the scheduler ({result.provider}) and the FailedScheduling events"
    if most == 0:
        reported = f"; {result.said}" if result.said else ""
        text = f"no gang was admitted although one fits: {pods} bound{reported}"
        return answer.failed("gang-not-admitted", text, look, **facts)
    if least >= size:
        text = f"both gangs were admitted to room for one: {pods} bound on {result.slots} slots"
        return answer.failed("gang-overcommitted", text, "compare allocatable GPUs with the hosts", **facts)
    if least > 0 or most < size:
        text = f"gangs were admitted in part: {pods} bound"
        return answer.failed("gang-partial", text, f"switch gang scheduling on in {result.provider}; {look}", **facts)
    if result.leftovers:
        return answer.unknown(
            "cleanup-incomplete",
            f"admitted as it should be, but left behind: {result.leftovers[0]}",
            "kubectl get ns -l gpufleet.io/purpose=test; delete what the run left",
            **facts,
        )
    text = f"{result.provider}: one gang of {size} placed whole, the other with no pod bound, on {result.slots} slots"
    if result.provider == KUEUE and not result.waits_for_pods:
        text = f"{text}; but Kueue admits by quota alone: a job that has quota and no places stays placed in part"
        hint = "set waitForPodsReady in Kueue's configuration (managerConfig.controllerManagerConfigYaml of its chart)"
        return answer.marginal("pods-not-waited-for", text, hint, **facts)
    return answer.passed(text, **facts)


def _facts(result: GangResult) -> dict[str, Any]:
    least, most = sorted(result.bound.values())
    slots, size = result.slots, result.gang_size
    conditions = "\n".join(f"{name}: {text}" for name, text in result.conditions.items())
    return {
        "measured": (
            Measure("pods bound, winner", most, "count"),
            Measure("pods bound, loser", least, "count"),
            Measure("settled after", result.settled_s, "s"),
        ),
        "expected": (
            Expectation(
                "pods bound, winner",
                "==",
                result.gang_size,
                Basis.RULE,
                "count",
                f"{slots} slots: {slots} // 2 + 1 = {size}; two gangs need {2 * size}",
            ),
            Expectation("pods bound, loser", "==", 0, Basis.RULE, "count"),
        ),
        "evidence": (Evidence(f"PodGroups of {result.provider} and their pods", ", ".join(result.nodes), conditions),),
    }


CHECK = Check(SPEC, OBSERVER, judge)
