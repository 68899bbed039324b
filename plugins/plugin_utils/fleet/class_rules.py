# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""By which rules results of idle nodes are classified: limits, and from data which way of a figure is better."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from functools import cache
from pathlib import Path

from ..outcome.errors import InputError
from ..runtime.files import RECIPES
from ..runtime.strict import decode_file
from ..store.records import Figure
from ..verdict.drift import DriftLimits
from ..verdict.peers import PeerLimits


class Word(str, Enum):
    """What a node is taken for, the worst first."""

    BAD = "bad"
    SUSPECT = "suspect"
    DRIFTING = "drifting"
    UNKNOWN = "unknown"
    HEALTHY = "healthy"


class Better(str, Enum):
    """Which way of a figure is better; `neither`: it is not compared."""

    HIGHER = "higher"
    LOWER = "lower"
    NEITHER = "neither"


@dataclass(frozen=True, slots=True, kw_only=True)
class Units:
    """Units of figures by which way is better."""

    higher: tuple[str, ...]
    lower: tuple[str, ...]
    neither: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Shared:
    """How figures of something are compared that all nodes share, and that others' work makes slow: of each span of
    `hours` the best sample of a node counts, and less than `tolerance` (relative) is no difference. Only `figures` are
    compared. A node is bad by one figure of `alone` where its repeats were spans of several samples, else by `agreeing`
    figures (by all, where it has fewer): what slows a client down slows down more than one."""

    figures: tuple[str, ...]
    hours: float
    tolerance: float
    agreeing: int = 1
    alone: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Refuse what means nothing.

        Raises:
            InputError: the field and what it may say.
        """
        if not (0 < self.hours < math.inf and 0 < self.tolerance < 1 and self.agreeing >= 1):
            text = (
                f"hours {self.hours:g}, tolerance {self.tolerance:g}, agreeing {self.agreeing}: expected more than 0, "
            )
            text += "between 0 and 1, and 1 or more."
            raise InputError("shared", text, "correct recipes/node_classes.yaml")


@dataclass(frozen=True, slots=True, kw_only=True)
class FigureRules:
    """The content of recipes/node_classes.yaml; `shared` is by test. Tests of `congested` measure what crosses the
    network of all nodes; a good result of a test of `held` reached the figure that its hardware is published with."""

    hard_causes: tuple[str, ...]
    units: Units
    congested: tuple[str, ...] = ()
    held: tuple[str, ...] = ()
    figures: Mapping[str, Better] = field(default_factory=dict)
    shared: Mapping[str, Shared] = field(default_factory=dict)

    def better(self, figure: Figure) -> Better | None:
        """Return which way of a figure is better, None if nothing says so."""
        if figure.name in self.figures:
            return self.figures[figure.name]
        units = {Better.HIGHER: self.units.higher, Better.LOWER: self.units.lower, Better.NEITHER: self.units.neither}
        return next((better for better, known in units.items() if figure.unit in known), None)

    def speed(self, figure: Figure) -> float | None:
        """Return a figure so that more is better, None if it is not compared.

        Raises:
            InputError: it is no such figure.
        """
        better, number = self.better(figure), figure.number
        if better is None:
            said = f"has unit {figure.unit!r}, of which nothing says which way is better."
            raise InputError(figure.name, said, "name the unit in recipes/node_classes.yaml")
        if better is Better.NEITHER:
            return None
        if not math.isfinite(number) or number < 0 or (better is Better.LOWER and number == 0):
            raise InputError(figure.name, f"is {number:g} {figure.unit}, which is no measurement.")
        return number if better is Better.HIGHER else 1 / number


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassLimits:
    """`stale_days`: how old a result may be, `stale_by_test` that of some tests; `history_days`: how far back results
    are looked at; `peers`, `drift`: the rules of both comparisons; `repeats`: samples after a suspicion that decide.
    `event_h`: results nearer than so many hours are one event, `congestion_h` those of tests that cross the network,
    where all of the repeats have to be low: who works beside a node today does so for hours. `peers_by_test` are the
    rules of tests whose figures a gate judges as well: what passes there is not bad here.
    """

    stale_days: float = 7.0
    stale_by_test: Mapping[str, float] = field(default_factory=dict)
    history_days: float = 90.0
    repeats: int = 3
    event_h: float = 6.0
    congestion_h: float = 24.0
    peers: PeerLimits = field(default_factory=lambda: PeerLimits(share=0.2, grows=False))
    peers_by_test: Mapping[str, PeerLimits] = field(default_factory=dict)
    drift: DriftLimits = field(default_factory=DriftLimits)

    def peers_of(self, test: str) -> PeerLimits:
        """Return the rule by which equals of that test are compared. Here repeats tell noise from what lasts, and of
        that the bound grows with the members (cohorts.py)."""
        found = self.peers_by_test.get(test)
        return self.peers if found is None else replace(found, share=self.peers.share, grows=False)

    def event_hours(self, test: str, rules: FigureRules) -> float:
        """Return how near results of that test are one event."""
        if test in rules.shared:
            return rules.shared[test].hours
        return max(self.congestion_h, self.event_h) if test in rules.congested else self.event_h

    def needed(self, test: str, rules: FigureRules) -> int:
        """Return how many of the repeats of that test have to be low."""
        return self.repeats if test in rules.congested else self.repeats // 2 + 1

    def fresh_days(self, test: str) -> float:
        """Return how old a result of that test may be."""
        return self.stale_by_test.get(test, self.stale_days)


@cache
def figure_rules(path: Path = RECIPES / "node_classes.yaml") -> FigureRules:
    """Return the rules of that file.

    Raises:
        InputError: it is not such a file.
    """
    return decode_file(FigureRules, path)
