# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Figures of idle nodes: the rules and limits of their comparison, which way is better, and the series of comparable
samples that results make, one for each figure of each part of each node. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from functools import cache
from pathlib import Path

from ...outcome.errors import InputError
from ...outcome.model import Status
from ...runtime.files import RECIPES
from ...runtime.strict import decode_file
from ...store.records import Figure, NodeResult
from ...verdict.peers import PeerLimits
from .node_history import SKEW_S, is_measured
from .slowdown import DriftLimits


class Word(str, Enum):
    """The class of a node, worst first."""

    BAD = "bad"
    SUSPECT = "suspect"
    DRIFTING = "drifting"
    UNKNOWN = "unknown"
    HEALTHY = "healthy"


class Better(str, Enum):
    """Which way of a figure is better. `neither`: it is not compared."""

    HIGHER = "higher"
    LOWER = "lower"
    NEITHER = "neither"


@dataclass(frozen=True, slots=True, kw_only=True)
class Units:
    """Units of figures, by which way is better."""

    higher: tuple[str, ...]
    lower: tuple[str, ...]
    neither: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Shared:
    """How figures of a shared resource are compared, which the work of others can slow down.

    Of each span of `hours` the best sample of a node counts, and less than `tolerance` (relative) is no difference.
    Only `figures` are compared. A node is bad by one figure of `alone` where its repeats were spans of several samples,
    else by `agreeing` figures (by all, where it has fewer): what slows a client down slows down more than one figure.
    """

    figures: tuple[str, ...]
    hours: float
    tolerance: float
    agreeing: int = 1
    alone: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Refuse values that have no meaning.

        Raises:
            InputError: the field and its allowed values.
        """
        if not (0 < self.hours < math.inf and 0 < self.tolerance < 1 and self.agreeing >= 1):
            text = (
                f"hours {self.hours:g}, tolerance {self.tolerance:g}, agreeing {self.agreeing}: expected more than 0, "
            )
            text += "between 0 and 1, and 1 or more."
            raise InputError("shared", text, "correct recipes/node_classes.yaml")


@dataclass(frozen=True, slots=True, kw_only=True)
class FigureRules:
    """The content of recipes/node_classes.yaml; `shared` is by test.

    Tests of `congested` measure traffic through the network of all nodes. A good result of a test of `held` reached the
    figure that is published for its hardware.
    """

    hard_causes: tuple[str, ...]
    units: Units
    congested: tuple[str, ...] = ()
    held: tuple[str, ...] = ()
    figures: Mapping[str, Better] = field(default_factory=dict)
    shared: Mapping[str, Shared] = field(default_factory=dict)

    def better(self, figure: Figure) -> Better | None:
        """Return which way of a figure is better, None if no rule covers it."""
        if figure.name in self.figures:
            return self.figures[figure.name]
        units = {Better.HIGHER: self.units.higher, Better.LOWER: self.units.lower, Better.NEITHER: self.units.neither}
        return next((better for better, known in units.items() if figure.unit in known), None)

    def speed(self, figure: Figure) -> float | None:
        """Return a figure so that more is better, None if it is not compared.

        Raises:
            InputError: no rule covers the unit of the figure, or the figure is not valid.
        """
        better, number = self.better(figure), figure.number
        if better is None:
            reported = f"has unit {figure.unit!r}, of which nothing says which way is better."
            raise InputError(figure.name, reported, "name the unit in recipes/node_classes.yaml")
        if better is Better.NEITHER:
            return None
        if not math.isfinite(number) or number < 0 or (better is Better.LOWER and number == 0):
            raise InputError(figure.name, f"is {number:g} {figure.unit}, which is no measurement.")
        return number if better is Better.HIGHER else 1 / number


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassLimits:
    """The limits of classification.

    `stale_days`: how old a result may be, `stale_by_test` that of some tests. `history_days`: how far back results are
    read. `peers`, `drift`: the rules of both comparisons. `repeats`: samples after a suspicion that decide. `event_h`:
    results closer than so many hours are one event. `congestion_h`: the same for tests that cross the network, where
    all of the repeats have to be low, because a neighbour's job keeps the network busy for hours. `peers_by_test`: the
    rules of tests whose figures a gate judges as well; what passes there is not bad here.
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
        """Return the rule by which peers of that test are compared.

        Here repeats separate noise from persistent differences; the bound for the latter grows with the number of
        members (cohorts.py).
        """
        found = self.peers_by_test.get(test)
        return self.peers if found is None else replace(found, share=self.peers.share, grows=False)

    def event_hours(self, test: str, rules: FigureRules) -> float:
        """Return within how many hours results of that test are one event."""
        if test in rules.shared:
            return rules.shared[test].hours
        return max(self.congestion_h, self.event_h) if test in rules.congested else self.event_h

    def needed(self, test: str, rules: FigureRules) -> int:
        """Return how many of the repeats of that test have to be low."""
        return self.repeats if test in rules.congested else self.repeats // 2 + 1

    def fresh_days(self, test: str) -> float:
        """Return how old a result of that test may be, in days."""
        return self.stale_by_test.get(test, self.stale_days)


