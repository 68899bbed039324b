# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Stand-ins of those who add nodes do what their sources say: for which pods, and what they leave without a word."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from operator_view import a_node, meta, view_of

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.clients.kube.objects import (
    CONFIG_MAPS,
    EVENTS,
    NODES,
    PODS,
    Kind,
)
from ansible_collections.gpufleet.rehearsal.plugins.plugin_utils.controllers.added_nodes import (
    ADDED,
    new_node,
    with_added_nodes,
)
from ansible_collections.gpufleet.rehearsal.plugins.plugin_utils.controllers.cluster_autoscaler import (
    ClusterAutoscaler,
)
from ansible_collections.gpufleet.rehearsal.plugins.plugin_utils.controllers.cluster_facts import (
    Change,
    ClusterFacts,
    Json,
)
from ansible_collections.gpufleet.rehearsal.plugins.plugin_utils.controllers.karpenter import (
    NODE_CLAIMS,
    NODE_POOLS,
    Karpenter,
)

Item = tuple[Kind, Json]


def a_waiting_pod(
    *, gpus: int = 1, affinity: Json | None = None, selector: dict[str, str] | None = None, **spec: Any
) -> Item:
    unschedulable = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
    containers = [{"resources": {"limits": {"nvidia.com/gpu": gpus}}}]
    more = {"affinity": affinity} if affinity else {}
    body = {"containers": containers, "nodeSelector": selector or {}, **more, **spec}
    return PODS, {"metadata": meta("p", "ns"), "spec": body, "status": {"conditions": [unschedulable]}}


def by_name(operator: str, *values: str) -> Json:
    expression = {"key": "kubernetes.io/hostname", "operator": operator, "values": list(values)}
    return _required({"matchExpressions": [expression]})


def _required(term: Json) -> Json:
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}}


