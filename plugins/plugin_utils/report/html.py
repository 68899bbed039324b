# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The HTML page of a run: a single file, to be read on a screen, mailed and printed."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from statistics import median
from typing import Any

from ..check.registry import all_checks
from ..outcome.gates import GATES, PHASES
from ..outcome.model import Axis, Bound, Outcome, Series, Status
from ..outcome.wording import count, first_of
from ..runtime.clock import elapsed_text
from ..runtime.redaction import redact
from ..runtime.text import visible
from ..verdict.gate import GateVerdict
from ..verdict.restart import not_looked_at, way_on
from ..verdict.run import all_passed, run_summary
from . import scope
from .cases import Step, case_groups, next_steps
from .decisions import decision_lines, quarantine_lines
from .facts import RESTORE, RunFacts, behind_lines, look_groups
from .markdown import check_lines, gate_lines, kind_of_run, titles, waiting_checks
from .matrix import matrix
from .words import axis_title, number, tick

# The phases of a validation one after the other: status, and the results of each validator with their causes. Pure.

# With more entries a page becomes unreadable; the CTRF files have every one of them.
MOST_REASONS = 8
_WORST_FIRST = (Status.FAILED, Status.OTHER, Status.PENDING, Status.SKIPPED, Status.PASSED)


@dataclass(frozen=True, slots=True, kw_only=True)
class Reason:
    """Why a validator did not pass for one subject; `cause` is empty for what was left out."""

    cause: str
    subject: str
    summary: str
    hint: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ValidatorLine:
    """One validator: how many of its results have which status, worst first, and why; `more` only counted."""

    id: str
    title: str
    counts: tuple[tuple[str, int], ...]
    reasons: tuple[Reason, ...]
    more: int

    @property
    def status(self) -> str:
        """The worst status of its results."""
        return self.counts[0][0]


@dataclass(frozen=True, slots=True, kw_only=True)
class PhaseLine:
    """One phase; `ran` says whether it was observed in this run."""

    id: str
    status: str
    message: str
    ran: bool
    duration_s: float = 0.0
    validators: tuple[ValidatorLine, ...] = ()


def phase_lines(facts: RunFacts) -> tuple[PhaseLine, ...]:
    """Return the phases of a run in their order; for a validation also those that were not requested."""
    record = facts.record
    if not record.phases:
        return ()
    known = {check.spec.id: check.spec.title for check in all_checks()}
    requested = [verdict.gate for verdict in record.phases]
    names = [name for name in PHASES if name in requested or record.validates]
    return tuple(_line(name, facts, known) for name in (*names, *(name for name in requested if name not in PHASES)))


def _line(name: str, facts: RunFacts, titles: Mapping[str, str]) -> PhaseLine:
    verdict = facts.record.phase(name)
    if verdict is None:
        return PhaseLine(id=name, status=Status.PENDING.value, message="not asked in this run", ran=False)
    ran = verdict.status is not Status.PENDING
    return PhaseLine(
        id=name,
        status=verdict.status.value,
        message=redact(verdict.message),
        ran=ran,
        duration_s=verdict.duration_s,
        validators=_validators(verdict, facts.phase_outcomes.get(name, ()), titles) if ran else (),
    )


def _validators(
    verdict: GateVerdict, outcomes: tuple[Outcome, ...], titles: Mapping[str, str]
) -> tuple[ValidatorLine, ...]:
    counts: dict[str, Counter[Status]] = {}
    reasons: dict[str, list[Reason]] = {}
    for outcome in outcomes:
        counts.setdefault(outcome.check, Counter())[outcome.status] += 1
        if outcome.status is Status.SKIPPED:
            reasons.setdefault(outcome.check, []).append(
                Reason(cause="", subject=outcome.about, summary=redact(outcome.summary))
            )
    answered = frozenset(counts)
    for entry in verdict.blocking:
        # A blocking entry without a result is a check without a result, or a file that cannot be read.
        if entry.check not in answered:
            counts.setdefault(entry.check, Counter())[entry.status] += 1
        reasons.setdefault(entry.check, []).append(
            Reason(cause=entry.cause, subject=entry.shown, summary=redact(entry.summary), hint=redact(entry.hint))
        )
    lines = [
        ValidatorLine(
            id=check,
            title=titles.get(check, ""),
            counts=tuple((status.value, found[status]) for status in _WORST_FIRST if found[status]),
            reasons=tuple(reasons.get(check, ())[:MOST_REASONS]),
            more=max(0, len(reasons.get(check, ())) - MOST_REASONS),
        )
        for check, found in counts.items()
    ]
    order = [status.value for status in _WORST_FIRST]
    return tuple(sorted(lines, key=lambda line: (order.index(line.status), line.id)))


