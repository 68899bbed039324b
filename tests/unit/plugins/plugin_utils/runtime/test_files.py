# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Files are whole or absent, and a disk that is full is told by its path."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.action_base import module_action
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.errors import UnavailableError
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.runtime.files import write_atomic
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.store.database import our_errors


def _full(*_args: Any, **_options: Any) -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_a_file_is_replaced_whole(tmp_path: Path) -> None:
    write_atomic(tmp_path / "a" / "b.json", "old")
    write_atomic(tmp_path / "a" / "b.json", "new", 0o600)
    assert (tmp_path / "a" / "b.json").read_text() == "new"
    assert [path.name for path in (tmp_path / "a").iterdir()] == ["b.json"]


def test_what_another_thread_writes_meanwhile_is_as_private(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """BMCs are read in threads, and the first ones make the directories of their evidence at the same time."""
    tmp_path.chmod(0o700)
    plain, meanwhile = Path.chmod, [tmp_path / "evidence" / "facility" / "bmc-b.json"]

    def chmod(path: Path, mode: int) -> None:
        if meanwhile:
            write_atomic(meanwhile.pop(), "b")
        plain(path, mode)

    monkeypatch.setattr(Path, "chmod", chmod)
    write_atomic(tmp_path / "evidence" / "facility" / "bmc-a.json", "a")
    assert len(list(tmp_path.rglob("*.json"))) == 2
    assert {path.stat().st_mode & 0o077 for path in tmp_path.rglob("*")} == {0}


def test_what_others_may_see_they_see_whatever_the_umask(tmp_path: Path) -> None:
    tmp_path.chmod(0o750)
    before = os.umask(0o077)
    try:
        write_atomic(tmp_path / "evidence" / "a.json", "a")
    finally:
        os.umask(before)
    modes = [path.stat().st_mode & 0o777 for path in (tmp_path / "evidence", tmp_path / "evidence" / "a.json")]
    assert modes == [0o750, 0o640]


def test_a_full_disk_is_an_error_of_the_environment_that_names_the_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "run.json"
    write_atomic(path, "old")
    monkeypatch.setattr(os, "fsync", _full)
    with pytest.raises(UnavailableError, match="No space left on device") as caught:
        write_atomic(path, "new")
    assert caught.value.subject == str(path)
    assert f"df -h '{tmp_path}'" in caught.value.hint
    assert path.read_text() == "old"
    assert [entry.name for entry in tmp_path.iterdir()] == ["run.json"]


def test_a_place_that_is_no_directory_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(UnavailableError, match=r"file/run\.json: cannot be written") as caught:
        write_atomic(tmp_path / "file" / "run.json", "x")
    assert "ls -ld" in caught.value.hint


def test_a_disk_that_is_full_anywhere_else_is_no_defect_of_ours() -> None:
    made = module_action._defect("gate", OSError(errno.ENOSPC, "No space left on device", "/var/tmp/x"))
    assert made.subject == "/var/tmp/x" and "defect" not in str(made)
    assert "defect" in str(module_action._defect("gate", OSError(errno.EBADF, "Bad file descriptor")))
    assert "defect" in str(module_action._defect("gate", ValueError("x")))


def test_a_history_on_a_full_disk_says_so(tmp_path: Path) -> None:
    import sqlite3

    path = tmp_path / "history.sqlite"
    with pytest.raises(UnavailableError, match="database or disk is full") as caught, our_errors(path):
        raise sqlite3.OperationalError("database or disk is full")
    assert "df -h" in caught.value.hint and caught.value.subject == str(path)
