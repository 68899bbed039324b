# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Observe what components provide beyond their workloads: their webhooks, gateways and volumes.

Nothing is created: the object that a webhook must refuse is submitted as a dry run.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from ...clients.kube.cluster import Cluster
from ...clients.kube.connection import connection_from
from ...clients.kube.objects import (
    ENDPOINT_SLICES,
    STORAGE_CLASSES,
    VOLUME_CLAIMS,
    WEBHOOK_CONFIGURATIONS,
    Kind,
    condition,
)
from ...component_stack.facts import ControllerFacts, stack_facts
from ...component_stack.model import Component, components_of
from ...component_stack.read import read_workloads
from ...outcome.errors import BringupError, InputError, NotFoundError
from ..spec import ObserveContext, observer_of

# What components provide beyond their workloads: webhooks, gateways and volumes, as values. Reading is pure.

Json = dict[str, Any]
_DEFAULT = "storageclass.kubernetes.io/is-default-class"
# Prefix of the names of InferencePool definitions, before their API group.
POOLS = "inferencepools."
_GATEWAY_NAME = "gateway.networking.k8s.io/gateway-name"


@dataclass(frozen=True, slots=True, kw_only=True)
class Webhook:
    """One entry of a webhook configuration that is served by a service in the cluster.

    Attributes:
        configuration: name of the configuration.
        name: name of the entry.
        service: `namespace/name`.
        ready: its ready endpoints.
        strict: if it is not served, nothing that it intercepts can be written (failurePolicy Fail).
        has_ca: it has a caBundle, so that the API server trusts it.
    """

    configuration: str
    name: str
    service: str
    ready: int
    strict: bool
    has_ca: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class TriedObject:
    """An object that a component's webhook must refuse, submitted as a dry run: was it accepted, and the response."""

    component: str
    kind: str
    accepted: bool
    said: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Condition:
    """A GatewayClass or Gateway.

    Attributes:
        name: with its namespace, if it has one.
        status: status of the relevant condition (`True`, `False`, `Unknown`); empty: it has none.
        message: message of that condition.
        of_class: the class of a Gateway, or the controller of a class.
        addresses: where a Gateway is reached.
        ready: endpoints that serve a Gateway; None: it has no Service, or was not observed.
    """

    name: str
    status: str
    message: str = ""
    of_class: str = ""
    addresses: tuple[str, ...] = ()
    ready: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class VolumeClaim:
    """A PersistentVolumeClaim of a component's namespace. `storage_class` is None if it uses the default."""

    name: str
    phase: str
    storage_class: str | None = None
    waits_for_pod: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class PlatformState:
    """The whole observation. A field is None if the server does not serve the kind, or it was not observed.

    `unready` has the components whose workloads are not ready, with the reason. `gateway_classes` also has the
    definitions of InferencePools that were looked up (`inferencepools.<group>`, True if they are served).
    """

    webhooks: tuple[Webhook, ...] | None = None
    tried: tuple[TriedObject, ...] = ()
    gateway_classes: tuple[Condition, ...] | None = None
    gateways: tuple[Condition, ...] | None = None
    storage_classes: tuple[str, ...] | None = None
    default_classes: tuple[str, ...] = ()
    claims: tuple[VolumeClaim, ...] | None = None
    unready: tuple[tuple[str, str], ...] = ()
    schema_version: int = 1

    def why_unready(self, components: Iterable[str]) -> tuple[str, str] | None:
        """Return the first of these components whose workloads are not ready, with the reason. None: all are ready."""
        wanted = set(components)
        return next((entry for entry in self.unready if entry[0] in wanted), None)


def webhooks_of(
    configurations: Iterable[Json], namespaces: Iterable[str], ready: Mapping[tuple[str, str], int]
) -> tuple[Webhook, ...]:
    """Return the webhooks that are served in these namespaces.

    `ready` has the endpoints by namespace and name of a service.
    """
    wanted, found = set(namespaces), []
    for item in configurations:
        for hook in item.get("webhooks") or []:
            client = hook.get("clientConfig") or {}
            service = client.get("service") or {}
            place = str(service.get("namespace", "")), str(service.get("name", ""))
            if place[0] not in wanted:
                continue
            found.append(
                Webhook(
                    configuration=item["metadata"]["name"],
                    name=str(hook.get("name", "")),
                    service="/".join(place),
                    ready=ready.get(place, 0),
                    strict=hook.get("failurePolicy", "Fail") == "Fail",
                    # Charts put a newline there until cert-manager injects the certificate (`Cg==`).
                    has_ca=len(str(client.get("caBundle") or "")) > len("Cg=="),
                )
            )
    return tuple(found)