@cache
def figure_rules(path: Path = RECIPES / "node_classes.yaml") -> FigureRules:
    """Return the rules of that file.

    Raises:
        InputError: the file does not have this form.
    """
    return decode_file(FigureRules, path)


# What a figure of a node has to reach, beside its peers: what a person accepted, or what is published for its hardware.
# Pure. At a site of one to three nodes agreement between peers proves nothing, and a history proves that nothing
# changed, not that it is as it should be.

# By node, test and figure.
References = Mapping[tuple[str, str, str], "Reference"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Reference:
    """A speed (more is better, as FigureRules.speed) that every part reaches.

    Under the fraction `marginal` of it a node is suspect. Under `bad` its repeats make it bad. `source` says where it
    comes from, `shown` is the figure in its unit.
    """

    speed: float
    marginal: float
    bad: float
    source: str
    shown: str

    @property
    def text(self) -> str:
        """The reference in words."""
        return f"{self.shown} ({self.source}; suspect under {self.marginal:.0%}, bad under {self.bad:.0%})"


@dataclass(frozen=True, slots=True, kw_only=True)
class Series:
    """One figure of one part of one node: `speeds`, more is better, oldest first, all of one cohort.

    `earlier` is the newest sample of the same part from before its cohort changed, `earlier_cohort` its cohort.
    `tolerance` is the least relative difference that counts, 0 for that of all figures. `of_many` has for each speed
    whether it is the best of more than one sample; empty for a figure that alone names no node. `began_s`: time of the
    first sample, seconds since the epoch.
    """

    node: str
    test: str
    figure: str
    unit: str
    part: str
    cohort: str
    speeds: tuple[float, ...]
    shown: tuple[float, ...]
    earlier: float | None = None
    earlier_cohort: str = ""
    tolerance: float = 0.0
    of_many: tuple[bool, ...] = ()
    began_s: float = 0.0

    @property
    def first_key(self) -> tuple[str, str, str, str, str]:
        """The key under which the beginning of the series is recorded."""
        return self.node, self.test, self.cohort, self.part, self.figure

    @property
    def group(self) -> tuple[str, str, str]:
        """The key that series have in common that are compared."""
        return self.test, self.cohort, self.figure

    @property
    def name(self) -> str:
        """The name as text."""
        return f"{self.test}: {self.figure}{f' of {self.part}' if self.part else ''}"


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeRecord:
    """All results of one test on one node, oldest first.

    `known` are the results that measured something (node_history.is_measured); `newest` is the newest result of any
    status. `event_h` is how long one event lasts, hours. `problems` says which figures of the newest known result are
    no measurements.
    """

    node: str
    test: str
    known: tuple[NodeResult, ...]
    newest: NodeResult | None
    event_h: float = 0.0
    series: tuple[Series, ...] = ()
    problems: tuple[str, ...] = ()

    @property
    def not_owed(self) -> str:
        """Why the test does not apply to the node (it was skipped there). Empty if it applies, or ever gave a
        result."""
        newest = self.newest
        return newest.summary if newest is not None and newest.status is Status.SKIPPED and not self.known else ""


@dataclass(slots=True)
class _Samples:
    figure: Figure
    speeds: list[float] = field(default_factory=list)
    shown: list[float] = field(default_factory=list)
    at_s: list[float] = field(default_factory=list)
    of_many: list[bool] = field(default_factory=list)
    earlier: float | None = None
    earlier_cohort: str = ""

    def best_of(self, span_s: float) -> None:
        """Keep the best sample of each span of time; a span begins with a sample."""
        kept: list[tuple[float, float, float, bool]] = []
        for at_s, speed, shown in zip(self.at_s, self.speeds, self.shown, strict=True):
            if not kept or at_s - kept[-1][0] >= span_s:
                kept.append((at_s, speed, shown, False))
            else:
                kept[-1] = (kept[-1][0], *max(kept[-1][1:3], (speed, shown), key=lambda best: best[0]), True)
        self.speeds, self.shown = [entry[1] for entry in kept], [entry[2] for entry in kept]
        self.of_many = [entry[3] for entry in kept]


def records(
    results: Iterable[NodeResult], now_s: float, rules: FigureRules, limits: ClassLimits | None = None
) -> dict[tuple[str, str], NodeRecord]:
    """Return the results by node and test. A result dated in the future came from a wrong clock and is dropped.

    Args:
        results: in any order.
        now_s: the time now, seconds since the epoch.
        rules: which way of a figure is better.
        limits: how long one event lasts.
    """
    limits = limits or ClassLimits()
    found: dict[tuple[str, str], list[NodeResult]] = {}
    for result in results:
        if math.isfinite(result.started_s) and result.started_s <= now_s + SKEW_S:
            found.setdefault((result.node, result.test), []).append(result)
    return {key: _record(*key, entries, rules, limits.event_hours(key[1], rules)) for key, entries in found.items()}


def _record(node: str, test: str, entries: list[NodeResult], rules: FigureRules, event_h: float) -> NodeRecord:
    entries.sort(key=lambda result: (result.started_s, result.cycle_id))
    known = tuple(filter(is_measured, entries))
    series, problems = _series(known, rules, event_h) if known else ((), ())
    return NodeRecord(
        node=node, test=test, known=known, newest=entries[-1], event_h=event_h, series=series, problems=problems
    )


def _series(
    known: tuple[NodeResult, ...], rules: FigureRules, event_h: float
) -> tuple[tuple[Series, ...], tuple[str, ...]]:
    newest, problems = known[-1], list[str]()
    wanted: dict[tuple[str, str], _Samples] = {}
    shared = rules.shared.get(newest.test)
    for figure in newest.figures:
        try:
            speed = rules.speed(figure)
        except InputError as error:
            problems.append(f"{newest.test}: {error.subject} {error.reason.rstrip('.')}")
            continue
        if speed is not None and (shared is None or figure.name in shared.figures):
            wanted[_key(figure, newest.parts)] = _Samples(figure)
    for result in known:
        _add(result, newest, wanted, rules)
    for samples in wanted.values():
        samples.best_of(event_h * 3600)
        if shared is not None:
            # One sample before a change and one after it are of different hours: they say nothing about the change.
            samples.earlier = None
    alone = shared.alone if shared else ()
    made = tuple(
        Series(
            node=newest.node, test=newest.test, figure=samples.figure.name, unit=samples.figure.unit,
            part=samples.figure.part, cohort=newest.cohort, speeds=tuple(samples.speeds), shown=tuple(samples.shown),
            earlier=samples.earlier, earlier_cohort=samples.earlier_cohort,
            tolerance=shared.tolerance if shared else 0.0,
            of_many=tuple(samples.of_many) if samples.figure.name in alone else (),
            began_s=samples.at_s[0] if samples.at_s else 0.0,
        )
        for samples in wanted.values()
    )  # fmt: skip
    return made, tuple(problems)


def _add(
    result: NodeResult, newest: NodeResult, wanted: Mapping[tuple[str, str], _Samples], rules: FigureRules
) -> None:
    for figure in result.figures:
        samples = wanted.get(_key(figure, result.parts))
        # A figure of the whole node depends on all of its parts.
        if samples is None or (not figure.part and result.parts != newest.parts) or figure.unit != samples.figure.unit:
            continue
        try:
            speed = rules.speed(figure)
        except InputError:
            continue
        if speed is None:
            continue
        if result.cohort == newest.cohort:
            samples.speeds.append(speed)
            samples.shown.append(figure.number)
            samples.at_s.append(result.started_s)
        else:
            samples.earlier, samples.earlier_cohort = speed, result.cohort


def _key(figure: Figure, parts: Mapping[str, str]) -> tuple[str, str]:
    """Return a figure and the identity of its part: a slot is identified by what is in it."""
    return figure.name, parts.get(figure.part, figure.part)
