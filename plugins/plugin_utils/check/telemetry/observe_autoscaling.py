# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Observe how pods scale by a GPU metric: up by one, and down again.

Prometheus, its adapter and the autoscaler are those of the cluster; pods, HorizontalPodAutoscaler and its target are
the test's. The GPUs need no load: the target is derived from the value that the autoscaler reads.
"""

from __future__ import annotations

import math
import re
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from ...clients.kube.cluster import Cluster
from ...clients.kube.connection import connection_from
from ...clients.kube.errors import meaning_of
from ...clients.kube.objects import DEPLOYMENTS, Kind, condition
from ...clients.prometheus.prometheus import Prometheus
from ...component_stack.facts import stack_facts
from ...outcome.errors import BringupError
from ...runtime.clock import Deadline, pause
from ...runtime.files import RECIPES
from ...runtime.progress import Progress
from ...workload.follow import NO_QUEUE_HINT, first_held, told_refusal
from ...workload.manifests import render
from ...workload.namespace import TemporaryNamespace, refuse_without, temporary_namespace
from ..kit.settings import setting
from ..spec import ObserveContext, observer_of
from .find import prometheus_session
from .settings import GATE, TelemetrySettings

# Pods that were scaled by a GPU metric, as values. Reading is pure. For an external metric with a target per pod, an
# autoscaler sets as many replicas as the sum of the values divided by the target, rounded up and within its limits; it
# ignores a deviation of up to a tenth (kubernetes.io, "Horizontal Pod Autoscaling": algorithm details). Its status is
# autoscaling/v2 HorizontalPodAutoscalerStatus: `averageValue` is the value divided by the current replicas.

Json = dict[str, Any]
LEAST, MOST = 1, 3
# By how much of its target a value may miss it before an autoscaler acts (kubernetes/kubernetes,
# cmd/kube-controller-manager: --horizontal-pod-autoscaler-tolerance; the objects of the test set no other).
_TOLERANCE = 0.1
_QUANTITY = re.compile(r"^(-?\d+(?:\.\d+)?)([num]|[kMGTPE]i?|Ki|)$")
_UNITS = {"n": 1e-9, "u": 1e-6, "m": 1e-3, "": 1.0, "k": 1e3}
_STEPS = "KMGTPE"


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """The state of pods and autoscaler at one moment.

    Attributes:
        asked: replicas in the spec of the Deployment.
        there: pods that exist.
        ready: pods that are ready.
        wants: replicas that the autoscaler desires.
        value: the metric that it read. None: it has none.
        said: reason and message of its failed condition.
        refused: why admission rejects the pods. Empty: it does not.
    """

    asked: int = 0
    there: int = 0
    ready: int = 0
    wants: int = 0
    value: float | None = None
    said: str = ""
    refused: str = ""

    def is_at(self, replicas: int) -> bool:
        """Return whether all counts equal `replicas`, so that nothing is changing."""
        return {self.asked, self.there, self.ready, self.wants} == {replicas}


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One target that the autoscaler was given.

    Attributes:
        target: the value per pod.
        end: the state when the pods matched the target, or when the time was over.
        most: largest number of replicas on the way.
        took_s: seconds until `end`.
    """

    target: float
    end: Standing
    most: int
    took_s: float

    @property
    def right(self) -> int | None:
        """Replicas that follow from value, target and current replicas. None: there is no value."""
        return None if self.end.value is None else replicas_kept(self.end.value, self.target, self.end.there)


@dataclass(frozen=True, kw_only=True)
class Autoscaling:
    """The whole observation.

    Attributes:
        metric: the external metric.
        problem: slug of why no test was possible.
        reason: its text.
        served: the API server serves the API of external metrics.
        rest: the state before anything was to be scaled.
        watts: smallest and largest value of the series in Prometheus. Empty: it has none, or was not queried.
        prometheus: why Prometheus does not respond.
        up: the step up.
        down: the step down.
        leftovers: what could not be removed.
    """

    metric: str = ""
    problem: str = ""
    reason: str = ""
    served: bool = False
    rest: Standing | None = None
    watts: tuple[float, ...] = ()
    prometheus: str = ""
    up: Step | None = None
    down: Step | None = None
    leftovers: tuple[str, ...] = ()
    schema_version: int = 1


