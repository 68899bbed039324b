# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The commands about runs, faults and the plan: what they print and end with."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import yaml
from archives import unpack
from gpufleet_command import Command

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.rehearsal.faults.catalogue import load_catalogue
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.run.rejudge import rejudge
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.run.run import Run
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.runtime.recipe_files import RECIPES
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.verdict.run import new_run, nothing_holds, run_summary

SAVED = Path(__file__).resolve().parents[4] / "data" / "saved_runs"


def saved(archive: str, directory: Path) -> Path:
    unpack(SAVED / archive, directory)
    return next(directory.rglob("run.json")).parent


@pytest.fixture(scope="module")
def healthy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return saved("0.1.0_healthy.tar.xz", tmp_path_factory.mktemp("healthy"))


@pytest.fixture(scope="module")
def failed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return saved("0.1.0_missing_gpu.tar.xz", tmp_path_factory.mktemp("failed"))


def test_the_status_of_a_run_is_its_gates_and_its_verdict(gpufleet: Command, healthy: Path, failed: Path) -> None:
    ended = gpufleet("status", str(healthy))
    assert ended.code == 0
    assert f"verdict  {run_summary(Run(healthy).record)}" in ended.out.splitlines()
    assert all(gate in ended.out for gate in ("facility", "inference_acceptance"))
    assert [gpufleet("status", str(run), "--exit-code").code for run in (healthy, failed)] == [0, 8]
    found = json.loads(gpufleet("status", str(failed), "--format", "json").out)
    assert (found["passed"], found["record"]["run_id"]) == (False, Run(failed).record.run_id)


def test_the_status_of_a_run_that_did_not_start_is_its_problem(gpufleet: Command, tmp_path: Path) -> None:
    record = new_run("r1", "lab", "2026-11-22T10:00:00Z", ("nodes",), rehearsal=False)
    Run(tmp_path).save_record(replace(record, problem="gpufleet_gates: 'x' is no gate."))
    said = gpufleet("status", str(tmp_path))
    assert said.code == 0 and "verdict  not started: gpufleet_gates: 'x' is no gate." in said.out.splitlines()
    judged = gpufleet("judge", str(tmp_path))
    assert judged.code == 2 and "this run did not start (gpufleet_gates: 'x' is no gate)" in judged.err


def test_a_saved_run_is_judged_again_and_nothing_written_if_that_is_wanted(
    gpufleet: Command, healthy: Path, failed: Path
) -> None:
    before = {path: path.stat().st_mtime_ns for path in failed.rglob("*")}
    ended = gpufleet("judge", str(failed), "--dry-run")
    assert ended.code == 8
    assert "gpu-missing" in ended.out or "gpu-census" in ended.out
    assert {path: path.stat().st_mtime_ns for path in failed.rglob("*")} == before
    record, differences = rejudge(Run(healthy))
    again = gpufleet("judge", str(healthy), "--dry-run", "--format", "yaml")
    data = yaml.safe_load(again.out)
    assert (data["verdict"], data["differences"]) == (run_summary(record), differences)
    assert again.code == data["exit_code"] == (0 if nothing_holds(record) else 8)


def test_faults_are_those_of_a_rehearsal(gpufleet: Command) -> None:
    every = json.loads(gpufleet("faults", "--format", "json").out)
    assert {entry["id"] for entry in every} == set(load_catalogue(RECIPES / "rehearsal"))
    assert {line.split()[0] for line in gpufleet("faults", "ecc-*").out.splitlines()} >= {"ecc-uncorrectable"}
    assert gpufleet("faults", "uncorrectable memory").out.startswith("ecc-uncorrectable")
    wrong = gpufleet("faults", "gpu-mising")
    assert (wrong.code, "did you mean gpu-missing?" in wrong.err) == (3, True)


@pytest.mark.parametrize(
    ("argv", "code", "words"),
    [
        (("status", "/nowhere"), 2, "holds no run"),
        (("judge", "/nowhere"), 2, "holds no run"),
        (("judge", "/nowhere", "--thresholds", "curent"), 2, "did you mean current?"),
        (("history", "check", "--store", "/nowhere.sqlite"), 3, "no such file"),
        (("history", "backup"), 2, "--dest: is needed"),
        (("history", "export", "--dest", "out"), 2, "--site-name: is needed"),
        (("history", "chek"), 2, "did you mean check?"),
        (("plan", "-i", "/nowhere.yml"), 2, "does not exist"),
    ],
)
def test_what_is_not_there_is_said_with_its_exit_code(
    gpufleet: Command, argv: tuple[str, ...], code: int, words: str
) -> None:
    ended = gpufleet(*argv)
    assert (ended.code, ended.out) == (code, "")
    assert words in ended.err
    assert "Traceback" not in ended.err


def test_a_plan_is_that_of_the_playbook_from_any_directory(program: Command, repository: Path, tmp_path: Path) -> None:
    inventory = repository / "inventories" / "example" / "hosts.yml"
    environment = {"GPUFLEET_PYTHON": sys.executable, "ANSIBLE_NOCOLOR": "1", "PWD": str(tmp_path)}
    ended = program("plan", "-i", str(inventory), cwd=tmp_path, **environment)
    assert ended.code == 0, ended.out + ended.err
    assert "inference_acceptance" in ended.out
    assert "could not be found" not in ended.err
