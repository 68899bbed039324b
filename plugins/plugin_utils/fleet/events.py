# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Results that are near to each other in time are one event: a congested leaf, a hot hall, a user beside it. Pure.

Repeats prove something only where they are independent. Those of one hour are the same hour measured again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ..store.service_model import NodeResult

_HOUR_S = 3600.0


@dataclass(frozen=True, slots=True)
class Event:
    """The results of one test on one node within one span of time, the oldest first; never none."""

    results: tuple[NodeResult, ...]

    def all(self, is_so: Callable[[NodeResult], bool]) -> bool:
        """Whether all of them say so: what was well once in that time is well."""
        return all(map(is_so, self.results))

    def any(self, is_so: Callable[[NodeResult], bool]) -> bool:
        """Whether one of them says so, for what one result proves."""
        return any(map(is_so, self.results))


def events(results: Sequence[NodeResult], hours: float) -> tuple[Event, ...]:
    """Return the events of results, the oldest first; each begins with a result and lasts that long."""
    found: list[list[NodeResult]] = []
    for result in results:
        if not found or result.started_s - found[-1][0].started_s >= hours * _HOUR_S:
            found.append([result])
        else:
            found[-1].append(result)
    return tuple(Event(tuple(entry)) for entry in found)


def may_repeat(results: Sequence[NodeResult], hours: float, now_s: float) -> bool:
    """Whether one more result now would be another event than the newest one."""
    return not results or now_s - events(results, hours)[-1].results[0].started_s >= hours * _HOUR_S
