# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Gangs of Ray on a rehearsal cluster whose gang scheduler is Volcano: healthy, without groups, without pods."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from role_bench import RoleUser
from waiting import await_model

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.gpu_stack import ray_gang_admission
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.gpu_stack.ray_gang import RAY_CLUSTERS
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.spec import JudgeContext, ObserveContext
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.clients.kube.cluster import Cluster
from ansible_collections.gpufleet.rehearsal.plugins.plugin_utils.model.spec import (
    Change,
    Fault,
    read_spec,
    write_spec,
)

Json = dict[str, Any]
KUBERAY: Json = {
    "name": "kuberay-operator", "namespace": "kuberay-operator", "version": "1.6.2", "dependencyRefs": [],
    "values": {"batchScheduler": {"name": "volcano"}},
}  # fmt: skip
STATED = {"gang-admission": {"settle_s": 2, "timeout_s": 20}}


def with_kuberay(recipe: Json) -> Json:
    """Return a recipe with KubeRay beside what it has."""
    order = [*recipe["deploymentOrder"], "kuberay-operator"]
    return {**recipe, "componentRefs": [*recipe["componentRefs"], KUBERAY], "deploymentOrder": order}


def assert_one_cluster_is_placed_whole(
    admin: Cluster, user: RoleUser, context: ObserveContext, judging: JudgeContext, model: Path
) -> None:
    """Of two RayClusters one is placed, and nothing is left; a KubeRay that groups or makes nothing is found out."""
    mine = replace(context, recipe=user.recipe, connections=user.connections)
    before = read_spec(model)

    def told(state: str) -> list[tuple[str, str]]:
        patch = (Change(at="cluster.stack.ray", set=state),)
        write_spec(replace(before, faults=(Fault(id="ray", kind="cluster", subject=before.name, patch=patch),)), model)
        await_model(model)
        outcomes = ray_gang_admission.judge(ray_gang_admission.observe(mine), judging)
        assert admin.list_objects(RAY_CLUSTERS) == []
        return [(outcome.status.value, outcome.cause) for outcome in outcomes]

    try:
        assert told("ok") == [("passed", "")]
        assert told("groups-nothing") in ([("failed", "gang-partial")], [("failed", "gang-overcommitted")])
        assert told("makes-nothing") == [("failed", "gang-not-admitted")]
    finally:
        write_spec(before, model)
        await_model(model)
