# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Waiting for what must come true: as long as it takes, and never longer than its limit."""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable
from pathlib import Path
from time import monotonic, sleep
from typing import Any

import pytest

from ansible_collections.gpufleet.rehearsal.plugins.plugin_utils.model.spec import applied_file, file_version

# A loaded machine is no defect: a wait ends at once when the thing is there.
LIMIT_S = 120.0


def eventually(condition: Callable[[], Any], limit_s: float = LIMIT_S, what: str | Callable[[], Any] = "") -> Any:
    """Return what the condition returns once it holds; fail when it does not in time.

    Args:
        condition: holds when it returns something true.
        limit_s: a tighter one than the default only where it is what is promised.
        what: what is waited for, or what says at the end what is seen instead.
    """
    deadline = monotonic() + limit_s
    while True:
        found = condition()
        if found:
            return found
        if monotonic() > deadline:
            told = f"at the end: {what()}" if callable(what) else what
            pytest.fail(f"not within {limit_s:g} s: {told or _words(condition)}")
        sleep(0.05)


def _words(condition: Callable[[], Any]) -> str:
    """What a condition without a name of its own reads as in the test."""
    try:
        return inspect.getsource(condition).strip()
    except (OSError, TypeError):
        return repr(condition)


def always(condition: Callable[[], Any], during_s: float) -> None:
    """Fail when the condition stops holding."""
    deadline = monotonic() + during_s
    while monotonic() < deadline:
        assert condition()
        sleep(0.2)


def await_model(path: Path) -> None:
    """Wait until the simulated operators work with a model file as it is now."""

    def seen() -> bool:
        file = applied_file(path)
        return file.is_file() and file.read_text(encoding="utf-8") == file_version(path)

    eventually(seen, what=f"the operators have read {path.name} again")


def alive(needle: str) -> list[int]:
    """Return the other processes of this machine in whose command lines that stands."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal() and int(entry.name) != os.getpid():
            try:
                line = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            except OSError:
                continue
            if needle in line:
                found.append(int(entry.name))
    return found
