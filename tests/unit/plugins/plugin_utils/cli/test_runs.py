# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The commands about runs, faults and the plan: what they print and end with."""

from __future__ import annotations

import fcntl
import json
import os
import platform
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import yaml
from archives import unpack
from gpufleet_command import Command

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.features.judge.app import rejudge
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.codec import to_plain
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.report.facts import load_facts
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.report.html import render_page
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.report.markdown import render_markdown
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.run.run import Run
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.runtime.files import CONTROLLER, KEEPER_LOCK
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.runtime.process import identify
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.store.service import open_service
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.verdict.run import (
    Work,
    new_run,
    nothing_holds,
    run_summary,
)
from ansible_collections.gpufleet.rehearsal.plugins.plugin_utils.faults.catalogue import load_catalogue

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


def test_the_status_of_an_interrupted_run_says_how_to_go_on_unless_it_goes_on(
    gpufleet: Command, tmp_path: Path
) -> None:
    run = saved("0.1.0_healthy.tar.xz", tmp_path)
    plain = json.loads((run / "run.json").read_text("utf-8"))
    for gate in plain["gates"][2:]:
        gate |= {"status": "pending", "counts": {}}
    (run / "run.json").write_text(json.dumps(plain), "utf-8")
    interrupted, again = gpufleet("status", str(run)).out.splitlines()[-2:]
    assert interrupted.startswith("interrupted: the run ended before its gates did")
    assert again.startswith("again: ")
    facts = load_facts(run, Run(run).record)
    for report in (render_markdown(facts), render_page(facts)):
        assert "gate nodes is not decided" in report and "If it is no longer at work, start again" in report
        assert again.removeprefix("again: ").split()[0] in report

    def at_work() -> list[str]:
        shown = gpufleet("status", str(run)).out.splitlines()
        # What it decided so far is no verdict, and a second start would be refused.
        assert not [line for line in shown if line.startswith(("verdict", "again:", "do:"))]
        return shown[-1:]

    running = [f"running: since {plain['started'][:10]} {plain['started'][11:16]} UTC (gate nodes)"]
    with (run / KEEPER_LOCK).open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        assert at_work() == running
    # The gates before gpu_stack hold nothing: the process of the playbook is known.
    known = identify(os.getpid())
    assert known is not None
    mine = {"pid": known.pid, "start_ticks": known.start_ticks, "host": platform.node()}
    (run / CONTROLLER).write_text(json.dumps(mine), "utf-8")
    assert at_work() == running
    for other in ({"start_ticks": 1}, {"host": "another"}, {"pid": "x"}):
        (run / CONTROLLER).write_text(json.dumps(mine | other), "utf-8")
        assert gpufleet("status", str(run)).out.splitlines()[-1] == again


def test_a_verb_at_work_has_no_verdict(gpufleet: Command, tmp_path: Path) -> None:
    run = saved("0.1.0_healthy.tar.xz", tmp_path)
    record = Run(run).record
    rolling = replace(record, scope=(), work=Work(verb="roll first", sentence="1 of 4 nodes returned"))
    (run / "run.json").write_text(json.dumps(to_plain(rolling)), "utf-8")
    assert "verdict  " in gpufleet("status", str(run)).out
    with (run / KEEPER_LOCK).open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        shown = gpufleet("status", str(run)).out
        assert "verdict" not in shown and "again:" not in shown and shown.splitlines()[-1].endswith("UTC (roll first)")
        assert json.loads(gpufleet("status", str(run), "--format", "json").out)["running"] is True


