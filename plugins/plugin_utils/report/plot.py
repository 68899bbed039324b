# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Figures as inline SVG, drawn with pygal; without pygal there is no drawing, and the page shows the numbers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..outcome.series import Axis
from .axes import place, ticks
from .figures import Figure
from .labels import Label, add_labels
from .words import axis_title, number, tick

WIDTH, HEIGHT = 800, 310
_RIGHT, _TOP, _BOTTOM, _LEFT = 252, 12, 40, 62
# Told apart by their dashes first; the colours are dark, and equally dark, so that they print in grey.
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
