# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Gangs that Kueue admits on a rehearsal cluster, tried by somebody with the roles of gate gpu_stack alone."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from role_bench import RoleUser
from waiting import eventually

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.gpu_stack import gang_admission, observe_gang
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.gpu_stack.observe_gang import GangResult
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.spec import JudgeContext, ObserveContext
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.clients.kube.cluster import Cluster
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.clients.kube.objects import Kind
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.model import Status

Json = dict[str, Any]
# As kueue.sigs.k8s.io has it, "Setup All-or-nothing with ready Pods", of the versions whose configuration is v1beta1.
WAITS = (
    "apiVersion: config.kueue.x-k8s.io/v1beta1\nkind: Configuration\nwaitForPodsReady:\n  enable: true\n  timeout: 5m\n"
)
KUEUE: Json = {
    "name": "kueue", "namespace": "kueue", "version": "0.13.2", "dependencyRefs": ["cert-manager"],
    "values": {"managerConfig": {"controllerManagerConfigYaml": WAITS}},
}  # fmt: skip
STATED = {"gang-admission": {"settle_s": 2, "provider": "kueue"}}


def with_kueue(recipe: Json) -> Json:
    """Return a recipe with Kueue beside what it has."""
    order = [*recipe["deploymentOrder"], "kueue"]
    return {**recipe, "componentRefs": [*recipe["componentRefs"], KUEUE], "deploymentOrder": order}


def assert_one_is_admitted_whole(
    admin: Cluster, user: RoleUser, context: ObserveContext, judging: JudgeContext
) -> None:
    """Of two Jobs one gets the queue of the test and the other is told why not; the queue is gone afterwards."""
    mine = replace(context, recipe=user.recipe, connections=user.connections)

    def whole() -> GangResult | None:
        seen = observe_gang.observe(mine)
        return seen if sorted(seen.bound.values()) == [0, 3] else None

    # The policy that suspends Jobs of a queue counts a moment after it was made.
    seen = eventually(whole, what="one of the Jobs was admitted")
    assert [outcome.status for outcome in gang_admission.judge(seen, judging)] == [Status.PASSED]
    assert seen.waits_for_pods
    assert any("insufficient unused quota" in said for said in seen.conditions.values())
    for plural in ("clusterqueues", "resourceflavors"):
        kind = Kind("kueue.x-k8s.io/v1beta2", plural, plural, namespaced=False)
        assert admin.list_objects(kind, labels="gpufleet.io/purpose=test") == []
