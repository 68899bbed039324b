# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The stand-in of prometheus-operator: which objects become configuration, and what it reloads."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.clients.kube.objects import (
    CLUSTER_POLICIES,
    DEPLOYMENTS,
    NAMESPACES,
    PODS,
    Kind,
)
from ansible_collections.gpufleet.rehearsal.plugins.plugin_utils.controllers import prometheus_operator
from ansible_collections.gpufleet.rehearsal.plugins.plugin_utils.controllers.cluster_facts import (
    ClusterFacts,
    ClusterView,
    key_of,
)
from ansible_collections.gpufleet.rehearsal.plugins.plugin_utils.controllers.pod_ports import backends_directory
from ansible_collections.gpufleet.rehearsal.plugins.plugin_utils.model.site import Telemetry
from ansible_collections.gpufleet.rehearsal.plugins.plugin_utils.telemetry.plan import (
    ALERTMANAGER_FILE,
    PORTS_FILE,
    PROMETHEUS_FILE,
    RULES,
    TARGETS,
    prometheus_configuration,
    telemetry_directory,
)

Json = dict[str, Any]
READY = {
    "conditions": [{"type": "Ready", "status": "True"}, {"type": "Available", "status": "True"}],
    "podIP": "1.2.3.4",
}


class Reloads(BaseHTTPRequestHandler):
    """Stands for the programs, which are asked to read their files again."""

    status = 200

    def do_POST(self) -> None:
        self.server.asked.append(self.path)  # type: ignore[attr-defined]
        self.send_response(self.status)
        self.end_headers()

    def log_message(self, *_args: Any) -> None:
        """Say nothing."""


@pytest.fixture
def program() -> Iterator[ThreadingHTTPServer]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Reloads)
    server.asked = []  # type: ignore[attr-defined]
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    yield server
    server.shutdown()
    server.server_close()


def named(name: str, namespace: str = "monitoring", labels: Json | None = None, **rest: Any) -> Json:
    return {"metadata": {"name": name, "namespace": namespace, "uid": name, "labels": labels or {}}, **rest}


def objects() -> dict[Kind, list[Json]]:
    """A cluster with an operator, its Prometheus and Alertmanager, one rule, one route, one exporter on gpu01."""
    rule = {"groups": [{"name": "g", "rules": []}]}
    receivers = [{"name": "r", "webhookConfigs": [{"url": "http://receiver.test.svc:8080/"}]}]
    route = {"receiver": "r", "groupWait": "1s", "matchers": [{"name": "t", "value": "1", "matchType": "="}]}
    operator = named("operator", labels={"app.kubernetes.io/component": "prometheus-operator"}, status=READY)
    exporter = named("dcgm-1", labels={"app": "nvidia-dcgm-exporter"}, spec={"nodeName": "gpu01"}, status=READY)
    return {
        DEPLOYMENTS: [operator],
        CLUSTER_POLICIES: [
            {"metadata": {"name": "p"}, "spec": {"dcgmExporter": {"serviceMonitor": {"enabled": True}}}}
        ],
        PODS: [exporter],
        NAMESPACES: [{"metadata": {"name": "test"}}, {"metadata": {"name": "monitoring"}}],
        prometheus_operator.PROMETHEUSES: [named("p", spec={"ruleSelector": {}, "ruleNamespaceSelector": {}})],
        prometheus_operator.ALERTMANAGERS: [
            named("a", spec={"alertmanagerConfigSelector": {}, "alertmanagerConfigNamespaceSelector": {}})
        ],
        prometheus_operator.PROMETHEUS_RULES: [named("rule", "test", spec=rule)],
        prometheus_operator.ALERTMANAGER_CONFIGS: [
            named("c", "test", spec={"route": route, "receivers": receivers}),
        ],
    }


def view(found: dict[Kind, list[Json]]) -> ClusterView:
    return ClusterView({kind: {key_of(item): item for item in items} for kind, items in found.items()})


def operator(rehearsal: Path, port: int) -> prometheus_operator.PrometheusOperator:
    directory = telemetry_directory(rehearsal)
    for name in (TARGETS, RULES):
        (directory / name).mkdir(parents=True)
    ports = {"prometheus": port, "alertmanager": port, "exporters": 21000, "alert-receiver": 21001}
    (directory / PORTS_FILE).write_text(json.dumps(ports))
    (directory / PROMETHEUS_FILE).write_text(json.dumps(prometheus_configuration("2s", ports, wired=True)))
    return prometheus_operator.PrometheusOperator(rehearsal, lambda: None)


def read(rehearsal: Path, name: str) -> Any:
    return json.loads((telemetry_directory(rehearsal) / name).read_text())


