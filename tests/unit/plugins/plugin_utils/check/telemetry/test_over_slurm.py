# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Gate telemetry where Slurm gives the hosts their work: a Prometheus by its URL, whose targets are written in its
configuration, answers as its HTTP API is documented (prometheus/prometheus, docs/querying/api.md)."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from gpu_metrics import FIELD, NOW, Metrics
from served import served
from simulated_training import hardware

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.declare import declare
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.registry import checks_of
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.spec import JudgeContext, ObserveContext
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.model import Status, SubjectKind

ON_CLUSTERS = {"alert-delivery", "pod-autoscaling", "recipe-rules-loaded"}


class Server(ThreadingHTTPServer):
    """What a Prometheus says of a fleet; it scrapes `dcgm-exporter` on port 9400 of each host."""

    fleet: Metrics

    def answer(self, path: str, query: str) -> Any:
        if path == "/api/v1/targets":
            return {"activeTargets": [self.target(host) for host in self.fleet.hosts]}
        field = re.sub(r"timestamp\((.*)\)", r"\1", query)
        alerted = field in (
            "DCGM_FI_DEV_XID_ERRORS",
            "DCGM_FI_DEV_FB_USED",
            "DCGM_FI_DEV_GPU_TEMP",
            "DCGM_FI_DEV_POWER_USAGE",
        )
        rows = [row for row in self.fleet.rows if row.field == (FIELD if alerted else field)]
        result = [
            {
                "metric": {"__name__": field, **row.labels},
                "value": [NOW, str(NOW - row.age_s if field != query else row.value)],
            }
            for row in rows
        ]
        return {"resultType": "vector", "result": result}

    def target(self, host: str) -> dict[str, Any]:
        address = f"{host}:9400"
        return {
            "scrapePool": "dcgm", "scrapeUrl": f"http://{address}/metrics", "scrapeInterval": "15s",
            "health": "down" if host in self.fleet.down else "up", "lastError": self.fleet.down.get(host, ""),
            "labels": {"instance": address, "job": "dcgm"}, "discoveredLabels": {"__address__": address, "job": "dcgm"},
        }  # fmt: skip


class Handler(BaseHTTPRequestHandler):
    server: Server

    def do_GET(self) -> None:
        parts = urlsplit(self.path)
        data = self.server.answer(parts.path, parse_qs(parts.query).get("query", [""])[0])
        content = json.dumps({"status": "success", "data": data}).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_words: Any) -> None:
        pass


@pytest.fixture
def prometheus() -> Iterator[Server]:
    with served(Server(("127.0.0.1", 0), Handler)) as server:
        server.fleet = Metrics(known=False)
        yield server


def told(server: Server | None, path: Path) -> dict[str, set[tuple[str, str]]]:
    """Observe and judge all that the gate declares there; return what is not passed of each check."""
    url = {"url": f"http://127.0.0.1:{server.server_port}"} if server is not None else {}
    context = Metrics().context()
    site = replace(
        context.site, orchestrator="slurm", capabilities=(), missing={"kubernetes": "Slurm"}, gates=("telemetry",),
        settings={"telemetry": {"settle_s": 0, **url}},
    )  # fmt: skip
    declaration = declare("telemetry", site)
    assert {entry.id for entry in declaration.not_declared} == ON_CLUSTERS
    ids = {check.id for check in declaration.checks}
    checks = [check for check in checks_of("telemetry", site) if check.spec.id in ids]
    assert len({check.observer.key for check in checks}) == 1 and len(checks) == 6
    seeing = ObserveContext(site=site, run_dir=path, today=context.today, hardware=hardware())
    seen = checks[0].observer.observe(seeing)
    judging = JudgeContext(gate="telemetry", site=site, today=context.today, hardware=hardware())
    found = {}
    for check in checks:
        outcomes = check.judge(seen, judging)
        subjects = {subject.name for outcome in outcomes for subject in outcome.subjects}
        assert subjects == (set(Metrics().hosts) if check.spec.per is SubjectKind.NODE else {site.name})
        if bad := {(o.status.value, o.cause) for o in outcomes if o.status is not Status.PASSED}:
            found[check.spec.id] = bad
    return found


def test_metrics_of_every_gpu_pass(prometheus: Server, tmp_path: Path) -> None:
    assert told(prometheus, tmp_path) == {}


def test_a_gpu_without_metrics_an_exporter_that_is_down_and_old_samples_are_found(
    prometheus: Server, tmp_path: Path
) -> None:
    fleet = prometheus.fleet
    fleet.drop("gpu01", 3)
    fleet.drop("gpu02")
    fleet.down["gpu02"] = "connection refused"
    for row in fleet.of("gpu03"):
        row.age_s = 900
    found = told(prometheus, tmp_path)
    assert found["gpu-metrics-complete"] == {("failed", "gpu-missing"), ("failed", "host-missing")}
    assert ("failed", "stale-series") in found["gpu-metrics-fresh"]


def test_without_a_url_nothing_is_passed_and_the_setting_is_named(tmp_path: Path) -> None:
    found = told(None, tmp_path)
    assert len(found) == 6 and ("other", "prometheus-unreachable") in set().union(*found.values())
    assert {status for bad in found.values() for status, _cause in bad} == {"other"}
