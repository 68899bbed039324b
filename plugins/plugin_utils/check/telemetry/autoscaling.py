# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Pods that a metric of GPUs scaled, as values. Reading is pure.

What an autoscaler does with an external metric and a target for each pod: as many replicas as the sum of the values of
the metric divided by the target, rounded up, within its limits; it leaves a tenth more or less alone
(kubernetes.io, "Horizontal Pod Autoscaling": algorithm details). What it says of itself is in autoscaling/v2
HorizontalPodAutoscalerStatus: `averageValue` is the value divided by the replicas that there are.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import Any

Json = dict[str, Any]
LEAST, MOST = 1, 3
# By how much of its target a value may miss it before an autoscaler does anything (kubernetes/kubernetes,
# cmd/kube-controller-manager: --horizontal-pod-autoscaler-tolerance; the objects of the test state no other).
_TOLERANCE = 0.1
_QUANTITY = re.compile(r"^(-?\d+(?:\.\d+)?)([num]|[kMGTPE]i?|Ki|)$")
_UNITS = {"n": 1e-9, "u": 1e-6, "m": 1e-3, "": 1.0, "k": 1e3}
_STEPS = "KMGTPE"


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """How pods and their autoscaler stand at one moment: `asked` replicas of the Deployment, pods `there`, `ready`
    ones, what the autoscaler `wants`, the value that it read (None: it has none), and what it says of itself."""

    asked: int = 0
    there: int = 0
    ready: int = 0
    wants: int = 0
    value: float | None = None
    said: str = ""

    def is_at(self, replicas: int) -> bool:
        """Tell whether the pods are as many, and nothing moves."""
        return {self.asked, self.there, self.ready, self.wants} == {replicas}


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One target that the autoscaler was given: how it stood `took_s` later, when it had done what the target asks or
    its time was over. `most` is the largest number of replicas on the way."""

    target: float
    end: Standing
    most: int
    took_s: float

    @property
    def right(self) -> int | None:
        """How many replicas the value and the target make of those that there are; None where there is no value."""
        return None if self.end.value is None else replicas_kept(self.end.value, self.target, self.end.there)


@dataclass(frozen=True, kw_only=True)
class Autoscaling:
    """Everything. `problem` is a slug when no test was possible, with `reason`.

    `served`: the API server has the API of external metrics; `rest` is how the autoscaler stood before anything was to
    be scaled; `watts` are the smallest and largest value of the series in Prometheus, empty where it has none or was
    not asked; `prometheus` says why Prometheus does not answer.
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
    """Return how many replicas an autoscaler with our limits makes of a value."""
    return min(max(math.ceil(value / target), LEAST), MOST)


def replicas_kept(value: float, target: float, there: int) -> int:
    """Return how many replicas an autoscaler makes of a value where there are so many: these, if they fit it within
    the tolerance (kubernetes/kubernetes, pkg/controller/podautoscaler/replica_calculator.go).
    """
    fits = LEAST <= there <= MOST and abs(value / (target * there) - 1.0) <= _TOLERANCE
    return there if fits else replicas_of(value, target)


def quantity(text: str) -> float | None:
    """Return a Kubernetes quantity (`46500m`, `1k`, `2Ki`) as a number, None for what is none."""
    match = _QUANTITY.match(text)
    if match is None:
        return None
    number, unit = float(match.group(1)), match.group(2)
    if unit in _UNITS:
        return number * _UNITS[unit]
    return number * (1024.0 if unit.endswith("i") else 1000.0) ** (_STEPS.index(unit[0]) + 1)


def standing(deployment: Json, autoscaler: Json) -> Standing:
    """Return how a Deployment and its HorizontalPodAutoscaler stand."""
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
    )


# False is its good word: the replicas are what the value asks, whatever the limits.
_CAPPED = "ScalingLimited"


def _average(status: Json) -> float | None:
    for entry in status.get("currentMetrics") or []:
        found = ((entry.get("external") or {}).get("current") or {}).get("averageValue")
        if found is not None:
            return quantity(str(found))
    return None