def ready_endpoints(slices: Iterable[Json]) -> dict[tuple[str, str], int]:
    """Return the number of ready endpoints of each service, by namespace and name.

    An endpoint without the condition counts as ready (discovery.k8s.io/v1, EndpointConditions).
    """
    found: dict[tuple[str, str], int] = {}
    for item in slices:
        metadata = item["metadata"]
        service = (metadata.get("labels") or {}).get("kubernetes.io/service-name")
        if service:
            place = metadata["namespace"], service
            found[place] = found.get(place, 0) + _ready_in(item)
    return found


def condition_of(item: Json, kind: str) -> Condition:
    """Return a GatewayClass (Accepted) or Gateway (Programmed) with that condition."""
    metadata = item["metadata"]
    found, spec = condition(item, kind), item.get("spec") or {}
    place = f"{metadata['namespace']}/" if metadata.get("namespace") else ""
    return Condition(
        name=f"{place}{metadata['name']}",
        status=str(found.get("status", "")),
        message=str(found.get("message") or found.get("reason") or "")[:300],
        of_class=str(spec.get("gatewayClassName") or spec.get("controllerName") or ""),
    )


def gateway_state(item: Json, served: Mapping[tuple[str, str], int]) -> Condition:
    """Return a Gateway with its addresses and endpoints. `served` has the endpoints by namespace and Gateway."""
    metadata = item["metadata"]
    found = (item.get("status") or {}).get("addresses") or []
    return replace(
        condition_of(item, "Programmed"),
        addresses=tuple(str(entry["value"]) for entry in found if entry.get("value")),
        ready=served.get((str(metadata.get("namespace", "")), str(metadata["name"]))),
    )


def endpoints_of_gateways(slices: Iterable[Json]) -> dict[tuple[str, str], int]:
    """Return the number of ready endpoints of the Services of Gateways, by namespace and Gateway.

    Slices have the labels of their Service, and a controller labels that with the Gateway's name
    (gateway-api.sigs.k8s.io, GEP-1762: in-cluster gateway deployments).
    """
    found: dict[tuple[str, str], int] = {}
    for item in slices:
        metadata = item["metadata"]
        name = (metadata.get("labels") or {}).get(_GATEWAY_NAME)
        if name:
            place = str(metadata["namespace"]), str(name)
            found[place] = found.get(place, 0) + _ready_in(item)
    return found


def _ready_in(item: Json) -> int:
    endpoints = item.get("endpoints") or []
    return sum((entry.get("conditions") or {}).get("ready") is not False for entry in endpoints)


def default_classes(classes: Iterable[Json]) -> tuple[str, ...]:
    """Return the names of the default StorageClasses."""
    marked = (
        item["metadata"]["name"]
        for item in classes
        if (item["metadata"].get("annotations") or {}).get(_DEFAULT) == "true"
    )
    return tuple(sorted(marked))


def volume_claim(item: Json, late: Iterable[str]) -> VolumeClaim:
    """Return a claim. `late` are the classes that bind only once a pod uses the volume."""
    metadata, spec = item["metadata"], item.get("spec") or {}
    wanted = spec.get("storageClassName")
    return VolumeClaim(
        name=f"{metadata['namespace']}/{metadata['name']}",
        phase=str((item.get("status") or {}).get("phase", "")),
        storage_class=wanted,
        waits_for_pod=wanted in set(late),
    )


_GATEWAY = "gateway.networking.k8s.io"
_LATE = "WaitForFirstConsumer"


def observe(context: ObserveContext) -> PlatformState:
    """Observe once.

    Raises:
        InputError: no recipe is resolved.
        BringupError: the API server does not respond.
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
            # Even a dry run needs permission to create.
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
    """Submit an object that must be refused, as a dry run, in a version that the server serves."""
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
