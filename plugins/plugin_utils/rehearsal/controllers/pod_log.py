# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""A pod's log as a file in the format of a container runtime, which a `Logs` object of KWOK names."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

from ...runtime.files import write_atomic

_STEP = timedelta(microseconds=137)


def cri_line(stream: str, text: str, at: datetime | None = None) -> str:
    """Return one line of a log file, with the time `at` or now."""
    moment = at or datetime.now(UTC)
    return f"{moment.strftime('%Y-%m-%dT%H:%M:%S.%f')}000Z {stream} F {text}\n"


def write_log(path: Path, lines: Sequence[tuple[str, str]]) -> None:
    now = datetime.now(UTC)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomic(path, "".join(cri_line(stream, text, now + n * _STEP) for n, (stream, text) in enumerate(lines)))
