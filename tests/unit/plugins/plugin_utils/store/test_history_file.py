# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The file of the history: several writers, damage, other schemas, older files."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import history_rows
import pytest
from history_rows import (
    GPU01,
    counts,
    drivers,
    outcome,
    record,
)

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.errors import BringupError
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.model import Status, Subject, SubjectKind
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.store.history import Store, open_store


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return open_store(tmp_path / "deep" / "history.sqlite")


WRITER = """
import sys
from pathlib import Path
sys.path.insert(0, sys.argv[1])
import history_rows as t
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.store.history import open_store
for number in range(8):
    store = open_store(Path(sys.argv[2]))
    t.record(store, "nodes", t.drivers(), run_id=f"{sys.argv[3]}-{number}")
"""


def test_two_processes_write_at_once(tmp_path: Path) -> None:
    path = tmp_path / "history.sqlite"
    words = [sys.executable, "-c", WRITER, str(Path(history_rows.__file__).parent), str(path)]
    environment = {"PYTHONPATH": ":".join(entry for entry in sys.path if entry)}
    writers = [
        subprocess.Popen([*words, name], env=environment, stderr=subprocess.PIPE, text=True) for name in ("a", "b")
    ]
    said = [writer.communicate(timeout=120)[1] for writer in writers]
    assert [writer.returncode for writer in writers] == [0, 0], said
    found = counts(open_store(path))
    assert (found["run"], found["gate"], found["outcome"], found["measurement"]) == (16, 16, 32, 32)


def test_two_that_make_the_same_file_at_once(tmp_path: Path) -> None:
    start = threading.Barrier(2)

    def make(path: Path) -> int:
        start.wait(timeout=60)
        return record(open_store(path), "nodes", drivers(), run_id=f"run-{threading.get_ident()}").outcomes

    with ThreadPoolExecutor(2) as pool:
        for number in range(6):
            path = tmp_path / f"{number}.sqlite"
            assert list(pool.map(make, (path, path))) == [2, 2]
            assert counts(open_store(path))["run"] == 2


def _garbage(path: Path) -> None:
    path.write_bytes(b"this is not a database " * 400)


def _torn(path: Path) -> None:
    record(open_store(path), "nodes", drivers())
    path.write_bytes(path.read_bytes()[:8192])


def _overwritten(path: Path) -> None:
    record(open_store(path), "nodes", drivers())
    whole = path.read_bytes()
    path.write_bytes(whole[:4096] + b"\xff" * (len(whole) - 4096))


@pytest.mark.parametrize("harm", [_garbage, _torn, _overwritten])
def test_a_damaged_file_is_an_error_with_the_fix(tmp_path: Path, harm: Callable[[Path], None]) -> None:
    path = tmp_path / "history.sqlite"
    harm(path)
    with pytest.raises(BringupError, match="damaged") as error:
        record(open_store(path), "nodes", drivers())
    assert error.value.subject == str(path) and error.value.hint.endswith(f"mv '{path}' '{path}.damaged'")
    path.rename(f"{path}.damaged")
    assert record(open_store(path), "nodes", drivers()).outcomes == 2


@pytest.mark.parametrize(
    ("sql", "word"),
    [
        ("UPDATE schema_version SET version = 99", "version 99"),
        ("UPDATE schema_version SET version = 0", "no schema version"),
        ("DELETE FROM schema_version", "no schema version"),
        ("INSERT INTO schema_version VALUES (1)", "no schema version"),
        ("DROP TABLE schema_version", "another program"),
        ("DROP TABLE ledger", "damaged"),
    ],
)
def test_a_file_of_an_unknown_schema_is_refused(tmp_path: Path, sql: str, word: str) -> None:
    path = tmp_path / "history.sqlite"
    open_store(path)
    with sqlite3.connect(path) as connection:
        connection.execute(sql)
    with pytest.raises(BringupError, match=word) as error:
        record(open_store(path), "nodes", drivers())
    assert error.value.hint


def test_a_place_that_cannot_be_a_file_is_an_error_with_the_fix(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    for path in (tmp_path, tmp_path / "file" / "history.sqlite"):
        with pytest.raises(BringupError, match="cannot be") as error:
            open_store(path)
        assert "gpufleet_store" in error.value.hint


def test_subjects_with_commas_between_them_are_read_from_older_files(store: Store) -> None:
    parts = (GPU01, Subject(SubjectKind.GPU, "gpu01/gpu2", "gpu01"), Subject(SubjectKind.LINK, "a, b", ""))
    bad = replace(outcome("nodes", "gpu-census", GPU01, status=Status.FAILED), subjects=parts)
    record(store, "nodes", [bad])
    found = store.non_passes("island", "", rehearsal=False)
    assert found[0].outcome is not None
    assert [subject.name for subject in found[0].outcome.subjects] == ["gpu01", "gpu01/gpu2", "a, b"]
    with sqlite3.connect(store.path) as connection:
        connection.execute("UPDATE outcome SET more_subjects = 'gpu01/gpu2,gpu01/gpu3'")
        connection.execute("UPDATE schema_version SET version = 2")
    connection.close()
    (old,) = open_store(store.path).non_passes("island", "", rehearsal=False)
    assert old.outcome is not None
    assert [subject.name for subject in old.outcome.subjects] == ["gpu01", "gpu01/gpu2", "gpu01/gpu3"]


def test_gates_of_older_files_get_their_places_by_the_clocks_of_then(store: Store) -> None:
    record(store, "nodes", [outcome("nodes", "gpu-census", GPU01)])
    with sqlite3.connect(store.path) as connection:
        connection.execute("ALTER TABLE gate DROP COLUMN begun")
        connection.execute("ALTER TABLE gate DROP COLUMN decided")
        connection.execute("UPDATE schema_version SET version = 3")
    connection.close()
    again = open_store(store.path)
    (old,) = again.last_passes("island", rehearsal=False)
    assert old.begun == 1
    bad = replace(outcome("nodes", "gpu-census", GPU01, status=Status.FAILED), cause="gpu-missing", hint="mend")
    record(again, "nodes", [bad], run_id="run-2")
    (new,) = again.non_passes("island", "", rehearsal=False)
    assert new.is_after(old)


def test_of_what_is_about_the_same_only_the_newest_is_read(store: Store) -> None:
    other = Subject(SubjectKind.NODE, "gpu02", "gpu02")
    for number in range(5):
        cause = {"cause": f"seen-{number}", "hint": "mend"}
        bad = [replace(outcome("nodes", "gpu-census", node, status=Status.FAILED), **cause) for node in (GPU01, other)]
        record(store, "nodes", bad, run_id=f"bad-{number}")
        record(store, "nodes", [outcome("nodes", "gpu-census", GPU01)], run_id=f"good-{number}")
    found = store.non_passes("island", "", rehearsal=False)
    assert {(entry.run_id, entry.outcome.subjects[0].name) for entry in found if entry.outcome} == {
        ("bad-4", "gpu01"), ("bad-4", "gpu02"),
    }  # fmt: skip
    (newest,) = store.last_passes("island", rehearsal=False)
    assert newest.run_id == "good-4"
    assert [entry.is_after(newest) for entry in found] == [False, False]
