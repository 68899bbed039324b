# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""What is remembered of a cluster in service: results, the newest of each, parts, classes, cordons, acceptances."""

from __future__ import annotations

import sqlite3
from dataclasses import replace
from pathlib import Path

import pytest
from history_rows import drivers, record
from service_rows import SITE, cycle, node_result
from sqlalchemy.event import listen

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.errors import BringupError
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.model import Status
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.store.database import Place
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.store.history import open_store
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.store.records import NodeClass, OurCordon, PartPeriod
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.store.service import ServiceStore, open_service


@pytest.fixture
def store(place: Place) -> ServiceStore:
    found = open_service(place)
    found.begin_cycle(cycle())
    return found


def test_a_cycle_is_remembered_from_its_beginning_to_its_end(store: ServiceStore) -> None:
    store.begin_cycle(cycle("c2", day=2))
    store.begin_cycle(cycle("of a rehearsal", rehearsal=True))
    store.begin_cycle(replace(cycle("c2", day=3), controller="ctl2"))
    store.end_cycle("c1", "2026-11-01T11:00:00Z", "window closed")
    first, second = store.cycles(SITE, rehearsal=False)
    assert (first.ended, first.note) == ("2026-11-01T11:00:00Z", "window closed")
    assert second == cycle("c2", day=2), "a cycle that is resumed stays the one that began"
    assert store.cycles(SITE, rehearsal=False, since="2026-11-02") == (second,)


def test_a_cycle_of_another_site_has_another_name(store: ServiceStore) -> None:
    with pytest.raises(BringupError, match="of site island"):
        store.begin_cycle(cycle(site="mainland"))
    for act in (
        lambda: store.end_cycle("c9", "now"),
        lambda: store.add_result(node_result("c9")),
        lambda: store.take_lease("gpu01", "dl", "c9", 0, 1),
        lambda: store.add_classes([NodeClass(cycle_id="c9", node="gpu01", word="bad")]),
    ):
        with pytest.raises(BringupError, match="cycle c9: is not in the history"):
            act()


def test_a_result_comes_back_as_it_was_written(store: ServiceStore) -> None:
    result = node_result()
    assert store.add_result(result)
    assert store.latest(SITE, rehearsal=False) == {("gpu01", "dl"): result}
    assert store.results(SITE, rehearsal=False, since_s=0) == (result,)
    assert store.latest(SITE, rehearsal=True) == {} == store.latest("mainland", rehearsal=False)


def test_times_and_words_are_read_without_figures_and_digests(store: ServiceStore) -> None:
    result = node_result()
    store.add_result(result)
    small = replace(result, figures=(), digests={})
    assert store.latest(SITE, rehearsal=False, whole=False) == {("gpu01", "dl"): small}
    assert store.last(SITE, "passed", rehearsal=False, whole=False) == {("gpu01", "dl"): small}
    assert store.results(SITE, rehearsal=False, since_s=0, whole=False) == (small,)


def test_the_first_result_of_a_cycle_stays(store: ServiceStore) -> None:
    failed = node_result(status=Status.FAILED, cause="digest-mismatch")
    assert store.add_result(failed)
    assert not store.add_result(failed)
    assert not store.add_result(node_result(started_s=2000.0))
    assert store.results(SITE, rehearsal=False, since_s=0) == (failed,)


def test_what_was_given_back_may_be_tried_again_and_is_never_the_newest(store: ServiceStore) -> None:
    given_back = node_result(status=Status.PENDING, cause="preempted")
    assert store.add_result(given_back)
    assert not store.add_result(given_back)
    assert store.latest(SITE, rehearsal=False) == {}
    again = node_result(started_s=3000.0)
    assert store.add_result(again)
    assert store.latest(SITE, rehearsal=False)["gpu01", "dl"] == again
    assert store.results(SITE, rehearsal=False, since_s=0) == (given_back, again)
    assert store.results(SITE, rehearsal=False, since_s=0, statuses=[Status.PENDING]) == (given_back,)
    assert store.results(SITE, rehearsal=False, since_s=2500, statuses=[Status.PENDING]) == ()