# Figures as inline SVG, drawn with pygal, with their ticks and labels; without pygal the page shows the numbers.

# Places on an axis: of a value, and of the ticks. Pure.

_MOST_TICKS = 8


def place(value: float, axis: Axis) -> float | None:
    """Return the place of a value on the axis as drawn; None where a logarithmic axis has no place for it."""
    if not axis.logarithmic:
        return value
    return math.log2(value) if value > 0 else None


def ticks(values: Sequence[float], axis: Axis, *, from_zero: bool = False) -> tuple[float, ...]:
    """Return the values of the ticks, ascending; they enclose a linear axis and are within a logarithmic one."""
    shown = [value for value in values if place(value, axis) is not None]
    if not shown:
        return ()
    low, high = min(shown), max(shown)
    if axis.logarithmic:
        return _powers(low, high, 2 if axis.unit == "B" else 10)
    return _round_steps(min(low, 0.0) if from_zero else low, high)


def _powers(low: float, high: float, base: int) -> tuple[float, ...]:
    first, last = math.ceil(math.log(low, base) - 1e-9), math.floor(math.log(high, base) + 1e-9)
    if last <= first:
        return tuple(dict.fromkeys((low, high)))
    step = max(1, math.ceil((last - first) / (_MOST_TICKS - 1)))
    return tuple(float(base) ** power for power in range(last, first - 1, -step))[::-1]


def _round_steps(low: float, high: float) -> tuple[float, ...]:
    if high <= low:
        high = low + (abs(low) or 1.0)
    rough = (high - low) / (_MOST_TICKS - 2)
    unit = 10.0 ** math.floor(math.log10(rough))
    step = next(factor * unit for factor in (1, 2, 2.5, 5, 10) if factor * unit >= rough * 0.999)
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    return tuple(round(number * step, 12) for number in range(first, last + 1))


# Names beside the lines of a drawing, in place of a legend: each with a piece of its line, none over another.

_LINE_HEIGHT = 14.0
_SAMPLE = 26
_MOST_LETTERS = 36


@dataclass(frozen=True, slots=True, kw_only=True)
class Label:
    """A name, where its line ends (in the units of the plot), and how the line looks."""

    text: str
    x: float
    y: float
    color: str
    dash: str
    width: float


def spread(heights: Sequence[float], top: float, bottom: float, least: float = _LINE_HEIGHT) -> list[float]:
    """Return heights moved apart by at least `least`, in their order, within top and bottom as far as they fit."""
    order = sorted(range(len(heights)), key=lambda index: heights[index])
    moved = list(heights)
    floor = top
    for index in order:
        moved[index] = max(heights[index], floor)
        floor = moved[index] + least
    ceiling = bottom
    for index in reversed(order):
        moved[index] = min(moved[index], ceiling)
        ceiling = moved[index] - least
    return moved


