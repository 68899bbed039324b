# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Observes what components answer for beyond their workloads: their webhooks, gateways and volumes.

Nothing is made: the object that a webhook must refuse is asked for as a dry run.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ...clients.kube.cluster import Cluster
from ...clients.kube.connection import connection_from
from ...clients.kube.kinds import ENDPOINT_SLICES, STORAGE_CLASSES, VOLUME_CLAIMS, WEBHOOK_CONFIGURATIONS, Kind
from ...component_stack.facts import ControllerFacts, stack_facts
from ...component_stack.model import Component, components_of
from ...component_stack.read import read_workloads
from ...outcome.errors import BringupError, InputError, NotFoundError
from ..spec import ObserveContext, observer_of
from .platform_state import (
    POOLS,
    Condition,
    PlatformState,
    TriedObject,
    condition_of,
    default_classes,
    endpoints_of_gateways,
    gateway_state,
    ready_endpoints,
    volume_claim,
    webhooks_of,
)

_GATEWAY = "gateway.networking.k8s.io"
_LATE = "WaitForFirstConsumer"


def observe(context: ObserveContext) -> PlatformState:
    """Look once.

    Raises:
        BringupError: the API server does not answer.
    """
    if context.recipe is None:
        raise InputError("recipe", "none is resolved.", "resolve it before the gate runs (role gpu_stack does)")
    components = components_of(context.recipe)
    known = {entry.name: facts for entry in components if (facts := stack_facts().controllers.get(entry.name))}
    with Cluster(connection_from(context.connections)) as cluster:
        namespaces = sorted({name for entry in components for name in entry.namespaces})
        classes = cluster.list_objects(STORAGE_CLASSES)
        late = [item["metadata"]["name"] for item in classes if item.get("volumeBindingMode") == _LATE]
        claims = [claim for name in namespaces for claim in cluster.list_objects(VOLUME_CLAIMS, name)]
        gateways = _gateways(cluster) if any(facts.gateway_class for facts in known.values()) else (None, None)
        return PlatformState(
            webhooks=_webhooks(cluster, namespaces) if any(facts.webhooks for facts in known.values()) else None,
            # Even a dry run takes the right to create.
            tried=tuple(
                _tried(cluster, name, facts)
                for name, facts in known.items()
                if facts.invalid and not context.check_mode
            ),
            gateway_classes=None if gateways[0] is None else (*gateways[0], *_inference_pools(cluster, known.values())),
            gateways=gateways[1],
            storage_classes=tuple(sorted(item["metadata"]["name"] for item in classes)),
            default_classes=default_classes(classes),
            claims=tuple(volume_claim(claim, late) for claim in claims),
            unready=tuple(_unready(cluster, [entry for entry in components if entry.name in known])),
        )


def _webhooks(cluster: Cluster, namespaces: list[str]) -> tuple[Any, ...]:
    slices = [item for name in namespaces for item in cluster.list_objects(ENDPOINT_SLICES, name)]
    configurations = [item for kind in WEBHOOK_CONFIGURATIONS for item in cluster.list_objects(kind)]
    return webhooks_of(configurations, namespaces, ready_endpoints(slices))


def _gateways(cluster: Cluster) -> tuple[Any, Any]:
    versions = cluster.served_versions(_GATEWAY)
    version = next((entry for entry in ("v1", "v1beta1") if entry in versions), "")
    if not version:
        return None, None
    classes = cluster.find_all(Kind(f"{_GATEWAY}/{version}", "GatewayClass", "gatewayclasses", namespaced=False))
    gateways = cluster.find_all(Kind(f"{_GATEWAY}/{version}", "Gateway", "gateways"))
    spaces = sorted({item["metadata"]["namespace"] for item in gateways or ()})
    served = endpoints_of_gateways(item for name in spaces for item in cluster.list_objects(ENDPOINT_SLICES, name))
    return (
        None if classes is None else tuple(condition_of(item, "Accepted") for item in classes),
        None if gateways is None else tuple(gateway_state(item, served) for item in gateways),
    )


def _inference_pools(cluster: Cluster, facts: Iterable[ControllerFacts]) -> tuple[Condition, ...]:
    groups = dict.fromkeys(group for entry in facts for group in entry.inference_pools)
    return tuple(
        Condition(name=f"{POOLS}{group}", status="True" if _has_pools(cluster, group) else "False") for group in groups
    )


def _has_pools(cluster: Cluster, group: str) -> bool:
    for version in cluster.served_versions(group):
        try:
            cluster.kind(f"{group}/{version}", "InferencePool")
        except NotFoundError:
            continue
        return True
    return False


def _tried(cluster: Cluster, name: str, facts: ControllerFacts) -> TriedObject:
    """Ask for an object that must be refused, as a dry run, in a version that the server has."""
    group, _slash, version = str(facts.invalid["apiVersion"]).rpartition("/")
    kind = str(facts.invalid["kind"])
    served = cluster.served_versions(group)
    if not served:
        return TriedObject(component=name, kind=kind, accepted=False, said=f"{group} is not served")
    body = {**facts.invalid, "apiVersion": f"{group}/{version if version in served else served[0]}"}
    namespace = str(body["metadata"].get("namespace", ""))
    try:
        cluster.create(cluster.kind(body["apiVersion"], kind), body, namespace, dry_run=True)
    except BringupError as error:
        return TriedObject(component=name, kind=kind, accepted=False, said=error.reason[:600])
    return TriedObject(component=name, kind=kind, accepted=True)


def _unready(cluster: Cluster, components: list[Component]) -> list[tuple[str, str]]:
    found = []
    for component in components:
        workloads = [w for w in read_workloads(cluster, [component.namespace], 0.0) if w.release == component.release]
        broken = next((workload for workload in workloads if workload.state != "ready"), None)
        if broken is not None:
            found.append((component.name, f"{broken.kind} {broken.name}: {broken.reason}"))
    return found


OBSERVER = observer_of("platform", PlatformState, observe)
