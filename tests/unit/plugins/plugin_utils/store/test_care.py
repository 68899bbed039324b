# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Retention, export, backup and check of a history."""

from __future__ import annotations

import csv
import importlib.util
import os
import signal
import sqlite3
import subprocess
import sys
import threading
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import history_rows
import pytest
import service_rows
from service_rows import SITE, cycle, node_result

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.errors import BringupError
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.model import Status
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.store.care import Thinned, back_up, problems_of, thin
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.store.database import Place, place_of
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.store.export import export
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.store.history import open_store
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.store.records import (
    DayCount,
    DayFigure,
    Figure,
    NodeClass,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.store.service import ServiceStore, open_service
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.store.tables import tables

DAY_S = 86400.0


def figure(number: float, part: str = "GPU-a") -> tuple[Figure, ...]:
    return (Figure(name="gemm_bf16", number=number, unit="TFLOP/s", part=part),)


def three_days(store: ServiceStore) -> None:
    """Write two results a day of one node: the first passed, the other failed on the first day and passed after it."""
    for number in range(6):
        store.begin_cycle(replace(cycle(f"c{number}"), started=f"1970-01-0{number // 2 + 1}T00:00:00.000Z"))
        status = Status.FAILED if number == 1 else Status.PASSED
        at_s = DAY_S * (number // 2) + 100 * number
        store.add_result(node_result(f"c{number}", status=status, started_s=at_s, figures=figure(600.0 + number)))
        words = [("gpu01", "healthy"), ("gpu02", "suspect")]
        store.add_classes([NodeClass(cycle_id=f"c{number}", node=node, word=word) for node, word in words])


def test_older_results_become_figures_of_a_day_and_the_last_ones_stay(place: Place) -> None:
    store = open_service(place)
    three_days(store)
    latest, parts = store.latest(SITE, rehearsal=False), store.parts(SITE, rehearsal=False)
    assert thin(store, SITE, rehearsal=False, before_s=9 * DAY_S, write=False) == Thinned(4, 6)
    assert thin(store, SITE, rehearsal=False, before_s=2 * DAY_S, write=True) == Thinned(3, 4)
    left = store.results(SITE, rehearsal=False, since_s=0)
    assert [result.cycle_id for result in left] == ["c1", "c4", "c5"], "the only failure stays, however old it is"
    known = {"node": "gpu01", "test": "dl"}
    assert store.days(SITE, rehearsal=False) == (
        DayCount(day="1970-01-01", status="passed", results=1, **known),
        DayCount(day="1970-01-02", status="passed", results=2, **known),
    )
    assert store.day_figures(SITE, rehearsal=False)[1] == DayFigure(
        day="1970-01-02", cohort="h100/580.95.05", part="GPU-a", name="gemm_bf16", unit="TFLOP/s", results=2,
        lowest=602.0, highest=603.0, total=1205.0, **known,
    )  # fmt: skip
    assert store.latest(SITE, rehearsal=False) == latest and store.parts(SITE, rehearsal=False) == parts
    words = [(entry.cycle_id, entry.word) for entry in store.classes(SITE, rehearsal=False)]
    assert words[:5] == [("c0", "suspect"), ("c1", "suspect"), ("c2", "suspect"), ("c3", "suspect"), ("c4", "healthy")]
    assert thin(store, SITE, rehearsal=False, before_s=2 * DAY_S, write=True) == Thinned(0, 0)
    assert problems_of(store) == ()


def test_days_that_are_thinned_in_parts_add_up(place: Place) -> None:
    store = open_service(place)
    for number, at_s in enumerate((10.0, 20.0, 30.0, 40.0)):
        store.begin_cycle(cycle(f"c{number}"))
        store.add_result(node_result(f"c{number}", started_s=at_s, figures=figure(100.0 - number)))
    assert [thin(store, SITE, rehearsal=False, before_s=at_s, write=True).results for at_s in (15, 25, 35)] == [1, 1, 1]
    (count,) = store.days(SITE, rehearsal=False)
    (found,) = store.day_figures(SITE, rehearsal=False)
    assert count.results == 3
    assert (found.results, found.lowest, found.highest, found.total) == (3, 98.0, 100.0, 297.0)


def test_other_sites_and_rehearsals_are_left_alone(place: Place) -> None:
    store = open_service(place)
    for name, more in (("theirs", {"site": "mainland"}), ("ours", {"rehearsal": True})):
        for number in range(2):
            store.begin_cycle(cycle(f"{name}{number}", **more))
            store.add_result(node_result(f"{name}{number}", started_s=float(number)))
    store.begin_cycle(cycle())
    assert thin(store, SITE, rehearsal=False, before_s=1e9, write=True) == Thinned(0, 0)
    assert len(store.results("mainland", rehearsal=False, since_s=0)) == 2


THINNER = """
import sys
sys.path.insert(0, sys.argv[1])
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.store import care
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.store.database import place_of
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.store.service import open_service
care._AT_A_TIME = 3
store = open_service(place_of(sys.argv[2]))
print("ready", flush=True)
care.thin(store, "island", rehearsal=False, before_s=1e9, write=True)
"""


def test_a_killed_retention_counts_every_result_once(tmp_path: Path) -> None:
    store = open_service(tmp_path / "history.sqlite")
    for number in range(60):
        store.begin_cycle(cycle(f"c{number}"))
        store.add_result(node_result(f"c{number}", started_s=float(number)))
    for delay_s in (0.0, 0.01, 0.03, 0.06):
        words = [sys.executable, "-c", THINNER, str(Path(service_rows.__file__).parent), str(store.path)]
        environment = {"PYTHONPATH": ":".join(entry for entry in sys.path if entry)}
        thinner = subprocess.Popen(words, env=environment, stdout=subprocess.PIPE, text=True)
        assert thinner.stdout is not None and thinner.stdout.readline() == "ready\n"
        threading.Event().wait(delay_s)
        thinner.send_signal(signal.SIGKILL)
        thinner.communicate(timeout=60)
        there = len(store.results(SITE, rehearsal=False, since_s=0))
        assert there + sum(count.results for count in store.days(SITE, rehearsal=False)) == 60
    thin(store, SITE, rehearsal=False, before_s=1e9, write=True)
    assert [count.results for count in store.days(SITE, rehearsal=False)] == [59]
    assert problems_of(store) == ()


def test_an_export_has_every_result_figure_and_day(place: Place, tmp_path: Path) -> None:
    store = open_service(place)
    three_days(store)
    store.begin_cycle(cycle("c9"))
    store.add_result(node_result("c9", node="gpu02", status=Status.FAILED, started_s=9e5, summary='=1+1, "quoted"'))
    thin(store, SITE, rehearsal=False, before_s=2 * DAY_S, write=True)
    dest = tmp_path / "out"
    assert export(store, SITE, dest, ("csv",), rehearsal=False) == {
        "results.csv": 4, "figures.csv": 4, "days.csv": 2, "day_figures.csv": 2,
        "gates.csv": 0, "gate_results.csv": 0, "gate_figures.csv": 0,
    }  # fmt: skip
    with (dest / "results.csv").open(newline="") as handle:
        rows = {row["cycle_id"]: row for row in csv.DictReader(handle)}
    assert rows["c9"]["summary"] == '\'=1+1, "quoted"' and rows["c5"]["status"] == "passed"
    with (dest / "figures.csv").open(newline="") as handle:
        assert [float(row["number"]) for row in csv.DictReader(handle)][:3] == [601.0, 604.0, 605.0]
    assert {path.name for path in dest.iterdir()} == {
        "day_figures.csv", "days.csv", "figures.csv", "results.csv",
        "gates.csv", "gate_results.csv", "gate_figures.csv",
    }  # fmt: skip


def test_an_export_has_what_gates_found_in_the_runs_of_the_site_alone(tmp_path: Path) -> None:
    place = tmp_path / "history.sqlite"
    drivers, busbw = history_rows.drivers(), history_rows.figure(busbw=470.0)
    history_rows.record(open_store(place), "nodes", drivers, run_id="run-1")
    history_rows.record(open_store(place), "fabric_validation", [busbw], run_id="run-1")
    store, dest = open_service(place), tmp_path / "out"
    written = export(store, "island", dest, ("csv",), rehearsal=False)
    assert (written["gates.csv"], written["gate_results.csv"]) == (2, len(drivers) + 1)
    with (dest / "gate_figures.csv").open(newline="") as handle:
        numbers = [row["number"] for row in csv.DictReader(handle) if row["gate"] == "fabric_validation"]
    assert "470.0" in numbers
    with (dest / "gates.csv").open(newline="") as handle:
        assert [(row["run_id"], row["gate"], row["status"]) for row in csv.DictReader(handle)] == [
            ("run-1", "nodes", "passed"), ("run-1", "fabric_validation", "passed"),
        ]  # fmt: skip
    for site, rehearsal in (("island", True), ("other", False)):
        assert sum(export(store, site, dest, ("csv",), rehearsal=rehearsal).values()) == 0


def test_parquet_needs_its_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = open_service(tmp_path / "history.sqlite")
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(BringupError, match="pyarrow: is not installed"):
        export(store, SITE, tmp_path / "out", ("csv", "parquet"), rehearsal=False)
    assert not (tmp_path / "out").exists()


@pytest.mark.skipif(importlib.util.find_spec("pyarrow") is None, reason="pyarrow, which no user must have, is not here")
def test_parquet_has_the_same_rows_with_their_types(tmp_path: Path) -> None:
    from pyarrow import parquet

    store = open_service(tmp_path / "history.sqlite")
    three_days(store)
    written = export(store, SITE, tmp_path / "out", ("csv", "parquet"), rehearsal=False)
    assert written["figures.parquet"] == written["figures.csv"] == 6
    table = parquet.read_table(tmp_path / "out" / "figures.parquet")
    assert table.column("number").to_pylist()[0] == 600.0 and str(table.schema.field("started_s").type) == "double"
    assert parquet.read_table(tmp_path / "out" / "days.parquet").num_rows == 0


def test_a_backup_is_one_whole_file_while_others_write(tmp_path: Path) -> None:
    store = open_service(tmp_path / "history.sqlite")
    store.begin_cycle(cycle())
    dest = tmp_path / "backup" / "copy.sqlite"
    done = threading.Event()

    def write() -> None:
        for number in range(400):
            if done.is_set():
                return
            store.add_result(node_result(node=f"gpu{number}", started_s=float(number)))

    writer = threading.Thread(target=write)
    writer.start()
    try:
        sizes = [back_up(store.path, dest) for unused in range(3)]
    finally:
        done.set()
        writer.join(timeout=60)
    assert sizes[-1] == dest.stat().st_size
    assert sorted(path.name for path in dest.parent.iterdir()) == ["copy.sqlite"]
    assert dest.stat().st_mode & 0o777 == 0o600
    copy = open_service(dest)
    found = copy.results(SITE, rehearsal=False, since_s=0)
    assert [result.node for result in found] == [f"gpu{number}" for number in range(len(found))]
    assert problems_of(copy) == ()


def test_a_damaged_history_leaves_the_last_backup_as_it_is(tmp_path: Path) -> None:
    store = open_service(tmp_path / "history.sqlite")
    store.begin_cycle(cycle())
    dest = tmp_path / "copy.sqlite"
    back_up(store.path, dest)
    whole = dest.read_bytes()
    for number in range(50):
        store.add_result(node_result(node=f"gpu{number}", started_s=float(number)))
    assert isinstance(store.path, Path)
    with closing(sqlite3.connect(store.path)) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    data = bytearray(store.path.read_bytes())
    data[8192:16384] = os.urandom(8192)
    store.path.write_bytes(data)
    with pytest.raises(BringupError, match=r"cannot be copied whole|damaged"):
        back_up(store.path, dest)
    assert dest.read_bytes() == whole and sorted(tmp_path.glob(".*")) == []
    try:
        assert problems_of(open_service(store.path)) != ()
    except BringupError as error:
        assert "damaged" in str(error)


def test_a_backup_is_never_the_history_itself_and_none_of_a_server(tmp_path: Path) -> None:
    store = open_service(tmp_path / "history.sqlite")
    (tmp_path / "link").symlink_to(tmp_path / "history.sqlite")
    for dest in (tmp_path / "history.sqlite", tmp_path / "link"):
        with pytest.raises(BringupError, match="is the history itself"):
            back_up(store.path, dest)
    with pytest.raises(BringupError, match="PostgreSQL") as error:
        back_up(place_of("postgresql://ops:hidden@db/gpufleet"), tmp_path / "copy")
    assert "pg_dump" in error.value.hint and "hidden" not in str(error.value)


@pytest.mark.parametrize(
    ("change", "word"),
    [
        (lambda t: t.node_last.update().values(started_s=5e9), "is another's"),
        (lambda t: t.node_last.update().where(t.node_last.c.kind == "passed").values(result_id=2), "is another's"),
        (lambda t: t.node_last.delete().where(t.node_last.c.kind == "tried"), "a newer result is there"),
    ],
)
def test_what_would_make_a_node_look_fresh_is_found(place: Place, change: object, word: str) -> None:
    store = open_service(place)
    store.begin_cycle(cycle())
    store.add_result(node_result())
    store.add_result(node_result(node="gpu02", status=Status.FAILED))
    store.add_result(node_result(node="gpu03", status=Status.PENDING))
    assert problems_of(store) == ()
    with store.engine.begin() as connection:
        assert callable(change)
        connection.execute(change(tables().service))
    assert any(word in problem for problem in problems_of(store))
