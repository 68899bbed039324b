# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What nodes are taken for: each word by each of its reasons, and what looks like it and is not."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest
from service_rows import node_result

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.kit.settings_layers import settings_for
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.node_tests.settings import ContinuousSettings
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.node_tests.spec import NodeTest
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.features.continuous.app import class_limits
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.features.continuous.classify import Classified, classify
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.features.continuous.figures import (
    Better,
    ClassLimits,
    figure_rules,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.features.continuous.node_history import (
    BatchLimits,
    Demand,
    TestHistory,
    due_of,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.features.continuous.report import coverage
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.model import Rating, Status
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.probe.dl_unit import RATES
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.store.records import Figure, NodeResult

DAY, NOW = 86400.0, 100 * 86400.0
NODES = tuple(f"gpu{number:02d}" for number in range(10))
BAD = "gpu03"


def gemm(number: float, part: str = "GPU-a", unit: str = "TFLOP/s", name: str = "gemm_bf16") -> tuple[Figure, ...]:
    return (Figure(name=name, number=number, unit=unit, part=part),)


def result(node: str, days_ago: float = 1.0, status: Status = Status.PASSED, **changes: Any) -> NodeResult:
    index = NODES.index(node) if node in NODES else 0
    known: dict[str, Any] = {"figures": gemm(600 + index % 3), "started_s": NOW - days_ago * DAY, "digests": {}}
    return node_result(f"c{days_ago}", node, "dl", status, **(known | changes))


def fleet(*more: NodeResult, nodes: tuple[str, ...] = NODES, **changes: Any) -> list[NodeResult]:
    """A healthy fleet with one result each, and more results."""
    return [*(result(node, 2.0, **changes) for node in nodes), *more]


def judged(results: list[NodeResult], nodes: tuple[str, ...] = NODES, **options: Any) -> Classified:
    return classify("c9", nodes, ("dl",), results, NOW, figure_rules(), **options)


def word(found: Classified, node: str = BAD) -> str:
    return next(entry.word for entry in found.classes if entry.node == node)


def why(found: Classified, node: str = BAD) -> str:
    return "\n".join(next(entry.reasons for entry in found.classes if entry.node == node))


def others(found: Classified) -> set[str]:
    return {entry.word for entry in found.classes if entry.node != BAD}


def slow(*numbers: float, **changes: Any) -> list[NodeResult]:
    """Results of the bad node, the newest now; those of less than six hours would be one event."""
    last = len(numbers) - 1
    days_ago = [0.1 + (last - index) * 0.25 for index in range(len(numbers))]
    return [result(BAD, ago, figures=gemm(number), **changes) for ago, number in zip(days_ago, numbers, strict=True)]


def test_a_healthy_fleet_is_healthy() -> None:
    found = judged(fleet())
    assert {entry.word for entry in found.classes} == {"healthy"} and not found.cohorts and not found.repeats


@pytest.mark.parametrize("cause", figure_rules().hard_causes)
def test_a_hard_fact_is_bad_at_once(cause: str) -> None:
    found = judged(fleet(result(BAD, status=Status.FAILED, rating=Rating.BAD, cause=cause, summary="7 wrong")))
    assert word(found) == "bad" and cause in why(found) and others(found) == {"healthy"}


@pytest.mark.parametrize("status", [Status.PASSED, Status.FAILED])
def test_a_result_of_a_part_that_was_swapped_since_says_nothing_of_the_node(status: Status) -> None:
    """A node that is never idle is not tested again: the reading of every cycle shows that its GPU is another one."""
    old = result(BAD, 1.0, status, cause="digest-changes" if status is Status.FAILED else "", summary="gpu1 flips")
    read = [node_result("c5", node, "read", parts={"gpu0": "GPU-a", "gpu1": "GPU-b"}, figures=(), digests={},
            started_s=NOW - 60) for node in NODES]  # fmt: skip

    def both(results: list[NodeResult]) -> Classified:
        return classify("c9", NODES, ("dl", "read"), results, NOW, figure_rules())

    assert word(both(fleet(old, *read))) == ("bad" if status is Status.FAILED else "healthy")
    read[NODES.index(BAD)] = replace(read[NODES.index(BAD)], parts={"gpu0": "GPU-a", "gpu1": "GPU-z"})
    found = both(fleet(old, *read))
    assert word(found) == "unknown" and "gpu1 is GPU-z in place of GPU-b since" in why(found)
    assert ("digest-changes" in why(found)) is (status is Status.FAILED) and others(found) == {"healthy"}
    again = result(BAD, 0.0, parts={"gpu0": "GPU-a", "gpu1": "GPU-z"})
    assert word(both(fleet(again, *read))) == "healthy"


def test_a_soft_failure_is_a_suspect_and_bad_only_by_repeats() -> None:
    failed = [result(BAD, 1 - n / 4, Status.FAILED, cause="fio-failed", summary="exit 1") for n in range(3)]
    assert [word(judged(fleet(*failed[:count]))) for count in (1, 2, 3)] == ["suspect", "suspect", "bad"]
    assert judged(fleet(failed[0])).repeats == ((BAD, "dl"),)


def test_one_good_result_does_not_make_a_bad_node_healthy_and_three_do() -> None:
    hard = result(BAD, 1.9, Status.FAILED, cause="wrong-results", summary="#wrong 3")
    good = [result(BAD, 1 - n / 4) for n in range(3)]
    assert [word(judged(fleet(hard, *good[:count]))) for count in (0, 1, 2, 3)] == ["bad", "bad", "bad", "healthy"]


def test_of_a_bad_node_is_told_how_many_of_its_newest_results_in_a_row_are_bad() -> None:
    hard = [result(BAD, 1.9 - n / 4, Status.FAILED, cause="wrong-results", summary="#wrong 3") for n in range(3)]
    good = result(BAD, 1.0)
    told = [judged(fleet(*some)).in_a_row for some in (hard[:1], hard, [*hard, good], [*hard, good, result(BAD, 0.5)])]
    assert told == [{BAD: 1}, {BAD: 3}, {BAD: 0}, {BAD: 0}]
    assert judged(fleet(*slow(500, 500, 500, 500))).in_a_row == {BAD: 4}
    assert judged(fleet(*slow(500, 500, 500, 500, 601))).in_a_row == {BAD: 0}
    assert judged(fleet()).in_a_row == {}


@pytest.mark.parametrize(
    ("numbers", "expected"),
    [
        ([540], "suspect"),
        ([540, 541], "suspect"),
        ([540, 541, 542], "bad"),
        ([540, 600, 541, 542], "bad"),
        ([540, 600, 600, 541], "suspect"),
        ([540, 600, 600, 600], "healthy"),
        ([590], "healthy"),
    ],
)
def test_slower_than_peers(numbers: list[float], expected: str) -> None:
    found = judged(fleet(*slow(*numbers)))
    assert word(found) == expected and others(found) == {"healthy"}
    if expected != "healthy":
        assert "gemm_bf16 of GPU-a" in why(found) and "median" in why(found)


def test_of_a_latency_more_is_worse() -> None:
    def latency(number: float) -> tuple[Figure, ...]:
        return gemm(number, "", "us", "fio_p99")

    results = fleet(figures=latency(100.0))
    up = [result(BAD, 1 - n / 4, figures=latency(120.0)) for n in range(3)]
    down = [result(BAD, 1 - n / 4, figures=latency(80.0)) for n in range(3)]
    assert word(judged([*results, *up])) == "bad" and word(judged([*results, *down])) == "healthy"


def test_fewer_than_four_nodes_prove_nothing_and_a_history_is_only_unchanged() -> None:
    """domain.md T205: a node at 60 % of its peers from the first day was healthy once it had a history."""
    three = NODES[:3]
    assert {entry.word for entry in judged(fleet(nodes=three), three).classes} == {"unknown"}
    assert "compared with nobody" in why(judged(fleet(nodes=three), three), "gpu00")
    four = NODES[:4]
    assert {entry.word for entry in judged(fleet(nodes=four), four).classes} == {"healthy"}
    long = [result(node, 1 + n) for node in three for n in range(8)]
    assert {entry.word for entry in judged(long, three).classes} == {"unknown"}
    assert "unchanged is not known to be good" in why(judged(long, three), "gpu00")
    # Of another cohort, so nobody compares with it.
    alone = fleet(result(BAD, cohort="h100/555"))
    assert word(judged(alone)) == "unknown"
    assert word(judged(fleet(result(BAD, cohort="")))) == "unknown"


def test_slower_than_it_was_is_drifting_and_a_swapped_part_begins_a_new_history() -> None:
    history = [result(node, 30 - n) for node in NODES for n in range(8)]
    lower = [result(BAD, 3 - n, figures=gemm(569)) for n in range(2)]
    found = judged([*history, *lower])
    assert word(found) == "drifting" and "slower than it was" in why(found) and others(found) == {"unknown"}
    fresh = [result(node, 1) for node in NODES if node != BAD]
    assert others(judged([*history, *lower, *fresh])) == {"healthy"}
    parts = {"gpu0": "GPU-new", "gpu1": "GPU-b"}
    swapped = [result(BAD, 3 - n, figures=gemm(569, "GPU-new"), parts=parts) for n in range(2)]
    assert word(judged([*history, *swapped, *fresh])) == "healthy"
    # By its slot it is another part as well.
    by_slot = [result(BAD, 30 - n, figures=gemm(600, "gpu0")) for n in range(8)]
    new_slot = [result(BAD, 3 - n, figures=gemm(569, "gpu0"), parts=parts) for n in range(2)]
    assert word(judged([*by_slot, *new_slot, *fresh])) == "healthy"
    kept = [result(BAD, 3 - n, figures=gemm(569, "gpu0")) for n in range(2)]
    assert word(judged([*by_slot, *kept, *fresh])) == "drifting"


def test_a_swapped_part_is_not_bad_for_what_the_old_one_was() -> None:
    parts = {"gpu0": "GPU-new", "gpu1": "GPU-b"}
    new = result(BAD, 0.0, figures=gemm(601, "GPU-new"), parts=parts)
    assert word(judged(fleet(*slow(540, 541, 542)))) == "bad"
    assert word(judged(fleet(*slow(540, 541, 542), new))) == "healthy"


def test_a_cohort_that_is_slow_together_is_to_blame() -> None:
    many = [
        result(node, 1 - n / 4, figures=gemm(500)) for node in NODES[:4] for n in range(4)
    ]  # 40 % of the cohort, each repeated
    found = judged(fleet(*many))
    assert {entry.word for entry in found.classes if entry.node in NODES[:4]} == {"suspect"}
    assert not [entry for entry in found.classes if entry.word == "bad"]
    assert "to blame" in found.cohorts[0] and "4 of 10" in found.cohorts[0]
    two = [result(node, 1 - n / 4, figures=gemm(500)) for node in NODES[:2] for n in range(4)]
    assert {entry.word for entry in judged(fleet(*two)).classes if entry.node in NODES[:2]} == {"bad"}


@pytest.mark.parametrize("count", [4, 7, 8, 10])
def test_one_fast_node_makes_no_other_bad(count: int) -> None:
    nodes = NODES[:count]

    def parts(number: float) -> tuple[Figure, ...]:
        return tuple(gemm(number, f"GPU-{gpu}")[0] for gpu in range(8))

    results = [result(node, 1 - n / 4, figures=parts(750 if node == BAD else 600)) for node in nodes for n in range(4)]
    found = judged(results, nodes)
    # Of eight and more the others agree with each other; of fewer nobody can tell, and a person looks.
    assert (others(found), word(found)) == (({"healthy"}, "healthy") if count >= 8 else ({"suspect"}, "unknown"))
    assert bool(found.cohorts) == (count < 8)
    assert all("gpu03 alone is faster" in text for text in found.cohorts)


def test_hard_failures_of_many_at_once_are_of_their_cohort() -> None:
    many = [result(node, 0.5, Status.FAILED, cause="wrong-results", summary="#wrong 1") for node in NODES[:4]]
    found = judged(fleet(*many))
    assert {entry.word for entry in found.classes if entry.node in NODES[:4]} == {"suspect"}
    assert "fail hard at once" in found.cohorts[0]
    found = judged(fleet(*many[:1]))
    assert word(found, "gpu00") == "bad" and not found.cohorts


def test_what_hit_a_whole_cohort_and_is_over_makes_nobody_bad() -> None:
    once = [result(node, 3, Status.FAILED, cause="wrong-results", summary="#wrong 1") for node in NODES]
    found = judged([*once, *fleet()])
    assert {entry.word for entry in found.classes} == {"suspect"} and "would be bad at once" in found.cohorts[0]
    slower = [result(node, 4 - n / 4, figures=gemm(500)) for node in NODES[:4] for n in range(4)]
    assert {entry.word for entry in judged([*slower, *fleet()]).classes} == {"suspect", "healthy"}


def test_a_new_driver_that_makes_all_slower_is_told_of_the_software() -> None:
    after = [result(node, 1, figures=gemm(540 + n), cohort="h100/590") for n, node in enumerate(NODES)]
    found = judged(fleet(*after))
    assert "slower than before as cohort h100/580.95.05" in found.cohorts[0]
    assert not [entry for entry in found.classes if entry.word == "bad"]
    same = [result(node, 1, cohort="h100/590") for node in NODES]
    assert not judged(fleet(*same)).cohorts


def test_nodes_of_one_rack_that_are_slow_are_told_as_such() -> None:
    racks = {node: f"r{index // 2}" for index, node in enumerate(NODES)}
    two = [result(node, 1 - n / 4, figures=gemm(500)) for node in NODES[:2] for n in range(4)]
    found = judged(fleet(*two), racks=racks)
    assert "rack r0: 2 of 2 are slow" in found.cohorts[0]


@pytest.mark.parametrize(
    ("more", "text"),
    [
        (result(BAD, 0.5, Status.PENDING, cause="preempted", summary="users came"), "still to do"),
        (result(BAD, 0.5, Status.OTHER, cause="no-log", summary="empty log"), "tried and not known"),
        (result(BAD, 0.5, Status.SKIPPED, summary="no fio"), "tried and not known"),
        (result(BAD, 0.5, figures=gemm(float("nan"))), "no measurement"),
        (result(BAD, 0.5, figures=gemm(-1.0)), "no measurement"),
        (result(BAD, 0.5, figures=gemm(600, unit="furlong/s")), "nothing says which way"),
        (result(BAD, 0.5, figures=()), "lacks gemm_bf16"),
    ],
)
def test_what_was_not_seen_is_unknown(more: NodeResult, text: str) -> None:
    found = judged(fleet(more))
    assert word(found) == "unknown" and text in why(found) and others(found) == {"healthy"}


def test_never_tested_too_old_and_from_the_future_are_unknown() -> None:
    rest = tuple(node for node in NODES if node != BAD)
    assert word(judged(fleet(nodes=rest))) == "unknown"
    assert word(judged(fleet(result(BAD, 8), nodes=rest))) == "unknown"
    assert word(judged(fleet(result(BAD, 6), nodes=rest))) == "healthy"
    assert word(judged(fleet(result(BAD, -1), nodes=rest))) == "unknown"
    assert word(judged(fleet(), (*NODES, "gpu99")), "gpu99") == "unknown"


def test_a_test_that_says_nothing_of_such_hosts_is_not_owed() -> None:
    """domain.md T211: where rails are isolated every node was unknown for ever for a loop that it cannot have."""
    skipped = [node_result("c1", node, "loop", Status.SKIPPED, figures=(), digests={}, started_s=NOW - DAY,
                           summary="rails do not reach each other") for node in NODES]  # fmt: skip
    found = classify("c9", NODES, ("dl", "loop"), [*fleet(), *skipped], NOW, figure_rules())
    assert {entry.word for entry in found.classes} == {"healthy"} and "loop: skipped: rails" in why(found)
    alone = classify("c9", NODES, ("loop",), skipped, NOW, figure_rules())
    assert {entry.word for entry in alone.classes} == {"unknown"}
    (facts,) = coverage(NODES, {"loop": 7.0}, alone.records, NOW)
    assert facts.nodes == 0


def test_two_tests_count_both() -> None:
    found = classify("c9", NODES, ("dl", "fio"), fleet(), NOW, figure_rules())
    assert {entry.word for entry in found.classes} == {"unknown"}
    assert "fio: no result" in why(found)


def test_a_marginal_result_is_a_suspect() -> None:
    assert word(judged(fleet(result(BAD, 0.5, rating=Rating.MARGINAL)))) == "suspect"


def test_bits_unlike_those_of_most_are_a_hard_fact() -> None:
    def bits(word: str) -> dict[str, str]:
        return {"GPU-a": "0f", "GPU-b": word}

    results = fleet(digests=bits("0f"))
    found = judged([*results, result(BAD, digests=bits("1f"))])
    assert word(found) == "bad" and "GPU-b computed other bits" in why(found) and others(found) == {"healthy"}
    assert "20 GPUs" in why(found) and "19 of" in why(found)
    again = [result(BAD, 0.7 - n / 4, digests=bits("0f")) for n in range(3)]
    assert word(judged([*results, result(BAD, digests=bits("1f")), *again[:2]])) == "bad"
    assert word(judged([*results, result(BAD, digests=bits("1f")), *again])) == "healthy"
    many = [result(node, digests=bits("1f")) for node in NODES[:4]]
    found = judged([*results, *many])
    assert word(found, "gpu00") == "suspect" and "before any of them" in found.cohorts[0]
    half = [result(node, digests={"GPU-a": "1f", "GPU-b": "1f"}) for node in NODES[:5]]
    found = judged([*results, *half])
    assert {entry.word for entry in found.classes} == {"unknown"} and "nobody can be named" in found.cohorts[0]
    few = fleet(digests={"GPU-a": "0f"}, nodes=NODES[:2])
    assert "2 digests of cohort" in why(judged(few, NODES[:2]), "gpu00")


def test_a_test_may_have_an_age_of_its_own() -> None:
    results = fleet(result(BAD, 6), nodes=tuple(node for node in NODES if node != BAD))
    limits = ClassLimits(stale_by_test={"dl": 5.0})
    assert word(judged(results)) == "healthy" and word(judged(results, limits=limits)) == "unknown"


def test_a_result_falls_due_long_before_it_is_too_old() -> None:
    """domain.md T210: with both at 7 days the whole site was unknown on every eighth day. Daily cycles at one hour."""
    limits = class_limits((seven_days(),), settings_for(ContinuousSettings, "continuous", {}), {"read": 1.0})
    assert (limits.fresh_days("dl"), limits.fresh_days("read")) == (14.0, 1.0)
    demand = Demand(test="dl", max_age_days=7.0)
    for cycle in range(1, 15):
        now_s = NOW + cycle * DAY - 120
        due, _since, _at = due_of(demand, TestHistory(known=result(BAD, 0)), {}, BatchLimits(), now_s)
        assert (due is not None) == (cycle > 7)
        found = classify("c", NODES, ("dl",), fleet(result(BAD, 0)), now_s, figure_rules(), limits)
        assert word(found) == "healthy"


def seven_days() -> NodeTest:
    return cast(NodeTest, SimpleNamespace(id="dl", peers=None, common=SimpleNamespace(days=7.0)))


def test_every_rate_of_the_dl_unit_test_is_compared() -> None:
    figures = [Figure(name=name, number=1.0, unit=unit) for name, unit in RATES.items()]
    assert [figure_rules().better(figure) for figure in figures] == [Better.HIGHER] * len(RATES)