def add_labels(chart: Any, root: Any, labels: Sequence[Label], *, left: float, top: float, bottom: float) -> None:
    """Write the labels into the drawing, right of the plot. `chart` is a pygal chart that is being rendered."""
    ends = [_end(chart, label) for label in labels]
    heights = spread([y for _x, y in ends], top + 4, bottom)
    for label, (x, y), height in zip(labels, ends, heights, strict=True):
        _leader(chart, root, (x, y), (left - 2, height))
        sample = chart.svg.node(root, "line", x1=left, x2=left + _SAMPLE, y1=height, y2=height)
        sample.set("style", f"stroke:{label.color};stroke-width:{label.width};stroke-dasharray:{label.dash or 'none'}")
        style = "font:11px system-ui,sans-serif;fill:#1a1a1a"
        text = chart.svg.node(root, "text", x=left + _SAMPLE + 5, y=height + 4, style=style)
        text.text = label.text if len(label.text) <= _MOST_LETTERS else f"{label.text[: _MOST_LETTERS - 1]}\u2026"
        if text.text != label.text:
            # Before the text, as SVG requires; read out and shown by the pointer.
            text.text, shown = "", text.text
            title = chart.svg.node(text, "title")
            title.text, title.tail = label.text, shown


def _end(chart: Any, label: Label) -> tuple[float, float]:
    x, y = chart.view((label.x, label.y))
    return float(x) + chart.margin_box.left, float(y) + chart.margin_box.top


def _leader(chart: Any, root: Any, start: tuple[float, float], end: tuple[float, float]) -> None:
    (x1, y1), (x2, y2) = start, end
    line = chart.svg.node(root, "line", x1=x1, y1=y1, x2=x2, y2=y2)
    line.set("style", "stroke:#999999;stroke-width:0.7")


# Which curves a figure shows: all of them, or a selection, by a rule that the page names. Pure.

# More lines than these cannot be distinguished in print.
MOST_LINES = 6
MOST_BOUNDS = 6
_HELD_AMONG_MANY = 3

