# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Ways to a service: a plain URL, a port forwarded to a ready pod, the API server's service proxy."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.client import HTTPConnection, HTTPException
from time import monotonic
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit
from urllib.request import getproxies_environment, proxy_bypass

from ...outcome.errors import BringupError, DeadlineError, InputError, NotFoundError
from ...runtime.clock import Deadline
from ...runtime.redaction import excerpt, redact
from ..kube.cluster import Cluster
from ..kube.errors import TlsError, UnreachableError, error_of, is_status
from ..kube.objects import PODS, SERVICES, is_ready
from ..kube.streams import PodConnection, connect_to_pod
from ..request_limits import request_limits
from .model import Answer, NoConnectionError, Request, Route, ServiceRef

if TYPE_CHECKING:
    from urllib3 import PoolManager

_CONNECT_S = 5.0


class UrlRoute:
    """To a URL. A path in it is put before the path of every request."""

    def __init__(self, url: str, *, ca_cert: str = "", validate_certs: bool = True, proxied: bool = False) -> None:
        """Store the address. With `proxied` requests go through the proxy of https_proxy and no_proxy, as with curl.

        Raises:
            InputError: it is no http or https URL.
        """
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise InputError(f"URL {redact(url)!r}", "is no http or https address.", "https://prometheus.example.org")
        self._url, self._ca_cert, self._validate = url.rstrip("/"), ca_cert, validate_certs
        self._proxy = _proxy_of(parts.scheme, str(parts.hostname)) if proxied else ""

    @property
    def text(self) -> str:
        """The address, without credentials."""
        return redact(self._url)

    def send(self, request: Request, deadline: Deadline) -> Answer:
        """Send one request and return the response."""
        from urllib3.exceptions import HTTPError, SSLError

        timeout = request_limits(_CONNECT_S, deadline.left_s)
        try:
            with self._pool() as pool:
                response = pool.request(
                    request.method, self._url + request.path, headers=dict(request.headers), body=request.body,
                    timeout=timeout, redirect=False,
                )  # fmt: skip
                return Answer(int(response.status), bytes(response.data))
        except SSLError as error:
            hint = "give the certificate authority in the settings, or in SSL_CERT_FILE; do not switch verification off"
            raise TlsError(self.text, f"TLS failed: {excerpt(str(error), 300)}.", hint) from None
        except (HTTPError, OSError) as error:
            raise _no_answer(self.text, error, deadline) from None

    def _pool(self) -> PoolManager:
        from urllib3 import PoolManager, ProxyManager, Retry, make_headers

        settings: dict[str, Any] = {
            "retries": Retry(total=False, redirect=0),
            "ca_certs": self._ca_cert or None,
            "cert_reqs": "CERT_REQUIRED" if self._validate else "CERT_NONE",
        }
        if not self._proxy:
            return PoolManager(**settings)
        parts = urlsplit(self._proxy)
        login = f"{unquote(parts.username)}:{unquote(parts.password or '')}" if parts.username else None
        return ProxyManager(self._proxy, proxy_headers=make_headers(proxy_basic_auth=login), **settings)


def _proxy_of(scheme: str, host: str) -> str:
    """Return the proxy that the environment configures for a host. Empty for none."""
    if proxy_bypass(host):
        return ""
    proxy = getproxies_environment().get(scheme, "")
    return proxy if not proxy or "://" in proxy else f"http://{proxy}"


class PodRoute:
    """To a port of a pod, forwarded by the API server. http only."""

    def __init__(self, cluster: Cluster, namespace: str, pod: str, port: int, name: str = "") -> None:
        """Store the pod. `name` replaces it in messages."""
        self._cluster, self._namespace, self._pod, self._port = cluster, namespace, pod, port
        self._name = name or f"pod {namespace}/{pod}:{port}"

    @property
    def text(self) -> str:
        """The service and the pod behind it."""
        return f"{self._name} (port-forward to pod {self._pod})"

    def connect(self, deadline: Deadline) -> tuple[PodConnection, HTTPConnection]:
        """Open a forwarded port. Return its connection, which has to be ended, and an HTTP client over it."""
        connection = connect_to_pod(self._cluster, self._pod, self._namespace, self._port, deadline)
        client = HTTPConnection("localhost", self._port)
        client.sock = connection
        return connection, client

    def send(self, request: Request, deadline: Deadline) -> Answer:
        """Send one request and return the response."""
        connection, client = self.connect(deadline)
        try:
            return exchanged(self.text, client, request, {"Connection": "close"}, deadline)[0]
        finally:
            connection.end()


class ServiceProxyRoute:
    """To a Service, through the API server's proxy. It needs permission on `services/proxy`."""

    def __init__(self, cluster: Cluster, service: ServiceRef) -> None:
        """Take the Service."""
        self._cluster, self._service = cluster, service

    @property
    def text(self) -> str:
        """The service."""
        return f"{self._service} (service proxy)"

    def send(self, request: Request, deadline: Deadline) -> Answer:
        """Send one request and return the response."""
        service = self._service
        scheme = "https:" if service.scheme == "https" else ""
        base = f"{SERVICES.path(namespace=service.namespace)}/{scheme}{service.name}:{service.port}/proxy"
        # Credentials for the service would replace ours at the API server.
        headers = {name: value for name, value in request.headers.items() if name != "Authorization"}
        try:
            status, body = self._cluster.transport.exchange(
                request.method, base + request.path, headers=headers, payload=request.body, deadline=deadline
            )
        except UnreachableError as error:
            if deadline.left_s > 0:
                raise
            raise DeadlineError(self.text, f"no answer within {deadline.limit_s:g} s.", error.hint) from None
        if is_status(body) and status >= 400:
            # The response is the API server's, not the service's: forbidden, no such service, no endpoint.
            raise _of_api_server(self.text, status, base, body)
        return Answer(status, body)


