# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The clusters of a fleet: accepted is one whose newest bring-up is, and of which no later run says otherwise."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.features.fleet.clusters import (
    GOOD_SO_FAR,
    ClusterState,
    SavedRun,
    cluster_states,
    fleet_sentence,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.features.waves.plan import Stage
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.gates import GATE_IDS
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.model import Status
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.verdict.gate import TakenOver
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.verdict.run import Work, WorkRow, new_run, with_phases


def run(day: int, scope: tuple[str, ...] = GATE_IDS, bad: str = "", name: str = "dc1", **more: Any) -> SavedRun:
    """Return a run of that day in which all gates of its scope passed, but for the bad one and those after it."""
    moment = f"2026-11-{day:02d}T10:00:00Z"
    record = new_run(f"r{day}", name, moment, scope, rehearsal=False)
    for gate in scope[: scope.index(bad) if bad else None]:
        record = record.with_gate(replace(record.gate(gate), status=Status.PASSED, started=moment, message="passed"))
    if bad:
        record = record.with_gate(replace(record.gate(bad), status=Status.FAILED, started=moment, message="a hole"))
    saved = {key: more.pop(key) for key in ("uid", "problem", "drivers", "at_work") if key in more}
    return SavedRun(cluster=name, place=f".run/r{day}", record=replace(record, nodes=4, **more), **saved)


def under_way(day: int, scope: tuple[str, ...] = GATE_IDS, passed: int = 0, **more: Any) -> SavedRun:
    """Return a run at work in which so many gates passed so far, and phase readiness, as a bring-up has it."""
    found = run(day, scope, at_work=True, **more)
    assert found.record is not None
    left = new_run("r", "dc1", found.record.started, scope, rehearsal=False)
    record = with_phases(found.record, ("readiness",)).phases[0]
    record = replace(found.record, phases=(replace(record, status=Status.PASSED),))
    for gate in scope[passed:]:
        record = record.with_gate(left.gate(gate))
    return replace(found, record=record)


def killed(found: SavedRun) -> SavedRun:
    """Return that run as it is when its process and its keeper are gone."""
    return replace(found, at_work=False)


UNREAD = SavedRun(cluster="dc1", place=".run/r9", problem="its record cannot be read: cut")
ROLL = Work(verb="roll driver-580", head=("node",), rows=(WorkRow(cells=("gpu01",), good=False),), failed=True)
CYCLE = replace(ROLL, verb="cycle", sentence="1 node was tested", passed=True, failed=False)
# What casts a doubt when it comes later, and what does not.
DOUBTS = {
    "the whole again": run(20, bad="telemetry"),
    "a gate again": run(20, ("telemetry",), bad="telemetry"),
    "a roll": run(20, (), work=ROLL),
    "edited": run(20, ("telemetry",), problem="NOT CONFIRMED: settings.json: was changed"),
    "not readable": UNREAD,
}
NOTHING_DECIDED = replace(new_run("r20", "dc1", "2026-11-20T10:00:00Z", GATE_IDS, rehearsal=False), nodes=4)
NO_DOUBTS = {
    "a gate again": run(20, ("telemetry",)),
    "a cycle": run(20, (), work=CYCLE),
    "check mode": replace(run(20), record=replace(NOTHING_DECIDED, check_mode=True)),
    "refused": replace(run(20), record=replace(NOTHING_DECIDED, problem="no SSH")),
    "a validation that was refused": replace(
        run(20), record=replace(with_phases(NOTHING_DECIDED, ("readiness", "deployment")), problem="no snapshot")
    ),
}


def state(*runs: SavedRun) -> ClusterState:
    (found,) = cluster_states(runs)
    return found


def test_a_cluster_whose_gates_all_passed_is_accepted() -> None:
    found = state(run(3), run(1, bad="nodes"))
    assert (found.word, found.passed, found.hosts, found.sentences) == ("accepted", 8, 4, ())
    assert found.oldest_proof == "2026-11-03T10:00:00Z"
    assert fleet_sentence([found]) == "1 of 1 cluster accepted, with 4 of 4 hosts; oldest proof 2026-11-03 (dc1)"


