# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Recipes of the catalogue installed on one cluster, and values with which a chart or its controller fails.

`make rehearse-catalogue` installs all of them; here some are drawn.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import pytest
from catalogue_bench import CatalogueBench, catalogue_bench, leaves, not_ready
from seeds import drawing
from waiting import eventually

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.clients.kube import kinds
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.component_stack.install import Done, Limits
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.recipe.merge import merged_values

Json = dict[str, Any]
DRAWN = 2
# Long enough for a pod that gets ready, and for a release that fails to say so.
SHORT = Limits(ready_s=12, pull_grace_s=3, poll_s=0.2)


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Iterator[CatalogueBench]:
    with catalogue_bench(tmp_path_factory.mktemp("catalogue")) as bench:
        yield bench


def _leaf(name: str) -> Mapping[str, Any]:
    return next(leaf.recipe for leaf in leaves() if leaf.name == name)


def test_recipes_that_are_drawn_are_installed(bench: CatalogueBench) -> None:
    for leaf in drawing("catalogue").sample(leaves(), DRAWN):
        assert not_ready(bench.become(leaf.recipe)) == [], leaf.name


@dataclass(frozen=True)
class Wrong:
    """Values that a component had once: in which recipe, and in what words it fails with them."""

    leaf: str
    component: str
    values: Json
    says: str
    state: str = "not-ready"


_PLATFORM = "intent=inference,platform="
WRONG = {
    "an affinity that is merged and not taken away": Wrong(
        "service=generic", "nvidia-dra-driver-gpu", {"controller": {"affinity": {}}}, "cannot be placed"
    ),
    "GPUs by claims beside the device plugin": Wrong(
        "service=generic", "nvidia-dra-driver-gpu", {"resources": {"gpus": {"enabled": True}}},
        "cannot be deployed alongside", "failed",
    ),
    "the operator's driver root with the host's driver": Wrong(
        "service=bcm", "nvidia-dra-driver-gpu", {"nvidiaDriverRoot": "/run/nvidia/driver"}, "0 of 2 ready"
    ),
    "peer memory without drivers of the NICs": Wrong(
        "service=generic", "gpu-operator", {"driver": {"rdma": {"enabled": True}}},
        "ClusterPolicy is notReady", "degraded",
    ),
    "keys that the chart removed": Wrong(
        f"{_PLATFORM}dynamo", "dynamo-platform", {"nats": {"enabled": False}},
        "'nats.enabled' has been removed", "failed",
    ),
    "a scheduler that is not there": Wrong(
        "platform=ray", "kuberay-operator", {"batchScheduler": {"enabled": True, "name": ""}}, "CrashLoopBackOff"
    ),
    "a volume without a storage class": Wrong(
        "intent=training,platform=slurm", "slinky-slurm", {"controller": {"persistence": {"enabled": True}}},
        "PersistentVolumeClaim",
    ),
    "a runtime class of another name": Wrong(
        "service=aks", "nvsentinel", {"metadata-collector": {"runtimeClassName": "nvidia"}}, "metadata-collector"
    ),
}  # fmt: skip


def _with(recipe: Mapping[str, Any], component: str, values: Json) -> Json:
    entries = [
        {**entry, "values": merged_values(entry["values"], values)} if entry["name"] == component else entry
        for entry in recipe["componentRefs"]
    ]
    return {**recipe, "componentRefs": entries}


@pytest.mark.parametrize("name", sorted(WRONG, key=lambda name: WRONG[name].leaf))
def test_a_value_with_which_a_component_fails_is_not_ours(name: str, bench: CatalogueBench) -> None:
    """What was wrong is found, and with the catalogue's own values the same component gets ready."""
    wrong = WRONG[name]
    recipe = _leaf(wrong.leaf)
    found = _of(bench.become(_with(recipe, wrong.component, wrong.values), SHORT), wrong.component)
    assert (found.state, wrong.says in found.reason) == (wrong.state, True), found
    assert not_ready(bench.become(recipe)) == []


def _of(done: tuple[Done, ...], component: str) -> Done:
    return next(entry for entry in done if entry.component == component)


def test_a_node_with_a_taint_gets_its_plugin_only_by_a_toleration(bench: CatalogueBench) -> None:
    recipe = _leaf("service=generic")
    assert not_ready(bench.become(recipe)) == []
    node = bench.spec.nodes[0].name
    taint = {"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"}
    _taint(bench, node, [taint])
    try:
        wrong = {"kubeletPlugin": {"tolerations": []}}
        bench.become(_with(recipe, "nvidia-dra-driver-gpu", wrong))
        eventually(lambda: _plugins(bench) == 1, 30)
        assert not_ready(bench.become(recipe)) == []
        eventually(lambda: _plugins(bench) == 2, 30)
    finally:
        _taint(bench, node, None)


def _taint(bench: CatalogueBench, node: str, taints: list[Json] | None) -> None:
    body, kind = {"spec": {"taints": taints}}, "application/merge-patch+json"
    bench.cluster.transport.json("PATCH", kinds.NODES.path(node), body=body, content_type=kind)


def _plugins(bench: CatalogueBench) -> int:
    name = "nvidia-dra-driver-gpu-kubelet-plugin"
    found = bench.cluster.get(kinds.DAEMON_SETS, name, "nvidia-dra-driver")
    return int(found["status"]["desiredNumberScheduled"])
