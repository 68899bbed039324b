# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""What a check saw as a curve: numbers that a report draws and that no verdict is made of afterwards."""

from __future__ import annotations

import math
import operator
from dataclasses import dataclass

from .errors import InputError


@dataclass(frozen=True, slots=True, kw_only=True)
class Axis:
    """One axis: what it shows (`size`), its unit (`B`), and whether it is drawn logarithmically."""

    name: str
    unit: str = ""
    logarithmic: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Bound:
    """A horizontal line that the curve is judged against (`ceiling`, `bad below`, `SLO`), in the unit of `y`."""

    name: str
    value: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Series:
    """A curve: `figure` names the plot that it belongs to, curves of the same figure are drawn together; `name` tells
    it from the others there (`all nodes`, `rank 3`, `p50 to p99`); points are (x, y) with x rising.

    Raises:
        InputError: no points, x not rising, or a value that is not a finite number.
    """

    figure: str
    name: str
    x: Axis
    y: Axis
    points: tuple[tuple[float, float], ...]
    bounds: tuple[Bound, ...] = ()

    def __post_init__(self) -> None:
        xs, ys = [x for x, _y in self.points], [y for _x, y in self.points]
        rising = all(map(operator.lt, xs, xs[1:]))
        finite = all(map(math.isfinite, (*xs, *ys, *(bound.value for bound in self.bounds))))
        if not self.points or not rising or not finite:
            reason = "needs points of finite numbers with x rising."
            raise InputError(f"series {self.name!r} of figure {self.figure!r}", reason, "fix the check that made it")