@pytest.mark.parametrize("doubt", DOUBTS)
def test_a_later_run_that_ended_badly_takes_the_acceptance_away(doubt: str) -> None:
    found = state(run(3), DOUBTS[doubt])
    assert not found.accepted and found.word in ("in doubt", "not passed")
    assert found.sentences and DOUBTS[doubt].place in found.sentences[-1]
    assert fleet_sentence([found]).startswith("0 of 1 cluster accepted, with 0 of 4 hosts; not: dc1 (")


@pytest.mark.parametrize("later", NO_DOUBTS)
def test_a_later_run_that_passed_or_changed_nothing_takes_nothing_away(later: str) -> None:
    assert state(run(3), NO_DOUBTS[later]).accepted


@pytest.mark.parametrize(
    ("found", "word"),
    [
        (run(3, bad="fabric"), "not passed"),
        (run(3, GATE_IDS[:3]), "passed in part"),
        (run(3, rehearsal=True), "rehearsal"),
        (run(3, problem="NOT CONFIRMED: x"), "not known"),
        (UNREAD, "not known"),
        (run(3, (), work=CYCLE), "passed in part"),
        (NO_DOUBTS["refused"], "not passed"),
    ],
    ids=["failed", "in part", "rehearsal", "edited", "not readable", "no gates", "refused"],
)
def test_nothing_else_is_accepted_and_it_is_said_why(found: SavedRun, word: str) -> None:
    assert (state(found).word, state(found).accepted) == (word, False)
    assert found.place in state(found).sentences[0]


def test_the_newest_verdict_of_a_gate_counts() -> None:
    worse = state(run(3), run(5, ("telemetry",), bad="telemetry"))
    assert (worse.gates["telemetry"].status, worse.passed) == (Status.FAILED, 7)
    # Passed since then, on a bring-up that did not: still no acceptance.
    better = state(run(3, bad="inference_acceptance"), run(5, ("inference_acceptance",)))
    assert (better.passed, better.accepted) == (8, False)


def test_a_pass_that_was_taken_over_is_as_old_as_it_is() -> None:
    record = run(3).record
    assert record is not None
    passes = TakenOver(runs=("r0",), oldest="2026-08-01T00:00:00Z", newest="2026-08-02T00:00:00Z", results=9)
    taken = replace(record.gate("facility"), status=Status.SKIPPED, taken_over=passes)
    assert state(replace(run(3), record=record.with_gate(taken))).oldest_proof == "2026-08-01T00:00:00Z"


def test_clusters_of_one_name_are_two_and_a_run_of_either_counts_for_both() -> None:
    good, bad = run(3, uid="aaaaaaaa-1"), run(4, uid="bbbbbbbb-2", bad="nodes")
    found = cluster_states([good, bad])
    assert {state.name: state.word for state in found} == {"dc1 [aaaaaaaa]": "accepted", "dc1 [bbbbbbbb]": "not passed"}
    assert not any(state.accepted for state in cluster_states([good, bad, run(9, ("nodes",), bad="nodes")]))


def test_versions_of_the_driver_stand_side_by_side() -> None:
    drivers = {"gpu01": "580.1", "gpu02": "575.2", "gpu03": "580.1"}
    assert state(run(3, drivers=drivers)).driver == "580.1 (2), 575.2 (1)"
    assert state(run(3, drivers={"gpu01": "580.1"})).driver == "580.1"


@given(st.lists(st.sampled_from([*DOUBTS.values(), *NO_DOUBTS.values(), run(2), run(1, bad="fabric")]), max_size=5))
def test_one_more_bad_run_makes_no_cluster_brighter(runs: list[SavedRun]) -> None:
    before = state(*runs) if runs else None
    for doubt in (run(21, bad="nodes"), run(21, ("fabric",), bad="fabric"), run(21, (), work=ROLL), UNREAD):
        after = state(*runs, doubt)
        assert not after.accepted and (before is None or after.passed <= max(before.passed, GATE_IDS.index("nodes")))


