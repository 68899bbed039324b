# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Whether something that was seen once is a fault: the sample that raised a suspicion proves nothing, repeats do. Pure.

The suspicious sample was chosen because it is low, so it does not count. Of the `repeats` samples after it more than
half have to be low as well; what is low once in them stays a suspect and is repeated again. What was confirmed is given
up only by `repeats` good samples in a row.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum

REPEATS = 3


class Stand(str, Enum):
    """Where a series of samples stands; `flaky`: of the repeats some were low and not most of them."""

    CLEAR = "clear"
    SUSPECT = "suspect"
    FLAKY = "flaky"
    CONFIRMED = "confirmed"


@dataclass(frozen=True, slots=True)
class Standing:
    """Where it stands, and by what: `low` of `seen` repeats (of a confirmed one: good ones in a row since)."""

    stand: Stand = Stand.CLEAR
    low: int = 0
    seen: int = 0
    repeats: int = REPEATS

    @property
    def text(self) -> str:
        """In words."""
        if self.stand is Stand.CONFIRMED:
            back = f"; {self.seen} of {self.repeats} good ones in a row since" if self.seen else ""
            return f"confirmed by more than half of {self.repeats} repeats{back}"
        if self.stand is Stand.FLAKY:
            done = f"{self.seen} of the next {self.repeats} done"
            return f"flaky: low in some of {self.repeats} repeats, not in most; {done}"
        if self.stand is Stand.SUSPECT:
            return f"low once, and in {self.low} of {self.seen} repeats; {self.repeats} are needed"
        return "not low"


def standing(low: Iterable[bool], repeats: int = REPEATS, *, hard: Iterable[bool] = ()) -> Standing:
    """Return where samples stand.

    Args:
        low: whether each sample was over the line that marks it as bad, the oldest first.
        repeats: how many samples after a suspicion decide.
        hard: of each sample whether it proves the fault by itself; shorter than `low`: the rest does not.
    """
    alone = iter(hard)
    stand, low_count, seen = Stand.CLEAR, 0, 0
    for is_low in low:
        if next(alone, False):
            stand, low_count, seen = Stand.CONFIRMED, 0, 0
        elif stand is Stand.CONFIRMED:
            seen = 0 if is_low else seen + 1
            if seen == repeats:
                stand, seen = Stand.CLEAR, 0
        elif stand is Stand.CLEAR:
            stand = Stand.SUSPECT if is_low else Stand.CLEAR
        else:
            low_count, seen = low_count + is_low, seen + 1
            if 2 * low_count > repeats:
                stand, low_count, seen = Stand.CONFIRMED, 0, 0
            elif seen == repeats:
                stand = Stand.FLAKY if low_count else Stand.CLEAR
                low_count, seen = 0, 0
    return Standing(stand, low_count, seen, repeats)
