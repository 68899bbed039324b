# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Pods that scale by a metric of GPUs: what does not hold on the way is named, and a number that fits by chance is not
believed."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from datetime import date
from types import SimpleNamespace
from typing import Any, cast

import pytest
from sites import make_site

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.declare import declare
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.kit.settings_layers import checked_settings
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.rights import choices_of, gate_permissions
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.spec import JudgeContext
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.telemetry import observe_autoscaling
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.telemetry.observe_autoscaling import (
    AUTOSCALERS,
    Autoscaling,
    AutoscalingSettings,
    ScalingTest,
    Standing,
    Step,
    objects,
    quantity,
    standing,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.telemetry.pod_autoscaling import judge
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.clients.kube.objects import Kind
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.model import Outcome, Rating, Status
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.runtime.progress import Progress, silent
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.site.model import Host, Site
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.workload.namespace import TemporaryNamespace

METRIC = "dcgm_gpu_power_usage"
SITE: Site = make_site((Host(name="gpu01", sku="x", node_name="gpu01"),), name="here", capabilities=("kubernetes",))
AT_REST = Standing(asked=1, there=1, ready=1, wants=1, value=80.0)
UP = Step(target=53.4, end=replace(AT_REST, asked=2, there=2, ready=2, wants=2), most=2, took_s=16.0)
DOWN = Step(target=320.0, end=AT_REST, most=2, took_s=15.0)
SEEN = Autoscaling(metric=METRIC, served=True, rest=AT_REST, watts=(70.0, 95.0), up=UP, down=DOWN)
# As the autoscaler says it (kubernetes/kubernetes, pkg/controller/podautoscaler/horizontal.go).
NO_METRIC = (
    "FailedGetExternalMetric: the HPA was unable to compute the replica count: unable to get external metric "
    f"t/{METRIC}/nil: no metrics returned from external metrics API"
)


def judged(seen: Autoscaling) -> Outcome:
    (outcome,) = judge(seen, JudgeContext(gate="telemetry", site=SITE, today=date(2026, 1, 1)))
    return outcome


def test_pods_that_follow_the_metric_both_ways_pass_with_what_they_did() -> None:
    outcome = judged(SEEN)
    assert outcome.status is Status.PASSED
    assert outcome.summary == (
        "by dcgm_gpu_power_usage of 80, 1 replica became 2 at a target of 53.4 after 16 s, "
        "then 1 at a target of 320 after 15 s"
    )


def test_a_metric_of_the_site_is_not_held_against_power() -> None:
    assert judged(replace(SEEN, metric="tokens_waiting", watts=())).status is Status.PASSED


@pytest.mark.parametrize(
    ("change", "rating", "cause"),
    [
        ({"served": False, "rest": None}, Rating.BAD, "metrics-api-missing"),
        ({"rest": replace(AT_REST, value=None, said=NO_METRIC), "up": None}, Rating.BAD, "gpu-metric-missing"),
        ({"rest": replace(AT_REST, value=0.0), "up": None}, Rating.BAD, "gpu-metric-missing"),
        # Prometheus itself has nothing: the adapter is not to blame.
        ({"rest": replace(AT_REST, value=None), "watts": ()}, Rating.UNKNOWN, "blocked-by-gpu-metrics-scraped"),
        (
            {"rest": replace(AT_REST, value=None), "prometheus": "refused", "watts": ()},
            Rating.UNKNOWN,
            "blocked-by-gpu-metrics-scraped",
        ),
        # A constant, or the sum of thousands of GPUs, scales pods as well; it is not what the rule says.
        ({"rest": replace(AT_REST, value=1.0)}, Rating.BAD, "gpu-metric-wrong"),
        ({"rest": replace(AT_REST, value=8000.0)}, Rating.BAD, "gpu-metric-wrong"),
        ({"watts": ()}, Rating.UNKNOWN, "series-unknown"),
        ({"up": replace(UP, end=AT_REST), "down": None}, Rating.BAD, "not-scaled-up"),
        ({"up": replace(UP, end=replace(UP.end, value=None))}, Rating.BAD, "not-scaled-up"),
        # It wants them, and nobody makes them.
        ({"up": replace(UP, end=replace(UP.end, asked=1, there=1, ready=1))}, Rating.BAD, "not-scaled-up"),
        ({"up": replace(UP, end=replace(UP.end, ready=1))}, Rating.UNKNOWN, "pods-not-ready"),
        ({"up": replace(UP, most=4)}, Rating.BAD, "scaled-beyond-limits"),
        ({"up": replace(UP, end=replace(UP.end, asked=3, there=3, ready=3, wants=3))}, Rating.BAD, "not-scaled-up"),
        # An autoscaler leaves a tenth alone, and no more.
        ({"up": replace(UP, end=replace(UP.end, value=2.08 * UP.target))}, Rating.GOOD, ""),
        ({"up": replace(UP, end=replace(UP.end, value=2.25 * UP.target))}, Rating.BAD, "not-scaled-up"),
        ({"up": replace(UP, end=replace(AT_REST, value=1.05 * UP.target))}, Rating.UNKNOWN, "metric-unsteady"),
        ({"up": replace(UP, end=replace(AT_REST, value=1.12 * UP.target)), "down": None}, Rating.BAD, "not-scaled-up"),
        ({"down": replace(DOWN, end=replace(AT_REST, value=1.05 * DOWN.target))}, Rating.GOOD, ""),
        ({"down": replace(DOWN, end=replace(UP.end, value=1.85 * DOWN.target))}, Rating.UNKNOWN, "metric-unsteady"),
        ({"down": replace(DOWN, end=UP.end)}, Rating.BAD, "not-scaled-down"),
        ({"down": None}, Rating.UNKNOWN, "no-data"),
        ({"up": replace(UP, target=320.0, end=AT_REST)}, Rating.UNKNOWN, "metric-unsteady"),
        ({"leftovers": ("namespace x: still there",)}, Rating.UNKNOWN, "cleanup-incomplete"),
        ({"problem": "no-adapter", "reason": "the recipe has none"}, Rating.UNKNOWN, "no-adapter"),
        ({"rest": None}, Rating.UNKNOWN, "no-data"),
    ],
)
def test_what_does_not_hold_on_the_way_is_named(change: dict[str, Any], rating: Rating, cause: str) -> None:
    outcome = judged(replace(SEEN, **change))
    assert (outcome.rating, outcome.cause) == (rating, cause), outcome.summary


def test_the_words_of_the_autoscaler_are_in_the_message() -> None:
    outcome = judged(replace(SEEN, rest=replace(AT_REST, value=None, said=NO_METRIC), up=None))
    assert "no metrics returned from external metrics API" in outcome.summary


@pytest.mark.parametrize(
    ("text", "number"),
    [("46500m", 46.5), ("83", 83.0), ("1k", 1000.0), ("2Ki", 2048.0), ("1M", 1e6), ("12u", 1.2e-5), ("x", None)],
)
def test_quantities_of_kubernetes_are_numbers(text: str, number: float | None) -> None:
    assert quantity(text) == number


def _autoscaler(**status: Any) -> dict[str, Any]:
    """As autoscaling/v2 has it."""
    current = {"type": "External", "external": {"metric": {"name": METRIC}, "current": {"averageValue": "40250m"}}}
    active = {"type": "ScalingActive", "status": "True", "reason": "ValidMetricFound"}
    within = {"type": "ScalingLimited", "status": "False", "reason": "DesiredWithinRange"}
    known = {"currentReplicas": 2, "desiredReplicas": 2, "currentMetrics": [current], "conditions": [active, within]}
    return {"status": known | status}


def test_the_value_is_the_mean_of_a_replica_times_the_replicas() -> None:
    deployment = {"spec": {"replicas": 2}, "status": {"replicas": 2, "readyReplicas": 2}}
    found = standing(deployment, _autoscaler())
    assert found.value == 80.5 and found.is_at(2) and found.said == ""
    fresh = standing({"spec": {"replicas": 1}}, {})
    assert fresh.value is None and not fresh.is_at(1)


def test_an_old_value_of_an_autoscaler_that_lost_its_metric_is_none() -> None:
    lost = {"type": "ScalingActive", "status": "False", "reason": "FailedGetExternalMetric", "message": "gone"}
    found = standing({}, _autoscaler(conditions=[lost]))
    assert found.value is None and found.said == "FailedGetExternalMetric: gone"


@dataclass
class FakeCluster:
    """An API server with an autoscaler that does what Kubernetes' page on it says; one look is one of its rounds."""

    values: list[float]
    obeys: bool = True
    asked: int = 1
    wants: int = 0
    value: float = 0.0
    targets: list[float] = field(default_factory=lambda: [1e12])

    def get(self, kind: Kind, _name: str, _namespace: str = "") -> dict[str, Any]:
        if kind is not AUTOSCALERS:
            return {"spec": {"replicas": self.asked}, "status": {"replicas": self.asked, "readyReplicas": self.asked}}
        self.value = self.values.pop(0) if len(self.values) > 1 else self.values[0]
        replicas, ratio = self.asked, self.value / (self.targets[-1] * self.asked)
        self.wants = min(max(math.ceil(self.value / self.targets[-1]), 1), 3) if abs(1 - ratio) > 0.1 else replicas
        self.asked = self.wants if self.obeys else replicas
        average = {"current": {"averageValue": f"{math.ceil(self.value * 1000 / replicas)}m"}}
        return _autoscaler(currentReplicas=replicas, desiredReplicas=self.wants, currentMetrics=[{"external": average}])

    def patch(self, _kind: Kind, _name: str, body: dict[str, Any], _namespace: str) -> None:
        target = body["spec"]["metrics"][0]["external"]["target"]
        assert target["type"] == "AverageValue"
        self.targets.append(quantity(target["averageValue"]) or 0.0)


def tried(cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch, scale_s: float = 30.0) -> Autoscaling:
    clock = [0.0]

    def sleep(seconds: float) -> None:
        clock[0] += seconds

    monkeypatch.setattr("time.sleep", sleep)
    monkeypatch.setattr("time.monotonic", lambda: clock[0])
    settings = replace(checked_settings(AutoscalingSettings, "pod-autoscaling", {}), scale_s=scale_s)
    namespace = TemporaryNamespace(cast("Any", cluster), "ns", 1.0, ())
    test = ScalingTest(namespace, settings, Progress(silent))
    rest = test.wait("the metric", 30.0, observe_autoscaling.rests)
    up = test.step(observe_autoscaling.UP)
    down = test.step(observe_autoscaling.DOWN)
    return replace(SEEN, rest=rest, up=up, down=down)


def test_the_test_scales_by_one_and_back(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = FakeCluster([80.0])
    seen = tried(cluster, monkeypatch)
    assert judged(seen).status is Status.PASSED, judged(seen).summary
    assert cluster.targets == [1e12, pytest.approx(53.333), pytest.approx(320.0)]


def test_a_metric_that_jumps_while_it_scales_gets_another_target(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = FakeCluster([80.0, 80.0, 30.0])
    seen = tried(cluster, monkeypatch)
    assert seen.up is not None and seen.up.end.is_at(2) and len(cluster.targets) == 4
    assert judged(replace(seen, watts=(25.0, 95.0))).status is Status.PASSED


def test_a_value_that_moves_within_the_tolerance_of_autoscalers_is_no_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    # Two pods of 2.06 targets stay two.
    seen = tried(FakeCluster([80.0, 80.0, 110.0]), monkeypatch)
    assert seen.up is not None and seen.up.end.is_at(2) and seen.up.took_s < 30.0
    assert judged(replace(seen, watts=(70.0, 120.0))).status is Status.PASSED
    # One pod of 1.05 targets stays one: it gets another target.
    cluster = FakeCluster([80.0, 56.0])
    seen = tried(cluster, monkeypatch)
    assert seen.up is not None and seen.up.end.is_at(2) and len(cluster.targets) == 4
    assert judged(replace(seen, watts=(40.0, 95.0))).status is Status.PASSED


def test_an_autoscaler_that_nobody_obeys_is_told_when_its_time_is_over(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = tried(FakeCluster([80.0], obeys=False), monkeypatch)
    assert seen.up is not None and seen.up.took_s >= 30.0
    assert judged(seen).cause == "not-scaled-up"


def test_a_pod_that_is_held_by_a_gate_says_nothing_of_the_autoscaler() -> None:
    gate = {"name": "kueue.x-k8s.io/admission"}
    pod = {"metadata": {"name": "scaled-1"}, "spec": {"schedulingGates": [gate]}}
    space = cast("Any", SimpleNamespace(pods=lambda: [pod]))
    assert "kueue.x-k8s.io/admission" in observe_autoscaling._on_hold(space, replace(AT_REST, ready=0))
    assert observe_autoscaling._on_hold(cast("Any", None), AT_REST) == ""
    del pod["spec"]["schedulingGates"]
    assert observe_autoscaling._on_hold(space, replace(AT_REST, ready=0)) == ""
    outcome = judged(Autoscaling(metric=METRIC, served=True, rest=AT_REST, problem="held-by-admission", reason="gate"))
    assert (outcome.status, outcome.cause) == (Status.OTHER, "held-by-admission")


def test_the_objects_hold_no_gpu_and_start_with_a_target_out_of_reach() -> None:
    namespace = TemporaryNamespace(cast("Any", None), "ns", 1.0, ())
    settings = checked_settings(AutoscalingSettings, "pod-autoscaling", {})
    deployment, autoscaler = objects(namespace, METRIC, settings)
    template = deployment["spec"]["template"]
    assert template["spec"]["containers"][0]["resources"]["requests"].keys() == {"cpu", "memory"}
    assert template["metadata"]["labels"].items() >= deployment["spec"]["selector"]["matchLabels"].items()
    (metric,) = autoscaler["spec"]["metrics"]
    assert metric["external"]["metric"] == {"name": METRIC}
    assert (quantity(metric["external"]["target"]["averageValue"]) or 0) > 1e9
    assert autoscaler["spec"]["maxReplicas"] == 3


def test_the_check_and_its_rights_are_those_of_a_recipe_with_the_adapter() -> None:
    declared = {check.id for check in declare("telemetry", SITE, ("prometheus-adapter",)).checks}
    assert "pod-autoscaling" in declared
    assert "pod-autoscaling" not in {check.id for check in declare("telemetry", SITE, ("gpu-operator",)).checks}
    for components, wanted in (([], False), (["prometheus-adapter"], True)):
        rights = gate_permissions("telemetry", "test", choices_of(SITE, {"deploymentOrder": components}))
        assert any(right.resource == "horizontalpodautoscalers" for right in rights) is wanted


def test_pods_that_a_policy_refuses_say_nothing_of_the_autoscaler(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without pods no autoscaler scales: that is the policy's doing, and is told at once."""
    said = "pods \"scaled-1\" is forbidden: ValidatingAdmissionPolicy 'no-root' with binding 'all' denied request: no"
    refused = {"type": "ReplicaFailure", "status": "True", "reason": "FailedCreate", "message": said}
    rest = standing({"spec": {"replicas": 1}, "status": {"conditions": [refused]}}, _autoscaler())
    assert rest.refused == said and observe_autoscaling.rests(rest)
    outcome = judged(Autoscaling(metric=METRIC, served=True, rest=rest, problem="launch-refused", reason=rest.refused))
    assert outcome.status is Status.OTHER and "'no-root'" in outcome.summary
    assert "kubectl edit validatingadmissionpolicybinding all`" in outcome.hint
    for passing in ({**refused, "status": "False"}, {**refused, "message": "dial tcp: connection refused"}):
        again = standing({"spec": {"replicas": 1}, "status": {"conditions": [passing]}}, _autoscaler())
        assert not again.refused and not observe_autoscaling.rests(again)
