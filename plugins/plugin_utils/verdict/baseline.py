# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Figures against accepted ones: which subjects lost, whether the whole fleet lost, and what cannot be compared and
why. Pure.

What many subjects lose together is a regression of what they share, and is reported once. A subject that lost alone is
named. The limit is a relative tolerance, wider where the changes of the sound subjects differ among each other.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from .before_after import ChangeLimits, Effect, before_after
from .figures import SKU, Figure, FigureRule, figure_rules
from .peers import PeerLimits
from .peers import compare as compare_peers

_LEAST_FOR_SPREAD = 4
# A shared loss: more than this fraction of the subjects, and more than one.
_SHARE = 0.25


@dataclass(frozen=True, slots=True, kw_only=True)
class AcceptedFigure:
    """A figure that a person accepted: who, when, and the run that measured it."""

    figure: Figure
    gate: str
    run_id: str
    who: str
    accepted: str


@dataclass(frozen=True, slots=True, kw_only=True)
class AcceptedBaseline:
    """What was accepted for a site when a run began, the newest of each subject and conditions.

    `absent` says why there is nothing.
    """

    site: str
    rehearsal: bool
    figures: tuple[AcceptedFigure, ...] = ()
    absent: str = ""
    schema_version: int = 1

    def of_gate(self, gate: str) -> tuple[AcceptedFigure, ...]:
        """Return the figures of a gate."""
        return tuple(entry for entry in self.figures if entry.gate == gate)


@dataclass(frozen=True, slots=True, kw_only=True)
class LossLimits:
    """The limits of a loss.

    `tolerance` is the fraction by which a figure may be worse, by kind of figure; more than `bad` times as much is bad.
    `spreads` is how many deviations of the changes among each other a subject may lose on top.
    """

    tolerance: Mapping[str, float]
    bad: float = 2.0
    spreads: float = 3.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """A figure of a subject then and now; `change` is below zero for a loss, also where less is better."""

    now: Figure
    accepted: AcceptedFigure
    change: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Different:
    """A figure with other conditions than any accepted one of its subject, of which `accepted` is the newest.

    `fields` are (name, then, now).
    """

    now: Figure
    accepted: AcceptedFigure
    fields: tuple[tuple[str, str, str], ...]

    @property
    def unknown(self) -> tuple[str, ...]:
        """The fields whose current value is unknown."""
        return tuple(name for name, _then, now in self.fields if not now)


@dataclass(frozen=True, slots=True, kw_only=True)
class FigureComparison:
    """The comparison of one kind of figure.

    `line` is the loss that counts. `lost` are those that lost more and are named. `together` are those of a loss that
    many share. `certain`: the median of all lost, by more than chance.
    """

    figure: str
    rule: FigureRule
    changes: tuple[Change, ...]
    line: float
    lost: tuple[Change, ...] = ()
    together: tuple[Change, ...] = ()
    certain: bool = False
    arithmetic: str = ""

    @property
    def middle(self) -> float:
        """The change of the median subject, of those that lost together if any did."""
        return median(entry.change for entry in self.together or self.changes)


@dataclass(frozen=True, slots=True, kw_only=True)
class Matched:
    """The measured figures beside the accepted ones.

    Those with the same conditions, those with other conditions, those of subjects without an accepted figure, and
    accepted ones that were not measured.
    """

    same: tuple[tuple[Figure, AcceptedFigure], ...]
    different: tuple[Different, ...]
    new: tuple[Figure, ...]
    missing: tuple[AcceptedFigure, ...]


def match(now: Iterable[Figure], accepted: Sequence[AcceptedFigure]) -> Matched:
    """Return which figure to compare with which; of several accepted ones with the same conditions the newest
    counts."""
    known: dict[tuple[str, str], list[AcceptedFigure]] = {}
    for entry in sorted(accepted, key=lambda entry: entry.accepted):
        known.setdefault((entry.figure.figure, entry.figure.subject), []).append(entry)
    same: list[tuple[Figure, AcceptedFigure]] = []
    different: list[Different] = []
    new: list[Figure] = []
    measured = set()
    for figure in now:
        place = (figure.figure, figure.subject)
        measured.add(place)
        before = known.get(place, [])
        alike = [entry for entry in before if dict(entry.figure.conditions) == dict(figure.conditions)]
        if alike:
            same.append((figure, alike[-1]))
        elif before:
            different.append(Different(now=figure, accepted=before[-1], fields=_fields(before[-1].figure, figure)))
        else:
            new.append(figure)
    missing = tuple(entries[-1] for place, entries in known.items() if place not in measured)
    return Matched(same=tuple(same), different=tuple(different), new=tuple(new), missing=missing)