def test_the_status_is_not_brighter_than_the_last_judgement(gpufleet: Command, tmp_path: Path) -> None:
    """Whoever reads the status of a run that was changed reads that, as in its reports, until one confirms it."""
    run = saved("0.1.0_healthy.tar.xz", tmp_path)
    page = run / "report.json"
    record = rejudge(Run(run))[0]

    def judged(unconfirmed: int) -> None:
        page.write_text(json.dumps(to_plain(replace(record, unconfirmed=unconfirmed))), "utf-8")

    judged(2)
    said = gpufleet("status", str(run), "--exit-code")
    assert said.code == 8 and "NOT CONFIRMED: 2 difference" in said.out
    assert said.out.splitlines()[-1] == f"do: gpufleet judge {run} lists what differs"
    assert gpufleet("status", str(run)).code == 0
    found = json.loads(gpufleet("status", str(run), "--format", "json").out)
    assert found["passed"] is False and "NOT CONFIRMED" in found["verdict"]
    judged(0)
    again = gpufleet("status", str(run), "--exit-code")
    assert again.code == 0 and "NOT CONFIRMED" not in again.out and "do: gpufleet judge" not in again.out
    # It takes a pass away and gives none, and what is no report is none.
    for text in ("", "[]", "{}", '{"unconfirmed": 3}'):
        page.write_text(text, "utf-8")
        assert gpufleet("status", str(run), "--exit-code").code == 0


def test_a_judgement_that_does_not_confirm_a_run_is_its_status(gpufleet: Command, tmp_path: Path) -> None:
    run = saved("0.1.0_missing_gpu.tar.xz", tmp_path)
    suite = run / "ctrf/facility.json"
    before = suite.read_text("utf-8")
    suite.write_text(before.replace('"status": "passed"', '"status": "failed"', 1), "utf-8")
    assert suite.read_text("utf-8") != before
    gpufleet("judge", str(run), "--dry-run")
    assert "NOT CONFIRMED" not in gpufleet("status", str(run)).out
    assert gpufleet("judge", str(run)).code == 8
    assert "NOT CONFIRMED" in gpufleet("status", str(run)).out


def test_a_result_that_cannot_be_read_is_named_by_file_number_and_check(gpufleet: Command, tmp_path: Path) -> None:
    run = saved("0.1.0_healthy.tar.xz", tmp_path)
    suite = run / "ctrf/training_acceptance.json"
    data = json.loads(suite.read_text("utf-8"))
    number, outcome = next(
        (number, test["extra"]["outcome"])
        for number, test in enumerate(data["results"]["tests"], 1)
        if test["extra"]["outcome"]["series"]
    )
    outcome["series"][0]["points"].reverse()
    suite.write_text(json.dumps(data), "utf-8")
    said = gpufleet("judge", str(run), "--dry-run")
    where = (
        f"ctrf/training_acceptance.json: result {number} of check {outcome['check']} cannot be read: series[0] needs"
    )
    assert said.code == 8 and f"gate training_acceptance is not passed: {where}" in said.out, said.out
    assert "valid Outcome" not in said.out


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
    told = ended.out.splitlines()
    assert told[0].split()[:3] == ["#", "gate", "status"] and told[-1].startswith("verdict  ")
    assert {path: path.stat().st_mtime_ns for path in failed.rglob("*")} == before
    record, differences = rejudge(Run(healthy))
    again = gpufleet("judge", str(healthy), "--dry-run", "--format", "yaml")
    data = yaml.safe_load(again.out)
    assert (data["verdict"], data["differences"]) == (run_summary(record), differences)
    assert again.code == data["exit_code"] == (0 if nothing_holds(record) else 8)


@pytest.mark.parametrize(
    ("words", "code", "text"),
    [
        (
            ("--set", "clock-sync.clok_offset_s=0.02"),
            2,
            "gpufleet: gpufleet_settings.clock-sync.clok_offset_s: unknown",
        ),
        (("--data", "/nowhere"), 3, "gpufleet: recipe data /nowhere: is no directory"),
        (("--set", "clock-sync.clock_offset_s=0.02", "--what-if-dir", "/"), 2, "gpufleet: /: is there and not empty"),
    ],
)
def test_a_question_that_is_wrong_is_refused_before_a_run_is_judged(
    gpufleet: Command, failed: Path, words: tuple[str, ...], code: int, text: str
) -> None:
    before = {path: path.stat().st_mtime_ns for path in failed.rglob("*")}
    ended = gpufleet("judge", str(failed), *words)
    assert (ended.code, ended.out) == (code, "") and ended.err.startswith(text), ended.err
    assert {path: path.stat().st_mtime_ns for path in failed.rglob("*")} == before


