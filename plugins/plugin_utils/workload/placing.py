# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""How long a test waits for a scheduler: its time, and more where the scheduler itself may be late.

A scheduler that has said nothing has not looked, as after an outage of the API server that was over before the test
began. What one said before an outage may be old: it gets its time to come back before its word counts.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field

from ..clients.kube.persistence import Outage
from ..clients.kube.recovery import CONTROLLERS_LATE_S


@dataclass(slots=True)
class PlacingTime:
    """The wait for a scheduler, from now on; never longer than `timeout_s`, the time that the API server was away
    meanwhile, and what controllers come back later than it."""

    timeout_s: float
    outage: Outage
    clock: Callable[[], float] = time.monotonic
    _started: float = field(init=False)
    _away_s: float = field(init=False)

    def __post_init__(self) -> None:
        """Begin."""
        self._started, self._away_s = self.clock(), self.outage.away_s

    @property
    def settling(self) -> bool:
        """Whether the API server came back so lately that its controllers may not have."""
        over_at = self.outage.over_at
        return over_at is not None and self.clock() - over_at < CONTROLLERS_LATE_S

    def left_s(self, heard: Callable[[], bool]) -> float:
        """Return the seconds that are left, 0 or less at the end.

        Args:
            heard: whether the scheduler has said anything of the test; asked only once its time is over.
        """
        now = self.clock()
        end = self._started + self.timeout_s + self.outage.away_s - self._away_s
        if now < end:
            return end - now
        last = end + CONTROLLERS_LATE_S
        if now >= last:
            return 0.0
        over_at = self.outage.over_at
        if self.settling and over_at is not None:
            return min(over_at + CONTROLLERS_LATE_S, last) - now
        return 0.0 if heard() else last - now