def test_recent_results_are_found_by_their_time_and_not_by_the_cycles_of_all_years(tmp_path: Path) -> None:
    # Of SQLite alone, which knows nothing of how many rows there are.
    store = open_service(tmp_path / "history.sqlite")
    asked: list[tuple[str, tuple[object, ...]]] = []
    listen(store.engine, "before_cursor_execute", lambda _c, _cursor, sql, given, *_rest: asked.append((sql, given)))
    store.results(SITE, rehearsal=False, since_s=1.0, whole=False)
    ((query, given),) = [told for told in asked if "started_s >=" in told[0]]
    with store.engine.begin() as connection:
        steps = [row[3] for row in connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {query}", given)]
    # Of the cycle only the one of each result is looked up.
    assert any("node_result_by_time" in step for step in steps), steps
    assert not any("cycle_of_site" in step or step.startswith("SCAN cycle") for step in steps), steps


@pytest.mark.parametrize("late", [False, True])
def test_the_newest_is_the_one_that_began_last(store: ServiceStore, late: bool) -> None:
    store.begin_cycle(cycle("c2", day=2))
    results = [node_result(), node_result("c2", status=Status.OTHER, started_s=5000.0, cause="timeout")]
    for result in reversed(results) if late else results:
        store.add_result(result)
    assert store.latest(SITE, rehearsal=False)["gpu01", "dl"].status is Status.OTHER
    assert store.last(SITE, "passed", rehearsal=False)["gpu01", "dl"] == results[0]
    assert store.last(SITE, "failed", rehearsal=False) == {}


def test_results_are_asked_for_by_node_test_and_time(store: ServiceStore) -> None:
    for number in range(4):
        store.add_result(node_result(node=f"gpu0{number}", started_s=1000.0 + number))
        store.add_result(node_result(node=f"gpu0{number}", test="fio", started_s=2000.0 + number))
    found = store.results(SITE, rehearsal=False, since_s=1001, nodes=["gpu00", "gpu02"], tests=["dl"])
    assert [(entry.node, entry.test) for entry in found] == [("gpu02", "dl")]
    assert len(store.results(SITE, rehearsal=False, since_s=1001)) == 7
    assert store.results(SITE, rehearsal=False, since_s=0, nodes=[]) == ()


def test_results_of_several_cycles_are_not_mixed_in_one_call(store: ServiceStore) -> None:
    with pytest.raises(BringupError, match="not of c1"):
        store.add_results("c1", [node_result(), node_result("c2")])
    assert store.results(SITE, rehearsal=False, since_s=0) == ()


def test_a_swapped_gpu_begins_a_new_history(store: ServiceStore) -> None:
    for number, part in enumerate(["GPU-a", "GPU-a", "GPU-x", "GPU-x", "GPU-a"]):
        store.begin_cycle(cycle(f"day{number}"))
        store.add_result(node_result(f"day{number}", started_s=100.0 * number, parts={"gpu0": part, "gpu1": "GPU-b"}))
    assert store.history_of(SITE, "gpu01", "gpu0", rehearsal=False) == (
        PartPeriod("gpu01", "gpu0", "GPU-a", 0.0, 100.0),
        PartPeriod("gpu01", "gpu0", "GPU-x", 200.0, 300.0),
        PartPeriod("gpu01", "gpu0", "GPU-a", 400.0, 400.0),
    )
    assert store.parts(SITE, rehearsal=False)["gpu01", "gpu1"] == PartPeriod("gpu01", "gpu1", "GPU-b", 0.0, 400.0)


@pytest.mark.parametrize(
    ("seen", "now"),
    [
        ([(10, "a"), (5, "a"), (20, "a")], [("a", 5, 20)]),
        ([(10, "a"), (5, "x"), (20, "a")], [("x", 5, 5), ("a", 10, 20)]),
        ([(1, "a"), (20, "a"), (10, "x")], [("a", 1, 1), ("x", 10, 10), ("a", 20, 20)]),
        ([(1, "a"), (20, "a"), (1, "x")], [("x", 1, 1), ("a", 20, 20)]),
        ([(1, "a"), (20, "a"), (20, "x")], [("a", 1, 20), ("x", 20, 20)]),
        ([(1, "a"), (2, "")], [("a", 1, 1)]),
    ],
)
def test_results_that_come_late_make_no_part_older_than_it_was_seen(
    store: ServiceStore, seen: list[tuple[float, str]], now: list[tuple[str, float, float]]
) -> None:
    for number, (at, part) in enumerate(seen):
        store.begin_cycle(cycle(f"day{number}"))
        store.add_result(node_result(f"day{number}", started_s=at, parts={"gpu0": part}))
    found = store.history_of(SITE, "gpu01", "gpu0", rehearsal=False)
    assert [(period.part, period.since_s, period.seen_s) for period in found] == now


def test_classes_are_those_of_the_cycle_whenever_they_are_written(store: ServiceStore) -> None:
    store.begin_cycle(cycle("c2", day=2))
    store.add_classes([NodeClass(cycle_id="c2", node="gpu01", word="bad", reasons=("3 of 3 failed",))])
    store.add_classes([NodeClass(cycle_id="c1", node="gpu01", word="suspect")])
    store.add_classes([NodeClass(cycle_id="c1", node="gpu01", word="unknown", action="label")])
    words = [(entry.cycle_id, entry.word) for entry in store.classes(SITE, rehearsal=False)]
    assert words == [("c1", "unknown"), ("c2", "bad")]
    (last,) = store.classes(SITE, rehearsal=False, since="2026-11-02")
    assert last.reasons == ("3 of 3 failed",)


def test_a_cordon_of_ours_is_open_until_it_is_lifted(store: ServiceStore) -> None:
    cordon = OurCordon(node="gpu01", by="c1", reason="digest-mismatch", since="2026-11-01T10:05:00Z")
    assert store.add_cordon(SITE, cordon, rehearsal=False)
    assert not store.add_cordon(SITE, replace(cordon, by="c2"), rehearsal=False)
    assert store.open_cordons(SITE, rehearsal=False) == {"gpu01": cordon}
    assert store.open_cordons(SITE, rehearsal=True) == {}
    assert store.lift_cordon(SITE, "gpu01", "2026-11-02T10:00:00Z", rehearsal=False)
    assert not store.lift_cordon(SITE, "gpu01", "2026-11-03T10:00:00Z", rehearsal=False)
    assert store.open_cordons(SITE, rehearsal=False) == {}
    assert store.add_cordon(SITE, replace(cordon, by="c2"), rehearsal=False)
    assert [entry.lifted for entry in store.cordons(SITE, rehearsal=False)] == ["2026-11-02T10:00:00Z", ""]


def test_a_history_of_version_4_keeps_what_it_has_and_gets_room(tmp_path: Path) -> None:
    path = tmp_path / "history.sqlite"
    old = open_store(path)
    record(old, "nodes", drivers())
    before = old.last_passes(SITE, rehearsal=False)
    with sqlite3.connect(path) as connection:
        connection.execute("PRAGMA foreign_keys = OFF")
        for (name,) in connection.execute(
            "SELECT name FROM sqlite_master WHERE type = 'table' AND (name LIKE 'node%' OR name IN"
            " ('cycle', 'lease', 'cordon', 'acceptance'))"
        ).fetchall():
            connection.execute(f"DROP TABLE {name}")
        connection.execute("UPDATE schema_version SET version = 4")
    connection.close()
    store = open_service(path)
    store.begin_cycle(cycle())
    assert store.add_result(node_result())
    assert open_store(path).last_passes(SITE, rehearsal=False) == before != ()
