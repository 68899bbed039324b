# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The HTML page of a run: one file without any other, to be read on a screen, mailed and printed."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

from ..outcome.gates import GATES
from ..outcome.model import Status
from ..runtime.clock import elapsed_text
from ..runtime.redaction import redact
from ..runtime.visible import visible
from ..verdict.restart import not_looked_at, restart
from ..verdict.run import all_passed, run_summary
from . import scope
from .cases import case_groups, next_steps
from .decisions import decision_lines, quarantine_lines
from .facts import RunFacts
from .figures import Figure, figures
from .gates import check_lines, gate_lines, titles, waiting_checks
from .looks import behind_lines, look_groups
from .markdown import kind_of_run
from .matrix import matrix
from .phases import phase_lines
from .plot import drawing
from .template import environment
from .words import axis_title, number, tick


@cache
def _template() -> Any:
    made = environment(Path(__file__).parent / "templates")
    made.filters |= {"elapsed": elapsed_text, "number": number, "coded": _coded, "redacted": redact}
    return made.get_template("page.html.j2")


def _coded(text: str) -> Any:
    """Return text with `commands` set as such; everything in it is escaped."""
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
        again=restart(facts.record),
        passed=all_passed(facts.record),
        # A run that only validates decides no gate.
        shows_gates=not facts.record.validates and facts.record.work is None,
        kind=kind_of_run(facts.record),
        gates=gate_lines(facts),
        phases=phase_lines(facts),
        gate_titles={gate.id: f"{gate.number}. {gate.title}" for gate in GATES},
        check_titles=titles(facts),
        groups=groups,
        steps=next_steps(groups),
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


def _drawn(figure: Figure, index: int) -> dict[str, Any]:
    """Return a figure with its drawing, and with its numbers as rows of a table."""
    from markupsafe import Markup

    values = [dict(line.points) for line in figure.lines]
    places = sorted({x for points in values for x in points})
    # pygal builds the drawing as a tree of XML and escapes every text in it.
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
