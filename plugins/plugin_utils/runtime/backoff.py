# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Pauses between the tries of one thing, and what a server asks for with `Retry-After`."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime

# No server is given more of our time at once, whatever it asks for.
LONGEST_PAUSE_S = 30.0


@dataclass(slots=True)
class Backoff:
    """Pauses that double from `first_s` to `largest_s`.

    Each is drawn from the upper half of its step: many that lost one server do not come back at one moment.
    """

    first_s: float = 0.2
    largest_s: float = 5.0
    draw: Callable[[float, float], float] = random.uniform
    _step_s: float = 0.0

    def pause_s(self, asked_s: float = 0.0) -> float:
        """Return the next pause in seconds, no shorter than what the server asked for."""
        self._step_s = min(self._step_s * 2, self.largest_s) if self._step_s else self.first_s
        return max(min(asked_s, LONGEST_PAUSE_S), self.draw(self._step_s / 2, self._step_s))


def retry_after_s(text: str, now: datetime | None = None) -> float:
    """Return the seconds that a `Retry-After` asks for, a number or an HTTP date (RFC 9110, 10.2.3).

    Never negative and never above LONGEST_PAUSE_S; 0 for what is neither.
    """
    text = text.strip()
    if text.isascii() and text.isdigit():
        # Longer numbers are not worth reading: int() refuses thousands of digits.
        return min(float(text[:12]), LONGEST_PAUSE_S)
    # Few servers say it as a date.
    from email.utils import parsedate_to_datetime

    try:
        moment = parsedate_to_datetime(text[:64])
    except ValueError:
        return 0.0
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return min(max((moment - (now or datetime.now(UTC))).total_seconds(), 0.0), LONGEST_PAUSE_S)