def replicas_of(value: float, target: float) -> int:
    """Return how many replicas an autoscaler with the limits of the test sets for a value."""
    return min(max(math.ceil(value / target), LEAST), MOST)


def replicas_kept(value: float, target: float, there: int) -> int:
    """Return how many replicas an autoscaler sets for a value where `there` exist.

    These are kept if they fit the value within the tolerance (kubernetes/kubernetes,
    pkg/controller/podautoscaler/replica_calculator.go).
    """
    fits = LEAST <= there <= MOST and abs(value / (target * there) - 1.0) <= _TOLERANCE
    return there if fits else replicas_of(value, target)


def quantity(text: str) -> float | None:
    """Return a Kubernetes quantity (`46500m`, `1k`, `2Ki`) as a number. None: it is not one."""
    match = _QUANTITY.match(text)
    if match is None:
        return None
    number, unit = float(match.group(1)), match.group(2)
    if unit in _UNITS:
        return number * _UNITS[unit]
    return number * (1024.0 if unit.endswith("i") else 1000.0) ** (_STEPS.index(unit[0]) + 1)


def standing(deployment: Json, autoscaler: Json) -> Standing:
    """Return the state of a Deployment and its HorizontalPodAutoscaler."""
    pods, status = deployment.get("status") or {}, autoscaler.get("status") or {}
    replicas = int(status.get("currentReplicas") or 0)
    average = _average(status)
    conditions = status.get("conditions") or []
    worst: Json = next(
        (entry for entry in conditions if entry.get("status") == "False" and entry.get("type") != _CAPPED), {}
    )
    return Standing(
        asked=int((deployment.get("spec") or {}).get("replicas") or 0),
        there=int(pods.get("replicas") or 0),
        ready=int(pods.get("readyReplicas") or 0),
        wants=int(status.get("desiredReplicas") or 0),
        value=None if average is None or worst or replicas < 1 else average * replicas,
        said=": ".join(str(worst[key]) for key in ("reason", "message") if worst.get(key))[:400],
        refused=_refused(deployment),
    )


def _refused(deployment: Json) -> str:
    """Return the message of admission that rejects pods of a Deployment (its condition ReplicaFailure). Empty: none."""
    found = condition(deployment, "ReplicaFailure")
    message = " ".join(str(found.get("message") or "").split())[:400]
    return message if found.get("status") == "True" and meaning_of(message) == "refused" else ""


# For this condition False is good: the replicas follow from the value, unaffected by the limits.
_CAPPED = "ScalingLimited"


def _average(status: Json) -> float | None:
    for entry in status.get("currentMetrics") or []:
        found = ((entry.get("external") or {}).get("current") or {}).get("averageValue")
        if found is not None:
            return quantity(str(found))
    return None


CHECK_ID = "pod-autoscaling"
AUTOSCALERS = Kind("autoscaling/v2", "HorizontalPodAutoscaler", "horizontalpodautoscalers")
_GROUP = "external.metrics.k8s.io"
_NAME = "scaled"
# A target that no mean of a GPU metric reaches.
_OUT_OF_REACH = 1e12
# 1.5 targets make two replicas, and still do when the value changes by a third.
UP, DOWN = 1.5, 0.25
_POLL_S = 1.0
_MADE = ("namespaces", "priorityclasses", "pods")


@dataclass(frozen=True, slots=True, kw_only=True)
class AutoscalingSettings:
    """Settings of check pod-autoscaling."""

    metric: str = setting(
        "External metric of GPUs by which the test scales; empty: the one of recipes/gpu_stack.yaml, which "
        "prometheus-adapter has by the values of the catalogue.",
        default="",
        use="run",
    )
    image: str = setting("Image of the test's pods; empty: the one of recipes/gpu_stack.yaml.", default="", use="run")
    metric_s: float = setting(
        "How long the metric may take to be there: scrapes, and the adapter's own look for new series.",
        default=240.0,
        unit="s",
        above=0,
        use="run",
    )
    scale_s: float = setting("How long scaling may take, each way.", default=180.0, unit="s", above=0, use="run")
    cleanup_s: float = setting("Longest time to remove what the test made.", default=60.0, unit="s", above=0, use="run")


