# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Check: pods scale up and down again by a GPU metric.

The whole path is tested: exporters, Prometheus, its adapter, the API of external metrics, the autoscaler and the pods.
"""

from __future__ import annotations

from typing import Any

from ...clients.kube.errors import mending
from ...component_stack.facts import stack_facts
from ...outcome.model import Basis, Evidence, Expectation, Measure, Outcome, SubjectKind
from ..kit.answer import Answer
from ..spec import Check, CheckSpec, Components, Disturbance, JudgeContext, needs
from .metrics_host import SCRAPED
from .observe_autoscaling import CHECK_ID, MOST, OBSERVER, Autoscaling, AutoscalingSettings, Step

SPEC = CheckSpec(
    id=CHECK_ID,
    gate="telemetry",
    title="pods scale up and down by a metric of GPUs",
    per=SubjectKind.CLUSTER,
    disturbs=Disturbance.TEST_PODS,
    duration_s=60.0,
    applies=(needs("kubernetes"), Components(("prometheus-adapter",))),
    causes=(
        "metrics-api-missing",
        "gpu-metric-missing",
        "gpu-metric-wrong",
        "not-scaled-up",
        "not-scaled-down",
        "scaled-beyond-limits",
    ),
    settings=AutoscalingSettings,
)
# The mean of a series is between its smallest and largest value, but these were read at another moment.
_MOVES = 2.0
_API = "v1beta1.external.metrics.k8s.io"


def judge(observed: Autoscaling, context: JudgeContext) -> tuple[Outcome, ...]:
    """Return one outcome. Its cause is the first stage on the path that fails."""
    answer = Answer.about_cluster(SPEC, context)
    if observed.problem:
        hint = mending(observed.reason) or "run the gate again with the recipe"
        return (answer.unknown(observed.problem, f"not tried: {observed.reason}", hint),)
    if not observed.served:
        hint = f"kubectl describe apiservice {_API}; prometheus-adapter makes it with rules.external in its values"
        return (answer.failed("metrics-api-missing", "the API server serves no external metrics", hint),)
    if observed.rest is None:
        return (answer.unknown("no-data", "no autoscaler was looked at", "run the gate again"),)
    found = _metric(observed, answer) or _scaling(observed, answer)
    if found is not None:
        return (found,)
    if observed.leftovers:
        hint = "kubectl get ns -l gpufleet.io/purpose=test; delete what the test left"
        return (
            answer.unknown("cleanup-incomplete", f"left behind: {observed.leftovers[0]}", hint, **_facts(observed)),
        )
    return (answer.passed(_summary(observed), **_facts(observed)),)


def _metric(observed: Autoscaling, answer: Answer) -> Outcome | None:
    """Return what is wrong with the metric. None: it is that of the GPUs."""
    value = observed.rest.value if observed.rest is not None else None
    ours = observed.metric == stack_facts().autoscaling.metric
    series = stack_facts().autoscaling.series
    if not value:
        if ours and (observed.prometheus or not observed.watts):
            because = observed.prometheus or f"Prometheus has no series {series}"
            return answer.blocked(by=SCRAPED, because=f"the autoscaler has no {observed.metric}: {because}")
        reported = (
            f": {observed.rest.said}" if observed.rest is not None and observed.rest.said else f", it reads {value}"
        )
        text = f"the autoscaler has no metric {observed.metric}{reported}"
        hint = (
            f"kubectl get --raw /apis/external.metrics.k8s.io/v1beta1/namespaces/default/{observed.metric}; look at "
            "the log of prometheus-adapter, at rules.external and prometheus.url in its values"
        )
        return answer.failed("gpu-metric-missing", text[:500], hint, **_facts(observed))
    if not ours:
        return None
    if not observed.watts:
        text = (
            f"{observed.metric} is {value:.4g}, and what Prometheus has of {series} is not known {observed.prometheus}"
        )
        return answer.unknown("series-unknown", text.strip(), "run the gate again", **_facts(observed))
    low, high = observed.watts
    if not low / _MOVES <= value <= high * _MOVES:
        text = f"{observed.metric} is {value:.4g}, while {series} of the GPUs is {low:.4g} to {high:.4g}"
        hint = "prometheus-adapter asks another Prometheus, or its rule computes something else: rules.external"
        return answer.failed("gpu-metric-wrong", text, hint, **_facts(observed))
    return None


def _scaling(observed: Autoscaling, answer: Answer) -> Outcome | None:
    """Return what is wrong with scaling up or down. None: both worked."""
    facts = _facts(observed)
    for step, word in ((observed.up, "up"), (observed.down, "down")):
        if step is None:
            return answer.unknown("no-data", f"scaling {word} was not tried", "run the gate again", **facts)
        end, right = step.end, step.right
        if max(step.most, end.asked) > MOST:
            text = f"{max(step.most, end.asked)} replicas, although the autoscaler may make {MOST} at most"
            hint = "somebody else scales the Deployment: look for a second autoscaler or KEDA in the test's namespace"
            return answer.failed("scaled-beyond-limits", text, hint, **facts)
        if right is None or not (end.asked == end.wants == right):
            wanted = f"{right} replicas are right" if right is not None else "the metric is gone"
            text = (
                f"not scaled {word} within {step.took_s:g} s: {end.asked} replicas, the autoscaler wants {end.wants}; "
                f"by {observed.metric} and a target of {step.target:.4g} {wanted}{f': {end.said}' if end.said else ''}"
            )
            hint = "read the log of kube-controller-manager; kubectl get hpa -A shows whether others scale"
            return answer.failed(f"not-scaled-{word}", text[:500], hint, **facts)
        if not end.is_at(right):
            text = f"scaled {word} to {right}, but {end.ready} of {end.there} pods are ready after {step.took_s:g} s"
            hint = "kubectl describe nodes: is there room for pods of 10m CPU, and can nodes pull the pause image?"
            return answer.unknown("pods-not-ready", text, hint, **facts)
    if observed.up is not None and observed.down is not None and observed.up.end.asked <= observed.down.end.asked:
        text = (
            f"{observed.up.end.asked} replicas up and {observed.down.end.asked} down: the metric moved "
            "against every target"
        )
        return answer.unknown("metric-unsteady", text, "run the gate again when no jobs come and go", **facts)
    return None


def _summary(observed: Autoscaling) -> str:
    ways = [f"{step.end.asked} at a target of {step.target:.4g} after {step.took_s:.0f} s" for step in _steps(observed)]
    value = observed.rest.value if observed.rest is not None else None
    return f"by {observed.metric} of {value or 0:.4g}, 1 replica became {', then '.join(ways)}"


def _steps(observed: Autoscaling) -> list[Step]:
    return [step for step in (observed.up, observed.down) if step is not None]


def _facts(observed: Autoscaling) -> dict[str, Any]:
    steps = list(zip(("up", "down"), _steps(observed), strict=False))
    value = observed.rest.value if observed.rest is not None else None
    rights = [(f"replicas {word}", step.right) for word, step in steps]
    reported = "\n".join(f"{word}: {step.end}" for word, step in steps)
    return {
        "measured": (
            *((Measure(observed.metric, round(value, 3)),) if value is not None else ()),
            *(Measure(f"replicas {word}", step.end.asked, "count") for word, step in steps),
            *(Measure(f"scaled {word} after", step.took_s, "s") for word, step in steps),
        ),
        "expected": tuple(Expectation(name, "==", n, Basis.RULE, "count") for name, n in rights if n is not None),
        "evidence": (Evidence("GET horizontalpodautoscalers, deployments", "namespace of the test", reported),),
    }


CHECK = Check(SPEC, OBSERVER, judge)