BY_FIELD = _required({"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["gpu01"]}]})
BESIDE_NOBODY = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": []}}


def a_pool(limit: int = 16, ready: bool = True) -> Item:
    template = {"metadata": {"labels": {"lab/pool": "gpu"}}}
    spec = {"template": template, "limits": {"nvidia.com/gpu": str(limit)}}
    return NODE_POOLS, {
        "metadata": meta("gpu"), "spec": spec, "status": {"conditions": [{"type": "Ready", "status": str(ready)}]},
    }  # fmt: skip


def with_autoscaler(facts: ClusterFacts, who: str, becomes: str = "comes") -> ClusterFacts:
    assert facts.model is not None
    stack = replace(facts.model.stack, node_autoscaler=who, added_node=becomes)
    return replace(facts, model=replace(facts.model, stack=stack))


def of_karpenter(facts: ClusterFacts, *items: Item, becomes: str = "comes") -> list[Change]:
    return Karpenter().reconcile(view_of(*items), with_autoscaler(facts, "karpenter", becomes))


def of_group(facts: ClusterFacts, *items: Item, becomes: str = "comes") -> list[Change]:
    node = a_node(next(iter(facts.nodes)), **{"lab/pool": "gpu"})
    found = ClusterAutoscaler().reconcile(view_of(node, *items), with_autoscaler(facts, "cluster-autoscaler", becomes))
    return [change for change in found if change.kind is not CONFIG_MAPS]


def said(changes: list[Change]) -> list[tuple[str, str]]:
    return [(change.body["reason"], change.body["message"]) for change in changes if change.kind is EVENTS]


def made(changes: list[Change]) -> list[str]:
    return [change.kind.kind for change in changes if change.verb == "create" and change.kind is not EVENTS]


def test_karpenter_claims_a_node_for_a_pod_that_shares_none_with_others(facts: ClusterFacts) -> None:
    changes = of_karpenter(facts, a_pool(), a_waiting_pod(affinity=BESIDE_NOBODY, selector={"lab/pool": "gpu"}))
    assert made(changes) == ["NodeClaim"]
    assert said(changes) == [("Nominated", "Pod should schedule on: nodeclaim/gpu-uid-p")]
    claim = next(change.body for change in changes if change.kind is NODE_CLAIMS)
    again = of_karpenter(facts, a_pool(), a_waiting_pod(), (NODE_CLAIMS, claim | {"metadata": {
        **meta("gpu-uid-p"), **claim["metadata"],
    }}))  # fmt: skip
    assert made(again) == ["Node"] and said(again) == []


@pytest.mark.parametrize(
    "affinity", [by_name("NotIn", "gpu01"), by_name("In", "gpu09"), BY_FIELD], ids=["not-in", "in", "field"]
)
def test_karpenter_takes_no_notice_of_a_pod_that_names_nodes(facts: ClusterFacts, affinity: Json) -> None:
    """kubernetes-sigs/karpenter issues 1596 and 3214: not even with NotIn, and nobody is told."""
    assert of_karpenter(facts, a_pool(), a_waiting_pod(affinity=affinity)) == []


@pytest.mark.parametrize(
    ("pool", "pod", "text"),
    [
        (a_pool(0), {}, "exceed limits for nodepool"),
        (a_pool(), {"selector": {"lab/pool": "cpu"}}, 'incompatible with nodepool "gpu"'),
        (a_pool(), {"selector": {"lab/rack": "a"}}, "does not have known values"),
    ],
)
def test_karpenter_says_why_a_pool_makes_no_node(facts: ClusterFacts, pool: Item, pod: Json, text: str) -> None:
    changes = of_karpenter(facts, pool, a_waiting_pod(**pod))
    ((reason, message),) = said(changes)
    assert reason == "FailedScheduling" and text in message and made(changes) == []


def test_without_a_pool_that_is_ready_nobody_is_told(facts: ClusterFacts) -> None:
    assert of_karpenter(facts, a_pool(ready=False), a_waiting_pod()) == []
    assert Karpenter().reconcile(view_of(a_pool(), a_waiting_pod()), with_autoscaler(facts, "none")) == []


@pytest.mark.parametrize(
    ("pod", "reason"),
    [
        ({}, "TriggeredScaleUp"),
        ({"affinity": BESIDE_NOBODY}, "TriggeredScaleUp"),
        # A node that is to come has another host name, and the labels of one that is there.
        ({"affinity": by_name("NotIn", "gpu01")}, "TriggeredScaleUp"),
        ({"selector": {"lab/pool": "gpu"}}, "TriggeredScaleUp"),
        ({"affinity": BY_FIELD}, "NotTriggerScaleUp"),
        ({"selector": {"lab/pool": "cpu"}}, "NotTriggerScaleUp"),
        ({"priority": -100}, ""),
        ({"gpus": 0}, ""),
    ],
)
def test_cluster_autoscaler_tries_a_pod_on_a_node_like_those_that_are_there(
    facts: ClusterFacts, pod: Json, reason: str
) -> None:
    changes = of_group(facts, a_waiting_pod(**pod))
    assert [entry for entry, _text in said(changes)] == ([reason] if reason else [])
    assert made(changes) == (["Node"] if reason == "TriggeredScaleUp" else [])


def test_a_group_at_its_limit_says_so_and_one_whose_provider_has_none_does_not(facts: ClusterFacts) -> None:
    assert "max node group size reached" in said(of_group(facts, a_waiting_pod(), becomes="at-limit"))[0][1]
    promised = of_group(facts, a_waiting_pod(), becomes="never-comes")
    assert [reason for reason, _text in said(promised)] == ["TriggeredScaleUp"] and made(promised) == []


def added(name: str = "new", owners: tuple[Json, ...] = ()) -> Item:
    return NODES, new_node(name, "uid-p", {}, owners)


def test_a_node_goes_once_its_pod_is_gone_and_not_where_it_stays(facts: ClusterFacts) -> None:
    gone = [change.name for change in of_group(facts, added()) if change.verb == "delete"]
    assert gone == ["new"]
    assert of_group(facts, added(), becomes="stays") == []
    assert [change for change in of_group(facts, added(), a_waiting_pod()) if change.verb == "delete"] == []
    # Karpenter leaves a node that never got its GPUs: it is not Initialized.
    assert of_karpenter(facts, added(owners=({"kind": "NodeClaim", "name": "c"},))) == []


def test_the_gpus_of_a_node_that_came_are_those_of_the_others(facts: ClusterFacts) -> None:
    like = next(iter(facts.nodes.values()))
    whole = with_added_nodes(view_of(added()), with_autoscaler(facts, "karpenter"))
    assert whole.nodes["new"].resources == {"nvidia.com/gpu": len(like.gpus)} and not whole.nodes["new"].pod_faults
    broken = with_added_nodes(view_of(added()), with_autoscaler(facts, "karpenter", "without-gpus"))
    assert broken.nodes["new"].pod_faults and ADDED in added()[1]["metadata"]["annotations"]
