# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Runs that earlier releases saved: judged today they have the verdicts, causes and subjects of then.

A check that asks for evidence which such a run did not record is `other` in it; the rest is as it was. The archives
are rehearsals of four hosts, packed with tools/pack_run.py and never changed afterwards.
"""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from archives import unpack
from old_runs import NOT_RECORDED, count_checks, drop_checks, without_unrecorded

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.features.judge.app import judged_again, rejudge
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.gates import GATE_IDS
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.model import Outcome
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.run.run import Run
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.runtime.files import REPORTS
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.verdict.run import run_summary

ARCHIVES = Path(__file__).resolve().parents[5] / "data" / "saved_runs"
# Archive to what holds it: gate to (check, cause, first subject), as its faults were injected.
HELD: dict[str, dict[str, set[tuple[str, str, str]]]] = {
    "0.1.0_healthy": {},
    "0.1.0_missing_gpu": {"nodes": {("gpu-census", "gpu-missing", "gpu02")}},
    "0.1.0_slow_gpu_and_slow_server": {
        "training_acceptance": {
            ("training-stragglers", "slow-gpu", "gpu01"),
            ("training-mfu", "blocked-by-training-stragglers", "rehearsal"),
        },
        "inference_acceptance": {
            ("inference-tpot", "tpot-high", "gpu02"),
            ("inference-throughput", "blocked-by-inference-tpot", "gpu02"),
        },
    },
}


@pytest.fixture(params=sorted(path.name.removesuffix(".tar.xz") for path in ARCHIVES.glob("*.tar.xz")))
def saved(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[str, Run]:
    """Name and run of each archive."""
    unpack(ARCHIVES / f"{request.param}.tar.xz", tmp_path)
    without_unrecorded(tmp_path)
    return request.param, Run(tmp_path)


@pytest.fixture(params=sorted(HELD))
def untouched(request: pytest.FixtureRequest, tmp_path: Path) -> Run:
    """The run of each archive as it was saved."""
    unpack(ARCHIVES / f"{request.param}.tar.xz", tmp_path)
    return Run(tmp_path)


def test_every_archive_says_what_holds_it() -> None:
    assert {path.name.removesuffix(".tar.xz") for path in ARCHIVES.glob("*.tar.xz")} == set(HELD)
    assert sum(path.stat().st_size for path in ARCHIVES.iterdir()) < 1 << 20


def test_what_a_run_did_not_record_is_neither_passed_nor_failed(untouched: Run) -> None:
    looked = [verdict.gate for verdict in untouched.record.gates if verdict.status.value != "pending"]
    outcomes = [outcome for gate in looked for outcome in judged_again(untouched, gate)]
    changed = [outcome for outcome in outcomes if outcome.check in NOT_RECORDED]
    assert {(o.check, o.status.value, o.cause) for o in changed} <= {(c, "other", w) for c, w in NOT_RECORDED.items()}
    assert all("did not record" in outcome.summary for outcome in changed)
    _record, differences = rejudge(untouched)
    of_results = [line for line in differences if not line.startswith("gate ")]
    assert all(any(check in line for check in NOT_RECORDED) for line in of_results)
    held = {line.split(":")[0].removeprefix("gate ") for line in differences} - {
        line.split(":")[0] for line in of_results
    }
    assert not held, "a gate differs only where one of its results does"


def test_it_is_judged_as_then(saved: tuple[str, Run]) -> None:
    name, run = saved
    recorded = json.loads((run.path / "run.json").read_text(encoding="utf-8"))
    record, differences = rejudge(run)
    assert differences == []
    assert {then["gate"] for then in recorded["gates"]} <= set(GATE_IDS)
    for then in recorded["gates"]:
        verdict = record.gate(then["gate"])
        assert verdict.status.value == then["status"], verdict.gate
        now = {(e.check, e.cause, e.subject.split(", ")[0]) for e in verdict.blocking}
        assert now == HELD[name].get(verdict.gate, set())
        assert len(verdict.blocking) == len(then["blocking"])
        assert verdict.counts == then["counts"]
    assert run_summary(record).startswith("REHEARSAL not passed" if HELD[name] else "REHEARSAL passed for")


def test_each_result_is_computed_again_from_its_observations(saved: tuple[str, Run]) -> None:
    _name, run = saved
    looked = [verdict.gate for verdict in run.record.gates if verdict.status.value != "pending"]
    for gate in looked:
        document: Any = json.loads((run.path / "ctrf" / f"{gate}.json").read_text(encoding="utf-8"))
        then = Counter(_plain_key(test["extra"]["outcome"]) for test in document["results"]["tests"])
        assert Counter(map(_key, judged_again(run, gate))) == then, gate
    assert looked == list(GATE_IDS[: len(looked)])


def test_its_reports_are_written_again(saved: tuple[str, Run]) -> None:
    _name, run = saved
    run.write_report(run.record)
    assert all((run.path / name).stat().st_size for name in REPORTS)


def _key(outcome: Outcome) -> tuple[Any, ...]:
    subjects = tuple((subject.kind.value, subject.name, subject.node) for subject in outcome.subjects)
    return outcome.check, outcome.status.value, outcome.rating.value, outcome.cause, subjects


def _plain_key(plain: dict[str, Any]) -> tuple[Any, ...]:
    subjects = tuple((subject["kind"], subject["name"], subject["node"]) for subject in plain["subjects"])
    return plain["check"], plain["status"], plain["rating"], plain["cause"], subjects


def test_a_check_that_is_newer_than_the_run_is_named_and_no_difference(saved: tuple[str, Run]) -> None:
    """As if the run came from a release without check facility-pdus: neither results nor counted."""
    _name, run = saved
    assert drop_checks(run.path, "facility", {"facility-pdus"})
    count_checks(run.path, "facility", -1)
    record, differences = rejudge(Run(run.path))
    assert differences == []
    assert ("facility-pdus", "the check is newer than the run") in [
        (left.id, left.reason) for left in record.gate("facility").not_declared
    ]


def test_results_of_a_check_that_were_removed_from_a_run_are_a_difference(saved: tuple[str, Run]) -> None:
    _name, run = saved
    assert drop_checks(run.path, "facility", {"facility-pdus"})
    record, differences = rejudge(Run(run.path))
    assert any("facility-pdus" in line and "recorded nothing" in line for line in differences)
    assert record.gate("facility").status.value != "passed"
