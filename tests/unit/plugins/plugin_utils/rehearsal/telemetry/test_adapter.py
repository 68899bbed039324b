# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The stand-in of prometheus-adapter: external metrics as the adapter's own sources have them, and its APIService."""

from __future__ import annotations

import json
import ssl
import threading
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.clients.kube.objects import DEPLOYMENTS, SERVICES, Kind
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.runtime.files import RECIPES
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.runtime.strict import read_yaml
from ansible_collections.gpufleet.rehearsal.plugins.plugin_utils.control_plane.pki import make_pki
from ansible_collections.gpufleet.rehearsal.plugins.plugin_utils.controllers.cluster_facts import (
    Change,
    ClusterFacts,
    ClusterView,
    key_of,
)
from ansible_collections.gpufleet.rehearsal.plugins.plugin_utils.controllers.prometheus_adapter import (
    API_SERVICES,
    RULES,
    PrometheusAdapter,
)
from ansible_collections.gpufleet.rehearsal.plugins.plugin_utils.model.values import ClusterModel
from ansible_collections.gpufleet.rehearsal.plugins.plugin_utils.telemetry.adapter import Adapter, serve
from ansible_collections.gpufleet.rehearsal.plugins.plugin_utils.telemetry.plan import (
    ADAPTER_FILE,
    PORTS_FILE,
    telemetry_directory,
)

Json = dict[str, Any]
SHIPPED = read_yaml(RECIPES / "components" / "prometheus-adapter" / "values.yaml")["rules"]["external"]
POWER = "dcgm_gpu_power_usage"
PORT = 4444


class Prometheus(BaseHTTPRequestHandler):
    """Answers queries as Prometheus' HTTP API does (prometheus.io, "HTTP API": instant queries)."""

    def do_GET(self) -> None:
        query = urllib.parse.parse_qs(urllib.parse.urlparse(self.path).query)["query"][0]
        self.server.asked.append(query)  # type: ignore[attr-defined]
        result = [{"metric": {"Hostname": "gpu01"}, "value": [1767225600.5, "70.1234"]}]
        bad = {"status": "error", "errorType": "bad_data", "error": "parse error"}
        answer = bad if "broken" in query else {"status": "success", "data": {"resultType": "vector", "result": result}}
        body = json.dumps(answer).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_args: Any) -> None:
        """Say nothing."""


@dataclass
class Served:
    """An adapter that serves."""

    root: str
    rules: Path
    asked: list[str] = field(default_factory=list)

    def configure(self, rules: list[Json], state: str = "answers") -> None:
        self.rules.write_text(json.dumps({"rules": rules, "state": state}), encoding="utf-8")

    def get(self, path: str) -> tuple[int, Json]:
        trusting = ssl._create_unverified_context()
        try:
            with urllib.request.urlopen(f"{self.root}{path}", context=trusting, timeout=60) as answer:
                return answer.status, json.load(answer)
        except urllib.error.HTTPError as error:
            return error.code, json.load(error)


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    prometheus = ThreadingHTTPServer(("127.0.0.1", 0), Prometheus)
    prometheus.asked = asked = []  # type: ignore[attr-defined]
    threading.Thread(target=prometheus.serve_forever, args=(0.01,), daemon=True).start()
    pki, rules = make_pki(tmp_path / "pki"), tmp_path / "rules.json"
    adapter = serve(0, Adapter(rules, prometheus.server_address[1]), (pki.cert("server"), pki.key("server")))
    root = f"https://127.0.0.1:{adapter.server_address[1]}/apis/external.metrics.k8s.io/v1beta1"
    yield Served(root, rules, asked)
    for server in (adapter, prometheus):
        server.shutdown()
        server.server_close()


def test_a_metric_is_what_its_rule_asks_of_prometheus(served: Served) -> None:
    served.configure(SHIPPED)
    code, found = served.get(f"/namespaces/default/{POWER}?labelSelector=Hostname%3Dgpu01")
    assert code == 200 and served.asked == ['avg(DCGM_FI_DEV_POWER_USAGE{Hostname="gpu01"})']
    assert found["kind"] == "ExternalMetricValueList"
    (item,) = found["items"]
    assert item == {
        "metricName": POWER, "metricLabels": {"Hostname": "gpu01"}, "timestamp": "2026-01-01T00:00:00Z",
        "value": "70123m",
    }  # fmt: skip
    assert served.get(f"/namespaces/default/{POWER}")[0] == 200 and served.asked[-1] == "avg(DCGM_FI_DEV_POWER_USAGE{})"


def test_discovery_names_the_metrics_and_what_is_unknown_is_not_found(served: Served) -> None:
    assert served.get("")[1]["resources"] == []
    served.configure(SHIPPED)
    code, found = served.get("")
    assert code == 200 and POWER in [entry["name"] for entry in found["resources"]]
    for path in ("/namespaces/default/nothing", "/pods", "/../v1"):
        assert served.get(path)[0] == 404
    served.configure(SHIPPED, "blind")
    assert served.get(f"/namespaces/default/{POWER}")[0] == 404


def test_a_query_that_prometheus_refuses_is_an_error_and_one_that_is_stuck_says_the_same(served: Served) -> None:
    served.configure([{**SHIPPED[2], "metricsQuery": "broken("}])
    assert served.get(f"/namespaces/default/{POWER}")[0] == 500
    served.configure(SHIPPED, "stuck")
    assert served.get(f"/namespaces/default/{POWER}")[1]["items"][0]["value"] == "1000m"


def changes(work: Path, *objects: tuple[Kind, Json]) -> list[Change]:
    telemetry_directory(work).mkdir(exist_ok=True)
    (telemetry_directory(work) / PORTS_FILE).write_text(json.dumps({"adapter": PORT}), encoding="utf-8")
    view = ClusterView({kind: {key_of(item): item for k, item in objects if k is kind} for kind, _item in objects})
    return PrometheusAdapter(work).reconcile(
        view, ClusterFacts(nodes={}, model=ClusterModel(name="r", seed=1, racks=(), nodes=()))
    )


def deployment(rules: list[Json], available: str = "True") -> tuple[Kind, Json]:
    notes = {RULES: json.dumps(rules), "meta.helm.sh/release-name": "prometheus-adapter"}
    metadata = {"name": "prometheus-adapter", "namespace": "monitoring", "uid": "u", "annotations": notes}
    return DEPLOYMENTS, {"metadata": metadata, "status": {"conditions": [{"type": "Available", "status": available}]}}


def test_the_api_is_there_while_an_adapter_with_rules_is(tmp_path: Path) -> None:
    service, api = changes(tmp_path, deployment(SHIPPED))
    assert (service.kind, api.kind) == (SERVICES, API_SERVICES)
    assert api.body["spec"]["service"] == {"name": "prometheus-adapter", "namespace": "monitoring", "port": PORT}
    assert api.body["metadata"]["annotations"] == {"meta.helm.sh/release-name": "prometheus-adapter"}
    written = json.loads((telemetry_directory(tmp_path) / ADAPTER_FILE).read_text(encoding="utf-8"))
    assert written == {"rules": SHIPPED, "state": "answers"}
    assert changes(tmp_path, deployment([])) == []
    assert changes(tmp_path, deployment(SHIPPED, "False")) == []
    there = (API_SERVICES, {"metadata": {"name": "v1beta1.external.metrics.k8s.io"}})
    assert [change.verb for change in changes(tmp_path, there)] == ["delete"]


def test_without_telemetry_nothing_is_done(tmp_path: Path) -> None:
    assert PrometheusAdapter(tmp_path).reconcile(ClusterView({}), ClusterFacts(nodes={})) == []
