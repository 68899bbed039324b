# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Which runs were beside each other: a shared volume is as fast as its moment, so what a host reached then is held
against what others reached at the same moment. Pure.

Tools that measure a file system from many clients begin on all of them together for this reason (IOR synchronises its
processes by MPI: wiki.lustre.org/IOR, "Purpose").
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Collection, Iterable
from datetime import datetime
from statistics import median

from .model import Run

# A run is of the moment of another one if they share at least half of the shorter one's time.
_SHARED = 0.5
_Key = tuple[str, str]


class Moments:
    """The runs of a cohort by when they were: hosts are measured in groups, one after the other."""

    def __init__(self, runs: Iterable[Run], least: int) -> None:
        """Keep the runs whose time is known; fewer than `least` others beside one say nothing of its moment."""
        self.least = least
        self._groups: list[list[Run]] = []
        self._group_of: dict[tuple[str, int], int] = {}
        self._rates: dict[tuple[int, _Key], tuple[list[float], list[float]]] = {}
        spans = sorted((span, run.record.host, run.record.attempt, run) for run in runs if (span := _span(run)))
        first = (0.0, 0.0)
        for span, host, attempt, run in spans:
            if not self._groups or not _together(first, span):
                self._groups.append([])
                first = span
            self._groups[-1].append(run)
            self._group_of[host, attempt] = len(self._groups) - 1

    def parts(
        self, runs: Iterable[Run], key: _Key, rate: Callable[[Run], float], well: Collection[str]
    ) -> tuple[tuple[float, bool], ...]:
        """Return which part of the rate of others at the same moment a host had in each of its runs, and whether these
        others are no suspects themselves; runs beside which too few others are known are left out.

        Args:
            runs: all runs of the host.
            key: what is compared; the same one always comes with the same `rate` and `well`.
            rate: the figure of a run, more being better.
            well: the hosts that are no suspects; they are the measure where enough of them were there.
        """
        parts = []
        for run in runs:
            group = self._group_of.get((run.record.host, run.record.attempt))
            if group is None:
                continue
            everybody, sound = self._of_group(group, key, rate, well)
            own = rate(run)
            company = _without(sound, own) if run.record.host in well else sound
            sure = len(company) >= self.least
            if not sure:
                company = _without(everybody, own)
            middle = median(company) if len(company) >= self.least else 0.0
            if middle > 0:
                parts.append((own / middle, sure))
        return tuple(parts)

    def _of_group(
        self, group: int, key: _Key, rate: Callable[[Run], float], well: Collection[str]
    ) -> tuple[list[float], list[float]]:
        """Return the figures of all runs of a moment, and those of hosts that are no suspects, the lowest first."""
        if (group, key) not in self._rates:
            runs = self._groups[group]
            sound = sorted(rate(run) for run in runs if run.record.host in well)
            self._rates[group, key] = sorted(map(rate, runs)), sound
        return self._rates[group, key]


def _without(figures: list[float], own: float) -> list[float]:
    """Return ascending figures without one that is among them."""
    at = bisect_left(figures, own)
    return figures[:at] + figures[at + 1 :]


def _together(one: tuple[float, float], other: tuple[float, float]) -> bool:
    shared = min(one[1], other[1]) - max(one[0], other[0])
    return shared >= _SHARED * min(one[1] - one[0], other[1] - other[0])


def _span(run: Run) -> tuple[float, float] | None:
    """Return from when to when a run was, seconds since the epoch; None where its record does not say."""
    try:
        begun = datetime.fromisoformat(run.record.started).timestamp()
    except ValueError:
        return None
    return (begun, begun + run.record.duration_s) if run.record.duration_s > 0 else None
