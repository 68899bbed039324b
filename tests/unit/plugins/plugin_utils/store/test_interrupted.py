# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A signal that comes within a transaction leaves the history to others: what it raises lives while everything is
cleaned up, and with it what it broke off."""

from __future__ import annotations

import sqlite3
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from types import FrameType
from typing import Any

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.runtime.interrupt import Interrupted, may_raise
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.store.database import open_database, our_errors


def raised_at(line: int, call: Callable[[], None]) -> Interrupted | None:
    """Raise at that line that runs within the call, or at the first after it where the handler of signals does; return
    what was raised, None where the call came to its end."""
    count = 0

    def trace(frame: FrameType, event: str, _about: Any) -> Any:
        nonlocal count
        count += event == "line"
        if event == "line" and count >= line and may_raise(frame):
            sys.settrace(None)
            raise Interrupted
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        call()
    except Interrupted as raised:
        return raised
    finally:
        sys.settrace(before)
    return None


def test_no_signal_leaves_the_lock_of_a_transaction_that_it_broke_off(tmp_path: Path) -> None:
    path = tmp_path / "history.sqlite"
    engine = open_database(path)
    written = 0

    def write() -> None:
        nonlocal written
        with our_errors(path), engine.begin() as connection:
            connection.exec_driver_sql("UPDATE schema_version SET version = version")
            connection.exec_driver_sql("SELECT 1").all()
        written += 1

    # What is imported and made when it is first needed is not what is tried.
    write()
    lines = 0
    while (raised := raised_at(lines + 1, write)) is not None:
        lines += 1
        with closing(sqlite3.connect(path, timeout=0, isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            other.execute("ROLLBACK")
        assert raised.__traceback__ is not None
    assert lines > 300 and 1 < written < lines
