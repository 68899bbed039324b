# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Progress lines of long work."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from time import monotonic

from .clock import elapsed_text

Emit = Callable[[str], None]


def silent(_line: str) -> None:
    """Emit nothing."""


@dataclass(slots=True)
class Progress:
    """Emits a line when the state changes, and a heartbeat when it has not changed for a while.

    Args:
        emit: takes one line of under 200 characters.
        heartbeat_s: seconds without a line after which `tick` repeats the last state.
    """

    emit: Emit = silent
    heartbeat_s: float = 30.0
    _started: float = field(default_factory=monotonic)
    _last_text: str = ""
    _last_at: float = 0.0

    def say(self, text: str) -> None:
        """Emit a line with the elapsed time, at once."""
        self._last_text, self._last_at = text, monotonic()
        self.emit(f"{text} ({elapsed_text(monotonic() - self._started)})")

    def tick(self, text: str) -> None:
        """Emit a line if it is new, or if there was none for `heartbeat_s`."""
        if text != self._last_text or monotonic() - self._last_at >= self.heartbeat_s:
            self.say(text)
