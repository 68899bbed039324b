# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A run over a fleet: which clusters are next, what goes on after an end, and how a cluster ended by its records."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.features.fleet.app import (
    ClusterResult,
    fleet_holds,
    fleet_passed,
    fleet_run_sentence,
    kept,
    next_of,
    result_of,
    rings_of,
    without_twins,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.gates import GATE_IDS
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.model import Status
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.verdict.run import (
    RunRecord,
    Work,
    new_run,
    with_phases,
    with_verb,
)

STARTED = "2026-11-01T10:00:00Z"
RINGS = st.sampled_from(["lab", "canary", "prod", "", "rest"])
FLEETS = st.dictionaries(st.text("abcdef", min_size=1, max_size=3), RINGS, max_size=12)
ORDERS = st.lists(RINGS.filter(bool), max_size=4)
OUTCOMES = st.sampled_from([Status.PASSED, Status.FAILED, Status.OTHER, Status.PENDING, Status.SKIPPED])


def result(status: Status, asked: str = "", uid: str = "") -> ClusterResult:
    return ClusterResult(status=status, sentence=status.value, asked=asked, uid=uid)


def record(*statuses: Status, gates: tuple[str, ...] = GATE_IDS) -> RunRecord:
    """A run over gates with these statuses; the others of its scope are pending."""
    found = new_run("r-1", "lab", STARTED, gates, rehearsal=False)
    for gate, status in zip(gates, statuses, strict=False):
        found = found.with_gate(replace(found.gate(gate), status=status))
    return found


@given(FLEETS, ORDERS)
def test_each_cluster_is_in_one_ring_in_the_order_that_is_stated(fleet: dict[str, str], order: list[str]) -> None:
    rings = rings_of(fleet, order)
    assert sorted(name for ring in rings for name in ring.clusters) == sorted(fleet)
    names = [ring.name for ring in rings]
    assert names == [name for name in dict.fromkeys([*order, "rest"]) if name in names]
    for ring in rings:
        for name in ring.clusters:
            assert fleet[name] == ring.name or (ring.name == "rest" and fleet[name] not in order)


def test_the_rest_is_last_unless_it_is_named() -> None:
    fleet = {"a": "prod", "b": "lab", "c": "", "d": "last"}
    assert [(r.name, r.clusters) for r in rings_of(fleet, ["lab"])] == [("lab", ("b",)), ("rest", ("a", "c", "d"))]
    assert [r.name for r in rings_of(fleet, ["rest", "last"])] == ["rest", "last"]


def simulate(
    fleet: dict[str, str], order: list[str], ends: dict[str, Status], budget: int, stops: set[int]
) -> tuple[list[str], dict[str, ClusterResult], tuple[str, ...]]:
    """Run a fleet whose clusters end so; it is killed before its n-th cluster for each n of `stops`, and goes on."""
    rings, run, results, begun = rings_of(fleet, order), [], {}, 0
    asked = dict.fromkeys(fleet, "same")
    while True:
        following = next_of(rings, results, budget)
        if not following.clusters:
            return run, results, following.not_begun
        for name in following.clusters:
            begun += 1
            if begun in stops:
                results = kept(results, asked, failed_again=False)
                break
            run.append(name)
            results = {**results, name: result(ends[name], "same")}


@given(FLEETS, ORDERS, st.data(), st.integers(0, 3), st.sets(st.integers(1, 15)))
def test_rings_budget_and_interruptions(
    fleet: dict[str, str], order: list[str], data: st.DataObject, budget: int, stops: set[int]
) -> None:
    ends = {name: data.draw(OUTCOMES) for name in fleet}
    run, results, not_begun = simulate(fleet, order, ends, budget, set())
    # Whatever interrupts it, the same clusters are run, each once, with the same end.
    assert simulate(fleet, order, ends, budget, stops) == (run, results, not_begun)
    assert len(run) == len(set(run)) and {*run} | {*not_begun} == {*fleet} and not {*run} & {*not_begun}
    held = 0
    for ring in rings_of(fleet, order):
        begun = {*ring.clusters} & {*run}
        # A ring is run whole or not at all, and it is run if and only if those before it are within the budget.
        assert begun == ({*ring.clusters} if held <= budget else set())
        held += sum(results[name].holds for name in begun)
    bad = [name for name in run if ends[name] in (Status.FAILED, Status.OTHER)]
    assert fleet_holds(fleet, results) == (not fleet or bool(bad) or bool(not_begun))
    assert fleet_passed(fleet, results) == (
        bool(fleet) and all(ends[n] is Status.PASSED for n in run) and not not_begun
    )


