# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The main job on a healthy cluster, as a user starts it: what it leaves, and what it leaves alone. The next one starts
in the middle: what passed is taken over, what changed is proven again, the rest refuses."""

from __future__ import annotations

import json
import re
import subprocess
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml
from model_watch import openings, strangers
from rehearsal_harness import Rehearsed, rehearse
from shared_site import NODES, SECRETS, WATCH, SharedSite

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.gates import GATE_IDS

FIRST = ["facility", "fabric", "nodes"]
ROLLED = [f"driver-differs@gpu{number:02d}" for number in range(1, NODES + 1)]


@pytest.fixture
def healthy(site: SharedSite) -> Rehearsed:
    """The first run of the site."""
    assert site.first.rc == 0, site.first.output[-4000:]
    return site.first


def test_a_healthy_cluster_passes_and_is_never_called_accepted(healthy: Rehearsed) -> None:
    assert not healthy.findings()
    assert healthy.stats["gpufleet_passed"] is True and healthy.stats["gpufleet_exit_code"] == 0
    assert f"passed for {', '.join(GATE_IDS)}" in healthy.stats["gpufleet_verdict"]
    assert "accepted" not in healthy.stats["gpufleet_verdict"]


def test_no_secret_of_the_site_is_in_the_run_or_its_output(healthy: Rehearsed) -> None:
    # The simulated cluster has them, as every cluster has.
    places = [path for path in healthy.run_dir.parent.iterdir() if path.name != "rehearsal"]
    files = [path for place in places for path in (place, *place.rglob("*")) if path.is_file()]
    assert any(path.name == "history.sqlite" for path in files), "the history was not looked through"
    assert [str(path) for path in files if b"cAnArY" in path.read_bytes()] == []
    assert "cAnArY" not in healthy.output + json.dumps(healthy.stats)
    mine = [path for path in (healthy.run_dir, *healthy.run_dir.rglob("*")) if not path.is_symlink()]
    assert {path.stat().st_mode & 0o077 for path in mine} == {0}


def test_nobody_but_the_rehearsal_itself_opens_its_model(healthy: Rehearsed) -> None:
    log = healthy.run_dir.parents[1] / WATCH / "opened.jsonl"
    assert openings(log), "the watch saw nothing, not even the rehearsal itself"
    assert not strangers(log)


def test_every_file_says_that_it_is_a_rehearsal(healthy: Rehearsed, ctrf_schema: dict[str, Any]) -> None:
    for gate in GATE_IDS:
        suite = json.loads((healthy.run_dir / "ctrf" / f"{gate}.json").read_text())
        jsonschema.validate(suite, ctrf_schema)
        assert suite["extra"]["rehearsal"] is True
        root = ET.parse(healthy.run_dir / "junit" / f"{gate}.xml").getroot()
        assert all(suite.attrib["name"].startswith("REHEARSAL") for suite in root.iter("testsuite"))
    assert "REHEARSAL" in (healthy.run_dir / "report.html").read_text()
    assert "REHEARSAL" in healthy.output


def test_a_saved_run_is_judged_again_without_a_cluster(healthy: Rehearsed, tmp_path: Path) -> None:
    again = rehearse(tmp_path, playbook="judge.yml", run=str(healthy.run_dir))
    assert again.rc == 0, again.output[-3000:]


def test_a_brightened_run_is_found_out(healthy: Rehearsed, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    subprocess.run(["cp", "-r", f"{healthy.run_dir}/.", str(copy)], check=True)
    evidence = next((copy / "evidence/hosts").glob("*.json"))
    evidence.write_text(evidence.read_text().replace("NVIDIA H100 80GB HBM3", "NVIDIA H100 PCIe"))
    again = rehearse(tmp_path / "judge", playbook="judge.yml", run=str(copy))
    assert again.rc != 0 and "gpu-census" in again.output


def again(site: SharedSite, *faults: str, **variables: Any) -> Rehearsed:
    """Run the main job on the same site, which has these faults now."""
    with site.broken(*faults):
        return site.play(site.work, **SECRETS, **variables)


def resumed(run: Rehearsed) -> str:
    return "\n".join(run.record["resumed"])


def origins(run: Rehearsed) -> dict[str, str]:
    """The run that stands for each gate that was taken over."""
    return {gate["gate"]: gate["taken_over"]["runs"][0] for gate in run.record["gates"] if gate["taken_over"]}


@pytest.mark.drawn(2, of="runs after one that passed")
def test_the_next_gate_starts_without_running_the_others_again(
    site: SharedSite, healthy: Rehearsed, tmp_path: Path
) -> None:
    first = healthy.run_dir.name
    run = again(site, gates=[*FIRST, "gpu_stack"], from_gate="gpu_stack")
    assert run.rc == 0, run.output[-4000:]
    assert origins(run) == dict.fromkeys(FIRST, first)
    assert {gate: run.status(gate) for gate in (*FIRST, "gpu_stack")} == dict.fromkeys(FIRST, "skipped") | {
        "gpu_stack": "passed"
    }
    assert not (run.run_dir / "observations" / "nodes").exists()
    evidence = json.loads((run.run_dir / "evidence/hosts/gpu01.json").read_text())
    assert "uname" in evidence["tools"] and "dcgmi_diag" not in evidence["tools"]
    for gate in FIRST:
        tests = json.loads((run.run_dir / "ctrf" / f"{gate}.json").read_text())["results"]["tests"]
        assert tests and {test["status"] for test in tests} == {"skipped"}
        assert all(first in test["message"] for test in tests)
    assert f"facility, fabric, nodes taken over from run {first}" in run.stats["gpufleet_verdict"]
    assert "passed for gpu_stack" in run.stats["gpufleet_verdict"] and run.stats["gpufleet_passed"] is True
    assert f"resumed  nodes taken over from run {first}" in run.output
    judged = rehearse(tmp_path, playbook="judge.yml", run=str(run.run_dir))
    assert judged.rc == 0, judged.output[-3000:]


@pytest.fixture(scope="module")
def differing(site: SharedSite) -> Rehearsed:
    """A run in which one host has another driver: gate nodes is not passed in it."""
    faults = ["driver-differs@gpu03", "adapter-firmware-differs@gpu02/mlx5_3"]
    return again(site, *faults, gates=[*FIRST, "gpu_stack"], from_gate="gpu_stack")


@pytest.mark.drawn(2, of="runs after one that passed")
def test_another_driver_and_another_firmware_are_named_with_their_node_and_proven_again(
    healthy: Rehearsed, differing: Rehearsed
) -> None:
    run = differing
    assert run.rc != 0 and set(origins(run)) == {"facility", "fabric"}
    (line,) = [text for text in run.record["resumed"] if text.startswith("nodes is proven again")]
    assert "driver 580.105.08 -> 575.57.08 on gpu03" in line
    assert re.search(r"adapter firmware \S+ -> 28\.39\.3560 on gpu02", line), line
    stale, results = map(int, re.findall(r"(\d+) of (\d+) results are stale", line)[0])
    assert "gpu01" not in line and stale * NODES == results * 2
    # The gate was proven again, and is not passed with a fleet that differs.
    assert run.status("nodes") == "failed" and run.status("gpu_stack") == "pending"
    assert {(f.check, f.subjects) for f in run.findings() if f.status == "failed"} == {("driver-uniform", ("gpu03",))}


@pytest.mark.drawn(1, of="other drivers and kinds of hosts")
def test_a_driver_roll_over_the_whole_fleet_is_proven_on_the_way_from_gate_6_and_the_run_passes(
    site: SharedSite, healthy: Rehearsed, differing: Rehearsed
) -> None:
    # Gate nodes has not passed since, so this start is refused until it is let.
    refused = again(site, *ROLLED, from_gate="fabric_validation")
    assert refused.rc != 0 and "not passed since" in refused.record["problem"]
    assert "start at nodes: -e gpufleet_from_gate=nodes" in refused.output
    assert {gate["status"] for gate in refused.record["gates"]} == {"pending"}
    assert "not started" in (refused.run_dir / "report.html").read_text()
    run = again(site, *ROLLED, from_gate="fabric_validation", stale="prove")
    assert run.rc == 0, run.output[-4000:]
    whole = origins(run)
    assert set(whole) == {"facility", "fabric"}
    assert [gate["gate"] for gate in run.record["gates"] if gate["status"] == "passed"] == list(GATE_IDS[2:])
    nodes, *later = (line for line in run.record["resumed"] if "is proven again" in line)
    # The driver of gpu03 is that of the run in which it did not pass.
    assert "driver 580.105.08 -> 575.57.08 on 3 hosts (gpu01, gpu02, gpu04)" in nodes
    assert "driver-uniform on gpu03 not passed since: failed" in nodes
    assert [line.split()[0] for line in later] == ["gpu_stack", "telemetry"]
    assert all(
        "driver 580.105.08 -> 575.57.08 on 4 hosts (gpu01, gpu02, gpu03 and 1 more)" in line for line in later
    ), later
    assert "facility, fabric taken over from run" in run.stats["gpufleet_verdict"]
    page = (run.run_dir / "report.html").read_text()
    assert whole["facility"] in page and "driver 580.105.08" in page


@pytest.mark.parametrize(
    ("from_gate", "gates", "words"),
    [
        ("gpu-stack", FIRST, "'gpu-stack' is not a gate. Fix: did you mean gpu_stack?"),
        ("gpu_stack", FIRST, "gate gpu_stack is outside the scope of this run"),
    ],
)
def test_a_gate_that_cannot_be_the_start_is_refused_before_any_contact(
    tmp_path: Path, from_gate: str, gates: list[str], words: str
) -> None:
    inventory = tmp_path / "hosts.yml"
    host = {"gpufleet_sku": "h100", "gpufleet_rack": "r1", "ansible_connection": "local"}
    inventory.write_text(yaml.safe_dump({"gpu_nodes": {"hosts": {"gpu01": host}}}))
    run = rehearse(tmp_path, playbook="site.yml", inventory=inventory, gates=gates, from_gate=from_gate)
    assert run.rc != 0 and words in " ".join(run.output.split())
    assert "Contact the hosts" not in run.output


def test_passes_of_another_site_stand_for_nothing(site: SharedSite) -> None:
    run = again(site, gates=FIRST, from_gate="nodes", site_name="another")
    assert run.rc != 0 and "never passed" in run.record["problem"]
    assert {gate["status"] for gate in run.record["gates"]} == {"pending"}
    assert "sites with a history there: rehearsal" in run.output