Points = tuple[tuple[float, float], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One line of a figure; `held` where its result did not pass."""

    name: str
    points: Points
    held: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """One plot: what is drawn, the bounds, and the sentence that explains the selection of curves."""

    title: str
    gate: str
    x: Axis
    y: Axis
    lines: tuple[Line, ...]
    bounds: tuple[Bound, ...]
    curves: int
    note: str = ""


def figures(outcomes: Mapping[str, tuple[Outcome, ...]]) -> tuple[Figure, ...]:
    """Return every figure for which the outcomes have curves, in the order of the gates.

    Curves of one figure with different axes are drawn as separate figures.
    """
    found: dict[tuple[str, str, Axis, Axis], dict[tuple[str, Points], tuple[Series, bool]]] = {}
    for gate in GATES:
        for outcome in outcomes.get(gate.id, ()):
            on_hold = outcome.status is not Status.PASSED
            for curve in outcome.series:
                curves = found.setdefault((gate.id, curve.figure, curve.x, curve.y), {})
                # The two hosts of a pair each have the curve of the pair.
                before = curves.get((curve.name, curve.points))
                curves[curve.name, curve.points] = (curve, on_hold or bool(before and before[1]))
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
    for curve, on_hold in curves:
        seen[curve.name] = seen.get(curve.name, 0) + 1
        again = f" ({seen[curve.name]})" if seen[curve.name] > 1 else ""
        lines.append(Line(name=curve.name + again, points=curve.points, held=on_hold))
    return lines


def _chosen(lines: list[Line]) -> tuple[tuple[Line, ...], str]:
    if len(lines) <= MOST_LINES:
        return tuple(sorted(lines, key=lambda line: not line.held)), ""
    on_hold = [line for line in lines if line.held]
    shown = sorted(on_hold, key=_level)[:_HELD_AMONG_MANY]
    rest = [line for line in lines if not line.held] or lines
    summed = _summed(rest)
    what = f"{len(lines)} curves. Drawn are the lowest, the median and the highest value at each point of {len(rest)}"
    if not summed:
        ranked = sorted(rest, key=_level)
        summed = tuple(dict.fromkeys((ranked[0], ranked[len(ranked) // 2], ranked[-1])))
        what = f"{len(lines)} curves. Drawn are the lowest, the middle and the highest by their mean of {len(rest)}"
    what += " that passed" if on_hold and len(rest) < len(lines) else ""
    if on_hold:
        what += (
            f", and the {len(shown)} lowest of {len(on_hold)} that did not"
            if len(on_hold) > len(shown)
            else (f", and the {len(on_hold)} that did not")
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


# Figures as inline SVG, drawn with pygal; without pygal there is no drawing, and the page shows the numbers.

WIDTH, HEIGHT = 800, 310
_RIGHT, _TOP, _BOTTOM, _LEFT = 252, 12, 40, 62
# Distinguished by their dashes first; the colours are dark, and equally dark, so that they print in grey.
_LINES = (
    ("#000000", ""),
    ("#0b4f8a", "9, 4"),
    ("#8a3b00", "2, 3"),
    ("#2f5d2f", "10, 3, 2, 3"),
    ("#5b2a86", "5, 5"),
    ("#404040", "1, 5"),
)
_BOUNDS = ("", "12, 4", "4, 3", "1, 3")
_DOTS_UP_TO = 40


def drawing(figure: Figure, name: str) -> str:
    """Return the SVG of a figure, empty where pygal is not installed or there is nothing to draw.

    Args:
        figure: what to draw.
        name: an id of letters and digits, different for every figure of a page.
    """
    try:
        from pygal import XY
        from pygal.style import Style
    except ImportError:
        return ""
    every = [value for line in figure.lines for _x, value in line.points] + [bound.value for bound in figure.bounds]
    x_ticks = ticks([x for line in figure.lines for x, _y in line.points], figure.x)
    y_ticks = ticks(every, figure.y, from_zero=True)
    if not x_ticks or not y_ticks:
        return ""
    # pygal draws every line equally thin; ours differ, as the pieces beside their names do.
    css = ("file://style.css", "file://graph.css", f"inline:#chart-{name} .line.reactive{{stroke-width:inherit}}")
    chart = XY(style=Style(**_style(figure)), css=css, **_layout(figure, x_ticks, y_ticks))
    chart.uuid = name
    labels = [*_draw_bounds(chart, figure), *_draw_lines(chart, figure)]
    chart.add_xml_filter(_finish(chart, figure, name, labels))
    svg: str = chart.render(disable_xml_declaration=True)
    return svg


def _style(figure: Figure) -> dict[str, Any]:
    colors = ["#555555"] * len(figure.bounds) + [_LINES[i % len(_LINES)][0] for i in range(len(figure.lines))]
    family = "system-ui, sans-serif"
    return {
        "background": "transparent",
        "plot_background": "transparent",
        "foreground": "#1a1a1a",
        "foreground_strong": "#1a1a1a",
        "foreground_subtle": "#444444",
        "guide_stroke_color": "#d0d0d0",
        "guide_stroke_dasharray": "none",
        "major_guide_stroke_color": "#d0d0d0",
        "major_guide_stroke_dasharray": "none",
        "opacity": "1",
        "stroke_opacity": "1",
        "transition": "0s",
        "font_family": family,
        "label_font_family": family,
        "title_font_family": family,
        "label_font_size": 11,
        "major_label_font_size": 11,
        "title_font_size": 12,
        "colors": tuple(colors),
    }


def _layout(figure: Figure, x_ticks: tuple[float, ...], y_ticks: tuple[float, ...]) -> dict[str, Any]:
    y_places = [place(value, figure.y) for value in y_ticks]
    return {
        "js": (),
        "title": None,
        "width": WIDTH,
        "height": HEIGHT,
        "margin_top": _TOP,
        "margin_right": _RIGHT,
        "margin_bottom": _BOTTOM,
        "margin_left": _LEFT,
        "show_legend": False,
        "show_x_guides": True,
        "truncate_label": -1,
        "dots_size": 2,
        "range": (y_places[0], y_places[-1]),
        "x_labels": _axis_labels(x_ticks, figure.x),
        "y_labels": _axis_labels(y_ticks, figure.y),
    }


def _axis_labels(values: tuple[float, ...], axis: Axis) -> list[dict[str, Any]]:
    return [{"label": tick(value, axis), "value": place(value, axis)} for value in values]


def _draw_bounds(chart: Any, figure: Figure) -> list[Label]:
    xs = [at for line in figure.lines for x, _y in line.points if (at := place(x, figure.x)) is not None]
    labels = []
    for position, bound in enumerate(figure.bounds):
        at = place(bound.value, figure.y)
        if at is None:
            continue
        dash = _BOUNDS[position % len(_BOUNDS)]
        chart.add("", [(min(xs), at), (max(xs), at)], show_dots=False, stroke_style=_stroke(dash, 1.2))
        unit = figure.y.unit if figure.y.unit != "count" else ""
        text = f"{bound.name}: {number(bound.value)} {unit}".strip()
        labels.append(Label(text=text, x=max(xs), y=at, color="#555555", dash=dash, width=1.2))
    return labels


def _draw_lines(chart: Any, figure: Figure) -> list[Label]:
    labels = []
    for position, line in enumerate(figure.lines):
        places = [(place(x, figure.x), place(y, figure.y)) for x, y in line.points]
        points = [(x, y) for x, y in places if x is not None and y is not None]
        if not points:
            continue
        color, dash = _LINES[position % len(_LINES)]
        width = 2.6 if line.held else 1.8
        chart.add("", points, show_dots=len(points) <= _DOTS_UP_TO, stroke_style=_stroke(dash, width))
        text = f"{line.name} (not passed)" if line.held else line.name
        labels.append(Label(text=text, x=points[-1][0], y=points[-1][1], color=color, dash=dash, width=width))
    return labels


def _stroke(dash: str, width: float) -> dict[str, Any]:
    return {"width": width, "dasharray": dash} if dash else {"width": width}


def _finish(chart: Any, figure: Figure, name: str, labels: list[Label]) -> Callable[[Any], Any]:
    def finish(root: Any) -> Any:
        _strip(root)
        root.set("role", "img")
        root.set("aria-labelledby", f"{name}-title {name}-desc")
        title = next(child for child in root if child.tag == "title")
        title.text = figure.title
        title.set("id", f"{name}-title")
        desc = chart.svg.node(root, "desc", id=f"{name}-desc")
        desc.text = f"{axis_title(figure.y)} against {axis_title(figure.x)}. {figure.note}".strip()
        root.remove(desc)
        root.insert(list(root).index(title) + 1, desc)
        _axis_titles(chart, root, figure)
        add_labels(chart, root, labels, left=WIDTH - _RIGHT + 14, top=_TOP, bottom=HEIGHT - 8)
        return root

    return finish


def _strip(root: Any) -> None:
    """Remove what only a script or a pointer uses, and comments with addresses."""
    for parent in list(root.iter()):
        for child in list(parent):
            tooltip = "tooltip" in str(child.get("class", "")).split() if isinstance(child.tag, str) else True
            if tooltip or child.tag in ("script", "desc"):
                parent.remove(child)


def _axis_titles(chart: Any, root: Any, figure: Figure) -> None:
    middle = _TOP + (HEIGHT - _TOP - _BOTTOM) / 2
    ends = "font:12px system-ui,sans-serif;fill:#1a1a1a;text-anchor:middle"
    across = chart.svg.node(root, "text", x=_LEFT + (WIDTH - _LEFT - _RIGHT) / 2, y=HEIGHT - 8, style=ends)
    across.text = axis_title(figure.x)
    up = chart.svg.node(root, "text", x=15, y=middle, transform=f"rotate(-90 15 {middle})", style=ends)
    up.text = axis_title(figure.y)


# The environment of the templates of pages: everything is escaped, and a missing value is an error.


def environment(directory: Path) -> Any:
    """Return a Jinja environment for the templates of that directory."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    return Environment(
        loader=FileSystemLoader(directory),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )


