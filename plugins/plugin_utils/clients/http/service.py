# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""From a Service to a way to it: a ready pod behind it whose port is forwarded, or the API server's proxy."""

from __future__ import annotations

from typing import Any

from ...outcome.errors import InputError, NotFoundError
from ..kube.cluster import Cluster
from ..kube.kinds import PODS, SERVICES
from ..kube.pods import is_ready
from .errors import NoConnectionError
from .model import Route, ServiceRef
from .routes import PodRoute, ServiceProxyRoute

PORT_FORWARD, SERVICE_PROXY = "port-forward", "service-proxy"
Json = dict[str, Any]


def service_route(cluster: Cluster, service: ServiceRef, way: str = PORT_FORWARD) -> Route:
    """Return a way to a Service.

    Args:
        cluster: where it is.
        service: the Service and its port.
        way: `port-forward` (needs get on services, list on pods, get and create on
            pods/portforward; http only) or
            `service-proxy` (needs get and create on services/proxy).

    Raises:
        NotFoundError: no such Service, or it has no such port.
        NoConnectionError: no pod behind it is ready.
        ForbiddenError: we may not look.
        InputError: unknown way.
    """
    if way == SERVICE_PROXY:
        return ServiceProxyRoute(cluster, service)
    if way != PORT_FORWARD:
        raise InputError(f"way {way!r} to {service}", "is not known.", f"{PORT_FORWARD} or {SERVICE_PROXY}")
    if service.scheme != "http":
        raise InputError(str(service), "speaks TLS, which a forwarded port is not used for.", f"way: {SERVICE_PROXY}")
    found = cluster.find(SERVICES, service.name, service.namespace)
    if found is None:
        hint = f"list them: kubectl -n {service.namespace} get services"
        raise NotFoundError(str(service), "there is no such Service.", hint)
    target = target_port(found, service)
    pod = ready_pod(cluster, found, service)
    return PodRoute(
        cluster, service.namespace, pod["metadata"]["name"], container_port(pod, target, service), str(service)
    )


def target_port(found: Json, service: ServiceRef) -> int | str:
    """Return the port of the pods behind a port of a Service: a number, or the name that containers give it.

    Raises:
        NotFoundError: the Service has no such port.
    """
    ports = found["spec"].get("ports") or []
    for port in ports:
        if service.port in (port["port"], port.get("name"), str(port["port"])):
            target: int | str = port.get("targetPort") or port["port"]
            return target
    known = ", ".join(f"{port.get('name', '')} {port['port']}".strip() for port in ports)
    raise NotFoundError(str(service), f"it has no such port, only: {known or 'none'}.")


def ready_pod(cluster: Cluster, found: Json, service: ServiceRef) -> Json:
    """Return a pod behind a Service that is ready, the first by name.

    Raises:
        NoConnectionError: none is.
    """
    selector = found["spec"].get("selector") or {}
    if not selector:
        raise NoConnectionError(str(service), "it selects no pods.", f"way: {SERVICE_PROXY}, or give a URL")
    labels = ",".join(f"{key}={value}" for key, value in sorted(selector.items()))
    pods = cluster.list_objects(PODS, service.namespace, labels=labels)
    ready = [pod for pod in pods if is_ready(pod) and "deletionTimestamp" not in pod["metadata"]]
    if ready:
        return min(ready, key=lambda pod: str(pod["metadata"]["name"]))
    states = ", ".join(f"{pod['metadata']['name']} {(pod.get('status') or {}).get('phase', '')}" for pod in pods[:5])
    reason = f"no pod behind it is ready: {states or 'there is none'}."
    raise NoConnectionError(str(service), reason, f"kubectl -n {service.namespace} get pods -l {labels}")


def container_port(pod: Json, target: int | str, service: ServiceRef) -> int:
    """Return the number of a pod's port.

    Raises:
        NotFoundError: no container has a port of that name.
    """
    if isinstance(target, int):
        return target
    ports = [port for container in pod["spec"]["containers"] for port in container.get("ports") or []]
    for port in ports:
        if port.get("name") == target:
            return int(port["containerPort"])
    raise NotFoundError(str(service), f"no container of pod {pod['metadata']['name']} has a port {target!r}.")
