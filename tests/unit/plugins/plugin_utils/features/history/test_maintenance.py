# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Taking care of a history: what has to be given, what check mode leaves alone, and how the end looks."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from history_rows import drivers, record
from service_rows import SITE, cycle, node_result

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.features.history.app import care_for
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.errors import BringupError
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.store.history import open_store
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.store.service import open_service
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.store.tables import tables

NOW_S = 1767225600.0


def care(tmp_path: Path, state: str, *, write: bool = True, **changes: Any) -> tuple[bool, dict[str, int]]:
    options: dict[str, Any] = {
        "store": str(tmp_path / "history.sqlite"), "state": state, "site_name": SITE, "rehearsal": False, "tests": {},
        "nodes": {}, "source": None, "dest": None, "formats": ["csv"], "keep_days": 90.0,
    }  # fmt: skip
    return care_for(options | changes, NOW_S, "2026-01-01T00:00:00.000Z", write=write)


@pytest.fixture
def source(tmp_path: Path) -> str:
    with closing(sqlite3.connect(tmp_path / "validation.db")) as opened, opened as connection:
        connection.execute("CREATE TABLE v (Node TEXT, 'Test Name' TEXT, Timestamp INTEGER, Result TEXT)")
        connection.execute("INSERT INTO v VALUES ('1', 'Storage', 1736367000, 'Pass')")
    return str(tmp_path / "validation.db")


def test_every_state_from_the_first_import_to_the_backup(tmp_path: Path, source: str) -> None:
    assert care(tmp_path, "imported", source=source, nodes={1: "gpu01"}) == (True, {"results": 1})
    assert care(tmp_path, "imported", source=source, nodes={1: "gpu01"}) == (False, {"results": 0})
    assert care(tmp_path, "checked") == (False, {})
    store = open_service(tmp_path / "history.sqlite")
    assert list(store.latest(SITE, rehearsal=False)) == [("gpu01", "imported/Storage")]
    store.begin_cycle(cycle())
    store.add_result(node_result(node="gpu01", test="imported/Storage", started_s=1.0))
    assert care(tmp_path, "thinned") == (True, {"results": 1, "classes": 0})
    changed, rows = care(tmp_path, "exported", dest=str(tmp_path / "out"))
    assert changed and rows["results.csv"] == 1 and rows["days.csv"] == 1
    changed, rows = care(tmp_path, "backed_up", dest=str(tmp_path / "copy.sqlite"))
    assert changed and rows == {"bytes": (tmp_path / "copy.sqlite").stat().st_size}


def test_a_history_of_gates_alone_is_exported_and_a_site_that_is_not_there_says_what_is(tmp_path: Path) -> None:
    record(open_store(tmp_path / "history.sqlite"), "nodes", drivers())
    changed, rows = care(tmp_path, "exported", dest=str(tmp_path / "out"), site_name="island")
    assert changed and rows["gates.csv"] == 1 and rows["gate_results.csv"] == len(drivers())
    ways = {
        ("exported", "typo", False): "there: none, with runs of gates: island.*Fix: set gpufleet_site_name",
        ("exported", "island", True): "none.*Fix: what is there is of no rehearsal: leave out .*--rehearsal",
        ("thinned", "island", False): "runs of gates: island.*Fix: nothing is to be done",
    }
    for (state, site, rehearsal), words in ways.items():
        with pytest.raises(BringupError, match=words):
            care(tmp_path, state, dest=str(tmp_path / "out"), site_name=site, rehearsal=rehearsal)
    open_store(tmp_path / "empty.sqlite")
    with pytest.raises(BringupError, match="nothing was recorded there yet"):
        care(tmp_path, "exported", dest=str(tmp_path / "out"), store=str(tmp_path / "empty.sqlite"))


def test_check_mode_writes_nothing(tmp_path: Path, source: str) -> None:
    assert care(tmp_path, "imported", source=source, write=False) == (True, {"results": 1})
    assert not (tmp_path / "history.sqlite").exists()
    store = open_service(tmp_path / "history.sqlite")
    store.begin_cycle(cycle())
    for number in range(2):
        store.add_result(node_result(node=f"gpu{number}", started_s=float(number)))
    store.begin_cycle(cycle("c2"))
    store.add_result(node_result("c2", node="gpu0", started_s=9.0))
    assert care(tmp_path, "thinned", write=False) == (True, {"results": 1, "classes": 0})
    care(tmp_path, "exported", dest=str(tmp_path / "out"), write=False)
    care(tmp_path, "backed_up", dest=str(tmp_path / "copy.sqlite"), write=False)
    assert sorted(path.name for path in tmp_path.iterdir() if "history" not in path.name) == ["validation.db"]
    assert len(store.results(SITE, rehearsal=False, since_s=0)) == 3


@pytest.mark.parametrize(
    ("state", "changes", "word"),
    [
        ("checked", {"store": None}, "no history is named"),
        ("checked", {"store": "/none/history.sqlite"}, "no such file"),
        ("imported", {}, "source: is needed with state imported"),
        ("imported", {"source": "validation.db", "site_name": ""}, "site_name: is needed"),
        ("imported", {"source": "validation.db", "tests": {"Storage": None}}, "gives no name to Storage"),
        ("exported", {}, "dest: is needed"),
        (
            "exported",
            {"dest": "out", "site_name": "typo"},
            "has no cycle .*; sites with cycles there: island",
        ),
        ("exported", {"dest": "out", "formats": []}, "nothing would be exported"),
        ("backed_up", {}, "dest: is needed"),
        ("thinned", {"keep_days": 6.9}, "expected 7 or more"),
        ("thinned", {"keep_days": float("nan")}, "expected 7 or more"),
        ("thinned", {"rehearsal": True}, "sites with cycles there: none"),
    ],
)
def test_what_is_missing_or_wrong_is_named(tmp_path: Path, state: str, changes: dict[str, Any], word: str) -> None:
    open_service(tmp_path / "history.sqlite").begin_cycle(cycle())
    with pytest.raises(BringupError, match=word) as error:
        care(tmp_path, state, **changes)
    assert error.value.hint


def test_a_history_that_does_not_fit_together_is_an_error(tmp_path: Path) -> None:
    store = open_service(tmp_path / "history.sqlite")
    store.begin_cycle(cycle())
    store.add_result(node_result())
    with store.engine.begin() as connection:
        connection.execute(tables().service.node_last.delete())
    with pytest.raises(BringupError, match="a newer result is there"):
        care(tmp_path, "checked")