def observe(context: ObserveContext) -> Autoscaling:
    """Run the test and remove what it created.

    Raises:
        BringupError: the API server does not respond, or refuses the objects of the test.
    """
    settings, facts = context.settings_of(CHECK_ID, AutoscalingSettings), stack_facts().autoscaling
    observed = Autoscaling(metric=settings.metric or facts.metric)
    if facts.component not in ((context.recipe or {}).get("deploymentOrder") or ()):
        return replace(observed, problem="no-adapter", reason=f"the recipe has no {facts.component}")
    if context.check_mode:
        return replace(observed, problem="check-mode", reason="this run makes nothing on the cluster")
    with Cluster(connection_from(context.connections)) as cluster:
        served = _until_served(cluster, settings, Progress(context.emit))
        observed = replace(observed, served=served)
        observed = _scaled(cluster, context, observed, settings) if served else observed
        return (
            observed if observed.up is not None and settings.metric else _beside_prometheus(cluster, context, observed)
        )


def _until_served(cluster: Cluster, settings: AutoscalingSettings, progress: Progress) -> bool:
    """Return whether the API server serves external metrics. A newly installed adapter is given time."""
    deadline = Deadline.after(settings.metric_s)
    while not cluster.served_versions(_GROUP):
        if deadline.left_s <= 0:
            return False
        progress.tick(f"pod autoscaling: {_GROUP} is not served yet")
        pause(_POLL_S)
    return True


def _scaled(
    cluster: Cluster, context: ObserveContext, observed: Autoscaling, settings: AutoscalingSettings
) -> Autoscaling:
    # Imported here: it loads the settings of another gate, which judging alone does not need.
    from ..kit.tolerations import tolerations_of

    # Nothing is created that could not be removed.
    of_gate = context.settings_of(GATE, TelemetrySettings).permissions
    making = [entry for entry in of_gate if entry.resource in _MADE]
    refuse_without(cluster, (*making, *stack_facts().autoscaling.permissions), GATE)
    pods = stack_facts().test_pods
    with temporary_namespace(
        cluster,
        "autoscaling",
        prefix=pods.namespace_prefix,
        priority=pods.priority,
        kinds=(AUTOSCALERS,),
        makers=(DEPLOYMENTS,),
        cleanup_s=settings.cleanup_s,
        emit=context.emit,
        tolerations=tolerations_of(context),
        holder=context.holder,
    ) as namespace:
        namespace.create(objects(namespace, observed.metric, settings))
        test = ScalingTest(namespace, settings, Progress(context.emit))
        rest = test.wait("the metric", settings.metric_s, rests)
        observed = replace(observed, rest=rest)
        if rest.refused:
            observed = replace(observed, problem="launch-refused", reason=told_refusal(rest.refused))
        elif rest.value and (on_hold := _on_hold(namespace, rest)):
            observed = replace(observed, problem="held-by-admission", reason=f"{on_hold}; {NO_QUEUE_HINT}")
        elif rest.value:
            up = test.step(UP)
            observed = replace(observed, up=up)
            if up.end.value and up.end.is_at(up.right or 0):
                observed = replace(observed, down=test.step(DOWN))
    return replace(observed, leftovers=tuple(namespace.leftovers))


def rests(now: Standing) -> bool:
    """Return whether there is nothing left to wait for before scaling starts."""
    return bool(now.refused) or (bool(now.value) and now.is_at(LEAST))


def _on_hold(namespace: TemporaryNamespace, rest: Standing) -> str:
    """Return which scheduling gate holds the pod that is not ready. Empty: none."""
    return "" if rest.is_at(LEAST) else first_held(namespace.pods())