# The HTML page of a run: a single file, to be read on a screen, mailed and printed.

TEMPLATES = Path(__file__).parent / "templates"


@cache
def _template() -> Any:
    made = environment(TEMPLATES)
    made.filters |= {"elapsed": elapsed_text, "number": number, "coded": _coded, "redacted": redact}
    return made.get_template("page.html.j2")


def _coded(text: str) -> Any:
    """Return text with `commands` set as code; everything in it is escaped."""
    from markupsafe import Markup, escape

    parts = text.split("`")
    if len(parts) % 2 == 0:
        return escape(text)
    tagged = (Markup("<code>{}</code>").format(part) if index % 2 else escape(part) for index, part in enumerate(parts))
    return Markup("").join(tagged)


def render_page(facts: RunFacts) -> str:
    """Return the page for a run."""
    groups = case_groups(facts)
    page: str = _template().render(
        record=facts.record,
        facts=facts,
        statement=redact(run_summary(facts.record)),
        behind=[f"{line[0].upper()}{line[1:]}" for line in behind_lines(not_looked_at(facts.record), facts.looks)],
        again=way_on(facts.record),
        passed=all_passed(facts.record),
        # A run that only validates decides no gate.
        shows_gates=not facts.record.validates and facts.record.work is None,
        kind=kind_of_run(facts.record),
        gates=gate_lines(facts),
        phases=phase_lines(facts),
        gate_titles={gate.id: f"{gate.number}. {gate.title}" for gate in GATES},
        check_titles=titles(facts),
        groups=groups,
        steps=(*_restoring(facts), *next_steps(groups)),
        restore=RESTORE,
        not_used=_not_used(facts),
        unconfirmed=f"{count(len(facts.differences), 'difference')} to what was recorded",
        looks=look_groups(facts.looks),
        decisions=decision_lines(facts),
        quarantine=quarantine_lines(facts),
        matrix=matrix(facts),
        drawings=[_drawn(figure, index) for index, figure in enumerate(figures(facts.outcomes), 1)],
        checks=check_lines(facts),
        waiting=waiting_checks(facts),
        left_out=scope.left_out(facts),
        scope_words=scope.scope_words(facts),
        recipe_words=scope.recipe_words(facts),
        software_words=scope.software_words(facts),
        Status=Status,
    )
    return visible(page)