def _fields(then: Figure, now: Figure) -> tuple[tuple[str, str, str], ...]:
    names = list(dict.fromkeys((*then.conditions, *now.conditions)))
    pairs = ((name, then.conditions.get(name, ""), now.conditions.get(name, "")) for name in names)
    return tuple(entry for entry in pairs if entry[1] != entry[2])


def compare(pairs: Sequence[tuple[Figure, AcceptedFigure]], limits: LossLimits) -> tuple[FigureComparison, ...]:
    """Return the comparison of each kind of figure with the accepted ones, in the order of the rules."""
    kinds = {now.figure for now, _accepted in pairs}
    rules = figure_rules()
    return tuple(
        _compare(name, rule, [pair for pair in pairs if pair[0].figure == name], limits, len(kinds))
        for name, rule in rules.items()
        if name in kinds
    )


def _compare(
    name: str,
    rule: FigureRule,
    pairs: Sequence[tuple[Figure, AcceptedFigure]],
    limits: LossLimits,
    comparisons: int,
) -> FigureComparison:
    changes = tuple(
        Change(now=now, accepted=accepted, change=relative_change(accepted.figure.value, now.value, rule))
        for now, accepted in pairs
    )
    tolerance, spread = limits.tolerance[name], _spread(changes, limits.spreads)
    # However much subjects differ: what is bad without the spread is never good.
    line = min(max(tolerance, limits.spreads * spread), limits.bad * tolerance)
    lost = tuple(sorted((entry for entry in changes if entry.change < -line), key=lambda entry: entry.change))
    # A spread among the subjects widens what one of them may lose; the loss of the median is compared with the
    # tolerance.
    tested = before_after(
        {_who(entry): entry.accepted.figure.value for entry in changes},
        {_who(entry): entry.now.value for entry in changes},
        more_is_better=rule.better == "higher",
        comparisons=comparisons,
        limits=ChangeLimits(least_change=tolerance),
    )
    certain = tested.effect is Effect.LOSS
    many = len(lost) > max(1, int(_SHARE * len(changes)))
    suspects = set(tested.suspects)
    words = (
        f"a loss counts from {line:.1%} = min(max({tolerance:g}, {limits.spreads:g} x {spread:.2%}), "
        f"{limits.bad:g} x {tolerance:g})"
    )
    return FigureComparison(
        figure=name,
        rule=rule,
        changes=changes,
        line=line,
        lost=tuple(entry for entry in lost if _who(entry) in suspects) if certain else () if many else lost,
        together=tuple(entry for entry in changes if entry.change < 0) if certain else lost if many else (),
        certain=certain,
        arithmetic=f"{words}; {tested.arithmetic}",
    )


def _who(entry: Change) -> str:
    """Return a unique name of a subject: of all hosts there is one figure for each SKU."""
    return f"{entry.now.subject} {entry.now.conditions.get(SKU, '')}"


def _spread(changes: Sequence[Change], spreads: float) -> float:
    """Return how much the changes of the sound subjects differ, relative to their median; 0 for too few.

    Those that lost do not widen the limit: they are the slower of two modes (verdict/peers.py).
    """
    if len(changes) < _LEAST_FOR_SPREAD:
        return 0.0
    found = compare_peers({str(n): 1 + entry.change for n, entry in enumerate(changes)}, PeerLimits(spreads=spreads))
    return found.spread / found.median if found.median > 0 else 0.0


def relative_change(then: float, now: float, rule: FigureRule) -> float:
    """Return the relative change of a figure; a loss is below zero."""
    return now / then - 1 if rule.better == "higher" else 1 - now / then
