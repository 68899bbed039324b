# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the queue reads of a history: as much as it needs, so that the plan is that of the whole history."""

from __future__ import annotations

from pathlib import Path

import pytest
from seeds import drawing
from service_rows import SITE, cycle, node_result

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.features.continuous.node_history import (
    BatchLimits,
    Demand,
    histories_by_test,
    parts_now,
    saved_state,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.features.continuous.queue import QueueNode, plan_batch
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.model import Status
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.store.records import NodeResult
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.store.service import ServiceStore, open_service

NOW, DAY = 1795435200.0, 86400.0
DEMANDS = (Demand(test="dl", max_age_days=7.0), Demand(test="fio", max_age_days=3.0))


def filled(path: Path, results: list[NodeResult]) -> ServiceStore:
    store = open_service(path / "history.sqlite")
    for number, result in enumerate(results):
        store.begin_cycle(cycle(result.cycle_id, day=number % 28 + 1))
        assert store.add_result(result)
    return store


def read(store: ServiceStore) -> list[NodeResult]:
    return saved_state(store, SITE, rehearsal=False, now_s=NOW)


def test_a_year_of_answers_is_read_as_the_newest_of_each(tmp_path: Path) -> None:
    days = [node_result(f"c{day}", started_s=NOW - day * DAY) for day in (300, 200, 100, 2)]
    old = node_result("d", started_s=NOW - 40 * DAY, status=Status.PENDING, test="fio")
    assert [result.cycle_id for result in read(filled(tmp_path, [*days, old]))] == ["c2"]


def test_what_said_nothing_brings_its_tries_and_what_was_known_before(tmp_path: Path) -> None:
    results = [
        node_result("c1", started_s=NOW - 90 * DAY, status=Status.FAILED),
        *(node_result(f"c{n}", started_s=NOW - n * 3600.0, status=Status.OTHER) for n in (2, 3, 4)),
        node_result("c9", node="gpu02", started_s=NOW - DAY),
        node_result("c8", node="gpu02", started_s=NOW - 2 * DAY),
    ]
    known = histories_by_test(read(filled(tmp_path, results)), NOW)
    standing = known["gpu01", "dl"]
    assert standing.tries == 3 and standing.known is not None and standing.known.status is Status.FAILED
    assert set(known) == {("gpu01", "dl"), ("gpu02", "dl")}


def test_a_result_from_the_future_does_not_hide_those_before_it(tmp_path: Path) -> None:
    results = [node_result("c1", started_s=NOW - DAY), node_result("c2", started_s=NOW + 300 * DAY)]
    standing = histories_by_test(read(filled(tmp_path, results)), NOW)["gpu01", "dl"]
    assert standing.misdated == 1 and standing.known is not None and standing.known.cycle_id == "c1"


def test_what_is_in_a_node_is_what_was_seen_there_last() -> None:
    results = [
        node_result("c1", started_s=NOW - 9, parts={"gpu0": "a", "gpu1": "b"}),
        node_result("c2", test="nccl", started_s=NOW - 5, parts={"gpu0": "c", "nic0": "m"}),
        node_result("c3", test="fio", started_s=NOW - 7, parts={"nic0": "x"}),
        node_result("c4", started_s=NOW - 1, parts={"gpu0": "z"}, status=Status.PENDING),
        node_result("c5", started_s=NOW + 900, parts={"gpu0": "z"}),
    ]
    assert parts_now(results, NOW) == {"gpu01": {"gpu0": "c", "nic0": "m"}}
    assert parts_now(reversed(results), NOW) == parts_now(results, NOW)


@pytest.mark.parametrize("turn", range(2))
def test_the_plan_is_that_of_the_whole_history(tmp_path: Path, turn: int) -> None:
    random = drawing(f"remembered {turn}")
    ends = [Status.PASSED] * 4 + [Status.FAILED, Status.OTHER, Status.PENDING, Status.SKIPPED]
    nodes = [QueueNode(name=f"gpu{n:02}") for n in range(12)]
    results = [
        node_result(
            f"c{n}", node=random.choice(nodes).name, test=random.choice(["dl", "fio"]), status=random.choice(ends),
            started_s=NOW - random.choice([random.uniform(0, DAY), random.uniform(0, 25 * DAY)]), parts={},
        )
        for n in range(50)
    ]  # fmt: skip
    store = filled(tmp_path, results)
    # Given back before the last day is forgotten: it only changes who lets whom go first.
    whole = [result for result in results if result.status is not Status.PENDING or result.started_s >= NOW - DAY]

    def plan(known: list[NodeResult]) -> set[tuple[str, str]]:
        made = plan_batch(nodes, DEMANDS, histories_by_test(known, NOW), (), BatchLimits(size=100), NOW)
        return {(position.node, due.test) for position in made.positions for due in position.tests}

    assert plan(read(store)) == plan(whole)
