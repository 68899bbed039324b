# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Which curves a figure shows: all of them, or a choice of them, by a rule that the page states. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from statistics import median

from ..outcome.gates import GATES
from ..outcome.model import Outcome, Status
from ..outcome.series import Axis, Bound, Series

# More lines than these cannot be distinguished in print.
MOST_LINES = 6
MOST_BOUNDS = 6
_HELD_AMONG_MANY = 3

Points = tuple[tuple[float, float], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One line of a figure; `held` where its result is not passed."""

    name: str
    points: Points
    held: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """One plot: what is drawn, the bounds, and the sentence that says how the curves shown were chosen."""

    title: str
    gate: str
    x: Axis
    y: Axis
    lines: tuple[Line, ...]
    bounds: tuple[Bound, ...]
    curves: int
    note: str = ""


def figures(outcomes: Mapping[str, tuple[Outcome, ...]]) -> tuple[Figure, ...]:
    """Return every figure that the outcomes carry curves for, in the order of the gates.

    Curves of one figure that disagree on what an axis shows are drawn as figures of their own.
    """
    found: dict[tuple[str, str, Axis, Axis], dict[tuple[str, Points], tuple[Series, bool]]] = {}
    for gate in GATES:
        for outcome in outcomes.get(gate.id, ()):
            held = outcome.status is not Status.PASSED
            for curve in outcome.series:
                curves = found.setdefault((gate.id, curve.figure, curve.x, curve.y), {})
                # The two hosts of a pair each carry the curve of the pair.
                before = curves.get((curve.name, curve.points))
                curves[curve.name, curve.points] = (curve, held or bool(before and before[1]))
    drawn = [_figure(*key, list(curves.values())) for key, curves in found.items()]
    order = [gate.id for gate in GATES]
    # Within a gate from the many to the whole: hosts, pairs, all of them.
    return tuple(sorted(drawn, key=lambda figure: (order.index(figure.gate), -figure.curves)))


def _figure(gate: str, title: str, x: Axis, y: Axis, curves: list[tuple[Series, bool]]) -> Figure:
    every = _named(curves)
    lines, note = _chosen(every)
    bounds, more = _bounds(curve for curve, _held in curves)
    return Figure(
        title=title,
        gate=gate,
        x=x,
        y=y,
        lines=lines,
        bounds=bounds,
        curves=len(every),
        note=" ".join((note, more)).strip(),
    )


def _named(curves: list[tuple[Series, bool]]) -> list[Line]:
    seen: dict[str, int] = {}
    lines = []
    for curve, held in curves:
        seen[curve.name] = seen.get(curve.name, 0) + 1
        again = f" ({seen[curve.name]})" if seen[curve.name] > 1 else ""
        lines.append(Line(name=curve.name + again, points=curve.points, held=held))
    return lines


def _chosen(lines: list[Line]) -> tuple[tuple[Line, ...], str]:
    if len(lines) <= MOST_LINES:
        return tuple(sorted(lines, key=lambda line: not line.held)), ""
    held = [line for line in lines if line.held]
    shown = sorted(held, key=_level)[:_HELD_AMONG_MANY]
    rest = [line for line in lines if not line.held] or lines
    summed = _summed(rest)
    what = f"{len(lines)} curves. Drawn are the lowest, the median and the highest value at each point of {len(rest)}"
    if not summed:
        ranked = sorted(rest, key=_level)
        summed = tuple(dict.fromkeys((ranked[0], ranked[len(ranked) // 2], ranked[-1])))
        what = f"{len(lines)} curves. Drawn are the lowest, the middle and the highest by their mean of {len(rest)}"
    what += " that passed" if held and len(rest) < len(lines) else ""
    if held:
        what += (
            f", and the {len(shown)} lowest of {len(held)} that did not"
            if len(held) > len(shown)
            else (f", and the {len(held)} that did not")
        )
    return (*shown, *summed), f"{what}."


def _level(line: Line) -> float:
    return sum(y for _x, y in line.points) / len(line.points)


def _summed(lines: list[Line]) -> tuple[Line, ...]:
    """Return lowest, median and highest at each x that at least half of the curves have; none if there are no two."""
    at: dict[float, list[float]] = {}
    for line in lines:
        for x, y in line.points:
            at.setdefault(x, []).append(y)
    shared = sorted(x for x, values in at.items() if len(values) * 2 >= len(lines))
    if len(shared) < 2:
        return ()
    return tuple(
        Line(name=f"{word} of {len(lines)}", points=tuple((x, make(at[x])) for x in shared))
        for word, make in (("highest", max), ("median", median), ("lowest", min))
    )


def _bounds(curves: Iterable[Series]) -> tuple[tuple[Bound, ...], str]:
    """Return each bound once; where they are too many, the lowest and the highest of each name."""
    every = dict.fromkeys(bound for curve in curves for bound in curve.bounds)
    if len(every) <= MOST_BOUNDS:
        return tuple(every), ""
    by_name: dict[str, list[float]] = {}
    for bound in every:
        by_name.setdefault(bound.name, []).append(bound.value)
    kept = [Bound(name=f"{name}, lowest", value=min(values)) for name, values in by_name.items()]
    kept += [Bound(name=f"{name}, highest", value=max(v)) for name, v in by_name.items() if len(set(v)) > 1]
    note = f"The curves are held against {len(every)} lines; drawn are the lowest and the highest of each kind."
    return tuple(kept[: 2 * MOST_BOUNDS]), note
