# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Nodes that come for pending pods: what whoever adds them says is read, and only a new node with its GPUs passes.

The way on a control plane with stand-ins of Karpenter and cluster-autoscaler: tests/rehearsal/test_operators.py.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, cast

import pytest
from sites import make_site

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.declare import declare
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.gpu_stack.cluster_autoscaling import judge
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.gpu_stack.observe_scaling import (
    AutoscalerWords,
    NodeScaling,
    NodeTest,
    ScalingSettings,
    autoscaler_status,
    guards_of,
    node_for,
    node_pool,
    pod_of,
    request_classes,
    words_of,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.kit.settings_layers import checked_settings
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.rights import choices_of, gate_permissions
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.clients.kube.objects import EVENTS, NODES, PODS, Kind
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.model import Outcome, Rating, Status
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.runtime.progress import Progress, silent
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.workload.namespace import TemporaryNamespace

from .conftest import context

Json = dict[str, Any]
# As printed in public threads: EKS Auto Mode, Karpenter, AKS, and cluster-autoscaler that has no fitting group.
NOMINATED = "Pod should schedule on: nodeclaim/gpu-pool-6csft"
TRIGGERED = "pod triggered scale-up: [{aks-gpunp-98036146-vmss 1->2 (max: 2)}]"
NOT_TRIGGERED = "pod didn't trigger scale-up: 1 node(s) didn't match Pod's node affinity"
FULL = "pod didn't trigger scale-up: 2 max node group size reached"
QUEUED = ("queued-provisioning.gke.io",)
POOL = "NodePool gpu is ready, 0 of 16 GPUs"
SEEN = NodeScaling(
    answers=(POOL,), words=AutoscalerWords(taken=f"karpenter: Nominated: {NOMINATED}"), asked=1, node="new", gpus=8,
    up_s=140.0, placed=True, started=True, gone_s=95.0, waited_s=95.0,
)  # fmt: skip
NONE = replace(SEEN, node="", gpus=0, placed=False, started=False, gone_s=None)


def judged(seen: NodeScaling) -> Outcome:
    (outcome,) = judge(seen, context())
    return outcome


def test_a_node_that_comes_with_its_gpus_and_goes_passes() -> None:
    outcome = judged(SEEN)
    assert outcome.status is Status.PASSED
    assert outcome.summary == "node new came after 140 s with 8 GPUs and ran the pod, and was gone 95 s after it"


def test_classes_of_cluster_autoscaler_itself_grow_what_pending_pods_grow() -> None:
    own = ["check-capacity.autoscaling.x-k8s.io", "best-effort-atomic-scale-up.autoscaling.x-k8s.io"]
    configs: list[Json] = [{"spec": {"provisioningClassName": name}} for name in own]
    assert request_classes([*configs, {"spec": {}}, {}]) == ()
    assert request_classes([*configs, {"spec": {"provisioningClassName": QUEUED[0]}}]) == QUEUED


@pytest.mark.parametrize(
    ("seen", "rating", "cause"),
    [
        (replace(NONE, words=AutoscalerWords(), answers=()), Rating.BAD, "autoscaler-missing"),
        (replace(NONE, words=AutoscalerWords()), Rating.BAD, "autoscaler-silent"),
        (NONE, Rating.BAD, "node-not-added"),
        (replace(NONE, words=AutoscalerWords(refused=NOT_TRIGGERED)), Rating.BAD, "scale-up-refused"),
        (replace(NONE, words=AutoscalerWords(refused=FULL)), Rating.UNKNOWN, "no-room-to-grow"),
        # Node pools of GKE with queued provisioning get nodes by requests alone; a promise counts all the same.
        (replace(NONE, words=AutoscalerWords(), by_request=QUEUED), Rating.UNKNOWN, "nodes-by-request"),
        (replace(NONE, words=AutoscalerWords(), answers=(), by_request=QUEUED), Rating.UNKNOWN, "nodes-by-request"),
        (
            replace(NONE, words=AutoscalerWords(refused=NOT_TRIGGERED), by_request=QUEUED),
            Rating.UNKNOWN,
            "nodes-by-request",
        ),
        (replace(NONE, by_request=QUEUED), Rating.BAD, "node-not-added"),
        (
            replace(NONE, words=AutoscalerWords(refused='all available instance types exceed limits for nodepool "g"')),
            Rating.UNKNOWN,
            "no-room-to-grow",
        ),
        # No scheduler gives a pod a node that lacks its GPUs.
        (replace(SEEN, gpus=0, placed=False, started=False), Rating.BAD, "node-without-gpus"),
        (replace(SEEN, placed=False, started=False, unplaced="untolerated taint"), Rating.UNKNOWN, "pod-not-placed"),
        (NodeScaling(problem="node-was-there", reason="the pod got node gpu01"), Rating.UNKNOWN, "node-was-there"),
        (replace(SEEN, started=False, unstarted="ErrImagePull"), Rating.UNKNOWN, "pod-not-started"),
        (replace(SEEN, gone_s=None, waited_s=1800.0), Rating.MARGINAL, "node-not-removed"),
        (replace(SEEN, leftovers=("pods",)), Rating.UNKNOWN, "cleanup-incomplete"),
        (replace(SEEN, asked=0), Rating.UNKNOWN, "no-gpus-asked"),
        (NodeScaling(problem="check-mode", reason="makes nothing"), Rating.UNKNOWN, "check-mode"),
    ],
)
def test_what_does_not_hold_on_the_way_is_named(seen: NodeScaling, rating: Rating, cause: str) -> None:
    outcome = judged(seen)
    assert (outcome.rating, outcome.cause) == (rating, cause), outcome.summary


def _event(reason: str, message: str, source: str, at: int) -> Json:
    return {"reason": reason, "message": message, "source": {"component": source},
            "lastTimestamp": f"2026-01-01T00:00:{at:02}Z"}  # fmt: skip


def test_who_adds_nodes_is_heard_and_the_scheduler_is_not() -> None:
    own = _event("FailedScheduling", "0/8 nodes are available", "default-scheduler", 1)
    assert words_of([own]) == AutoscalerWords()
    later = [own, _event("TriggeredScaleUp", TRIGGERED, "cluster-autoscaler", 9),
             _event("NotTriggerScaleUp", FULL, "cluster-autoscaler", 3)]  # fmt: skip
    assert words_of(later) == AutoscalerWords(
        taken=f"cluster-autoscaler: TriggeredScaleUp: {TRIGGERED}",
        refused=f"cluster-autoscaler: NotTriggerScaleUp: {FULL}",
    )
    managed = {"reason": "Nominated", "message": NOMINATED, "reportingComponent": "eks-auto-mode/compute"}
    assert words_of([managed]).taken == f"eks-auto-mode/compute: Nominated: {NOMINATED}"


@pytest.mark.parametrize(
    ("source", "scheduler"),
    [
        # GKE names its own scheduler in pods where the autoscaling profile is optimize-utilization.
        ("gke.io/optimize-utilization-scheduler", "gke.io/optimize-utilization-scheduler"),
        ("volcano", "volcano"),
        ("kai-scheduler", ""),
    ],
)
def test_a_scheduler_of_another_name_does_not_speak_for_who_adds_nodes(source: str, scheduler: str) -> None:
    full = _event("NotTriggerScaleUp", FULL, "cluster-autoscaler", 3)
    for own in (
        _event("FailedScheduling", "0/8 nodes are available: exceeded quota", source, 7),
        {"reason": "FailedScheduling", "message": "0/8 nodes", "reportingComponent": source, "eventTime": "2026-02"},
    ):
        assert words_of([own], scheduler) == AutoscalerWords()
        words = words_of([full, own], scheduler)
        assert words.refused.startswith("cluster-autoscaler: NotTriggerScaleUp")
        assert judged(replace(NONE, words=words)).cause == "no-room-to-grow"
    own = _event("FailedScheduling", "no instance type has enough resources", "karpenter", 7)
    assert words_of([own], scheduler).refused.startswith("karpenter: FailedScheduling")


def test_pools_and_the_status_of_cluster_autoscaler_are_said_in_one_line() -> None:
    pool: Json = {"metadata": {"name": "gpu"}, "spec": {"limits": {"nvidia.com/gpu": 16}}}
    assert node_pool(pool) == "NodePool gpu is of unknown readiness, 0 of 16 GPUs"
    pool["status"] = {"conditions": [{"type": "Ready", "status": "False", "message": "NodeClass not ready"}]}
    assert node_pool(pool) == "NodePool gpu is not ready (NodeClass not ready), 0 of 16 GPUs"
    structured = "autoscalerStatus: Running\nclusterWide:\n  health: {status: Healthy}\nnodeGroups:\n- {name: a}\n"
    assert autoscaler_status(structured) == "cluster-autoscaler is Running, Healthy, with 1 node groups"
    # Of releases before 1.30.
    text = (
        "Cluster-autoscaler status at 2018-07-25 22:59:22.661669494 +0000 UTC:\nCluster-wide:\n"
        "  Health:      Healthy (ready=1 unready=0 notStarted=0 longNotStarted=0 registered=1 longUnregistered=0)\n"
    )
    assert autoscaler_status(text) == "cluster-autoscaler is Healthy"
    assert autoscaler_status("") == "cluster-autoscaler has a status that cannot be read"


SETTINGS = checked_settings(ScalingSettings, "cluster-autoscaling", {"selector": {"pool": "gpu"}})


def test_a_cluster_without_gpu_nodes_needs_no_guard() -> None:
    # Its nodes come only when somebody asks for them.
    assert guards_of(TemporaryNamespace(cast("Any", None), "ns", 1.0, ()), (), SETTINGS) == []


def test_the_pod_shares_no_node_with_a_guard_and_is_not_expendable() -> None:
    space = TemporaryNamespace(cast("Any", None), "ns", 1.0, ())
    (pod,) = pod_of(space, SETTINGS)
    spec = pod["spec"]
    # What Karpenter does not read it takes no notice of: kubernetes.io/hostname, and names of nodes.
    assert spec["affinity"].keys() == {"podAntiAffinity"} and spec["nodeSelector"] == {"pool": "gpu"}
    (term,) = spec["affinity"]["podAntiAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    assert spec["containers"][0]["resources"]["limits"]["nvidia.com/gpu"] == 1
    assert {"key": "nvidia.com/gpu", "operator": "Exists"} in spec["tolerations"]
    guards = guards_of(space, {"gpu02", "gpu01"}, SETTINGS)
    assert len({guard["metadata"]["name"] for guard in guards}) == 2
    for guard, node in zip(guards, ("gpu01", "gpu02"), strict=True):
        assert term["labelSelector"]["matchLabels"].items() <= guard["metadata"]["labels"].items()
        assert not term["labelSelector"]["matchLabels"].items() <= pod["metadata"]["labels"].items()
        (place,) = guard["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"][
            "nodeSelectorTerms"
        ]
        assert place == {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]}
        assert "nvidia.com/gpu" not in guard["spec"]["containers"][0]["resources"]["limits"]
        assert guard["spec"]["tolerations"] == spec["tolerations"]


def _metadata(name: str, claim: str = "", **labels: str) -> Json:
    return {"name": name, "labels": labels, "ownerReferences": [{"kind": "NodeClaim", "name": claim}] if claim else []}


@pytest.mark.parametrize(
    ("taken", "selector", "node"),
    [
        ("karpenter: Nominated: Pod should schedule on: nodeclaim/gpu-1", {}, "mine"),
        ("karpenter: Nominated: Pod should schedule on: nodeclaim/gpu-1, node/mine", {}, "mine"),
        ("karpenter: Nominated: Pod should schedule on: nodeclaim/gpu-2", {}, ""),
        (f"cluster-autoscaler: TriggeredScaleUp: {TRIGGERED}", {"pool": "gpu"}, "by-group"),
        ("", {"pool": "none"}, ""),
    ],
)
def test_the_node_of_the_pod_is_known_before_the_pod_has_it(taken: str, selector: dict[str, str], node: str) -> None:
    came = [_metadata("cpu-only", "gpu-12"), _metadata("mine", "gpu-1"), _metadata("by-group", pool="gpu")]
    assert node_for(came, taken, selector) == node


@dataclass
class FakeCluster:
    """A cluster of two GPU nodes with a Karpenter: `adds` a node some looks after the pod, which goes after it. The pod
    gets it where it `has_gpus`; `places` is another node that it gets at once."""

    adds: bool = True
    has_gpus: bool = True
    places: str = ""
    guards: bool = True
    gates: tuple[str, ...] = ()
    looks: int = 0
    made: list[Json] = field(default_factory=list)
    gone: int = 0

    def list_objects(self, kind: Kind, _namespace: str = "", *, labels: str = "") -> list[Json]:
        if kind is NODES:
            capacity = {"gpu01": {"nvidia.com/gpu": "8"}, "gpu02": {"nvidia.com/gpu": "0"}, "cpu01": {}}
            return [
                {"metadata": {"name": name, "labels": {"pool": "gpu"}}, "status": {"capacity": amounts}}
                for name, amounts in capacity.items()
            ]
        if kind is EVENTS:
            said = _event("Nominated", NOMINATED, "karpenter", 1) | {"involvedObject": {"name": "wants-a-node"}}
            other = _event("NotTriggerScaleUp", FULL, "cluster-autoscaler", 2) | {"involvedObject": {"name": "guard-1"}}
            # Of the scheduler that the pod names.
            told = _event("FailedScheduling", "0/3 nodes", "sched", 2) | {"involvedObject": {"name": "wants-a-node"}}
            return [said, other, told] if self.adds and self.looks > 1 else [other, told]
        assert kind is PODS and labels == ""
        own = [self._pod()] if any(body["metadata"]["name"] == "wants-a-node" for body in self.made) else []
        return [*own, *({"metadata": body["metadata"], **self._guard(body)} for body in self.made[:2])]

    def _guard(self, body: Json) -> Json:
        return {"spec": {"nodeName": body["metadata"]["name"] if self.guards else "", **self._gates("guard")}}

    def _gates(self, whose: str) -> Json:
        return {"schedulingGates": [{"name": "kueue.x-k8s.io/admission"}]} if whose in self.gates else {}

    def _pod(self) -> Json:
        self.looks += 1
        there = self.adds and self.has_gpus and self.looks > 8
        status = {"phase": "Running" if self.looks > 9 and there else "Pending"}
        spec: Json = {"nodeName": self.places or "new"} if there or self.places else self._gates("pod")
        return {"metadata": {"name": "wants-a-node"}, "spec": {"schedulerName": "sched", **spec}, "status": status}

    def list_metadata(self, kind: Kind) -> list[Json]:
        assert kind is NODES
        names = ("gpu01", "gpu02", "cpu01", *(("new",) if self.adds and self.looks > 3 else ()))
        return [_metadata(name, "gpu-pool-6csft" if name == "new" else "", pool="gpu") for name in names]

    def find(self, kind: Kind, name: str, _namespace: str = "") -> Json | None:
        assert kind is NODES and name == "new"
        if self.looks <= 10 or not self.has_gpus:
            return {"status": {"allocatable": {"nvidia.com/gpu": "8"} if self.has_gpus else {}}}
        self.gone += 1
        return None if self.gone > 3 else {}

    def served_versions(self, _group: str) -> tuple[str, ...]:
        return ("v1",)

    def kind(self, api_version: str, kind: str) -> Kind:
        return Kind(api_version, kind, f"{kind.lower()}s")

    def create(self, _kind: Kind, body: Json, _namespace: str) -> Json:
        self.made.append(body)
        return body


def tried(cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch) -> NodeScaling:
    clock = [0.0]

    def sleep(seconds: float) -> None:
        clock[0] += seconds

    monkeypatch.setattr("time.sleep", sleep)
    monkeypatch.setattr("time.monotonic", lambda: clock[0])
    test = NodeTest(TemporaryNamespace(cast("Any", cluster), "ns", 1.0, ()), SETTINGS, Progress(silent))
    seen = test.up(NodeScaling(answers=(POOL,), asked=1))
    cluster.looks += 9
    return test.down(seen) if seen.started else seen


def test_the_way_of_a_node_is_followed_until_it_is_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = FakeCluster()
    seen = tried(cluster, monkeypatch)
    assert (seen.node, seen.gpus, seen.started, seen.up_s, seen.gone_s) == ("new", 8, True, 10.0, 6.0)
    assert judged(seen).status is Status.PASSED
    # The nodes that have GPUs, or will have them again, are guarded.
    assert [body["metadata"]["name"] for body in cluster.made] == ["guard-1", "guard-2", "wants-a-node"]


def test_a_node_that_comes_without_gpus_is_seen_though_the_pod_never_gets_it(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = tried(FakeCluster(has_gpus=False), monkeypatch)
    assert (seen.node, seen.gpus, seen.placed) == ("new", 0, False)
    assert judged(seen).cause == "node-without-gpus"


def test_a_pod_that_gets_a_node_of_today_answers_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    assert judged(tried(FakeCluster(places="gpu01"), monkeypatch)).cause == "node-was-there"
    silent_scheduler = FakeCluster(guards=False)
    assert judged(tried(silent_scheduler, monkeypatch)).cause == "scheduler-silent"
    assert len(silent_scheduler.made) == 2, "no pod that could get any node"


def test_where_nobody_says_anything_of_the_pod_nobody_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = FakeCluster(adds=False)
    seen = tried(cluster, monkeypatch)
    assert judged(seen).cause == "autoscaler-silent"
    assert cluster.looks < 2 * SETTINGS.answer_s


@pytest.mark.parametrize("whose", ["guard", "pod"])
def test_a_pod_that_is_held_by_a_gate_is_no_silence_of_who_adds_nodes(
    whose: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    outcome = judged(tried(FakeCluster(adds=False, guards=whose != "guard", gates=(whose,)), monkeypatch))
    assert (outcome.status, outcome.cause) == (Status.OTHER, "held-by-admission")
    assert "kueue.x-k8s.io/admission" in outcome.summary and "managedJobsNamespaceSelector" in outcome.summary
    assert "from 0.15 on starts none of their jobs" in outcome.summary


def test_only_a_site_that_says_that_nodes_are_added_is_asked() -> None:
    asked = make_site(capabilities=("kubernetes", "node_autoscaler"), settings={"cluster-autoscaling": {}})
    quiet = make_site(capabilities=("kubernetes",))
    fixed = make_site(capabilities=("kubernetes", "fixed_nodes"), settings={"cluster-autoscaling": {"added": False}})
    assert (asked.adds_nodes, fixed.adds_nodes, quiet.adds_nodes) == (True, False, None)
    for site, wanted in ((asked, True), (fixed, False), (quiet, False)):
        assert ("cluster-autoscaling" in {check.id for check in declare("gpu_stack", site).checks}) is wanted
        rights = gate_permissions("gpu_stack", "observe", choices_of(site, {}))
        assert any(right.resource == "nodepools" for right in rights) is wanted
