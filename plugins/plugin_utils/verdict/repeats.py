# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Whether something that was seen once is a fault: the sample that raised a suspicion proves nothing, repeats do. Pure.

The suspicious sample was chosen because it is low, so it does not count. Of any `repeats` samples in a row after it
more than half (or as many as are asked for) have to be low as well. It is given up only by `repeats` good samples in a
row. A sample that is low instead of good never makes the stand better: windows only get more, and fuller.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum

REPEATS = 3


class Stand(str, Enum):
    """Where a series of samples stands; `flaky`: of the repeats some were low and not as many as it takes."""

    CLEAR = "clear"
    SUSPECT = "suspect"
    FLAKY = "flaky"
    CONFIRMED = "confirmed"


@dataclass(frozen=True, slots=True)
class Standing:
    """Where it stands, and by what: `low` of the `seen` newest repeats (of a confirmed one: good ones in a row since),
    of which `needed` confirm."""

    stand: Stand = Stand.CLEAR
    low: int = 0
    seen: int = 0
    repeats: int = REPEATS
    needed: int = REPEATS // 2 + 1

    @property
    def text(self) -> str:
        """In words."""
        if self.stand is Stand.CONFIRMED:
            back = f"; {self.seen} of {self.repeats} good ones in a row since" if self.seen else ""
            most = "more than half" if self.needed == self.repeats // 2 + 1 else f"{self.needed}"
            return f"confirmed by {most} of {self.repeats} repeats{back}"
        if self.stand is Stand.FLAKY:
            return f"flaky: low in {self.low} of the last {self.seen} repeats, {self.needed} of {self.repeats} confirm"
        if self.stand is Stand.SUSPECT:
            return f"low once, and in {self.low} of {self.seen} repeats; {self.repeats} are needed"
        return "not low"


def standing(low: Iterable[bool], repeats: int = REPEATS, *, hard: Iterable[bool] = (), needed: int = 0) -> Standing:
    """Return where samples stand.

    Args:
        low: whether each sample was over the line that marks it as bad, the oldest first.
        repeats: how many samples after a suspicion decide.
        hard: of each sample whether it proves the fault by itself; shorter than `low`: the rest does not.
        needed: how many of the repeats have to be low; 0 or less than that: more than half.
    """
    alone, needed = iter(hard), max(needed, repeats // 2 + 1)
    after: deque[bool] | None = None
    confirmed, good = False, 0
    for is_low in low:
        is_hard = next(alone, False)
        good = 0 if is_low or is_hard else good + 1
        if is_hard:
            confirmed, after = True, deque(maxlen=repeats)
        elif good >= repeats:
            confirmed, after = False, None
        elif after is not None:
            after.append(is_low)
            confirmed = confirmed or sum(after) >= needed
        elif is_low:
            after = deque(maxlen=repeats)
    if confirmed:
        return Standing(Stand.CONFIRMED, 0, good, repeats, needed)
    if after is None:
        return Standing(repeats=repeats, needed=needed)
    stand = Stand.FLAKY if len(after) == repeats else Stand.SUSPECT
    return Standing(stand, sum(after), len(after), repeats, needed)
