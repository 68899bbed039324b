# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A Gateway on a rehearsal cluster: none, one that is served, and one whose pods are gone while it is programmed.

The labels of its endpoints are those that Kubernetes' own controller gives them.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from role_bench import RoleUser
from stack_recipe import ref
from waiting import eventually

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.gpu_stack import (
    inference_gateway,
    observe_platform,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.spec import JudgeContext, ObserveContext
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.clients.kube.cluster import Cluster
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.clients.kube.objects import DEPLOYMENTS, Kind

Json = dict[str, Any]
GATEWAYS = Kind("gateway.networking.k8s.io/v1", "Gateway", "gateways")
PARTS = (ref("gateway-api-inference-extension", "1.6.0"), ref("agentgateway", "1.5.0"))
_NAME, _SPACE = "inference-gateway", "default"


def with_gateway(recipe: Json) -> Json:
    """Return a recipe with a gateway for inference beside what it has."""
    order = [*recipe["deploymentOrder"], *(part["name"] for part in PARTS)]
    return {**recipe, "componentRefs": [*recipe["componentRefs"], *PARTS], "deploymentOrder": order}


def assert_a_gateway_is_held_to_who_serves_it(
    admin: Cluster, user: RoleUser, context: ObserveContext, judging: JudgeContext
) -> None:
    """Without a Gateway its class is told; one with pods passes; one whose pods are gone fails."""
    mine = replace(context, recipe=user.recipe, connections=user.connections)
    found = replace(judging, recipe=user.recipe)
    last = []

    def told(status: str, text: str) -> bool:
        (outcome,) = inference_gateway.judge(observe_platform.observe(mine), found)
        last[:] = [f"{outcome.status.value} {outcome.cause}: {outcome.summary}"]
        return outcome.status.value == status and text in f"{outcome.cause} {outcome.summary}"

    eventually(lambda: told("passed", "no Gateway uses it yet"), what=lambda: str(last))
    spec = {"gatewayClassName": "agentgateway", "listeners": [{"name": "http", "port": 80, "protocol": "HTTP"}]}
    made = {"apiVersion": GATEWAYS.api_version, "kind": "Gateway", "metadata": {"name": _NAME}, "spec": spec}
    admin.create(GATEWAYS, made, _SPACE)
    try:
        eventually(lambda: told("passed", "1 Gateways programmed and served"), what=lambda: str(last))
        admin.patch(DEPLOYMENTS, _NAME, {"spec": {"replicas": 0}}, _SPACE)
        eventually(lambda: told("failed", "gateway-not-served"), what=lambda: str(last))
        assert "is programmed, and its Service has no ready endpoint" in last[0]
    finally:
        admin.delete(GATEWAYS, _NAME, _SPACE)
