# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Taking over results that another tool kept: its table is read strictly, and its claims decide nothing alone."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from service_rows import SITE

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.errors import BringupError
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.model import Status
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.store.care import thin
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.store.database import Place
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.store.imported import (
    ImportPlan,
    import_claims,
    read_claims,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.store.service import ServiceStore, open_service

# The table of the continuous validation framework, as its page shows it.
TABLE = 'CREATE TABLE results ("Node" TEXT, "Test Name" TEXT, "Timestamp" INTEGER, "Result" TEXT)'
ROWS = (("001", "DL unit test", 1736367000, "Pass"), ("002", "DL unit test", 1736367000, "Fail"))
NOW_S = 1767225600.0
NOW = "2026-01-01T00:00:00.000Z"


def database(path: Path, table: str = TABLE, rows: Sequence[tuple[Any, ...]] = ROWS, *more: str) -> Path:
    path.unlink(missing_ok=True)
    with closing(sqlite3.connect(path)) as opened, opened as connection:
        connection.execute(table)
        for row in rows:
            connection.execute(f"INSERT INTO results VALUES ({', '.join('?' * len(row))})", row)
        for statement in more:
            connection.execute(statement)
    return path


def plan(**changes: Any) -> ImportPlan:
    return ImportPlan(**({"site": SITE, "rehearsal": False, "source": "validation.db"} | changes))


def taken(store: ServiceStore, path: Path, **changes: Any) -> int:
    return import_claims(store, read_claims(path, NOW_S), plan(**changes), NOW, write=True)


def test_the_rows_are_claims_that_no_test_of_ours_has(place: Place, tmp_path: Path) -> None:
    store = open_service(place)
    before = database(tmp_path / "validation.db").read_bytes()
    assert taken(store, tmp_path / "validation.db", nodes={"001": "gpu001"}) == 2
    found = store.latest(SITE, rehearsal=False)
    assert set(found) == {("gpu001", "imported/DL unit test"), ("002", "imported/DL unit test")}
    good, bad = found["gpu001", "imported/DL unit test"], found["002", "imported/DL unit test"]
    assert (good.status, good.started_s, good.cohort) == (Status.PASSED, 1736367000.0, "imported")
    assert bad.status is Status.FAILED and bad.summary.endswith("DL unit test of node 002: Fail")
    (cycle,) = store.cycles(SITE, rehearsal=False)
    assert cycle.started == "2025-01-08T20:10:00.000Z" and cycle.controller == "imported" and "SHA-256" in cycle.note
    assert (tmp_path / "validation.db").read_bytes() == before


def test_a_test_of_theirs_is_one_of_ours_if_a_person_says_so(place: Place, tmp_path: Path) -> None:
    store = open_service(place)
    path = database(tmp_path / "validation.db", TABLE, [*ROWS, ("001", "dl-unit", 1736367001, "Pass")])
    assert taken(store, path, tests={"DL unit test": "dl-unit"}) == 3
    found = store.latest(SITE, rehearsal=False)
    assert found["001", "dl-unit"].started_s == 1736367000.0
    assert ("001", "imported/dl-unit") in found, "the same name by chance is not enough"


def test_imported_again_only_what_is_new_is_written(place: Place, tmp_path: Path) -> None:
    store = open_service(place)
    path = database(tmp_path / "validation.db")
    assert import_claims(store, read_claims(path, NOW_S), plan(), NOW, write=False) == 2
    assert store.latest(SITE, rehearsal=False) == {}
    assert [taken(store, path), taken(store, path)] == [2, 0]
    database(
        path, TABLE, [*ROWS, ("001", "DL unit test", 1736400000, "Fail"), ("001", "DL unit test", 1736500000, "Pass")]
    )
    assert [taken(store, path), taken(store, path)] == [2, 0]
    times = [result.started_s for result in store.results(SITE, rehearsal=False, since_s=0, nodes=["001"])]
    assert times == [1736367000.0, 1736400000.0, 1736500000.0]
    assert thin(store, SITE, rehearsal=False, before_s=NOW_S, write=True).results == 1
    assert taken(store, path) == 0, "what became a figure of its day is not counted twice"


@pytest.mark.parametrize(
    ("table", "time"),
    [
        ("CREATE TABLE results (node TEXT, test_name TEXT, timestamp REAL, result TEXT)", 1736367000.0),
        ('CREATE TABLE results (HostName TEXT, "test" TEXT, epoch TEXT, "Status" TEXT)', "1736367000"),
        ("CREATE TABLE results (node_id TEXT, test_type TEXT, ts INTEGER, outcome TEXT)", 1736367000000),
        ("CREATE TABLE results (node TEXT, test TEXT, time TEXT, verdict TEXT)", "2025-01-08 20:10:00"),
        ("CREATE TABLE results (node TEXT, test TEXT, time TEXT, verdict TEXT)", "2025-01-08T21:10:00+01:00"),
    ],
)
def test_columns_and_times_may_be_written_otherwise(tmp_path: Path, table: str, time: object) -> None:
    path = database(tmp_path / "v.db", table, [("001", "nccl", time, "PASSED")])
    (row,) = read_claims(path, NOW_S).rows
    assert (row.node, row.test, row.at_s, row.status) == ("001", "nccl", 1736367000.0, Status.PASSED)


@pytest.mark.parametrize("word", ["Timeout", "Pending", "passed?", "not ok"])
def test_a_result_that_is_no_known_word_is_no_pass(tmp_path: Path, word: str) -> None:
    (row,) = read_claims(database(tmp_path / "v.db", TABLE, [("001", "x", 1736367000, word)]), NOW_S).rows
    assert row.status is Status.OTHER


@pytest.mark.parametrize(
    ("table", "rows", "word"),
    [
        ("CREATE TABLE results (node TEXT, test TEXT, time TEXT)", [], "no table has them; tables: results"),
        (
            "CREATE TABLE results (node, test, time, result, status)",
            [],
            r"more than one column for result .result or status",
        ),
        ("CREATE TABLE results (node, host, test, time, result)", [], "more than one column for node"),
        (TABLE, [("", "x", 1736367000, "Pass")], "row 1: lacks a node"),
        (TABLE, [("1", "x", None, "Pass")], "time that cannot be read: ''"),
        (TABLE, [("1", "x", "yesterday", "Pass")], "time that cannot be read: 'yesterday'"),
        (TABLE, [("1", "x", 1736367000, "Pass"), ("2", "x", 1999999999, "Pass")], "row 2: is of the future"),
    ],
)
def test_a_table_that_is_not_clear_is_refused(
    tmp_path: Path, table: str, rows: list[tuple[Any, ...]], word: str
) -> None:
    with pytest.raises(BringupError, match=word) as error:
        read_claims(database(tmp_path / "v.db", table, rows), NOW_S)
    assert error.value.hint


def test_two_tables_that_may_be_meant_and_files_of_something_else_are_refused(tmp_path: Path) -> None:
    more = TABLE.replace("results", "old_results")
    with pytest.raises(BringupError, match=r"2 tables have them .old_results, results"):
        read_claims(database(tmp_path / "v.db", TABLE, ROWS, more), NOW_S)
    (tmp_path / "text").write_text("Node,Test Name\n" * 100)
    for path, word in ((tmp_path / "text", "no SQLite database"), (tmp_path / "none", "No such file")):
        with pytest.raises(BringupError, match=word):
            read_claims(path, NOW_S)
