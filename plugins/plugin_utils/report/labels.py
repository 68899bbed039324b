# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Names beside the lines of a drawing, instead of a legend: each with a piece of its line, none over another."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

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
            # Before the text, as SVG wants it; read out and shown by the pointer.
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
