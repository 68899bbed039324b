# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Check: the inference gateway of the recipe has its class accepted, and every Gateway of that class is programmed."""

from __future__ import annotations

from ...component_stack.facts import stack_facts
from ...outcome.model import Basis, Evidence, Expectation, Measure, Outcome, SubjectKind
from ..kit.answer import Answer
from ..spec import Check, CheckSpec, JudgeContext
from .observe_platform import OBSERVER
from .platform_state import PlatformState

SPEC = CheckSpec(
    id="inference-gateway",
    gate="gpu_stack",
    phase="conformance",
    title="The inference gateway's class is accepted, its Gateways are programmed",
    per=SubjectKind.CLUSTER,
    duration_s=1.0,
    requires=("kubernetes",),
    components=("agentgateway",),
    causes=("gateway-api-missing", "gateway-class-not-accepted", "gateway-not-programmed"),
)


def judge(seen: PlatformState, context: JudgeContext) -> tuple[Outcome, ...]:
    """A recipe brings the class; a Gateway is made with the first route, and none of them may be half made."""
    answer = Answer.about_cluster(SPEC, context)
    names = [str(name) for name in (context.recipe or {}).get("deploymentOrder") or []]
    component = next((name for name in SPEC.components if name in names), "")
    unready = seen.why_unready([component])
    if unready is not None:
        return (answer.blocked(by="component-health", because=f"component {unready[0]}: {unready[1]}"),)
    wanted = stack_facts().controllers[component].gateway_class if component else ""
    if not wanted:
        return (answer.unknown("no-data", "no component of the recipe is a gateway", "run the gate again"),)
    if seen.gateway_classes is None or seen.gateways is None:
        hint = "install the CRDs of the Gateway API (github.com/kubernetes-sigs/gateway-api, standard channel)"
        return (answer.failed("gateway-api-missing", "the API server does not serve gateway.networking.k8s.io", hint),)
    own = next((entry for entry in seen.gateway_classes if entry.name == wanted), None)
    gateways = [entry for entry in seen.gateways if entry.of_class == wanted]
    open_ones = [entry for entry in gateways if entry.status != "True"]
    lines = "\n".join(f"{e.name}: {e.status or 'no condition'} {e.message}" for e in (*seen.gateway_classes, *gateways))
    facts = {
        "measured": (Measure("Gateways programmed", len(gateways) - len(open_ones), "count"),),
        "expected": (Expectation("Gateways programmed", "==", len(gateways), Basis.RULE, "count"),),
        "evidence": (Evidence("GET gatewayclasses, gateways", "cluster", lines[:1200]),),
    }
    if own is None or own.status != "True":
        said = "is not there" if own is None else f"is not accepted: {own.message or 'its controller says nothing'}"
        hint = f"kubectl describe gatewayclass {wanted}; the log of {component}"
        return (answer.failed("gateway-class-not-accepted", f"GatewayClass {wanted} {said}", hint, **facts),)
    if open_ones:
        first = open_ones[0]
        text = f"Gateway {first.name} is not programmed: {first.message or 'its controller says nothing'}"
        namespace, _slash, name = first.name.rpartition("/")
        hint = f"kubectl describe gateway -n {namespace} {name}; an address from the load balancer is part of it"
        return (answer.failed("gateway-not-programmed", text, hint, **facts),)
    count = f"{len(gateways)} Gateways programmed" if gateways else "no Gateway uses it yet"
    return (answer.passed(f"GatewayClass {wanted} accepted, {count}", **facts),)


CHECK = Check(SPEC, OBSERVER, judge)
