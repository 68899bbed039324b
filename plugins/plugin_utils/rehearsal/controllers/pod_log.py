# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""A pod's log as a file in the format of a container runtime, which a `Logs` object of KWOK names."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

from ...runtime.files import write_atomic

_STEP_US, _SECOND_US = 137, 1_000_000
_LAST_LINES = 20


def cri_line(stream: str, text: str, at: datetime | None = None) -> str:
    """Return one line of a log file, with the time `at` or now."""
    moment = at or datetime.now(UTC)
    return f"{moment.strftime('%Y-%m-%dT%H:%M:%S.%f')}000Z {stream} F {text}\n"


def last_lines(path: Path) -> str:
    """Return what the last lines of a log say, one line each; empty without one."""
    try:
        lines = path.read_text(encoding="utf-8", errors="replace").splitlines()[-_LAST_LINES:]
    except OSError:
        return ""
    return "".join(f"\n  {line.split(' ', 3)[-1]}" for line in lines)


def write_log(path: Path, lines: Sequence[tuple[str, str]]) -> None:
    """Write a log whose lines follow each other as if a program had written them from now on."""
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomic(path, "".join(_following(lines, datetime.now(UTC))))


def _following(lines: Sequence[tuple[str, str]], begin: datetime) -> Iterator[str]:
    """Give the lines as cri_line does; the text of a second is made once, for there are some thousand in it."""
    second = begin.replace(microsecond=0)
    shown, next_us = second.strftime("%Y-%m-%dT%H:%M:%S"), begin.microsecond
    for stream, text in lines:
        if next_us >= _SECOND_US:
            second, next_us = second + timedelta(seconds=1), next_us - _SECOND_US
            shown = second.strftime("%Y-%m-%dT%H:%M:%S")
        yield f"{shown}.{next_us:06d}000Z {stream} F {text}\n"
        next_us += _STEP_US
