# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Starting in the middle: what is taken over, what is proven again, and every way in which a start is refused."""

from __future__ import annotations

import json
import sqlite3
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from resumed_runs import OPTIONS, PLACE, make_run, prove_nodes

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.comparison.specs import COMPARISONS
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.collect.host_evidence import (
    HostEvidence,
    write_evidence,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.features.judge.app import rejudge
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.errors import BringupError
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.model import (
    Outcome,
    Rating,
    Status,
    Subject,
    SubjectKind,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.run import resume as resuming
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.run.history import begin_history
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.run.resume import resume as resume_run
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.run.run import Run
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.site.model import Host
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.verdict.run import run_summary


@pytest.fixture
def store(tmp_path: Path) -> Path:
    path = tmp_path / "history.sqlite"
    prove_nodes(make_run(tmp_path, "run-1"), path)
    return path


def resume(run: Run, store: Path | None, **options: Any) -> dict[str, Any]:
    return resume_run(run, OPTIONS | {"store": str(store) if store else None} | options, lambda _line: None)


def test_a_proven_gate_is_taken_over_and_every_file_says_so(tmp_path: Path, store: Path) -> None:
    run = make_run(tmp_path, "run-2", day=21)
    said = resume(run, store)
    assert (said["taken_over"], said["proven_again"], said["gates"]) == (["nodes"], [], ["gpu_stack"])
    verdict = run.record.gate("nodes")
    assert verdict.status is Status.SKIPPED and verdict.opens_next and verdict.taken_over is not None
    assert verdict.taken_over.runs == ("run-1",)
    assert "run-1 of 2026-11-20" in verdict.key_figure and "run-1 of 2026-11-20" in run_summary(run.record)
    tests = json.loads((run.path / "ctrf" / "nodes.json").read_text())["results"]["tests"]
    assert len(tests) == verdict.taken_over.results == sum(len(c.subjects) for c in run.declaration("nodes").checks)
    assert {test["status"] for test in tests} == {"skipped"}
    assert all("passed in run run-1" in test["message"] for test in tests)
    assert "skipped" in (run.path / "junit" / "nodes.xml").read_text()


def test_a_gate_that_began_and_was_never_recorded_is_not_taken_over(tmp_path: Path, store: Path) -> None:
    """Run 2 was killed, or its disk was full, after it had begun to look: nobody knows what it saw."""
    begin_history(make_run(tmp_path, "run-2", day=21), "nodes", str(store))
    with pytest.raises(BringupError) as refused:
        resume(make_run(tmp_path, "run-3", day=22), store)
    assert "it began to look and was never recorded" in str(refused.value)
    assert "run-2" in str(refused.value)
    # What passes afterwards counts again.
    prove_nodes(make_run(tmp_path, "run-4", day=22), store, day=22)
    assert resume(make_run(tmp_path, "run-5", day=22), store)["taken_over"] == ["nodes"]


def test_a_gate_does_not_begin_where_a_failure_could_not_be_remembered(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("no directory", encoding="utf-8")
    with pytest.raises(BringupError):
        begin_history(make_run(tmp_path, "run-2"), "nodes", str(tmp_path / "file" / "history.sqlite"))
    begin_history(make_run(tmp_path, "run-3"), "nodes", None)


def test_a_failure_of_a_controller_whose_clock_is_behind_is_not_forgotten(tmp_path: Path, store: Path) -> None:
    prove_nodes(make_run(tmp_path, "run-2", day=19), store, day=19, bad="gpu02")
    with pytest.raises(BringupError, match="not passed since"):
        resume(make_run(tmp_path, "run-3", day=21), store)


def test_a_taken_over_gate_is_not_judged_again_and_a_brightened_file_is_found_out(tmp_path: Path, store: Path) -> None:
    run = make_run(tmp_path, "run-2", day=21)
    resume(run, store)
    record, differences = rejudge(run)
    assert not differences and record.gate("nodes") == run.record.gate("nodes")
    path = run.path / "ctrf" / "nodes.json"
    document = json.loads(path.read_text())
    document["results"]["tests"].pop()
    document["results"]["summary"]["tests"] -= 1
    document["results"]["summary"]["skipped"] -= 1
    path.write_text(json.dumps(document))
    assert rejudge(Run(run.path))[1]


REAL = "UPDATE {} SET rehearsal = 0"


@pytest.mark.parametrize("edited", [("ledger",), ("ledger", "run")])
def test_a_rehearsal_is_no_pass_of_a_real_site_by_a_word_in_the_history(
    tmp_path: Path, edited: tuple[str, ...]
) -> None:
    store, simulated = tmp_path / "history.sqlite", replace(PLACE, rehearsal=True)
    run = make_run(tmp_path, "run-1", simulated)
    run.save_record(replace(run.record, rehearsal=True))
    prove_nodes(Run(run.path), store)
    with sqlite3.connect(store) as history:
        for table in edited:
            history.execute(REAL.format(table))
    said: list[str] = []
    with pytest.raises(BringupError, match="cannot be taken over"):
        resume_run(make_run(tmp_path, "run-2", day=21), OPTIONS | {"store": str(store)}, said.append)
    if "run" in edited:
        assert any("passes of run run-1 do not count: it is a rehearsal" in line for line in said), said


@pytest.mark.parametrize("history_too", [False, True])
def test_a_failure_is_no_pass_by_a_line_in_the_ledger(tmp_path: Path, history_too: bool) -> None:
    store, run = tmp_path / "history.sqlite", make_run(tmp_path, "run-1")
    run.save_outcomes("nodes", prove_nodes(run, store, bad="gpu02"))
    with sqlite3.connect(store) as history:
        columns = [row[1] for row in history.execute("PRAGMA table_info(ledger)") if row[1] != "id"]
        values = ", ".join("'gpu02'" if name == "subject" else name for name in columns)
        history.execute(f"INSERT INTO ledger ({', '.join(columns)}) SELECT {values} FROM ledger")
        if history_too:
            history.execute("UPDATE outcome SET status = 'passed', rating = 'good', cause = ''")
    with pytest.raises(BringupError):
        resume(make_run(tmp_path, "run-2", day=21), store)


def test_facts_that_were_changed_in_the_history_are_not_what_a_pass_depended_on(tmp_path: Path, store: Path) -> None:
    """The hosts run another kernel now, and the history was made to say so of then."""
    with sqlite3.connect(store) as history:
        changed = history.execute("UPDATE fingerprint SET facts = replace(facts, '6.8', '6.9')").rowcount
    assert changed
    run = make_run(tmp_path, "run-2", kernels="6.9", day=21)
    said = resume(run, store)
    assert (said["taken_over"], said["proven_again"]) == ([], ["nodes"]), run.record.resumed


def test_what_changed_is_proven_again_and_named(tmp_path: Path, store: Path) -> None:
    run = make_run(tmp_path, "run-2", kernels="6.8,6.9", day=21)
    said = resume(run, store)
    assert (said["taken_over"], said["proven_again"], said["gates"]) == ([], ["nodes"], ["nodes", "gpu_stack"])
    assert run.record.gate("nodes").status is Status.PENDING
    (line,) = run.record.resumed
    half = sum(len(c.subjects) for c in run.declaration("nodes").checks) // 2
    assert f"{half} of {2 * half} results are stale: kernel 6.8 -> 6.9 on gpu02" in line


def test_a_host_that_is_not_seen_now_confirms_nothing(tmp_path: Path, store: Path) -> None:
    run = make_run(tmp_path, "run-2", day=21)
    write_evidence(run.path, HostEvidence(host="gpu02", reached=False, reason="no route"))
    assert resume(run, store)["proven_again"] == ["nodes"]
    assert "host seen -> not seen on gpu02" in run.record.resumed[0]


OTHER_SITE = replace(PLACE, name="other")
GROWN = replace(PLACE, hosts=(*PLACE.hosts, Host(name="gpu03", sku="h100", node_name="gpu03")))
STRICTER = replace(PLACE, settings={"dcgm-diag": {"level": 4}})


@pytest.mark.parametrize(
    ("changed", "options", "words"),
    [
        ({"kernels": "6.8,6.9"}, {"stale": "refuse"}, "kernel 6.8 -> 6.9 on gpu02"),
        ({"site": STRICTER}, {"stale": "refuse"}, "settings"),
        ({"site": OTHER_SITE}, {}, "never passed"),
        ({"site": GROWN}, {}, "on gpu03"),
        ({"day": 28}, {}, "8 days since run run-1, at most 7 count"),
        ({"day": 21}, {"max_age_days": 0.5}, "at most 0.5 count"),
    ],
)
def test_a_start_that_nothing_stands_for_is_refused_with_the_gate_to_start_at(
    tmp_path: Path, store: Path, changed: dict[str, Any], options: dict[str, Any], words: str
) -> None:
    run = make_run(tmp_path, "run-2", **{"day": 21} | changed)
    with pytest.raises(BringupError) as caught:
        resume(run, store, **options)
    assert caught.value.exit_code == 2
    assert words in str(caught.value) and "gpufleet_from_gate=nodes" in str(caught.value)
    assert {verdict.status for verdict in run.record.gates} == {Status.PENDING}


def test_a_gate_that_was_not_passed_since_refuses_the_start(tmp_path: Path, store: Path) -> None:
    prove_nodes(make_run(tmp_path, "run-2", day=21), store, day=21, bad="gpu02")
    with pytest.raises(BringupError, match=r"not passed since: failed .* in run run-2"):
        resume(make_run(tmp_path, "run-3", day=22), store)
    said = resume(make_run(tmp_path, "run-4", day=22), store, stale="prove")
    assert said["proven_again"] == ["nodes"]


def test_a_start_at_gate_8_needs_no_pass_of_gate_7(tmp_path: Path, store: Path) -> None:
    site = replace(PLACE, gates=("nodes", "training_acceptance", "inference_acceptance"))
    run = make_run(tmp_path, "run-2", replace(site, from_gate="inference_acceptance"), day=21)
    said = resume(run, store)
    assert (said["taken_over"], said["proven_again"]) == (["nodes"], ["training_acceptance"])


def test_without_a_history_nothing_is_taken_over(tmp_path: Path) -> None:
    run = make_run(tmp_path, "run-1")
    with pytest.raises(BringupError, match="gpufleet_store is empty"):
        resume(run, None)
    with pytest.raises(BringupError, match="no such file"):
        resume(run, tmp_path / "nowhere.sqlite")
    assert not (tmp_path / "nowhere.sqlite").exists()


def test_a_start_at_the_first_gate_takes_nothing_over(tmp_path: Path) -> None:
    run = make_run(tmp_path, "run-1", replace(PLACE, from_gate="nodes"))
    assert resume(run, None)["gates"] == ["nodes", "gpu_stack"]


@pytest.mark.parametrize(("status", "again"), [(Status.PASSED, False), (Status.FAILED, True)])
def test_a_loss_that_a_comparison_found_is_not_taken_over_with_the_rest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, status: Status, again: bool
) -> None:
    made = [entry for entry in COMPARISONS if entry.spec.id == "fabric-baseline"]
    monkeypatch.setattr(resuming, "comparisons_of", lambda gate: made if gate == "nodes" else [])
    path, run = tmp_path / "history.sqlite", make_run(tmp_path, "run-1")
    bad = status is Status.FAILED
    compared = Outcome(
        check="fabric-baseline", gate="nodes", status=status, rating=Rating.BAD if bad else Rating.GOOD,
        subjects=(Subject(SubjectKind.CLUSTER, PLACE.name),), summary="as seen", cause="regression" if bad else "",
        hint="mend it", started="2026-11-20T10:00:00Z",
    )  # fmt: skip
    prove_nodes(run, path, compared=compared)
    said = resume(make_run(tmp_path, "run-2", day=21), path, stale="prove")
    assert ("nodes" in said["proven_again"]) is again
