# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Where Prometheus and Alertmanager are: as the site configures it, else as found in the cluster."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ...clients.http.model import Route, ServiceRef
from ...clients.http.routes import UrlRoute, service_route
from ...clients.http.session import HttpSession
from ...clients.kube.cluster import Cluster
from ...clients.kube.errors import ForbiddenError
from ...clients.kube.objects import SERVICES, Kind
from ...outcome.errors import InputError, NotFoundError
from .settings import GATE, MetricsSettings

Json = dict[str, Any]
MONITORING = "monitoring.coreos.com"
PROMETHEUSES = Kind(f"{MONITORING}/v1", "Prometheus", "prometheuses")
PROMETHEUS, ALERTMANAGER = "prometheus", "alertmanager"
# A request is repeated only if no response came.
_TRIES = 4
_PORTS = {PROMETHEUS: 9090, ALERTMANAGER: 9093}


def prometheus_session(cluster: Cluster | None, settings: MetricsSettings) -> HttpSession:
    """Return a session with Prometheus.

    Raises:
        NotFoundError: the cluster has none.
        InputError: it has several, or a setting is wrong.
        BringupError: it cannot be reached.
    """
    headers = _credentials(settings.token_file)
    if settings.url:
        return HttpSession(
            UrlRoute(settings.url, ca_cert=settings.ca_file),
            headers=headers,
            timeout_s=settings.timeout_s,
            tries=_TRIES,
        )
    if cluster is None:
        hint = f"gpufleet_settings: {{{GATE}: {{url: ...}}}}"
        raise InputError("Prometheus", "there is no cluster to find it in, and no URL is given.", hint)
    service = service_ref(settings.service) if settings.service else service_of_prometheus(cluster)
    return HttpSession(_route(cluster, service, settings), headers=headers, timeout_s=settings.timeout_s, tries=_TRIES)


def alertmanager_session(cluster: Cluster, settings: MetricsSettings) -> HttpSession:
    """Return a session with the cluster's Alertmanager (errors as prometheus_session)."""
    return HttpSession(
        _route(cluster, find_service(cluster, ALERTMANAGER), settings), timeout_s=settings.timeout_s, tries=_TRIES
    )


def _route(cluster: Cluster, service: ServiceRef, settings: MetricsSettings) -> Route:
    return service_route(cluster, service, settings.way)


def _credentials(token_file: str) -> dict[str, str]:
    if not token_file:
        return {}
    try:
        return {"Authorization": f"Bearer {Path(token_file).read_text(encoding='utf-8').strip()}"}
    except OSError as error:
        raise InputError(f"token file {token_file}", f"cannot be read: {error.strerror}.") from None


def service_ref(text: str) -> ServiceRef:
    """Return the Service that `<namespace>/<name>:<port>` names.

    Raises:
        InputError: it has another form.
    """
    namespace, slash, rest = text.partition("/")
    name, colon, port = rest.partition(":")
    if not (slash and colon and namespace and name and port):
        raise InputError(f"settings of {GATE}", f"service {text!r} is not <namespace>/<name>:<port>.")
    return ServiceRef(namespace, name, int(port) if port.isdecimal() else port)


def service_of_prometheus(cluster: Cluster) -> ServiceRef:
    """Return the Service of the cluster's Prometheus.

    Raises:
        NotFoundError: there is none.
        InputError: there are several, or it reaches one shard of several, which has a part of the targets
            (prometheus-operator, API reference: PrometheusSpec.shards).
    """
    service = find_service(cluster, PROMETHEUS)
    try:
        owners = cluster.find_all(PROMETHEUSES, service.namespace) or []
    except ForbiddenError:
        # The shards cannot be verified without this permission, but the metrics may still be readable.
        return service
    for owner in owners:
        shards = (owner.get("spec") or {}).get("shards") or 1
        if shards > 1:
            name = f"{owner['metadata']['namespace']}/{owner['metadata']['name']}"
            hint = (
                f"state what answers for all of them, such as Thanos Query: gpufleet_settings.{GATE} (service or url)"
            )
            raise InputError("Prometheus", f"{name} has {shards} shards, and its Service reaches one of them.", hint)
    return service


def find_service(cluster: Cluster, program: str) -> ServiceRef:
    """Return the Service of the cluster's Prometheus or Alertmanager, found by its selector and port.

    Raises:
        NotFoundError: there is none.
        InputError: there are several.
    """
    word, found = {"app.kubernetes.io/name": program}, []
    for service in cluster.list_objects(SERVICES):
        spec = service["spec"]
        ports = [port["port"] for port in spec.get("ports") or []]
        if word.items() <= (spec.get("selector") or {}).items() and _PORTS[program] in ports:
            found.append(service)
    # The operator creates a headless Service beside the chart's.
    proper = [service for service in found if service["spec"].get("clusterIP") != "None"] or found
    names = sorted(f"{item['metadata']['namespace']}/{item['metadata']['name']}" for item in proper)
    if not names:
        reason = (
            f"the cluster has no Service for it (selector app.kubernetes.io/name: {program}, port {_PORTS[program]})."
        )
        hint = f"install kube-prometheus-stack, or state where it is in gpufleet_settings.{GATE} (url or service)"
        raise NotFoundError(program.capitalize(), reason, hint)
    if len(names) > 1:
        hint = f"state which one: gpufleet_settings.{GATE}.service"
        raise InputError(program.capitalize(), f"the cluster has several: {', '.join(names)}.", hint)
    namespace, _slash, name = names[0].partition("/")
    return ServiceRef(namespace, name, _PORTS[program])
