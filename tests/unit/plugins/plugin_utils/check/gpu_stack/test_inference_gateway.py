# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The recipe's gateway for inference: its class, the pools that it takes, and that its Gateways are served."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, cast

import pytest

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.gpu_stack import (
    inference_gateway,
    observe_platform,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.gpu_stack.observe_platform import (
    Condition,
    PlatformState,
    condition_of,
    endpoints_of_gateways,
    gateway_state,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.selection import names_of_checks
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.clients.kube.cluster import Cluster
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.clients.kube.errors import NotFoundError
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.clients.kube.objects import Kind
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.component_stack.facts import stack_facts
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.model import Outcome, Rating, Status

from .conftest import context, recipe

ACCEPTED = Condition(name="agentgateway", status="True")
POOLS, BEFORE_GA = "inferencepools.inference.networking.k8s.io", "inferencepools.inference.networking.x-k8s.io"
SERVED = Condition(name=POOLS, status="True")
SEEN = PlatformState(gateway_classes=(ACCEPTED, SERVED), gateways=(), claims=(), storage_classes=())


def judged(seen: PlatformState, component: str = "agentgateway") -> Outcome:
    stated = recipe()
    stated["deploymentOrder"] = [*stated["deploymentOrder"], component]
    (outcome,) = inference_gateway.judge(seen, context(recipe=stated))
    return outcome


GATEWAY = Condition(name="edge/gw", status="True", of_class="agentgateway", addresses=("10.0.0.7",), ready=2)


@pytest.mark.parametrize(
    ("change", "rating", "cause"),
    [
        ({}, Rating.GOOD, ""),
        ({"gateways": (GATEWAY,)}, Rating.GOOD, ""),
        ({"gateways": (replace(GATEWAY, status="False", of_class="istio"),)}, Rating.GOOD, ""),
        (
            {"gateways": (replace(GATEWAY, status="False", message="AddressNotAssigned"),)},
            Rating.BAD,
            "gateway-not-programmed",
        ),
        ({"gateways": (replace(GATEWAY, status=""),)}, Rating.BAD, "gateway-not-programmed"),
        # Programmed all the same: agentgateway says so whatever becomes of the pods.
        ({"gateways": (replace(GATEWAY, ready=0),)}, Rating.BAD, "gateway-not-served"),
        ({"gateways": (GATEWAY, replace(GATEWAY, name="edge/other", ready=0))}, Rating.BAD, "gateway-not-served"),
        ({"gateways": (replace(GATEWAY, ready=None),)}, Rating.UNKNOWN, "gateway-unseen"),
        ({"gateways": (replace(GATEWAY, addresses=()),)}, Rating.MARGINAL, "gateway-without-address"),
        ({"gateway_classes": (SERVED,)}, Rating.BAD, "gateway-class-not-accepted"),
        ({"gateway_classes": (replace(ACCEPTED, status="Unknown"), SERVED)}, Rating.BAD, "gateway-class-not-accepted"),
        ({"gateway_classes": (replace(ACCEPTED, name="istio"), SERVED)}, Rating.BAD, "gateway-class-not-accepted"),
        ({"gateway_classes": None, "gateways": None}, Rating.BAD, "gateway-api-missing"),
        # Of before it was GA, which agentgateway does not look at.
        ({"gateway_classes": (ACCEPTED, replace(SERVED, name=BEFORE_GA))}, Rating.BAD, "inference-pools-missing"),
        ({"gateway_classes": (ACCEPTED, replace(SERVED, status="False"))}, Rating.BAD, "inference-pools-missing"),
        ({"gateway_classes": (ACCEPTED,)}, Rating.UNKNOWN, "no-data"),
        ({"unready": (("agentgateway", "0 of 1"),)}, Rating.UNKNOWN, "blocked-by-component-health"),
    ],
)
def test_the_gateway_of_the_recipe(change: dict[str, Any], rating: Rating, cause: str) -> None:
    outcome = judged(replace(SEEN, **change))
    assert (outcome.rating, outcome.cause) == (rating, cause)


@pytest.mark.parametrize("pools", [POOLS, BEFORE_GA])
def test_the_gateway_of_upstreams_recipes_is_asked_for_as_well(pools: str) -> None:
    own = replace(GATEWAY, name="kgateway-system/inference-gateway", of_class="kgateway")
    classes = (replace(ACCEPTED, name="kgateway"), replace(SERVED, name=pools))
    seen = replace(SEEN, gateway_classes=classes, gateways=(own,))
    outcome = judged(seen, "kgateway")
    assert outcome.status is Status.PASSED and "1 Gateways programmed and served" in outcome.summary
    outcome = judged(replace(seen, gateways=(replace(own, ready=0),)), "kgateway")
    assert (outcome.status, outcome.cause) == (Status.FAILED, "gateway-not-served")
    assert "inference-gateway" in names_of_checks()["inference-gateway"]


CLASSES = (
    Condition(name="kgateway", status="True", of_class="kgateway.dev/kgateway"),
    Condition(name="kgateway-waypoint", status="True", of_class="kgateway.dev/kgateway"),
    Condition(name="agentgateway", status="True", of_class="kgateway.dev/agentgateway"),
    Condition(name="edge-of-ours", status="True", of_class="kgateway.dev/agentgateway"),
    Condition(name="agentgateway-of-the-site", status="True", of_class="agentgateway.dev/agentgateway"),
    Condition(name="istio", status="True", of_class="istio.io/gateway-controller"),
    SERVED,
)


@pytest.mark.parametrize(
    ("of_class", "component", "counts"),
    [
        # Since 2.1 inference goes by the class of agentgateway; somebody may make a class of a controller, too.
        ("agentgateway", "kgateway", True),
        ("edge-of-ours", "kgateway", True),
        ("kgateway", "kgateway", True),
        # For a mesh, or of somebody else.
        ("kgateway-waypoint", "kgateway", False),
        ("agentgateway-of-the-site", "kgateway", False),
        ("istio", "kgateway", False),
        ("agentgateway-of-the-site", "agentgateway", True),
        # By its former name, which its controller still takes.
        ("edge-of-ours", "agentgateway", True),
        ("kgateway", "agentgateway", False),
    ],
)
def test_gateways_of_every_class_of_its_controllers_have_to_be_served(
    of_class: str, component: str, counts: bool
) -> None:
    own = replace(GATEWAY, of_class=of_class)
    outcome = judged(replace(SEEN, gateway_classes=CLASSES, gateways=(own,)), component)
    assert outcome.status is Status.PASSED
    assert ("1 Gateways programmed and served" in outcome.summary) is counts
    outcome = judged(replace(SEEN, gateway_classes=CLASSES, gateways=(replace(own, ready=0),)), component)
    assert (outcome.cause == "gateway-not-served") is counts
    # A run of before does not say whose the classes are.
    before = tuple(replace(entry, of_class="") for entry in CLASSES)
    outcome = judged(replace(SEEN, gateway_classes=before, gateways=(replace(own, ready=0),)), component)
    assert (outcome.cause == "gateway-not-served") is (of_class == component)


def test_a_class_says_whose_it_is() -> None:
    spec = {"controllerName": "kgateway.dev/agentgateway"}
    accepted = {"conditions": [{"type": "Accepted", "status": "True"}]}
    made = {"metadata": {"name": "agentgateway"}, "spec": spec, "status": accepted}
    assert condition_of(made, "Accepted") == CLASSES[2]


def test_gateways_are_read_with_their_addresses_and_who_serves_them() -> None:
    def slice_of(ready: bool, name: str = "gw") -> dict[str, Any]:
        labels = {"kubernetes.io/service-name": "gw-x", "gateway.networking.k8s.io/gateway-name": name}
        return {"metadata": {"namespace": "edge", "labels": labels}, "endpoints": [{"conditions": {"ready": ready}}]}

    made = {
        "metadata": {"name": "gw", "namespace": "edge"},
        "spec": {"gatewayClassName": "agentgateway"},
        "status": {
            "conditions": [{"type": "Programmed", "status": "True"}],
            "addresses": [{"type": "IPAddress", "value": "10.0.0.7"}],
        },
    }
    served = endpoints_of_gateways([slice_of(True), slice_of(False), slice_of(True), slice_of(True, "other")])
    assert gateway_state(made, served) == replace(GATEWAY, ready=2)
    assert gateway_state(made, endpoints_of_gateways([slice_of(False)])).ready == 0
    assert gateway_state(made, {}).ready is None


def test_a_group_has_pools_where_the_server_serves_the_kind() -> None:
    pools = {
        "inference.networking.k8s.io": ("InferencePool",),
        "inference.networking.x-k8s.io": ("InferenceObjective",),
    }

    class Server:
        def served_versions(self, group: str) -> tuple[str, ...]:
            return ("v1",) if group in pools else ()

        def kind(self, api_version: str, kind: str) -> Kind:
            if kind not in pools[api_version.partition("/")[0]]:
                raise NotFoundError(kind, "not served")
            return Kind(api_version, kind, f"{kind.lower()}s")

    facts = [stack_facts().controllers["kgateway"]]
    found = observe_platform._inference_pools(cast(Cluster, Server()), facts)
    assert found == (SERVED, Condition(name=BEFORE_GA, status="False"))
    pools.clear()
    found = observe_platform._inference_pools(cast(Cluster, Server()), facts)
    assert {entry.status for entry in found} == {"False"}
