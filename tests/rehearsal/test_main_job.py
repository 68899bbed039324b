# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The main job end to end, through ansible-runner: broken in every gate, and wrongly asked for."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest
import yaml
from rehearsal_harness import ROOT, Rehearsed, left_behind, rehearse
from seeds import drawing

HOST = {"gpufleet_sku": "h100", "gpufleet_rack": "r1", "ansible_host": "192.0.2.1"}
CRITERIA = json.dumps(
    {"gpufleet_criteria": {"service": "generic", "intent": "training", "os": "ubuntu", "platform": "volcano"}}
)
GATES = ("facility", "nodes", "gpu_stack")
FILES = sorted((ROOT / "recipes/gates").glob("*/faults.yaml"))
CATALOGUE = {entry["id"]: entry for file in FILES for entry in yaml.safe_load(file.read_text())}


# What a DGX H100 of the standard cluster has not: other networks, service IMEX, GPUs by claims.
ELSEWHERE = {"efa", "roce", "imex", "dra"}


def _drawn(gate: str, count: int, nodes: int) -> list[str]:
    """Draw faults of a gate that fail a check, each on a node of its own, and name them with their subjects."""
    kinds = {"facility": ("cluster", "rack"), "nodes": ("node", "gpu", "hca"), "gpu_stack": ("node",)}[gate]
    fitting = [
        fault["id"]
        for fault in CATALOGUE.values()
        if fault["expect"]["gate"] == gate
        and fault["expect"].get("status", "failed") == "failed"
        and fault["kind"] in kinds
        and not ELSEWHERE.intersection(fault.get("needs", ()))
    ]
    draw = drawing(gate)
    chosen = draw.sample(fitting, count)
    places = draw.sample(range(1, nodes + 1), count)
    return [_at(fault, place, draw.randrange(8)) for fault, place in zip(chosen, places, strict=True)]


# Of the adapters for GPU traffic of a DGX H100.
NUMBERS = (0, 3, 4, 5, 6, 9, 10, 11)


def _at(fault: str, place: int, number: int) -> str:
    node = f"gpu{place:02d}"
    part = {"gpu": f"/gpu{number}", "hca": f"/mlx5_{NUMBERS[number]}", "node": ""}
    kind = CATALOGUE[fault]["kind"]
    return f"{fault}@{node}{part[kind]}" if kind in part else fault


def _assert_found(run: Rehearsed, gate: str, faults: list[str]) -> None:
    """The gate failed for exactly these faults: check, cause, subject; nothing else failed, later gates never ran."""
    expected = set()
    for fault in faults:
        name, _at, place = fault.partition("@")
        expect = CATALOGUE[name]["expect"]
        expected.add((expect["check"], expect["cause"], place.split("/")[0]))
    found = {(check, cause) for _gate, check, _subjects, cause in run.failed()}
    assert run.rc != 0 and run.status(gate) == "failed", run.output[-3000:]
    symptoms = {SYMPTOMS[fault] for fault in faults if fault in SYMPTOMS}
    assert found == {(check, cause) for check, cause, _node in expected} | symptoms, (faults, run.failed())
    for check, cause, node in expected:
        names = {s for g, c, subjects, k in run.failed() for s in subjects if (g, c, k) == (gate, check, cause)}
        assert not node or any(name.split("/")[0] == node for name in names), (faults, names)
    later = GATES[GATES.index(gate) + 1 :]
    assert all(run.status(name) == "pending" for name in later)
    assert run.stats["gpufleet_passed"] is False and run.stats["gpufleet_exit_code"] == 8
    assert not left_behind(run.run_dir.parents[1])


@pytest.mark.drawn(1, of="a gate that fails from its start")
def test_a_broken_facility_stops_the_run_at_gate_1(tmp_path: Path) -> None:
    # One fault: those of the record as a whole exclude each other.
    faults = _drawn("facility", 1, 4)
    run = rehearse(tmp_path, rehearsal_nodes=4, gates=list(GATES), rehearsal_faults=faults)
    _assert_found(run, "facility", faults)