def test_a_run_goes_on_with_what_is_asked_the_same() -> None:
    results = {"a": result(Status.PASSED, "1"), "b": result(Status.FAILED, "1"), "c": result(Status.PASSED, "1")}
    asked = {"a": "1", "b": "1", "c": "2"}
    assert set(kept(results, asked, failed_again=False)) == {"a", "b"}
    assert set(kept(results, asked, failed_again=True)) == {"a"}
    # A cluster that left the fleet has no result in it.
    assert kept(results, {}, failed_again=False) == {}


def test_two_names_for_one_cluster_are_not_known() -> None:
    results = {
        "a": result(Status.PASSED, uid="u"),
        "b": result(Status.PASSED, uid="u"),
        "c": result(Status.PASSED, uid="v"),
    }
    found = without_twins(results | {"d": result(Status.PASSED), "e": result(Status.PASSED)})
    assert [name for name, each in found.items() if each.status is Status.OTHER] == ["a", "b"]
    assert "same cluster as b" in found["a"].sentence


P, F, X, W = Status.PASSED, Status.FAILED, Status.OTHER, Status.PENDING
VALIDATION = with_phases(record(), ["readiness", "deployment"])
ROLL = with_verb(record(), "roll")


@pytest.mark.parametrize(
    ("records", "status", "wanted", "gates"),
    [
        ([record(*[P] * 8)], 0, P, "8 of 8"),
        ([record(P, gates=("facility",))], 0, P, "1 of 1"),
        ([record(P, F)], 2, F, "1 of 8"),
        ([record(P, X)], 2, X, "1 of 8"),
        ([record(P, P)], 2, X, "2 of 8"),
        ([record()], 0, X, "0 of 8"),
        ([], 0, X, ""),
        ([], None, X, ""),
        ([record(*[P] * 8)], 2, X, "8 of 8"),
        ([record(*[P] * 8)], None, X, "8 of 8"),
        ([record(*[P] * 8), record(P, F)], 0, F, "1 of 8"),
        ([replace(record(*[P] * 8), problem="hosts do not answer")], 2, X, "8 of 8"),
        ([replace(record(*[P] * 8), check_mode=True)], 0, X, "8 of 8"),
        ([replace(record(*[P] * 8), unconfirmed=1)], 0, X, "8 of 8"),
        ([VALIDATION], 2, X, "0 of 2"),
        ([VALIDATION.with_phase(replace(VALIDATION.phases[0], status=F))], 2, F, "0 of 2"),
        ([replace(ROLL, work=Work(verb="roll"))], 2, X, ""),
        ([replace(ROLL, work=Work(verb="roll", sentence="1 of 2 nodes"))], 2, F, ""),
        ([replace(ROLL, work=Work(verb="roll", sentence="2 of 2", passed=True, failed=False))], 0, P, ""),
        ([replace(ROLL, work=Work(verb="cycles", sentence="no idle node", failed=False))], 0, W, ""),
    ],
)
def test_a_cluster_is_what_the_record_of_its_run_says(
    records: list[RunRecord], status: int | None, wanted: Status, gates: str
) -> None:
    found = result_of(records, status)
    assert (found.status, found.gates) == (wanted, gates)
    assert found.sentence and found.holds == (wanted in (F, X))


def test_the_decision_is_one_sentence() -> None:
    results = {"a": result(P), "b": result(F), "c": result(X)}
    assert fleet_run_sentence("site", ["a", "b", "c", "d"], results, 1) == (
        "site on 4 clusters: 1 passed, 1 failed, 1 not known (other), 1 not begun: d; "
        "2 clusters not passed, and the budget between rings is 1"
    )
    assert fleet_run_sentence("drift", ["a"], {"a": result(P)}, 0) == "drift on 1 cluster: 1 passed"
    assert fleet_holds([], {}) and not fleet_passed([], {})
