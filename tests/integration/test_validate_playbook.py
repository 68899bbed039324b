# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Playbook validate as a pipeline runs it: a recipe and a snapshot, no inventory, no cluster."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]


def recipe(version: str) -> dict[str, Any]:
    return {
        "criteria": {"accelerator": "a100", "service": "kind"},
        "componentRefs": [{"name": "gpu-operator", "namespace": "gpu-operator", "version": "v25.10.1"}],
        "deploymentOrder": ["gpu-operator"],
        "constraints": [{"name": "K8s.server.version", "value": version}],
        "validation": {"conformance": {"checks": ["dra-support", "accelerator-metrics"]}},
    }


def snapshot() -> dict[str, Any]:
    """A snapshot in the form of the upstream tool (NVIDIA/aicr, "Measurement Schema")."""
    labels = {"nvidia.com/gpu.product": "NVIDIA-A100-SXM4-40GB|gpu01"}
    subtypes = [{"subtype": "summary", "data": {"node-count": 1}}, {"subtype": "label", "data": labels}]
    return {
        "kind": "Snapshot",
        "apiVersion": "aicr.nvidia.com/v1alpha1",
        "metadata": {"timestamp": "2026-06-02T10:30:00Z", "version": "0.13.0", "source-node": "gpu01"},
        "measurements": [
            {"type": "K8s", "subtypes": [{"subtype": "server", "data": {"version": "v1.34.0"}}]},
            {"type": "NodeTopology", "subtypes": subtypes},
        ],
    }


def _play(
    work: Path, version: str, *variables: str, playbook: str = "playbooks/validate.yml"
) -> subprocess.CompletedProcess[str]:
    (work / "recipe.json").write_text(json.dumps(recipe(version)))
    (work / "snapshot.json").write_text(json.dumps(snapshot()))
    stated = (
        "gpufleet_no_cluster=true",
        f"gpufleet_validate_recipe={work / 'recipe.json'}",
        f"gpufleet_validate_snapshot={work / 'snapshot.json'}",
        f"gpufleet_run_dir={work / 'runs'}",
        *variables,
    )
    extra = [word for variable in stated for word in ("-e", variable)]
    return subprocess.run(
        [sys.executable, "-m", "ansible", "playbook", *extra, playbook],
        cwd=ROOT, capture_output=True, text=True, timeout=300, check=False,
        env={**os.environ, "ANSIBLE_LOCAL_TEMP": str(work / "tmp"), "ANSIBLE_CONFIG": str(ROOT / "ansible.cfg")},
    )  # fmt: skip


def _phases(work: Path) -> dict[str, str]:
    record = json.loads((work / "runs" / "latest" / "run.json").read_text())
    return {verdict["gate"]: verdict["status"] for verdict in record["phases"]}


def test_a_recipe_is_validated_against_a_snapshot_without_inventory_and_cluster(tmp_path: Path) -> None:
    done = _play(tmp_path, ">= 1.25", "gpufleet_phases=conformance")
    assert done.returncode == 0, done.stdout + done.stderr
    assert _phases(tmp_path) == {"readiness": "passed", "conformance": "skipped"}
    assert "readiness: passed" in done.stdout and "no-cluster mode" in done.stdout
    table = done.stdout.rpartition("\nphase ")[2].splitlines()
    assert [line.split()[:2] for line in table[2:4]] == [["readiness", "passed"], ["conformance", "skipped"]]
    assert table[4] == "" and "telemetry" not in done.stdout, "no gate is told"
    run = (tmp_path / "runs" / "latest").resolve()
    again = _play(tmp_path, ">= 1.25", f"gpufleet_run={run}", playbook="playbooks/judge.yml")
    assert again.returncode == 0, again.stdout + again.stderr
    assert "validated in part: readiness passed; conformance skipped" in again.stdout
    assert "telemetry" not in again.stdout and "differs" not in again.stdout, "phases in the place of gates"
    end = again.stdout[again.stdout.index("PLAY RECAP") :]
    assert [line.split()[0] for line in end.partition("\nphase ")[2].splitlines()[2:4]] == ["readiness", "conformance"]
    assert "verdict  validated in part: readiness passed" in end and f"report   {run}/report.html" in end


def test_a_phase_that_nobody_knows_is_refused_before_anything_is_started(tmp_path: Path) -> None:
    done = _play(tmp_path, ">= 1.25", "gpufleet_phases=conformity")
    assert done.returncode == 2 and "phase 'conformity': is none; there are readiness, deployment" in done.stdout
    assert not (tmp_path / "runs").exists()


def test_a_cluster_that_is_not_ready_fails_the_playbook_even_where_it_only_informs(tmp_path: Path) -> None:
    done = _play(tmp_path, ">= 1.35", "gpufleet_phases=conformance", "gpufleet_fail_on_error=false")
    assert done.returncode == 2, done.stdout + done.stderr
    assert _phases(tmp_path) == {"readiness": "failed", "conformance": "pending"}
    assert "K8s.server.version is v1.34.0; >= 1.35 is required" in done.stdout


END = """
- hosts: localhost
  gather_facts: false
  tasks:
    - ansible.builtin.include_role:
        name: gpufleet.bringup.validate
        tasks_from: end
"""


def test_a_phase_that_failed_ends_with_0_where_it_only_informs_and_is_shown_and_no_pass(tmp_path: Path) -> None:
    assert _play(tmp_path, ">= 1.25", "gpufleet_phases=conformance").returncode == 0
    path = (tmp_path / "runs" / "latest").resolve() / "run.json"
    record = json.loads(path.read_text())
    (verdict,) = (phase for phase in record["phases"] if phase["gate"] == "conformance")
    verdict |= {"status": "failed", "message": "phase conformance is failed: gang-admission"}
    path.write_text(json.dumps(record))
    (tmp_path / "end.yml").write_text(END)
    for only_informs, code in (("false", 0), ("true", 2)):
        told = (f"gpufleet_run={path.parent}", f"gpufleet_fail_on_error={only_informs}")
        done = _play(tmp_path, ">= 1.25", *told, playbook=str(tmp_path / "end.yml"))
        assert done.returncode == code, done.stdout + done.stderr
        assert "not validated: " in done.stdout and "conformance failed" in done.stdout, done.stdout
        assert _phases(tmp_path) == {"readiness": "passed", "conformance": "failed"}