def test_runs_before_the_newest_bring_up_are_not_looked_at() -> None:
    """A site keeps hundreds of runs, and looking at one reads all of its files."""
    seen: list[str] = []

    def looked(run: SavedRun) -> SavedRun:
        seen.append(run.place)
        return replace(run, problem="NOT CONFIRMED: x") if run.place == ".run/r5" else run

    runs = [run(1, bad="nodes"), run(2), run(3), run(5, ("telemetry",))]
    (found,) = cluster_states(runs, looked)
    assert sorted(seen) == [".run/r3", ".run/r5"]
    assert (found.word, found.bring_up.place) == ("in doubt", ".run/r3")


NO_SITE = new_run("r20", "cluster", "2026-11-20T10:00:00Z", GATE_IDS, rehearsal=False)
VALIDATED = with_phases(replace(NO_SITE, site="dc9"), ("readiness",))


@pytest.mark.parametrize(
    ("found", "rows"),
    [
        # A forgotten -i, and a validation of a recipe and a snapshot: neither is about a cluster.
        (SavedRun(cluster="cluster", place=".run/r20", record=replace(NO_SITE, problem="no -i INVENTORY")), 1),
        (SavedRun(cluster="dc9", place=".run/r20", record=VALIDATED), 1),
        (SavedRun(cluster="dc9", place=".run/r20", record=replace(VALIDATED, nodes=4)), 2),
        (SavedRun(cluster="dc9", place=".run/r20", record=VALIDATED, uid="a"), 2),
        # A cluster of which every run was refused is one that is not accepted.
        (SavedRun(cluster="dc9", place=".run/r20", record=replace(NO_SITE, site="dc9", problem="no SSH")), 2),
        (SavedRun(cluster="dc9", place=".run/r20", problem="its record cannot be read: cut"), 2),
    ],
)
def test_a_run_about_no_cluster_is_no_row(found: SavedRun, rows: int) -> None:
    states = cluster_states([run(1), found])
    assert len(states) == rows
    assert fleet_sentence(states).startswith(f"1 of {rows} cluster")


ROLLING = replace(ROLL, counts={"returned": 1, "drained": 1, "pending": 2}, sentence="1 of 4 nodes returned")
AT_WORK = {
    "a gate": (under_way(20, ("gpu_stack",)), "since 2026-11-20 10:00 UTC (gate gpu_stack)"),
    "all gates": (under_way(20, passed=3), "since 2026-11-20 10:00 UTC (gate gpu_stack)"),
    "a validation": (
        replace(run(20, at_work=True), record=replace(VALIDATED, nodes=4)),
        "since 2026-11-20 10:00 UTC (phase readiness)",
    ),
    "a roll": (run(20, (), work=ROLLING, at_work=True), "since 2026-11-20 10:00 UTC (roll driver-580)"),
}


@pytest.mark.parametrize("kind", AT_WORK)
def test_a_run_at_work_takes_nothing_away_and_gives_nothing(kind: str) -> None:
    later, since = AT_WORK[kind]
    later = replace(later, cluster="dc1")
    found = state(run(3), later)
    assert (found.word, found.sentences, found.bring_up.place) == ("accepted", (), ".run/r3")
    assert found.now == (f"running {since} ({later.place})",)
    # Killed, it is what its record says: not passed.
    assert not state(run(3), killed(later)).accepted and not state(run(3), killed(later)).now
    # What was not accepted before it is not accepted by it, whatever passed in it so far.
    before = state(run(3, bad="telemetry"))
    after = state(run(3, bad="telemetry"), later)
    assert (after.word, after.passed, after.sentences) == (before.word, before.passed, before.sentences)


