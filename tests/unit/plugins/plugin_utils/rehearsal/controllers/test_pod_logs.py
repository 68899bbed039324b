# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Who removes the object that says where the log of a pod lies, and what is kept of a program that ended badly."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.clients.kube.objects import PODS
from ansible_collections.gpufleet.rehearsal.plugins.plugin_utils.charts.chart import FAULT_ANNOTATION
from ansible_collections.gpufleet.rehearsal.plugins.plugin_utils.controllers.cluster_facts import (
    ClusterFacts,
    ClusterView,
    key_of,
)
from ansible_collections.gpufleet.rehearsal.plugins.plugin_utils.controllers.pod_programs import (
    EXIT_ANNOTATION,
    LOGS,
    PodPrograms,
)
from ansible_collections.gpufleet.rehearsal.plugins.plugin_utils.workloads.alert_receiver_pods import (
    PORT_VARIABLE,
)
from ansible_collections.gpufleet.rehearsal.plugins.plugin_utils.workloads.pod_simulator import PodOutput


@pytest.mark.parametrize("labels", [{}, {"gpufleet.io/purpose": "test"}])
def test_the_namespace_of_a_test_takes_it_along_and_elsewhere_the_pod_does(
    labels: dict[str, str], tmp_path: Path
) -> None:
    metadata = {"name": "p", "namespace": "n", "uid": "u", "labels": labels}
    pod = {"metadata": metadata, "spec": {"containers": [{"name": "main"}]}}
    change = PodPrograms(tmp_path, lambda: None)._show(pod, PodOutput())
    owners = [owner["uid"] for owner in change.body["metadata"].get("ownerReferences", [])]
    assert owners == ([] if labels else ["u"])
    assert change.body["spec"]["logs"][0]["logsFile"] == str(tmp_path / "n" / "p.log")


@pytest.mark.parametrize(
    ("policy", "code", "written"),
    [
        ("Never", 3, {EXIT_ANNOTATION: "3"}),
        # A kubelet starts it again, for ever (kubernetes.io, "Pod Lifecycle": container restart policy).
        ("Always", 3, {FAULT_ANNOTATION: "CrashLoopBackOff"}),
        ("Always", 0, {EXIT_ANNOTATION: "0"}),
    ],
)
def test_the_last_words_of_a_program_that_fails_are_kept_when_its_pod_goes(
    policy: str, code: int, written: dict[str, str], tmp_path: Path, facts: ClusterFacts,
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    monkeypatch.setenv(PORT_VARIABLE, "1")
    labels = {"app.kubernetes.io/name": "gpufleet-alert-receiver", "gpufleet.io/purpose": "test"}
    program = f"import sys; print('Address already in use', file=sys.stderr); sys.exit({code})"
    container = {"name": "receiver", "command": ["python3", "-c"], "args": [program]}
    pod: dict[str, Any] = {
        "metadata": {"name": "receiver", "namespace": "t", "uid": "u", "labels": labels},
        "spec": {"containers": [container], "restartPolicy": policy, "nodeName": "gpu001"},
        "status": {"phase": "Running"},
    }
    programs = PodPrograms(tmp_path, lambda: None)
    view = ClusterView({PODS: {key_of(pod): pod}, LOGS: {key_of(pod): {}}})
    changes, ends = programs.reconcile(view, facts), time.monotonic() + 20
    while not changes and time.monotonic() < ends:
        time.sleep(0.05)
        changes = programs.reconcile(view, facts)
    assert [change.body["metadata"]["annotations"] for change in changes] == [written]
    programs.reconcile(view, facts)
    programs.reconcile(ClusterView({}), facts)
    kept = "pod t/receiver: its program ended with 3: \n  Address already in use\n"
    assert capsys.readouterr().err == (kept if code else "")
    assert not (tmp_path / "t").exists()