def with_telemetry(facts: ClusterFacts, **changes: bool) -> ClusterFacts:
    assert facts.model is not None
    stack = replace(facts.model.stack, telemetry=Telemetry(**changes))
    return replace(facts, model=replace(facts.model, stack=stack))


def test_objects_become_configuration(facts: ClusterFacts, tmp_path: Path, program: ThreadingHTTPServer) -> None:
    made = operator(tmp_path, program.server_port)
    changes = made.reconcile(view(objects()), facts)
    assert sorted((change.kind.kind, change.name) for change in changes) == [
        ("Service", "alertmanager-operated"), ("Service", "prometheus-operated"),
        ("StatefulSet", "alertmanager-a"), ("StatefulSet", "prometheus-p"),
    ]  # fmt: skip
    (target,) = read(tmp_path, f"{TARGETS}/exporters.json")
    assert target["labels"]["__metrics_path__"] == "/hosts/gpu01/metrics"
    assert read(tmp_path, f"{RULES}/test-rule.json") == {"groups": [{"name": "g", "rules": []}]}
    alertmanager = read(tmp_path, ALERTMANAGER_FILE)
    (route,) = alertmanager["route"]["routes"]
    assert route["matchers"] == ['namespace="test"', 't="1"']
    assert alertmanager["receivers"][1]["webhook_configs"][0]["url"] == "http://127.0.0.1:21001/"
    assert sorted(path.stem for path in backends_directory(tmp_path).iterdir()) == ["alertmanager", "prometheus"]
    assert program.asked == ["/-/reload", "/-/reload"]  # type: ignore[attr-defined]
    made.reconcile(view(objects()), facts)
    assert len(program.asked) == 2  # type: ignore[attr-defined]


def test_a_rule_that_is_gone_is_gone(facts: ClusterFacts, tmp_path: Path, program: ThreadingHTTPServer) -> None:
    made, found = operator(tmp_path, program.server_port), objects()
    made.reconcile(view(found), facts)
    made.reconcile(view({**found, prometheus_operator.PROMETHEUS_RULES: []}), facts)
    assert list((telemetry_directory(tmp_path) / RULES).iterdir()) == []
    assert len(program.asked) == 3  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    "spec", [{}, {"ruleSelector": {"matchLabels": {"a": "b"}}, "ruleNamespaceSelector": {}}, {"ruleSelector": {}}]
)
def test_a_rule_that_is_not_selected_is_ignored(
    facts: ClusterFacts, tmp_path: Path, program: ThreadingHTTPServer, spec: Json
) -> None:
    found = objects() | {prometheus_operator.PROMETHEUSES: [named("p", spec=spec)]}
    operator(tmp_path, program.server_port).reconcile(view(found), facts)
    assert list((telemetry_directory(tmp_path) / RULES).iterdir()) == []


def test_each_fault_is_one_change(facts: ClusterFacts, tmp_path: Path, program: ThreadingHTTPServer) -> None:
    made, there = operator(tmp_path, program.server_port), view(objects())
    made.reconcile(there, with_telemetry(facts, scraped=False))
    assert read(tmp_path, f"{TARGETS}/exporters.json") == []
    made.reconcile(there, with_telemetry(facts, prometheus=False))
    assert [path.stem for path in backends_directory(tmp_path).iterdir()] == ["alertmanager"]
    made.reconcile(there, with_telemetry(facts, rules=False))
    assert list((telemetry_directory(tmp_path) / RULES).iterdir()) == []
    made.reconcile(there, with_telemetry(facts, wired=False))
    assert "alerting" not in read(tmp_path, PROMETHEUS_FILE)
    made.reconcile(there, with_telemetry(facts, delivers=False))
    assert read(tmp_path, ALERTMANAGER_FILE)["receivers"][1]["webhook_configs"][0]["url"] != "http://127.0.0.1:21001/"
    made.reconcile(there, facts)
    assert "alerting" in read(tmp_path, PROMETHEUS_FILE)


def test_without_the_programs_or_its_deployment_it_does_nothing(facts: ClusterFacts, tmp_path: Path) -> None:
    assert prometheus_operator.PrometheusOperator(tmp_path, lambda: None).reconcile(view(objects()), facts) == []
    made = operator(tmp_path / "other", 1)
    assert made.reconcile(view({**objects(), DEPLOYMENTS: []}), facts) == []


def test_a_program_that_does_not_answer_is_asked_again(
    facts: ClusterFacts, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    woken = threading.Event()
    operator(tmp_path, 1)
    made = prometheus_operator.PrometheusOperator(tmp_path, woken.set)
    made.reconcile(view(objects()), facts)
    assert "reload" in capsys.readouterr().err
    assert woken.wait(3.0)