@pytest.mark.parametrize(
    "later",
    [
        under_way(20, passed=2, bad="gpu_stack"),
        under_way(20, passed=2, problem="NOT CONFIRMED: x"),
        run(20, (), work=replace(ROLLING, counts={"held": 1, "pending": 3}), at_work=True),
        run(20, (), work=replace(CYCLE, passed=False, failed=True, counts={"passed": 2, "failed": 1}), at_work=True),
    ],
    ids=["a gate failed", "edited", "a node is held", "a test failed"],
)
def test_what_is_bad_already_in_a_run_at_work_counts_at_once(later: SavedRun) -> None:
    record = later.record
    assert record is not None
    if "gpu_stack" in record.scope and not later.problem:
        bad = replace(record.gate("gpu_stack"), status=Status.FAILED, message="a hole")
        later = replace(later, record=record.with_gate(bad))
    assert not state(run(3), later).accepted


def test_a_cluster_of_which_the_first_run_is_at_work_is_running() -> None:
    found = state(under_way(20, passed=2))
    assert (found.word, found.accepted, found.sentences, len(found.now)) == ("running", False, (), 1)
    assert state(killed(under_way(20, passed=2))).word == "not passed"


def test_stages_of_a_roll_that_are_good_so_far() -> None:
    assert {stage.value for stage in Stage} - GOOD_SO_FAR == {"held", "spared"}


def test_a_doubt_says_what_clears_it_and_a_narrower_run_never_does() -> None:
    doubt, again = run(5, ("nodes", "telemetry"), bad="nodes"), run(6, ("nodes", "telemetry"))
    narrow, fewer = run(6, ("nodes",)), run(6, ("nodes", "telemetry"), quarantined=1)
    cleared = "(.run/r5); passed since (.run/r6); a new run over all gates clears it"
    found = state(run(3), doubt, again)
    assert (found.word, found.accepted) == ("in doubt", False) and found.sentences[-1].endswith(cleared)
    for other in (narrow, fewer, run(6, ("nodes", "telemetry"), driver_only=True), run(4, ("nodes", "telemetry"))):
        found = state(run(3), doubt, other)
        assert not found.accepted and found.sentences[-1].endswith("(.run/r5); a new run over all gates clears it")
    assert state(run(3), doubt, run(7)).accepted
    assert state(run(3), UNREAD).sentences[-1].endswith("; restore its run.json, or move the directory away")
    rolled = run(6, (), work=replace(ROLL, passed=True, failed=False))
    assert state(run(3), replace(DOUBTS["a roll"], record=run(5, (), work=ROLL).record), rolled).passed_since


@pytest.mark.parametrize(
    ("found", "shown"),
    [
        (run(3, ("nodes",), bad="nodes"), ".run/r3"),
        (UNREAD, UNREAD.place),
        (replace(run(20), record=replace(NOTHING_DECIDED, problem="no SSH")), ".run/r20"),
        (run(3, (), work=CYCLE), "none"),
        (replace(run(20), record=replace(VALIDATED, nodes=4)), "none"),
        (NO_DOUBTS["check mode"], "none"),
    ],
    ids=["a gate", "not readable", "refused", "a cycle", "a validation", "check mode"],
)
def test_only_a_run_over_gates_is_shown_as_bring_up(found: SavedRun, shown: str) -> None:
    assert state(found).shown_bring_up == shown


def test_a_rehearsal_that_is_called_so_is_called_once() -> None:
    simulated = run(3, name="rehearsal (rehearsal)", rehearsal=True)
    assert state(simulated).name == "rehearsal"
    assert fleet_sentence([state(simulated)]).endswith("; not: rehearsal")
    # Never the row of a site of that name.
    found = cluster_states([simulated, run(4, name="rehearsal")])
    assert [(s.name, s.accepted) for s in found] == [("rehearsal", True), ("rehearsal (rehearsal)", False)]
