# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The queue of tests on idle nodes: who goes first and why, and what holds of every plan."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.features.continuous.node_history import (
    BatchLimits,
    Demand,
    Urgency,
    histories_by_test,
    other_part,
    window_of,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.features.continuous.queue import (
    BatchPlan,
    QueueNode,
    plan_batch,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.errors import InputError
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.model import Status
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.store.records import Lease, NodeResult

# Monday 2026-11-23 12:00 UTC.
NOW = 1795435200.0
HOUR, DAY = 3600.0, 86400.0
DL = Demand(test="dl-unit", max_age_days=7.0)
FIO = Demand(test="fio", max_age_days=7.0, longest_s=1800.0)
WIDE = BatchLimits(size=10_000)


def result(node: str, ago_s: float, status: Status = Status.PASSED, test: str = "dl-unit", **parts: str) -> NodeResult:
    cause = "bad-digest" if status is Status.FAILED else ""
    return NodeResult(
        cycle_id="c", node=node, test=test, started_s=NOW - ago_s, duration_s=60.0, status=status, cause=cause,
        parts=parts,
    )  # fmt: skip


def planned(
    nodes: list[QueueNode] | int,
    results: list[NodeResult] | None = None,
    limits: BatchLimits = WIDE,
    demands: tuple[Demand, ...] = (DL,),
    leases: tuple[Lease, ...] = (),
    now_s: float = NOW,
) -> BatchPlan:
    every = [QueueNode(name=f"gpu{n}") for n in range(1, nodes + 1)] if isinstance(nodes, int) else nodes
    return plan_batch(every, demands, histories_by_test(results or [], now_s), leases, limits, now_s)


def names(plan: BatchPlan) -> list[str]:
    return [position.node for position in plan.positions]


def why(plan: BatchPlan, node: str) -> str:
    return next(position for position in plan.positions if position.node == node).tests[0].why


def test_new_nodes_go_first_then_those_that_failed_then_the_oldest() -> None:
    results = [
        result("gpu1", 8 * DAY),
        result("gpu2", 12 * DAY),
        result("gpu3", DAY, Status.FAILED),
        result("gpu5", DAY),
    ]
    plan = planned(5, results)
    assert [position.line() for position in plan.positions] == [
        "1. gpu4: dl-unit never tested",
        "2. gpu3: dl-unit failed on 2026-11-22 12:00 UTC (bad-digest)",
        "3. gpu2: dl-unit older than 7 days by 5.0 days (tested on 2026-11-11 12:00 UTC)",
        "4. gpu1: dl-unit older than 7 days by 1.0 days (tested on 2026-11-15 12:00 UTC)",
    ]
    assert plan.not_due == {"gpu5": "dl-unit not due until 2026-11-29 12:00 UTC"}
    assert plan.next_due_s == NOW + 6 * DAY


def test_a_result_is_due_at_its_age_and_not_before() -> None:
    assert names(planned(1, [result("gpu1", 7 * DAY)])) == ["gpu1"]
    assert names(planned(1, [result("gpu1", 7 * DAY - 1)])) == []


def test_each_test_of_a_node_has_its_own_age_and_the_most_urgent_places_the_node() -> None:
    results = [
        result("gpu1", 8 * DAY),
        result("gpu1", DAY, test="fio"),
        result("gpu2", 9 * DAY),
        result("gpu2", 9 * DAY, test="fio"),
    ]
    plan = planned(2, [*results, result("gpu3", 30 * DAY)], demands=(DL, FIO))
    assert [(p.node, [due.test for due in p.tests]) for p in plan.positions] == [
        ("gpu2", ["dl-unit", "fio"]), ("gpu1", ["dl-unit"]),
    ]  # fmt: skip
    both = planned(1, [result("gpu1", 8 * DAY)], demands=(DL, FIO)).positions[0]
    assert [due.test for due in both.tests] == ["fio", "dl-unit"] and both.tests[0].urgency is Urgency.NEW


def test_a_failed_test_is_repeated_after_hours_and_not_at_once() -> None:
    assert names(planned(1, [result("gpu1", 5 * HOUR, Status.FAILED)])) == []
    assert names(planned(1, [result("gpu1", 7 * HOUR, Status.FAILED)])) == ["gpu1"]
    repaired = [result("gpu1", 9 * HOUR, Status.FAILED), result("gpu1", 8 * HOUR)]
    assert names(planned(1, repaired)) == []


def test_what_said_nothing_is_tried_again_later_and_later_and_never_counts_as_known() -> None:
    def tried(*ago_h: float) -> BatchPlan:
        return planned(1, [result("gpu1", 2 * DAY), *(result("gpu1", ago * HOUR, Status.OTHER) for ago in ago_h)])

    assert names(tried(0.5)) == [] and names(tried(1.5)) == ["gpu1"]
    assert names(tried(3.0, 1.5)) == [] and names(tried(4.0, 2.5)) == ["gpu1"]
    assert why(tried(4.0, 2.5), "gpu1") == "tried 2 times without an answer, last on 2026-11-23 09:30 UTC"
    many = [result("gpu1", 0.9 * DAY + n, Status.OTHER) for n in range(500)]
    assert names(planned(1, many)) == [] and names(planned(1, many, now_s=NOW + 0.2 * DAY)) == ["gpu1"]
    assert names(planned(1, [result("gpu1", 2 * HOUR, Status.SKIPPED)])) == ["gpu1"]


def test_a_node_that_can_never_be_tested_goes_behind_those_that_wait_longer() -> None:
    plan = planned(2, [result("gpu1", 2 * HOUR, Status.OTHER), result("gpu2", 8 * DAY)])
    assert names(plan) == ["gpu2", "gpu1"]


def test_what_was_given_back_is_still_to_do() -> None:
    once = planned(2, [result("gpu1", 8 * DAY), result("gpu1", 600.0, Status.PENDING), result("gpu2", 7.5 * DAY)])
    assert names(once) == ["gpu1", "gpu2"]
    assert why(once, "gpu1").endswith("pending 1 time since (a user's workload, no partner, the end of a cycle)")
    fresh = [result("gpu1", DAY), result("gpu1", 600.0, Status.PENDING)]
    assert names(planned(1, fresh)) == []
    never = planned(1, [result("gpu1", 600.0, Status.PENDING)])
    assert why(never, "gpu1").startswith("never tested, pending 1 time") and never.batch


def test_a_node_that_is_always_taken_back_lets_others_go_first() -> None:
    taken = [result("gpu1", ago, Status.PENDING) for ago in (900.0, 600.0)]
    assert names(planned(2, [*taken, result("gpu2", 8 * DAY)])) == ["gpu2", "gpu1"]


def test_whoever_was_passed_over_for_long_goes_before_those_that_fail() -> None:
    results = [result("gpu1", DAY, Status.FAILED), result("gpu2", 15 * DAY), result("gpu3", 13 * DAY)]
    assert names(planned(3, results)) == ["gpu2", "gpu1", "gpu3"]


def test_a_suspect_is_repeated_at_once() -> None:
    nodes, fresh = [QueueNode(name="gpu1"), QueueNode(name="gpu2")], [result("gpu1", HOUR), result("gpu2", 8 * DAY)]
    plan = plan_batch(
        nodes, (DL,), histories_by_test(fresh, NOW), (), WIDE, NOW, again={("gpu1", "dl-unit"), ("gpu9", "x")}
    )
    assert names(plan) == ["gpu1", "gpu2"] and why(plan, "gpu1") == "to be repeated, tested on 2026-11-23 11:00 UTC"


def test_a_swapped_part_makes_the_node_new() -> None:
    results = [result("gpu1", DAY, gpu0="GPU-a", gpu1="GPU-b")]
    swapped = planned([QueueNode(name="gpu1", parts={"gpu0": "GPU-a", "gpu1": "GPU-c"})], results)
    assert why(swapped, "gpu1") == "tested on 2026-11-22 12:00 UTC, gpu1 is GPU-c in place of GPU-b since"
    assert swapped.positions[0].tests[0].urgency is Urgency.NEW
    same = QueueNode(name="gpu1", parts={"gpu0": "GPU-a", "gpu1": "GPU-b", "nic0": "mlx-1"})
    assert names(planned([same], results)) == [] and names(planned([QueueNode(name="gpu1")], results)) == []
    assert other_part({"gpu0": "a", "gpu1": "b"}, {"gpu0": "a"}) == "gpu1 is gone"
    assert other_part({"gpu0": "a"}, {"gpu0": "a", "gpu1": "b"}) == "gpu1 is b in place of none"
    # Two ways to name parts that never agree must not test a node for ever.
    just = [result("gpu1", 60.0, gpu0="GPU-a")]
    assert names(planned([QueueNode(name="gpu1", parts={"gpu0": "GPU-z"})], just)) == []


@pytest.mark.parametrize("ahead_s", [400.0, 400 * DAY, math.inf, math.nan])
def test_a_result_from_the_future_hides_no_node(ahead_s: float) -> None:
    plan = planned(1, [result("gpu1", -ahead_s)])
    assert names(plan) == ["gpu1"] and plan.positions[0].tests[0].urgency is Urgency.NEW
    assert "1 result of the future counted for nothing" in why(plan, "gpu1")
    older = planned(1, [result("gpu1", -ahead_s), result("gpu1", 8 * DAY)])
    assert why(older, "gpu1").startswith("older than 7 days by 1.0 days")


def test_clocks_of_two_controllers_may_differ_a_little() -> None:
    assert names(planned(1, [result("gpu1", -60.0)])) == []


def test_who_is_not_free_or_under_test_is_named_and_counts_for_the_limits() -> None:
    nodes = [
        QueueNode(name="gpu1", rack="r1"), QueueNode(name="gpu2", rack="r1"), QueueNode(name="gpu3", rack="r2"),
        QueueNode(name="gpu4", rack="r2", not_free="cordoned by somebody else"),
    ]  # fmt: skip
    lease = Lease(node="gpu1", test="fio", cycle_id="c7", until_s=NOW + 60)
    plan = planned(nodes, limits=BatchLimits(size=8, per_rack=1), leases=(lease,))
    assert plan.not_free == {
        "gpu1": "fio of cycle c7 runs there, at most until 2026-11-23 12:01 UTC", "gpu4": "cordoned by somebody else",
    }  # fmt: skip
    assert [(p.node, p.waits) for p in plan.positions] == [
        ("gpu2", "1 node of rack r1 at once, others go first"), ("gpu3", ""),
    ]  # fmt: skip
    alone = planned(nodes, limits=BatchLimits(size=1), leases=(lease,))
    assert alone.batch == () and {p.waits for p in alone.positions} == {"1 node at once, others go first"}
    over = planned(nodes, leases=(replace(lease, until_s=NOW),))
    assert "gpu1" in names(over)
    assert "gpu1" not in names(planned(nodes, leases=(replace(lease, until_s=math.nan),)))


def test_nodes_of_all_racks_and_rails_take_turns() -> None:
    nodes = [QueueNode(name=f"gpu{n}", rack=f"r{(n - 1) // 4}", rail=f"s{(n - 1) // 8}") for n in range(1, 17)]
    first = planned(nodes, limits=BatchLimits(size=4)).batch
    assert [position.rack for position in first] == ["r0", "r2", "r1", "r3"]
    capped = planned(nodes, limits=BatchLimits(size=16, per_rack=2, per_rail=3)).batch
    assert Counter(position.rack for position in capped) == {"r0": 2, "r1": 1, "r2": 2, "r3": 1}


def test_racks_that_are_not_stated_are_taken_for_one() -> None:
    plan = planned(4, limits=BatchLimits(per_rack=1))
    assert len(plan.batch) == 1 and plan.notes == ("no rack is stated for 4 nodes: taken for one, 1 at once",)
    same = [QueueNode(name="a", rack="R 1"), QueueNode(name="b", rack=" r  1")]
    assert len(planned(same, limits=BatchLimits(per_rack=1)).batch) == 1


def test_nothing_runs_outside_the_window_or_beyond_its_end() -> None:
    night = BatchLimits(window=window_of("22:00-06:00", "Europe/Berlin"))
    closed = planned(2, limits=night)
    assert closed.batch == () and len(closed.positions) == 2
    assert closed.positions[0].waits == (
        "outside 22:00-06:00 Europe/Berlin, which opens on 2026-11-23 21:00 UTC"
    )  # fmt: skip
    assert len(planned(2, limits=night, now_s=NOW + 9 * HOUR).batch) == 2
    # 06:00 in Berlin is 05:00 UTC: 45 min are left, enough for fio and not for both.
    late = planned(1, limits=night, demands=(DL, FIO), now_s=NOW + 16.25 * HOUR)
    assert [due.test for due in late.batch[0].tests] == ["fio"]
    end = planned(1, limits=night, demands=(DL, FIO), now_s=NOW + 16.75 * HOUR)
    assert end.positions[0].waits == "takes up to 30 min, and 22:00-06:00 Europe/Berlin closes in 15 min"
    with pytest.raises(InputError, match="it would never run"):
        planned(1, limits=BatchLimits(window=window_of("01:00-01:30", "UTC")))


@pytest.mark.parametrize(
    ("limits", "text"),
    [({"size": 0}, "batch size: is 0"), ({"per_rack": -1}, "per_rack"), ({"failed_again_h": 0.0}, "failed_again_h")],
)
def test_limits_that_mean_nothing_are_refused(limits: dict[str, float], text: str) -> None:
    with pytest.raises(InputError, match=text):
        BatchLimits(**limits)  # type: ignore[arg-type]


@pytest.mark.parametrize("days", [0.0, -1.0, math.inf, math.nan])
def test_an_age_that_means_nothing_is_refused(days: float) -> None:
    with pytest.raises(InputError, match="max_age_days"):
        Demand(test="fio", max_age_days=days)


def test_a_node_or_test_twice_is_refused() -> None:
    with pytest.raises(InputError, match="gpu1: named more than once"):
        planned([QueueNode(name="gpu1"), QueueNode(name="gpu1", rack="r1")])
    with pytest.raises(InputError, match="dl-unit: named more than once"):
        planned(1, demands=(DL, DL))


# Plans of any fleet.

WORDS = st.sampled_from([Status.PASSED, Status.FAILED, Status.OTHER, Status.PENDING, Status.SKIPPED])
NODE = st.integers(1, 12).map(lambda n: f"gpu{n}")
RESULT = st.builds(
    result, NODE,
    st.floats(-40 * DAY, 40 * DAY), WORDS, st.sampled_from(["dl-unit", "fio"]),
)  # fmt: skip
NODES = st.lists(
    st.builds(
        lambda name, rack, rail, busy: QueueNode(name=name, rack=rack, rail=rail, not_free=busy), NODE,
        st.sampled_from(["", "r1", "r2", "R2"]), st.sampled_from(["", "a", "b"]), st.sampled_from(["", "", "", "busy"]),
    ),
    unique_by=lambda node: node.name,
)  # fmt: skip
LIMITS = st.builds(
    lambda size, rack, rail: BatchLimits(size=size, per_rack=rack, per_rail=rail),
    st.integers(1, 6),
    st.integers(0, 3),
    st.integers(0, 3),
)
LEASES = st.lists(
    st.builds(lambda node, s: Lease(node=node, test="fio", cycle_id="x", until_s=NOW + s), NODE, st.floats(-DAY, DAY)),
    max_size=4,
)


@given(NODES, st.lists(RESULT, max_size=60), LIMITS, LEASES)
def test_every_node_stands_in_the_plan_once_and_no_limit_is_passed(
    nodes: list[QueueNode], results: list[NodeResult], limits: BatchLimits, leases: list[Lease]
) -> None:
    plan = planned(nodes, results, limits, (DL, FIO), tuple(leases))
    assert sorted([*names(plan), *plan.not_due, *plan.not_free]) == sorted(node.name for node in nodes)
    busy = {node.name for node in nodes if node.not_free} | {lease.node for lease in leases if lease.until_s > NOW}
    assert not busy & set(names(plan)) and busy & {node.name for node in nodes} == set(plan.not_free)
    under_test = {lease.node for lease in leases if lease.until_s > NOW} & {node.name for node in nodes}
    held = {position.node for position in plan.batch} | under_test
    assert len(plan.batch) + len(under_test) <= max(limits.size, len(under_test))
    for cap, place in ((limits.per_rack, "rack"), (limits.per_rail, "rail")):
        there = Counter(getattr(node, place).casefold() for node in nodes if node.name in held)
        leased = Counter(getattr(node, place).casefold() for node in nodes if node.name in under_test)
        assert not cap or all(count <= max(cap, leased[name]) for name, count in there.items())
    assert [position.number for position in plan.positions] == list(range(1, len(plan.positions) + 1))
    assert all(position.tests and all(due.why for due in position.tests) for position in plan.positions)


@given(NODES, st.lists(RESULT, max_size=40), LIMITS, st.randoms(use_true_random=False))
def test_the_order_of_what_is_given_does_not_change_the_plan(
    nodes: list[QueueNode], results: list[NodeResult], limits: BatchLimits, order: object
) -> None:
    plan = planned(nodes, results, limits, (DL, FIO))
    mixed_nodes, mixed_results = list(nodes), list(results)
    order.shuffle(mixed_nodes)  # type: ignore[attr-defined]
    order.shuffle(mixed_results)  # type: ignore[attr-defined]
    assert planned(mixed_nodes, mixed_results, limits, (FIO, DL)) == plan


@given(st.lists(RESULT, max_size=60))
def test_a_test_without_a_result_of_the_last_days_is_always_due(results: list[NodeResult]) -> None:
    """A naive reading: what neither ended nor was tried within its time must be in the plan."""
    plan = planned(12, results, demands=(DL, FIO))
    due = {(position.node, test.test) for position in plan.positions for test in position.tests}
    for node in (f"gpu{n}" for n in range(1, 13)):
        for test in ("dl-unit", "fio"):
            said = [r for r in results if (r.node, r.test) == (node, test) and r.status is not Status.PENDING]
            recent = [r for r in said if -300.0 <= NOW - r.started_s < 7 * DAY]
            if not recent:
                assert (node, test) in due
            passed = [r.status for r in said if -300.0 <= NOW - r.started_s < 7 * DAY]
            if passed and all(status is Status.PASSED for status in passed):
                assert (node, test) not in due


@given(
    st.dictionaries(NODE, st.sampled_from(["passes", "fails", "nothing", "taken back"]), min_size=1),
    st.integers(1, 2), st.floats(0.2, 30.0),
)  # fmt: skip
def test_nobody_starves_however_the_others_end(ways: dict[str, str], size: int, step_h: float) -> None:
    words = {"passes": Status.PASSED, "fails": Status.FAILED, "nothing": Status.OTHER, "taken back": Status.PENDING}
    nodes, limits, results = [QueueNode(name=name) for name in ways], BatchLimits(size=size), list[NodeResult]()
    begun: dict[str, list[float]] = {name: [0.0] for name in ways}
    at, end = 0.0, 90 * DAY
    steps = 0
    while at < end and steps < 150:
        plan = planned(nodes, results, limits, now_s=NOW + at)
        for position in plan.batch:
            begun[position.node].append(at)
            results.append(result(position.node, -at, words[ways[position.node]]))
        at += step_h * HOUR
        steps += 1
    # Twice its time, and a turn of everybody else twice over.
    bound_s = 2 * 7 * DAY + 2 * (len(ways) + size) * step_h * HOUR + DAY
    for name, times in begun.items():
        gaps = [later - earlier for earlier, later in zip(times, [*times[1:], at], strict=True)]
        assert max(gaps) <= bound_s, (name, ways[name], max(gaps) / DAY)