@pytest.mark.drawn(1, of="a gate that fails from its start")
def test_six_broken_nodes_are_named_at_gate_3(tmp_path: Path) -> None:
    faults = _drawn("nodes", 6, 12)
    run = rehearse(tmp_path, rehearsal_nodes=12, gates=list(GATES), rehearsal_faults=faults)
    _assert_found(run, "nodes", faults)


OF_THE_STACK = [name for name, fault in CATALOGUE.items() if fault["expect"]["gate"] == "gpu_stack"]
# Those of the DRA driver matter where it gives the GPUs out.
WORLDS = {"dra-slice-missing": "dra-only", "dra-devices-fewer": "dra-only", "dra-not-allocating": "dra-only"}
# Gangs that ask by claims fail with these; their check does not see those of the other.
SYMPTOMS = {"dra-not-allocating": ("gang-admission", "gang-not-admitted")}


@pytest.mark.drawn(1)
@pytest.mark.parametrize("fault", OF_THE_STACK)
def test_a_broken_stack_is_named_at_gate_4_and_keeps_those_after_it_closed(tmp_path: Path, fault: str) -> None:
    later = ["telemetry", "fabric_validation", "training_acceptance", "inference_acceptance"]
    faults = [f"{fault}@gpu02" if CATALOGUE[fault]["kind"] == "node" else fault]
    world = WORLDS.get(fault, "")
    run = rehearse(
        tmp_path,
        **({"rehearsal_world": world} if world else {"rehearsal_nodes": 3}),
        gates=["gpu_stack", *later],
        rehearsal_faults=faults,
        settings={"gang-admission": {"timeout_s": 20}},
    )
    if CATALOGUE[fault]["expect"].get("status") == "other":
        expect = CATALOGUE[fault]["expect"]
        assert run.rc != 0 and run.status("gpu_stack") == "other", run.output[-3000:]
        assert not run.failed()
        # Checks that rest on it wait for it.
        found = {(f.check, f.cause, f.subjects) for f in run.findings() if not f.cause.startswith("blocked-by-")}
        assert found == {(expect["check"], expect["cause"], ("gpu02",))}
    else:
        _assert_found(run, "gpu_stack", faults)
    assert {run.status(gate) for gate in later} == {"pending"}


@pytest.mark.drawn(1, of="other drivers and kinds of hosts")
def test_drivers_of_the_operator_are_proven_in_gate_4(tmp_path: Path) -> None:
    run = rehearse(
        tmp_path,
        rehearsal_nodes=3,
        gates=list(GATES),
        driver_owner="operator",
        rehearsal_faults=["ecc-uncorrectable@gpu03/gpu1"],
    )
    assert run.status("nodes") == "passed", run.output[-3000:]
    assert {(gate, check, subjects[0].split("/")[0]) for gate, check, subjects, _cause in run.failed()} == {
        ("gpu_stack", "gpu-ecc", "gpu03")
    }


def test_the_plan_touches_nothing(tmp_path: Path) -> None:
    inventory = tmp_path / "hosts.yml"
    inventory.write_text(
        yaml.safe_dump(
            {
                "gpu_nodes": {
                    "hosts": {"n1": {"gpufleet_sku": "h100", "gpufleet_rack": "r1", "ansible_host": "192.0.2.1"}}
                }
            }
        )
    )
    words = ["-i", str(inventory), "--tags", "plan", "-e", f"gpufleet_run_dir={tmp_path}/runs", "-e", CRITERIA]
    argv = ["ansible-playbook", "playbooks/site.yml", *words]
    done = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-3000:]
    assert "gang-admission" in done.stdout and "test pods" in done.stdout and "disturbs" in done.stdout
    assert "Look whether the host answers" not in done.stdout
