# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""HTTP to a service: by URL and by the API server's service proxy against real servers, and the way from a Service."""

from __future__ import annotations

import contextlib
import json
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, ClassVar

import pytest

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.clients.http import session as session_module
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.clients.http.model import (
    Answer,
    HttpStatusError,
    NoConnectionError,
    NotJsonError,
    Request,
    ServiceRef,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.clients.http.routes import UrlRoute, service_route
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.clients.http.session import HttpSession
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.clients.kube.cluster import Cluster
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.clients.kube.connection import Connection
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.clients.kube.errors import ForbiddenError
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.errors import (
    BringupError,
    DeadlineError,
    InputError,
    NotFoundError,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.runtime.clock import Deadline

PROXY = "/api/v1/namespaces/monitoring/services/prometheus:web/proxy"
REFUSALS = {
    "/api/v1/namespaces/monitoring/services/other": (404, "services other not found"),
    "/api/v1/namespaces/closed/services/prometheus:web/proxy/x": (403, "forbidden: services/proxy"),
    "/api/v1/namespaces/empty/services/prometheus:web/proxy/x": (503, "no endpoints available for service"),
    "/api/v1/namespaces/none/services/prometheus:web/proxy/x": (404, "services not found"),
}
SERVICE = {
    "metadata": {"name": "prometheus", "namespace": "monitoring"},
    "spec": {"selector": {"app": "prometheus"}, "ports": [{"name": "web", "port": 80, "targetPort": "http-web"}]},
}


def pod(name: str, *, ready: bool = True) -> dict[str, Any]:
    ports = [{"name": "http-web", "containerPort": 9090}]
    status = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True" if ready else "False"}]}
    return {"metadata": {"name": name}, "spec": {"containers": [{"name": "c", "ports": ports}]}, "status": status}


class Server(BaseHTTPRequestHandler):
    """A service, and an API server that has it behind its proxy."""

    pods: ClassVar[list[dict[str, Any]]] = []
    seen: ClassVar[list[tuple[str, str, bytes, str]]] = []

    def do_GET(self) -> None:
        self._answer()

    def do_POST(self) -> None:
        self._answer()

    def _answer(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self.seen.append((self.command, self.path, body, self.headers.get("Authorization", "")))
        if self.path in REFUSALS:
            code, message = REFUSALS[self.path]
            return self._send(code, {"kind": "Status", "apiVersion": "v1", "message": message, "code": code})
        if self.path == "/api/v1/namespaces/monitoring/services/prometheus":
            return self._send(200, SERVICE)
        if self.path.startswith("/api/v1/namespaces/monitoring/pods"):
            return self._send(200, {"items": self.pods, "metadata": {}})
        path = self.path.removeprefix(PROXY)
        if path == "/slow":
            time.sleep(1.0)
        if path == "/login":
            return self._send(200, "<html>who are you? password=hunter2</html>")
        if path.startswith("/fail"):
            return self._send(422, {"error": "bad query"})
        return self._send(200, {"path": path, "body": body.decode()})

    def _send(self, code: int, document: Any) -> None:
        data = (document if isinstance(document, str) else json.dumps(document)).encode()
        self.send_response(code)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def handle(self) -> None:
        with contextlib.suppress(BrokenPipeError):
            super().handle()

    def log_message(self, *_args: Any) -> None:
        """Say nothing."""


@pytest.fixture
def address() -> Iterator[str]:
    Server.pods, Server.seen = [pod("prometheus-0")], []
    server = ThreadingHTTPServer(("127.0.0.1", 0), Server)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


def cluster(address: str) -> Cluster:
    return Cluster(Connection(host=address, api_key="secret-of-the-cluster"))


def proxied(address: str, namespace: str = "monitoring", **options: Any) -> HttpSession:
    service = ServiceRef(namespace, "prometheus", "web")
    return HttpSession(service_route(cluster(address), service, "service-proxy"), **options)


@pytest.mark.parametrize("way", ["url", "service-proxy"])
def test_an_answer_is_decoded_whichever_way_leads_there(address: str, way: str) -> None:
    session = HttpSession(UrlRoute(address)) if way == "url" else proxied(address)
    assert session.get_json("/api/v1/query", {"query": "up == 1"}) == {
        "path": "/api/v1/query?query=up+%3D%3D+1",
        "body": "",
    }
    assert session.post_json("/v1/completions", {"prompt": "hello"})["body"] == '{"prompt": "hello"}'


@pytest.mark.parametrize("way", ["url", "service-proxy"])
@pytest.mark.parametrize(("path", "error"), [("/fail", HttpStatusError), ("/login", NotJsonError)])
def test_a_bad_answer_is_an_error_without_secrets(address: str, way: str, path: str, error: type[BringupError]) -> None:
    session = HttpSession(UrlRoute(address)) if way == "url" else proxied(address)
    with pytest.raises(error) as caught:
        session.get_json(path)
    assert "hunter2" not in f"{caught.value} {caught.value.evidence}"


@pytest.mark.parametrize("way", ["url", "service-proxy"])
def test_a_slow_answer_ends_at_its_limit(address: str, way: str) -> None:
    session = HttpSession(UrlRoute(address)) if way == "url" else proxied(address)
    started = time.monotonic()
    with pytest.raises(DeadlineError):
        session.get_json("/slow", timeout_s=0.2)
    assert time.monotonic() - started < 0.9


def test_nobody_there_is_no_connection() -> None:
    with pytest.raises(NoConnectionError, match="refused"):
        HttpSession(UrlRoute("http://127.0.0.1:1")).get_json("/")


@pytest.mark.parametrize("url", ["", "prometheus:9090", "ftp://prometheus", "http://"])
def test_what_is_no_url_is_refused(url: str) -> None:
    with pytest.raises(InputError):
        UrlRoute(url)


def test_a_url_with_credentials_is_not_shown() -> None:
    assert "hunter2" not in UrlRoute("https://me:hunter2@prometheus.example.org").text


@pytest.mark.parametrize(
    ("namespace", "error"), [("closed", ForbiddenError), ("empty", NoConnectionError), ("none", NotFoundError)]
)
def test_what_the_api_server_refuses_is_not_the_service_speaking(
    address: str, namespace: str, error: type[BringupError]
) -> None:
    with pytest.raises(error):
        proxied(address, namespace).get_json("/x")


def test_credentials_of_a_service_do_not_replace_ours_at_the_api_server(address: str) -> None:
    proxied(address, headers={"Authorization": "Bearer of-the-service"}).get_json("/")
    assert Server.seen[-1][3] == "Bearer secret-of-the-cluster"


def test_a_service_leads_to_a_ready_pod_and_its_container_port(address: str) -> None:
    Server.pods = [pod("prometheus-0", ready=False), pod("prometheus-1")]
    route = service_route(cluster(address), ServiceRef("monitoring", "prometheus", 80))
    assert (route._pod, route._port) == ("prometheus-1", 9090)  # type: ignore[attr-defined]
    assert "prometheus-1" in route.text


def test_without_a_ready_pod_there_is_no_way(address: str) -> None:
    Server.pods = [pod("prometheus-0", ready=False)]
    with pytest.raises(NoConnectionError, match="prometheus-0 Running"):
        service_route(cluster(address), ServiceRef("monitoring", "prometheus", "web"))


@pytest.mark.parametrize(
    ("service", "way", "error"),
    [
        (ServiceRef("monitoring", "other", 80), "port-forward", NotFoundError),
        (ServiceRef("monitoring", "prometheus", 81), "port-forward", NotFoundError),
        (ServiceRef("monitoring", "prometheus", 80, "https"), "port-forward", InputError),
        (ServiceRef("monitoring", "prometheus", 80), "carrier-pigeon", InputError),
    ],
)
def test_a_wrong_address_is_named(address: str, service: ServiceRef, way: str, error: type[BringupError]) -> None:
    with pytest.raises(error):
        service_route(cluster(address), service, way)


class Flaky:
    """A way on which the first requests go as told: an error, or a status."""

    text = "flaky"

    def __init__(self, *first: Exception | int | bytes) -> None:
        self.first, self.asked = list(first), 0

    def send(self, request: Request, _deadline: Deadline) -> Answer:
        assert request.path == "/x"
        self.asked += 1
        if self.first and isinstance(self.first[0], Exception):
            raise self.first.pop(0)
        found = self.first.pop(0) if self.first else b"[1]"
        return Answer(found, b"") if isinstance(found, int) else Answer(200, found)


@pytest.fixture
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session_module, "sleep", lambda _seconds: None)


LOST = NoConnectionError("x", "the connection broke.")


@pytest.mark.usefixtures("_quick")
@pytest.mark.parametrize("fault", [LOST, 429, 502, 503, 504, b"[1", b""], ids=str)
def test_a_query_whose_answer_is_lost_is_asked_again(fault: Exception | int | bytes) -> None:
    route = Flaky(fault, fault, fault)
    assert HttpSession(route, tries=4).get_json("/x") == [1]
    assert route.asked == 4


@pytest.mark.usefixtures("_quick")
@pytest.mark.parametrize("fault", [400, 401, 403, 404, 422, 500])
def test_an_answer_that_stands_is_not_asked_for_again(fault: int) -> None:
    route = Flaky(fault)
    with pytest.raises(HttpStatusError):
        HttpSession(route, tries=4).get_json("/x")
    assert route.asked == 1


@pytest.mark.usefixtures("_quick")
def test_a_service_that_is_gone_is_not_asked_for_ever_and_a_change_is_sent_once() -> None:
    route = Flaky(*[LOST] * 9)
    with pytest.raises(NoConnectionError):
        HttpSession(route, tries=4).get_json("/x")
    assert route.asked == 4
    with pytest.raises(NoConnectionError):
        HttpSession(route, tries=4).post_json("/x", {})
    assert route.asked == 5


def test_a_request_whose_time_is_over_says_so() -> None:
    route = UrlRoute("http://127.0.0.1:9")
    with pytest.raises((NoConnectionError, DeadlineError)):
        route.send(Request("GET", "/x"), Deadline.after(0.0))
