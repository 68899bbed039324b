# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Starting in the middle, end to end: what passed is taken over, what changed is proven again, the rest refuses."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
import yaml
from rehearsal_harness import Rehearsed, left_behind, rehearse

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.gates import GATE_IDS

FIRST = ["facility", "fabric", "nodes"]
NODES = 3
ROLLED = [f"driver-differs@gpu{number:02d}" for number in range(1, NODES + 1)]


@pytest.fixture(scope="module")
def work(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A site whose gates passed."""
    directory = tmp_path_factory.mktemp("site")
    run = rehearse(directory, rehearsal_nodes=NODES)
    assert run.rc == 0, run.output[-4000:]
    return directory


def resumed(run: Rehearsed) -> str:
    return "\n".join(run.record["resumed"])


def origins(run: Rehearsed) -> dict[str, str]:
    """The run that stands for each gate that was taken over."""
    return {gate["gate"]: gate["taken_over"]["runs"][0] for gate in run.record["gates"] if gate["taken_over"]}


def test_the_next_gate_starts_without_running_the_others_again(work: Path) -> None:
    first = (work / "runs" / "latest").resolve().name
    run = rehearse(work, rehearsal_nodes=NODES, gates=[*FIRST, "gpu_stack"], from_gate="gpu_stack")
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
    again = rehearse(work / "judged", playbook="judge.yml", run=str(run.run_dir.resolve()))
    assert again.rc == 0, again.output[-3000:]
    assert not left_behind(work)


def test_another_driver_and_another_kernel_are_named_with_their_node_and_proven_again(work: Path) -> None:
    faults = ["driver-differs@gpu03", "kernel-differs@gpu02"]
    scope = [*FIRST, "gpu_stack"]
    run = rehearse(work, rehearsal_nodes=NODES, gates=scope, from_gate="gpu_stack", rehearsal_faults=faults)
    assert run.rc != 0 and set(origins(run)) == {"facility", "fabric"}
    (line,) = [text for text in run.record["resumed"] if text.startswith("nodes is proven again")]
    assert "driver 580.105.08 -> 575.57.08 on gpu03" in line
    assert "kernel 6.8.0-79-generic -> 6.8.0-60-generic on gpu02" in line
    stale, results = map(int, re.findall(r"(\d+) of (\d+) results are stale", line)[0])
    assert "gpu01" not in line and stale * NODES == results * 2
    # The gate was proven again, and is not passed with a fleet that differs.
    assert run.status("nodes") == "failed" and run.status("gpu_stack") == "pending"
    assert {(f.check, f.subjects) for f in run.findings() if f.status == "failed"} == {("driver-uniform", ("gpu03",))}


@pytest.mark.drawn(1, of="other drivers and kinds of hosts")
def test_a_driver_roll_over_the_whole_fleet_is_proven_on_the_way_from_gate_6_and_the_run_passes(work: Path) -> None:
    # The run before left gate nodes not passed, so this start is refused until it is let.
    asked = {"rehearsal_nodes": NODES, "from_gate": "fabric_validation", "rehearsal_faults": ROLLED}
    refused = rehearse(work, **asked)
    assert refused.rc != 0 and "not passed since" in refused.record["problem"]
    assert "start at nodes: -e gpufleet_from_gate=nodes" in refused.output
    assert {gate["status"] for gate in refused.record["gates"]} == {"pending"}
    assert "not started" in (refused.run_dir / "report.html").read_text()
    run = rehearse(work, **asked, stale="prove")
    assert run.rc == 0, run.output[-4000:]
    whole = origins(run)
    assert set(whole) == {"facility", "fabric"}
    assert [gate["gate"] for gate in run.record["gates"] if gate["status"] == "passed"] == list(GATE_IDS[2:])
    nodes, *later = (line for line in run.record["resumed"] if "is proven again" in line)
    # The driver of gpu03 is that of the run before, in which it did not pass.
    assert "driver 580.105.08 -> 575.57.08 on 2 hosts (gpu01, gpu02)" in nodes
    assert "driver-uniform on gpu03 not passed since: failed" in nodes
    assert [line.split()[0] for line in later] == ["gpu_stack", "telemetry"]
    assert all("driver 580.105.08 -> 575.57.08 on 3 hosts (gpu01, gpu02, gpu03)" in line for line in later), later
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


def test_passes_of_another_site_stand_for_nothing(work: Path) -> None:
    run = rehearse(work, rehearsal_nodes=NODES, gates=FIRST, from_gate="nodes", site_name="another")
    assert run.rc != 0 and "never passed" in run.record["problem"]
    assert {gate["status"] for gate in run.record["gates"]} == {"pending"}
    assert "sites with a history there: rehearsal" in run.output