def _restoring(facts: RunFacts) -> tuple[Step, ...]:
    """Return what to do about unconfirmed results, empty where all are confirmed."""
    about = dict.fromkeys(text.partition(": ")[0] for text in facts.differences)
    return (Step(cause="not confirmed", about=first_of([*about], 3), hint=RESTORE),) if about else ()


def _not_used(facts: RunFacts) -> list[tuple[str, list[str]]]:
    """Return the files of the run whose results are not shown, by what is wrong with them."""
    other = [text for text in facts.unreadable if text not in facts.changed]
    named = (("were changed since the last verdict", list(facts.changed)), ("cannot be read", other))
    return [(f"Files of this run that {what}", texts) for what, texts in named if texts]


def _drawn(figure: Figure, index: int) -> dict[str, Any]:
    """Return a figure with its drawing, and with its numbers as rows of a table."""
    from markupsafe import Markup

    values = [dict(line.points) for line in figure.lines]
    places = sorted({x for points in values for x in points})
    # pygal builds the drawing as an XML tree and escapes every text in it.
    svg = Markup(drawing(figure, f"figure{index}"))
    return {
        "figure": figure,
        "svg": svg,
        "x_title": axis_title(figure.x),
        "y_title": axis_title(figure.y),
        "rows": [
            (tick(x, figure.x), [number(points[x]) if x in points else "" for points in values])
            for x in _thinned(places)
        ],
        "thinned": len(places) > _MOST_NUMBERS,
    }


# Rows of the table under a drawing; a training run has thousands of steps.
_MOST_NUMBERS = 40


def _thinned(places: list[float]) -> list[float]:
    if len(places) <= _MOST_NUMBERS:
        return places
    step = (len(places) - 1) / (_MOST_NUMBERS - 1)
    return [places[round(index * step)] for index in range(_MOST_NUMBERS)]
