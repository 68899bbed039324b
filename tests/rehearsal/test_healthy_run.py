# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The main job on a healthy cluster, end to end through ansible-runner: what it leaves, and what it leaves alone."""

from __future__ import annotations

import json
import subprocess
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from model_watch import openings, strangers, watched
from rehearsal_harness import Rehearsed, left_behind, rehearse

GATES = ("facility", "nodes", "gpu_stack")
WATCH = "watch"
# Secrets as a site has them: in values of a chart, in the environment of pods, in a URL.
VALUES = {"kube-prometheus-stack": {"grafana": {"adminPassword": "two cAnArY1, words"}}}
SETTINGS = {
    "training_acceptance": {"env": {"WANDB_API_KEY": "cAnArY2"}},
    "inference_acceptance": {"hub": "https://bob:cAnArY3@hub.example.org", "arguments": ["--api-key", "cAnArY4"]},
}


@pytest.fixture(scope="module")
def healthy(tmp_path_factory: pytest.TempPathFactory) -> Rehearsed:
    """One healthy run over the three gates of the spine, every process of it watched."""
    work = tmp_path_factory.mktemp("healthy")
    with watched(work / WATCH):
        return rehearse(work, rehearsal_nodes=2, gates=list(GATES), overrides=VALUES, settings=SETTINGS)


def test_a_healthy_cluster_passes_and_is_never_called_accepted(healthy: Rehearsed) -> None:
    assert healthy.rc == 0, healthy.output[-4000:]
    assert not healthy.findings()
    assert healthy.stats["gpufleet_passed"] is True and healthy.stats["gpufleet_exit_code"] == 0
    assert "passed for facility, nodes, gpu_stack" in healthy.stats["gpufleet_verdict"]
    assert "accepted" not in healthy.stats["gpufleet_verdict"]


def test_no_secret_of_the_site_is_in_the_run_or_its_output(healthy: Rehearsed) -> None:
    files = [path for path in healthy.run_dir.resolve().parent.rglob("*") if path.is_file()]
    assert any(path.name == "history.sqlite" for path in files), "the history was not looked through"
    assert [str(path) for path in files if b"cAnArY" in path.read_bytes()] == []
    assert "cAnArY" not in healthy.output + json.dumps(healthy.stats)
    mine = [
        path for path in (healthy.run_dir.resolve(), *healthy.run_dir.resolve().rglob("*")) if not path.is_symlink()
    ]
    assert {path.stat().st_mode & 0o077 for path in mine} == {0}


def test_nobody_but_the_rehearsal_itself_opens_its_model(healthy: Rehearsed) -> None:
    log = healthy.run_dir.parents[1] / WATCH / "opened.jsonl"
    assert openings(log), "the watch saw nothing, not even the rehearsal itself"
    assert not strangers(log)


def test_gates_outside_the_scope_stay_pending(healthy: Rehearsed) -> None:
    assert {healthy.status(gate) for gate in GATES} == {"passed"}
    assert {entry["status"] for entry in healthy.record["gates"] if entry["gate"] not in GATES} == {"pending"}


def test_every_file_says_that_it_is_a_rehearsal(healthy: Rehearsed, ctrf_schema: dict[str, Any]) -> None:
    for gate in GATES:
        suite = json.loads((healthy.run_dir / "ctrf" / f"{gate}.json").read_text())
        jsonschema.validate(suite, ctrf_schema)
        assert suite["extra"]["rehearsal"] is True
        root = ET.parse(healthy.run_dir / "junit" / f"{gate}.xml").getroot()
        assert all(suite.attrib["name"].startswith("REHEARSAL") for suite in root.iter("testsuite"))
    assert "REHEARSAL" in (healthy.run_dir / "report.html").read_text()
    assert "REHEARSAL" in healthy.output


def test_nothing_is_left_running_or_mounted(healthy: Rehearsed) -> None:
    assert not left_behind(healthy.run_dir.parents[1])


def test_a_saved_run_is_judged_again_without_a_cluster(healthy: Rehearsed, tmp_path: Path) -> None:
    again = rehearse(tmp_path, playbook="judge.yml", run=str(healthy.run_dir.resolve()))
    assert again.rc == 0, again.output[-3000:]


def test_a_brightened_run_is_found_out(healthy: Rehearsed, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    subprocess.run(["cp", "-r", f"{healthy.run_dir.resolve()}/.", str(copy)], check=True)
    evidence = next((copy / "evidence/hosts").glob("*.json"))
    evidence.write_text(evidence.read_text().replace("NVIDIA H100 80GB HBM3", "NVIDIA H100 PCIe"))
    again = rehearse(tmp_path / "judge", playbook="judge.yml", run=str(copy))
    assert again.rc != 0 and "gpu-census" in again.output
