# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""What a run writes is as private as its directory, and that is private unless somebody asks otherwise."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.runtime.files import (
    create_run_dir,
    point_latest,
    write_atomic,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.store.history import open_store


def mode(path: Path) -> int:
    return path.stat().st_mode & 0o777


@pytest.mark.parametrize("umask", [0o000, 0o022, 0o077])
@pytest.mark.parametrize(("asked", "file"), [(0o700, 0o600), (0o750, 0o640), (0o755, 0o644)])
def test_files_of_a_run_are_as_private_as_its_directory(tmp_path: Path, umask: int, asked: int, file: int) -> None:
    before = os.umask(umask)
    try:
        run_dir = create_run_dir(tmp_path / "runs", asked)
        write_atomic(run_dir / "evidence" / "hosts" / "a.json", "{}")
    finally:
        os.umask(before)
    assert mode(run_dir) == mode(run_dir / "evidence") == mode(run_dir / "evidence" / "hosts") == asked
    assert mode(run_dir / "evidence" / "hosts" / "a.json") == file


def test_a_run_is_private_unless_asked_otherwise(tmp_path: Path) -> None:
    assert mode(create_run_dir(tmp_path)) == 0o700


def test_the_link_leads_to_the_run_that_was_let_through_last(tmp_path: Path) -> None:
    first, second = create_run_dir(tmp_path), create_run_dir(tmp_path)
    assert not (tmp_path / "latest").exists()
    point_latest(first)
    assert (tmp_path / "latest").resolve() == first
    point_latest(second)
    assert (tmp_path / "latest").resolve() == second and os.readlink(tmp_path / "latest") == second.name


def test_the_history_is_private(tmp_path: Path) -> None:
    before = os.umask(0o000)
    try:
        open_store(tmp_path / "state" / "history.sqlite")
    finally:
        os.umask(before)
    assert mode(tmp_path / "state") == 0o700
    assert {mode(path) for path in (tmp_path / "state").iterdir()} == {0o600}