def _of_api_server(text: str, status: int, path: str, body: bytes) -> BringupError:
    error = error_of(status, "GET", path, "get", body)
    if status in (500, 502, 503, 504):
        return NoConnectionError(text, error.reason, "is a pod behind the Service ready?")
    return error


def exchanged(
    text: str, client: HTTPConnection, request: Request, more: Mapping[str, str], deadline: Deadline
) -> tuple[Answer, bool]:
    """Return the response to a request over a forwarded port, and whether the server keeps the connection open.

    Args:
        text: name of the pod in errors.
        client: HTTP client over the port.
        request: the request.
        more: further headers.
        deadline: time limit.
    """
    try:
        client.request(request.method, request.path, body=request.body, headers={**request.headers, **more})
        response = client.getresponse()
        return Answer(response.status, response.read()), not response.will_close
    except UnreachableError as error:
        raise NoConnectionError(text, error.reason, error.hint, error.evidence) from None
    except (HTTPException, OSError) as error:
        raise _no_answer(text, error, deadline) from None


def _no_answer(text: str, error: BaseException, deadline: Deadline) -> BringupError:
    """Return the error for a request without response."""
    reported = excerpt(str(getattr(error, "reason", None) or error), 300).rstrip(".")
    if "timed out" in reported.lower() or deadline.left_s <= 0:
        return DeadlineError(text, f"no answer within {deadline.limit_s:g} s.", "is it healthy, and is the way open?")
    return NoConnectionError(
        text, f"no answer: {reported or type(error).__name__}.", "is it running, and is the way open?"
    )


# From a Service to a way to it: a forwarded port of a ready pod behind it, or the API server's proxy.

PORT_FORWARD, SERVICE_PROXY = "port-forward", "service-proxy"
Json = dict[str, Any]


def service_route(cluster: Cluster, service: ServiceRef, way: str = PORT_FORWARD) -> Route:
    """Return a way to a Service.

    Args:
        cluster: the cluster.
        service: the Service and its port.
        way: `port-forward` (needs get on services, list on pods, get and create on pods/portforward; http only) or
            `service-proxy` (needs get and create on services/proxy).

    Raises:
        NotFoundError: no such Service, or it has no such port.
        NoConnectionError: no pod behind it is ready.
        ForbiddenError: a permission is missing.
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
    """Return the target port of a Service's port: a number, or the name that containers give it.

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
    """Return the first ready pod behind a Service, by name.

    Raises:
        NoConnectionError: no pod is ready, or the Service selects none.
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


# Several requests in sequence over one forwarded port.
#
# Each forwarded port takes two new TLS connections, ours and the API server's to the kubelet, and an upgrade of both.
# For several requests to one pod the port is kept open:
#
#     with kept(route) as way:
#         session = HttpSession(way)
# Servers close an idle connection: uvicorn after 5 s (uvicorn.org, --timeout-keep-alive). After a good part of that
# time a new port is forwarded.
_KEPT_S = 2.0


@contextmanager
def kept(route: Route) -> Iterator[Route]:
    """Yield a route to the same place, for one thread, whose port stays open between requests.

    A route that forwards no port is yielded unchanged.
    """
    if not isinstance(route, PodRoute):
        yield route
        return
    way = _KeptPort(route)
    try:
        yield way
    finally:
        way.end()


class _KeptPort:
    """A forwarded port that is reused while the server keeps its connection open."""

    def __init__(self, route: PodRoute) -> None:
        """Store the pod. The first request opens the port."""
        self._route = route
        self._open: tuple[PodConnection, HTTPConnection] | None = None
        self._used_at = 0.0

    @property
    def text(self) -> str:
        """The service and the pod behind it."""
        return self._route.text

    def send(self, request: Request, deadline: Deadline) -> Answer:
        """Send one request and return the response.

        If a kept port breaks before the response, the server may just have closed an idle connection, so the request is
        sent once more over a new one. So use a kept port only for requests that may be sent twice.
        """
        if self._open is not None and monotonic() - self._used_at > _KEPT_S:
            self.end()
        again = self._open is not None
        try:
            return self._once(request, deadline)
        except BringupError:
            if not again or deadline.left_s <= 0:
                raise
            return self._once(request, deadline)

    def end(self) -> None:
        """Close the port."""
        if self._open is not None:
            self._open[0].end()
            self._open = None

    def _once(self, request: Request, deadline: Deadline) -> Answer:
        connection, client = self._open = self._open or self._opened(deadline)
        connection.limit(deadline)
        keep = False
        try:
            answer, keep = exchanged(self.text, client, request, {}, deadline)
            self._used_at = monotonic()
            return answer
        finally:
            if not keep:
                self.end()

    def _opened(self, deadline: Deadline) -> tuple[PodConnection, HTTPConnection]:
        connection, client = self._route.connect(deadline)
        # A connection that http.client opens itself would lead to this machine.
        client.auto_open = 0
        return connection, client