def test_a_run_that_is_named_as_in_its_reports_is_found_below_run(
    gpufleet: Command, failed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / ".run").mkdir()
    (tmp_path / ".run/20261129T124912Z-2670").symlink_to(failed)
    said = gpufleet("status", "20261129T124912Z-2670")
    assert said.code == 3 and "did you mean .run/20261129T124912Z-2670?" in said.err
    assert "did you mean" not in gpufleet("status", "20261129T124912Z-2671").err


def test_what_was_done_with_a_history_is_on_standard_output(gpufleet: Command, tmp_path: Path) -> None:
    place, copy = tmp_path / "history.sqlite", tmp_path / "copy.sqlite"
    open_service(place)
    checked = gpufleet("history", "check", "--store", str(place))
    assert (checked.code, checked.out, checked.err) == (0, f"history {place}: nothing is wrong\n", "")
    done = gpufleet("history", "backup", "--store", str(place), "--dest", str(copy))
    assert (done.code, done.out, done.err) == (0, f"wrote {copy}, {copy.stat().st_size} bytes\n", "")


def test_faults_are_those_of_a_rehearsal(gpufleet: Command) -> None:
    every = json.loads(gpufleet("faults", "--format", "json").out)
    assert {entry["id"] for entry in every} == set(load_catalogue())
    assert {line.split()[0] for line in gpufleet("faults", "ecc-*").out.splitlines()} >= {"ecc-uncorrectable"}
    assert gpufleet("faults", "uncorrectable memory").out.startswith("ecc-uncorrectable")
    wrong = gpufleet("faults", "gpu-mising")
    assert (wrong.code, "did you mean gpu-missing?" in wrong.err) == (3, True)


def test_where_no_run_has_started_the_newest_is_named(gpufleet: Command, tmp_path: Path) -> None:
    missing = gpufleet("status", str(tmp_path / "latest"))
    assert (missing.code, "start one" in missing.err) == (3, True)
    for name in ("20261128T101112Z-aaaa", "20261129T101112Z-bbbb"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "run.json").write_text("{}", encoding="utf-8")
    missing = gpufleet("status", str(tmp_path / "latest"))
    assert (missing.code, str(tmp_path / "20261129T101112Z-bbbb") in missing.err) == (3, True)
    assert "bbbb" not in gpufleet("status", str(tmp_path / "other")).err


@pytest.mark.parametrize(
    ("argv", "code", "words"),
    [
        (("status", "/nowhere"), 3, "holds no run"),
        (("judge", "/nowhere"), 3, "holds no run"),
        (("recipe", "--service", "eks", "--snapshot", "/nowhere.json"), 3, "/nowhere.json: does not exist"),
        (("recipe", "--service", "eks", "--snapshot", "cluster", "--kubeconfig", "/nowhere"), 3, "/nowhere: does not"),
        (("recipe", "--criteria", "/nowhere.yaml"), 3, "/nowhere.yaml: does not exist"),
        (("diff", "/nowhere.yaml", "/nowhere.yaml"), 3, "/nowhere.yaml: does not exist"),
        (("query",), 2, "gpufleet query: PATH is missing."),
        (("judge", "/nowhere", "--thresholds", "curent"), 2, "did you mean current?"),
        (("history", "check", "--store", "/nowhere.sqlite"), 3, "no such file"),
        (("history", "backup"), 2, "--dest: is needed"),
        (("history", "export", "--dest", "out"), 2, "--site-name: is needed"),
        (("history", "chek"), 2, "did you mean check?"),
        (("history", "check", "--store", "/nowhere.sqlite"), 3, "with --store"),
        (("plan", "-i", "/nowhere.yml"), 3, "does not exist"),
        (("plan",), 2, "gpufleet plan: an inventory is missing. Fix: gpufleet plan -i INVENTORY"),
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
