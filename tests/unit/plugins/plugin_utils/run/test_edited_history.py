# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""No edit of a history lets a gate be taken over that did not pass: it is a plain file, and nothing signs it."""

from __future__ import annotations

import random
import sqlite3
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from resumed_runs import OPTIONS, PLACE, make_run, prove_nodes
from seeds import drawing

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.errors import BringupError
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.run.resume import resume
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.run.run import Run

_WORDS = ("passed", "good", "failed", "", "gpu01", "island", "2026-11-22T09:00:00Z", "{}", 0, 1, 99)


def failed_since(base: Path, store: Path) -> Run:
    prove_nodes(make_run(base, "run-1"), store, saved=True)
    prove_nodes(make_run(base, "run-2", day=21), store, day=21, bad="gpu02", saved=True)
    return make_run(base, "run-3", day=22)


def too_old(base: Path, store: Path) -> Run:
    prove_nodes(make_run(base, "run-1", day=10), store, day=10, saved=True)
    return make_run(base, "run-3", day=22)


def a_rehearsal(base: Path, store: Path) -> Run:
    run = make_run(base, "run-1", replace(PLACE, rehearsal=True))
    run.save_record(replace(run.record, rehearsal=True))
    prove_nodes(Run(run.path), store, saved=True)
    return make_run(base, "run-3", day=22)


def another_kernel(base: Path, store: Path) -> Run:
    prove_nodes(make_run(base, "run-1", kernels="6.8,6.9"), store, saved=True)
    return make_run(base, "run-3", kernels="6.9", day=22)


WORLDS: tuple[Callable[[Path, Path], Run], ...] = (failed_since, too_old, a_rehearsal, another_kernel)


def edited(history: sqlite3.Connection, draw: random.Random) -> str:
    """Take a row away, or put another value into it, or one of another row, and return what was done."""
    names = [row[0] for row in history.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
    counts = {name: history.execute(f"SELECT count(*) FROM {name}").fetchone()[0] for name in names}
    table = draw.choice(sorted(name for name, rows in counts.items() if rows))
    rows = [row[0] for row in history.execute(f"SELECT rowid FROM {table}")]
    column = draw.choice([row[1] for row in history.execute(f"PRAGMA table_info({table})")])
    how = draw.choice(("row", "rows", "value", "values", "of another"))
    where = "" if how in ("rows", "values") else f" WHERE rowid = {draw.choice(rows)}"
    if how.startswith("row"):
        history.execute(f"DELETE FROM {table}{where}")
        return f"{how} of {table}{where}"
    value: Any = draw.choice(_WORDS)
    if how == "of another":
        value = history.execute(f"SELECT {column} FROM {table} WHERE rowid = ?", (draw.choice(rows),)).fetchone()[0]
    history.execute(f"UPDATE OR REPLACE {table} SET {column} = ?{where}", (value,))
    return f"{how}: {table}.{column} = {value!r}{where}"


def one_edit(history: sqlite3.Connection, draw: random.Random) -> str:
    while True:
        try:
            return edited(history, draw)
        except sqlite3.IntegrityError:
            # A number, or none, where the table takes no such value.
            continue


def taken_over(run: Run, store: Path, **options: str) -> list[str]:
    said = resume(run, OPTIONS | {"store": str(store), "stale": "refuse"} | options, lambda _line: None)
    return list(said["taken_over"])


@pytest.mark.quickly(4)
@pytest.mark.parametrize("number", range(8))
@pytest.mark.parametrize("world", WORLDS)
def test_no_edit_of_a_history_makes_a_pass(world: Callable[[Path, Path], Run], number: int, tmp_path: Path) -> None:
    whole, draw = tmp_path / "history.sqlite", drawing(f"edits of a history, {world.__name__} {number}")
    run = world(tmp_path, whole)
    with pytest.raises(BringupError):
        taken_over(run, whole)
    for edits in (1, 1, 2, 3):
        store = tmp_path / "edited.sqlite"
        store.unlink(missing_ok=True)
        with closing(sqlite3.connect(whole)) as before, closing(sqlite3.connect(store)) as history:
            before.backup(history)
            what = [one_edit(history, draw) for _edit in range(edits)]
            history.commit()
        try:
            found = taken_over(run, store)
        except BringupError:
            # It is refused in a sentence; anything else is a crash, and the test fails.
            continue
        assert found == [], what


@pytest.mark.parametrize("gone", ["outcome", "run", "gate"])
def test_a_failure_that_was_taken_out_of_the_history_is_found_in_its_run(gone: str, tmp_path: Path) -> None:
    store, said = tmp_path / "history.sqlite", list[str]()
    run = failed_since(tmp_path, store)
    with closing(sqlite3.connect(store)) as history:
        assert history.execute(f"DELETE FROM {gone} WHERE run_id = 'run-2'").rowcount
        history.commit()
    with pytest.raises(BringupError, match="cannot be taken over"):
        resume(run, OPTIONS | {"store": str(store)}, said.append)
    assert any("not passed since in run run-2" in line for line in said) is (gone != "outcome"), said


def test_what_passed_again_after_a_failure_counts(tmp_path: Path) -> None:
    store = tmp_path / "history.sqlite"
    run = failed_since(tmp_path, store)
    again = make_run(tmp_path, "run-2b", day=22)
    prove_nodes(again, store, day=22, saved=True)
    assert taken_over(run, store) == ["nodes"]


def test_a_run_that_only_took_over_or_is_of_another_kind_says_nothing(tmp_path: Path) -> None:
    store = tmp_path / "history.sqlite"
    prove_nodes(make_run(tmp_path, "run-1"), store, saved=True)
    assert taken_over(make_run(tmp_path, "run-2", day=21), store) == ["nodes"]
    for name, site in (("run-3", replace(PLACE, name="other")), ("run-4", replace(PLACE, rehearsal=True))):
        beside = make_run(tmp_path, name, site, day=21)
        prove_nodes(beside, tmp_path / "other.sqlite", day=21, bad="gpu02", saved=True)
    assert taken_over(make_run(tmp_path, "run-5", day=22), store) == ["nodes"]
