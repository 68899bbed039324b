# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a release must run is read from its own manifest, as `helm get manifest` prints it."""

from __future__ import annotations

import pytest

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.component_stack.promised import (
    Promised,
    broken_promise,
    promised_by_text,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.component_stack.workloads import Workload
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.errors import InputError

MANIFEST = """---
# Source: gpu-operator/templates/serviceaccount.yaml
apiVersion: v1
kind: ServiceAccount
metadata: {name: gpu-operator}
---
# Source: gpu-operator/templates/secret.yaml
apiVersion: v1
kind: Secret
metadata: {name: login}
stringData: {text: "{{ not yaml"}
---
# Source: gpu-operator/templates/operator.yaml
apiVersion: apps/v1
kind: Deployment
metadata:
  name: gpu-operator
spec:
  replicas: 1
---
apiVersion: apps/v1
kind: "DaemonSet"
metadata:
  name: worker
  namespace: elsewhere
---
apiVersion: batch/v1
kind: Job
metadata:
  name: once
"""
OPERATOR = Promised(kind="Deployment", name="gpu-operator", namespace="gpu-operator", replicas=1)
WORKER = Promised(kind="DaemonSet", name="worker", namespace="elsewhere")


def _there(entry: Promised, desired: int) -> Workload:
    return Workload(kind=entry.kind, name=entry.name, namespace=entry.namespace, release="gpu-operator/gpu-operator",
                    app=entry.name, desired=desired, ready=desired, state="ready")  # fmt: skip


def test_a_chart_that_renders_json_promises_as_well() -> None:
    text = (
        '---\n# Source: x\n{\n  "apiVersion": "apps/v1",\n  "kind": "Deployment",\n  "metadata": {"name": "adapter"},\n'
    )
    text += '  "spec": {"replicas": 1}\n}\n'
    assert promised_by_text(text, "ns") == (Promised(kind="Deployment", name="adapter", namespace="ns", replicas=1),)


def test_the_workloads_of_a_manifest_are_found_and_nothing_else_is_kept() -> None:
    assert promised_by_text(MANIFEST, "gpu-operator") == (OPERATOR, WORKER)
    assert promised_by_text("", "gpu-operator") == ()


@pytest.mark.parametrize(
    "text", ["kind: Deployment\nmetadata: [", "kind: DaemonSet\nmetadata: {}\n", "kind: Deployment\n"]
)
def test_a_workload_that_cannot_be_read_is_an_error(text: str) -> None:
    with pytest.raises(InputError):
        promised_by_text(text, "x")


def test_what_is_missing_or_scaled_to_nothing_breaks_the_promise() -> None:
    promised = (OPERATOR, WORKER)
    assert broken_promise(promised, [_there(OPERATOR, 1), _there(WORKER, 0)]) is None
    broken = broken_promise(promised, [_there(WORKER, 4)])
    assert broken is not None and (broken.entry, broken.cause) == (OPERATOR, "workload-missing")
    assert broken.text == "Deployment gpu-operator/gpu-operator of the release's manifest is not in the cluster"
    broken = broken_promise(promised, [_there(OPERATOR, 0), _there(WORKER, 4)])
    assert broken is not None and broken.cause == "workload-scaled-to-zero"


def test_what_the_prometheus_operator_makes_is_promised() -> None:
    text = """
apiVersion: monitoring.coreos.com/v1
kind: Prometheus
metadata: {name: k8s}
spec: {replicas: 2, shards: 3}
---
apiVersion: monitoring.coreos.com/v1
kind: Alertmanager
metadata: {name: main, namespace: alerts}
---
apiVersion: monitoring.coreos.com/v1
kind: Prometheus
metadata: {name: resting}
spec: {paused: true}
---
apiVersion: config.openshift.io/v1
kind: Alertmanager
metadata: {name: other}
"""
    found = promised_by_text(text, "monitoring")
    assert [entry.title for entry in found] == [
        "StatefulSet monitoring/prometheus-k8s",
        "StatefulSet monitoring/prometheus-k8s-shard-1",
        "StatefulSet monitoring/prometheus-k8s-shard-2",
        "StatefulSet alerts/alertmanager-main",
    ]
    assert [entry.replicas for entry in found] == [2, 2, 2, None]
