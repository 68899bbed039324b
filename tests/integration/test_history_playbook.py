# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Playbook history over a file and over a real PostgreSQL server, whose password no output shows."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest
from postgres import ESCAPED, PASSWORD, NoServerError, running_server

ROOT = Path(__file__).resolve().parents[2]


def play(tmp_path: Path, *stated: str, **environment: str) -> subprocess.CompletedProcess[str]:
    extra = [word for variable in stated for word in ("-e", variable)]
    return subprocess.run(
        [sys.executable, "-m", "ansible", "playbook", "-vvv", "-e", "gpufleet_site_name=island", *extra,
         "playbooks/history.yml"],
        cwd=ROOT, capture_output=True, text=True, timeout=300, check=False,
        env={**os.environ, "ANSIBLE_LOCAL_TEMP": str(tmp_path / "tmp"), "ANSIBLE_CONFIG": str(ROOT / "ansible.cfg"),
             **environment},
    )  # fmt: skip


@pytest.fixture
def source(tmp_path: Path) -> str:
    with closing(sqlite3.connect(tmp_path / "validation.db")) as opened, opened as connection:
        connection.execute("CREATE TABLE v (Node TEXT, 'Test Name' TEXT, Timestamp INTEGER, Result TEXT)")
        connection.execute("INSERT INTO v VALUES ('1', 'Storage', 1736367000, 'Pass')")
    return f"gpufleet_history_source={tmp_path / 'validation.db'}"


@pytest.mark.drawn(1, of="care for a history")
def test_a_file_is_filled_and_backed_up(tmp_path: Path, source: str) -> None:
    store = f"gpufleet_store={tmp_path / 'history.sqlite'}"
    done = play(tmp_path, store, source, "gpufleet_history=imported")
    assert done.returncode == 0 and "imported: 1 results" in done.stdout, done.stdout + done.stderr
    dest = tmp_path / "copy.sqlite"
    done = play(tmp_path, store, "gpufleet_history=backed_up", f"gpufleet_history_dest={dest}")
    assert done.returncode == 0 and dest.is_file(), done.stdout + done.stderr


@pytest.mark.drawn(1, of="care for a history")
def test_a_server_takes_the_place_of_the_file(tmp_path: Path, source: str) -> None:
    with_file = tmp_path / "url"
    try:
        with running_server() as server:
            with_file.write_text(server.new_database())
            with_file.chmod(0o600)
            wrong = server.new_database().replace(ESCAPED, f"{ESCAPED}x")
            done = play(tmp_path, source, "gpufleet_history=imported", f"gpufleet_store_url={with_file}")
            refused = play(tmp_path, GPUFLEET_STORE_URL=wrong)
    except NoServerError as error:
        pytest.skip(f"no PostgreSQL server: {error}")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "history postgresql://gpufleet@127.0.0.1:" in done.stdout and "imported: 1 results" in done.stdout
    assert refused.returncode == 2 and "does not take the password of that user" in refused.stdout
    for text in (done.stdout, done.stderr, refused.stdout, refused.stderr):
        assert PASSWORD not in text and ESCAPED not in text
