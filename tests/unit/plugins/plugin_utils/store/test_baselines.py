# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Accepted figures in the history: what comes back, what is taken back, and a table that nobody read."""

from __future__ import annotations

import sqlite3
from dataclasses import replace
from pathlib import Path

import pytest
from figure_rows import GATE, accepted, fleet
from history_rows import drivers, record

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.errors import BringupError
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.store.baselines import (
    BaselineStore,
    Withdrawal,
    open_baselines,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.store.history import open_store
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.store.records import Acceptance

FIGURES = tuple(entry.figure for entry in accepted(fleet()).figures)
ACCEPTANCE = Acceptance(
    site="island", rehearsal=False, run_id="run-1", who="ada", accepted="2026-11-21T10:00:00Z", why="ticket 1"
)
BACK = Withdrawal(who="bob", withdrawn="2026-11-22T10:00:00Z", why="half of the fabric was idle")


@pytest.fixture
def store(tmp_path: Path) -> BaselineStore:
    return open_baselines(tmp_path / "history.sqlite")


def test_figures_come_back_with_their_conditions_and_who_accepted_them(store: BaselineStore) -> None:
    assert store.accept(ACCEPTANCE, {GATE: FIGURES}) == 1
    again = open_baselines(tmp := store.place).accepted_figures("island", rehearsal=False)
    assert tuple(entry.figure for entry in again) == FIGURES and str(tmp).endswith("history.sqlite")
    assert {(entry.gate, entry.run_id, entry.who) for entry in again} == {(GATE, "run-1", "ada")}
    (run,) = store.accepted_runs("island", rehearsal=False)
    assert (run.number, run.acceptance, len(run.figures), run.withdrawal) == (1, ACCEPTANCE, len(FIGURES), None)


def test_a_rehearsal_and_another_site_are_apart(store: BaselineStore) -> None:
    store.accept(replace(ACCEPTANCE, rehearsal=True), {GATE: FIGURES})
    store.accept(replace(ACCEPTANCE, site="other"), {GATE: FIGURES})
    assert store.accepted_figures("island", rehearsal=False) == ()
    assert len(store.accepted_figures("island", rehearsal=True)) == len(FIGURES)


def test_the_newest_counts_and_taking_it_back_brings_the_one_before(store: BaselineStore) -> None:
    first = FIGURES[0]
    store.accept(ACCEPTANCE, {GATE: (first,)})
    number = store.accept(replace(ACCEPTANCE, run_id="run-2"), {GATE: (replace(first, value=1.0),)})
    assert [entry.figure.value for entry in store.accepted_figures("island", rehearsal=False)] == [1.0]
    store.withdraw(number, BACK)
    assert [entry.figure for entry in store.accepted_figures("island", rehearsal=False)] == [first]
    assert [entry.withdrawal for entry in store.accepted_runs("island", rehearsal=False)] == [None, BACK]


def test_other_conditions_are_another_baseline(store: BaselineStore) -> None:
    first = FIGURES[0]
    rolled = replace(first, conditions={**first.conditions, "driver": "590"})
    store.accept(ACCEPTANCE, {GATE: (first,)})
    store.accept(replace(ACCEPTANCE, run_id="run-2"), {GATE: (rolled,)})
    assert len(store.accepted_figures("island", rehearsal=False)) == 2


def test_what_cannot_be_taken_back_is_refused(store: BaselineStore) -> None:
    number = store.accept(ACCEPTANCE, {GATE: FIGURES})
    with pytest.raises(BringupError, match="not in the history"):
        store.withdraw(number + 1, BACK)
    with pytest.raises(BringupError, match="lacks why"):
        store.withdraw(number, replace(BACK, why=" "))
    store.withdraw(number, BACK)
    with pytest.raises(BringupError, match="taken back by bob"):
        store.withdraw(number, BACK)
    with pytest.raises(BringupError, match="taken back by bob"):
        store.require_holding(number)
    with pytest.raises(BringupError, match="lacks who"):
        store.accept(replace(ACCEPTANCE, who=""), {GATE: FIGURES})


def test_a_history_of_version_5_loses_the_table_that_nobody_read(tmp_path: Path) -> None:
    path = tmp_path / "history.sqlite"
    record(open_store(path), "nodes", drivers())
    connection = sqlite3.connect(path)
    connection.execute("CREATE TABLE baseline (run_id VARCHAR)")
    connection.execute("DROP TABLE accepted_figure")
    connection.execute("DROP TABLE withdrawal")
    connection.execute("UPDATE schema_version SET version = 5")
    connection.commit()
    connection.close()
    store = open_baselines(path)
    assert store.accept(ACCEPTANCE, {GATE: FIGURES}) == 1
    assert len(open_store(path).last_passes("island", rehearsal=False)) == 2
    connection = sqlite3.connect(path)
    assert connection.execute("SELECT count(*) FROM sqlite_master WHERE name = 'baseline'").fetchone() == (0,)
    connection.close()
