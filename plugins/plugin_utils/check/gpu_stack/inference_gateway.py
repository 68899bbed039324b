# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Check: the class of the recipe's inference gateway is accepted, and every Gateway of its classes is served.

The condition Programmed does not prove that: the controller sets it whatever happens to the pods that serve the
Gateway, and whether its Service gets an address or not (agentgateway/agentgateway,
controller/pkg/controller/gw_controller.go).
"""

from __future__ import annotations

from typing import Any

from ...component_stack.facts import ControllerFacts, stack_facts
from ...outcome.model import Basis, Evidence, Expectation, Measure, Outcome, SubjectKind
from ..kit.answer import Answer
from ..spec import Check, CheckSpec, Components, JudgeContext, needs
from .observe_platform import OBSERVER, POOLS, Condition, PlatformState

GATEWAYS = ("agentgateway", "kgateway")
SPEC = CheckSpec(
    id="inference-gateway",
    gate="gpu_stack",
    phase="conformance",
    title="The inference gateway's class is accepted, its Gateways are programmed and served",
    per=SubjectKind.CLUSTER,
    duration_s=1.0,
    applies=(needs("kubernetes"), Components(GATEWAYS)),
    causes=(
        "gateway-api-missing",
        "gateway-class-not-accepted",
        "gateway-not-programmed",
        "gateway-not-served",
        "gateway-without-address",
        "inference-pools-missing",
    ),
)
# Waypoints belong to a mesh (kgateway-dev/kgateway, pkg/kgateway/wellknown: DefaultWaypointClassName).
_OF_A_MESH = "-waypoint"


def judge(observed: PlatformState, context: JudgeContext) -> tuple[Outcome, ...]:
    """Return one outcome.

    The recipe creates the class; a Gateway is created with the first route, and must be complete then.
    """
    answer = Answer.about_cluster(SPEC, context)
    names = [str(name) for name in (context.recipe or {}).get("deploymentOrder") or []]
    component = next((name for name in GATEWAYS if name in names), "")
    unready = observed.why_unready([component])
    if unready is not None:
        return (answer.blocked(by="component-health", because=f"component {unready[0]}: {unready[1]}"),)
    known = stack_facts().controllers.get(component)
    if known is None:
        return (answer.unknown("no-data", "no component of the recipe is a gateway", "run the gate again"),)
    if observed.gateway_classes is None or observed.gateways is None:
        hint = "install the CRDs of the Gateway API (github.com/kubernetes-sigs/gateway-api, standard channel)"
        return (answer.failed("gateway-api-missing", "the API server does not serve gateway.networking.k8s.io", hint),)
    classes = _own_classes(observed, known)
    gateways = [entry for entry in observed.gateways if entry.of_class in classes]
    facts = _facts(observed, gateways)
    problem = _of_class(answer, observed, component, known, facts)
    problem = problem or next(filter(None, (_of_gateway(answer, entry, facts) for entry in gateways)), None)
    if problem is not None:
        return (problem,)
    count = f"{len(gateways)} Gateways programmed and served" if gateways else "no Gateway uses it yet"
    return (answer.passed(f"GatewayClass {known.gateway_class} accepted, {count}", **facts),)


def _own_classes(observed: PlatformState, known: ControllerFacts) -> set[str]:
    """Return the classes whose Gateways are the component's: the one that it creates, and those of its controllers."""
    own = [entry.name for entry in observed.gateway_classes or () if entry.of_class in known.gateway_controllers]
    return {known.gateway_class, *(name for name in own if not name.endswith(_OF_A_MESH))}


def _of_class(
    answer: Answer, observed: PlatformState, component: str, known: ControllerFacts, facts: dict[str, Any]
) -> Outcome | None:
    """Return what is wrong with the gateway's class and its pools. None: nothing is."""
    wanted = known.gateway_class
    own = next((entry for entry in observed.gateway_classes or () if entry.name == wanted), None)
    if own is None or own.status != "True":
        reported = "is not there" if own is None else f"is not accepted: {own.message or 'its controller says nothing'}"
        hint = f"kubectl describe gatewayclass {wanted}; the log of {component}"
        return answer.failed("gateway-class-not-accepted", f"GatewayClass {wanted} {reported}", hint, **facts)
    pools = {entry.name: entry.status for entry in observed.gateway_classes or () if entry.name.startswith(POOLS)}
    if not pools:
        return answer.unknown("no-data", "whether InferencePools are served was not looked at", "run the gate again")
    if not any(pools.get(f"{POOLS}{group}") == "True" for group in known.inference_pools):
        text = f"the API server has no InferencePool of {' or '.join(known.inference_pools)}, which {component} takes"
        hint = (
            "install the CRDs of kubernetes-sigs/gateway-api-inference-extension, as its component of the recipe does"
        )
        return answer.failed("inference-pools-missing", text, hint, **facts)
    return None


def _of_gateway(answer: Answer, gateway: Condition, facts: dict[str, Any]) -> Outcome | None:
    """Return what is wrong with one Gateway. None: requests reach what serves it."""
    namespace, _slash, name = gateway.name.rpartition("/")
    look = f"kubectl describe gateway -n {namespace} {name}"
    if gateway.status != "True":
        text = f"Gateway {gateway.name} is not programmed: {gateway.message or 'its controller says nothing'}"
        hint = f"{look}; an address from the load balancer is part of it"
        return answer.failed("gateway-not-programmed", text, hint, **facts)
    pods = f"kubectl get pods,services,endpointslices -n {namespace} -l gateway.networking.k8s.io/gateway-name={name}"
    if gateway.ready is None:
        text = f"Gateway {gateway.name} is programmed, and no Service bears its name: what serves it is not seen"
        return answer.unknown("gateway-unseen", text, pods, **facts)
    if not gateway.ready:
        text = f"Gateway {gateway.name} is programmed, and its Service has no ready endpoint: requests reach nobody"
        return answer.failed("gateway-not-served", text, pods, **facts)
    if not gateway.addresses:
        # Only pods of the cluster reach it, by its Service.
        text = f"Gateway {gateway.name} is programmed and has no address: nobody outside of the cluster reaches it"
        hint = f"{look}; kubectl describe service -n {namespace} -l gateway.networking.k8s.io/gateway-name={name}"
        return answer.marginal("gateway-without-address", text, hint, **facts)
    return None


def _facts(observed: PlatformState, gateways: list[Condition]) -> dict[str, Any]:
    lines = [f"{e.name}: {e.status or 'no condition'} {e.message}" for e in observed.gateway_classes or ()]
    lines += [
        f"{e.name}: {e.status or 'no condition'} {e.message}; {', '.join(e.addresses) or 'no address'}; "
        f"{'no Service' if e.ready is None else f'{e.ready} endpoints ready'}"
        for e in gateways
    ]
    served = sum(entry.status == "True" and bool(entry.ready) for entry in gateways)
    return {
        "measured": (Measure("Gateways served", served, "count"),),
        "expected": (Expectation("Gateways served", "==", len(gateways), Basis.RULE, "count"),),
        "evidence": (Evidence("GET gatewayclasses, gateways, endpointslices", "cluster", "\n".join(lines)[:1200]),),
    }


CHECK = Check(SPEC, OBSERVER, judge)