def objects(namespace: TemporaryNamespace, metric: str, settings: AutoscalingSettings) -> list[dict[str, Any]]:
    """Return the Deployment of the pods and its autoscaler, with a target that no value reaches.

    Raises:
        InputError: the template does not render with these values.
    """
    return render(
        RECIPES / "workloads" / "pod-autoscaling.yaml.j2",
        {
            "name": _NAME,
            "namespace": namespace.name,
            "metric": metric,
            "target": _quantity(_OUT_OF_REACH),
            "least": LEAST,
            "most": MOST,
            "image": settings.image or stack_facts().test_pods.image,
            "priority_class": namespace.priority_class,
            "labels": namespace.labels,
            "pod_labels": {**namespace.labels, "gpufleet.io/scaled": _NAME},
            "tolerations": namespace.tolerated,
        },
    )


class ScalingTest:
    """Sets targets of the autoscaler and observes the reaction."""

    def __init__(self, namespace: TemporaryNamespace, settings: AutoscalingSettings, progress: Progress) -> None:
        """Store the place of the test."""
        self._namespace, self._settings, self._progress = namespace, settings, progress
        self._most, self._value = 0, 0.0

    def look(self) -> Standing:
        """Return the current state."""
        cluster, place = self._namespace.cluster, self._namespace.name
        now = standing(cluster.get(DEPLOYMENTS, _NAME, place), cluster.get(AUTOSCALERS, _NAME, place))
        self._most = max(self._most, now.asked, now.there)
        # While pods come and go, the mean in the status and its number of replicas may be from two moments.
        if now.value and now.asked == now.there == now.wants:
            self._value = now.value
        return now

    def wait(self, what: str, limit_s: float, done: Callable[[Standing], bool]) -> Standing:
        """Poll until `done`, for `limit_s` seconds at most. Return the last state."""
        deadline = Deadline.after(limit_s)
        while True:
            now = self.look()
            if done(now) or deadline.left_s <= 0:
                return now
            self._progress.tick(f"pod autoscaling: waiting for {what}, {now.ready} of {now.asked} pods ready"[:180])
            pause(_POLL_S)

    def step(self, share: float) -> Step:
        """Set the target so that the value is `share` targets, and wait until the number of pods follows.

        If the value changes so much that the target means another number of replicas, a new target is set.
        """
        self._most, started = 0, time.monotonic()
        meant = replicas_of(share, 1.0)
        deadline = Deadline.after(self._settings.scale_s)
        while True:
            target = self._value / share
            self._set(target)
            end = self.wait(f"{meant} replicas", max(deadline.left_s, 0.0), partial(_stands_still, target=target))
            if deadline.left_s <= 0 or not end.value or replicas_kept(end.value, target, end.there) == meant:
                break
        return Step(target=target, end=end, most=self._most, took_s=round(time.monotonic() - started, 1))

    def _set(self, target: float) -> None:
        body = {"external": {"metric": {"name": self._metric()}, "target": _target(target)}, "type": "External"}
        place = self._namespace.name
        self._namespace.cluster.patch(AUTOSCALERS, _NAME, {"spec": {"metrics": [body]}}, place)

    def _metric(self) -> str:
        return self._settings.metric or stack_facts().autoscaling.metric


def _stands_still(now: Standing, *, target: float) -> bool:
    return now.value is not None and now.is_at(replicas_kept(now.value, target, now.there))


def _target(value: float) -> dict[str, str]:
    return {"type": "AverageValue", "averageValue": _quantity(value)}


def _quantity(value: float) -> str:
    return f"{max(round(value * 1000), 1)}m"


def _beside_prometheus(cluster: Cluster, context: ObserveContext, observed: Autoscaling) -> Autoscaling:
    """Add the range of the series behind the metric, as Prometheus itself has it."""
    metrics = context.settings_of(GATE, TelemetrySettings).metrics
    try:
        vector = Prometheus(prometheus_session(cluster, metrics)).query(stack_facts().autoscaling.series)
    except BringupError as error:
        return replace(observed, prometheus=f"{error.subject}: {error.reason}")
    values = [sample.value for sample in vector.samples]
    return replace(observed, watts=(min(values), max(values)) if values else ())


OBSERVER = observer_of("autoscaling", Autoscaling, observe)
