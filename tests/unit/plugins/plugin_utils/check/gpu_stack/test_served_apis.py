# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""APIs that components serve beside the API server's: one that does not answer is a component that is not healthy.

Upstream's check ai-service-metrics asks whether custom.metrics.k8s.io is served. Objects as the chart of
prometheus-adapter and the aggregator make them (prometheus-community/helm-charts, charts/prometheus-adapter/templates/
custom-metrics-apiservice.yaml; kubernetes/kube-aggregator, pkg/controllers/status/remote).
"""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.gpu_stack import component_health
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.gpu_stack.cluster_state import (
    ClusterState,
    ComponentState,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.selection import names_of_checks
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.component_stack.api_services import api_workload
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.component_stack.promised import promised_by_text
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.component_stack.workloads import Workload
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.model import Outcome, Status

from .conftest import context, healthy, recipe, workload

NOW = datetime(2026, 1, 1, 12, 0, tzinfo=UTC)
NAME, CUSTOM = "prometheus-adapter", "v1beta1.custom.metrics.k8s.io"
RELEASE = f"monitoring/{NAME}"
MANIFEST = f"""---
apiVersion: apps/v1
kind: Deployment
metadata: {{name: {NAME}, namespace: monitoring}}
spec: {{replicas: 1}}
---
apiVersion: apiregistration.k8s.io/v1
kind: APIService
metadata:
  name: {CUSTOM}
spec:
  service: {{name: {NAME}, namespace: monitoring}}
"""
NO_ANSWER = (
    "failing or missing response from https://10.0.0.9:6443/apis/custom.metrics.k8s.io/v1beta1: Get: "
    "dial tcp 10.0.0.9:6443: i/o timeout"
)


def api(available: str = "True", **more: Any) -> dict[str, Any]:
    said = {
        "type": "Available", "status": available,
        "reason": "Passed" if available == "True" else "FailedDiscoveryCheck",
        "message": "all checks passed" if available == "True" else NO_ANSWER,
        "lastTransitionTime": "2026-01-01T11:00:00Z",
    }  # fmt: skip
    notes = {"meta.helm.sh/release-name": NAME, "meta.helm.sh/release-namespace": "monitoring"}
    spec = {"group": "custom.metrics.k8s.io", "service": {"name": NAME, "namespace": "monitoring", "port": 443}}
    made = {"metadata": {"name": CUSTOM, "annotations": notes}, "spec": spec, "status": {"conditions": [said]}}
    return {**made, **more}


def read(**more: Any) -> Workload:
    found = api_workload(api(**more), NOW)
    assert found is not None
    return found


def adapter(*apis: Workload) -> Outcome:
    promised = promised_by_text(MANIFEST, "monitoring")
    state = ComponentState(name=NAME, release=RELEASE, status="deployed", version="5.3.0", ours=True, promised=promised)
    seen: ClusterState = healthy()
    workloads = (*(seen.workloads or ()), workload(NAME, RELEASE), *apis)
    seen = replace(seen, components=(*(seen.components or ()), state), workloads=workloads)
    stated = recipe()
    stated["componentRefs"].append({"name": NAME, "namespace": "monitoring", "version": "5.3.0", "values": {}})
    stated["deploymentOrder"].append(NAME)
    outcomes = component_health.judge(seen, context(recipe=stated))
    return next(outcome for outcome in outcomes if outcome.subjects[0].name == NAME)


def test_an_api_that_answers_is_a_workload_of_its_release() -> None:
    found = read()
    assert (found.release, found.state, found.ready, found.ready_for_s) == (RELEASE, "ready", 1, 3600.0)
    outcome = adapter(found)
    assert outcome.status is Status.PASSED and "2 of 2 workloads ready" in outcome.summary


@pytest.mark.parametrize("status", ["False", "Unknown"])
def test_an_api_that_does_not_answer_fails_its_component_with_the_servers_words(status: str) -> None:
    outcome = adapter(read(available=status))
    assert (outcome.status, outcome.cause) == (Status.FAILED, "api-not-available")
    assert CUSTOM in outcome.summary and "i/o timeout" in outcome.summary
    assert outcome.hint.startswith(f"kubectl describe apiservice {CUSTOM}")


def test_an_api_that_somebody_deleted_fails_its_component() -> None:
    outcome = adapter()
    assert (outcome.status, outcome.cause) == (Status.FAILED, "workload-missing")
    assert f"APIService {CUSTOM} of the release's manifest is not in the cluster" in outcome.summary


def test_an_api_that_was_registered_just_now_is_neither_ready_nor_failed_for_good() -> None:
    found = read(available="False")
    assert (found.state, found.ready_for_s) == ("pending", 0.0)
    assert read(status={}).reason == "the API server does not reach it: nobody asked it yet"


def test_an_api_of_the_server_itself_is_nobodys_component() -> None:
    assert api_workload({"metadata": {"name": "v1.apps"}, "spec": {"group": "apps"}}, NOW) is None


def test_who_asks_for_metrics_of_ai_services_asks_for_these_apis() -> None:
    assert "component-health" in names_of_checks()["ai-service-metrics"]
