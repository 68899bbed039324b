# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The daily report of a cluster in service as a page: one file without any other."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

from ..fleet.class_rules import Word
from ..runtime.redaction import redact
from ..runtime.visible import visible
from .service_facts import LETTERS, ServiceFacts, age_text
from .template import environment

# A page with more rows is not read; the rest is in the history.
MOST_ROWS = 3000
_MOST_NOTED = 200
_WIDTH, _HEIGHT = 160, 24


@cache
def _template() -> Any:
    made = environment(Path(__file__).parent / "templates")
    made.filters |= {"age": age_text, "redacted": redact, "points": points}
    return made.get_template("service.html.j2")


def points(trend: tuple[float, ...]) -> str:
    """Return the places of a line that shows a trend, as SVG wants them; the highest is at the top."""
    if len(trend) < 2:
        return ""
    low, high = min(trend), max(trend)
    span = max(high - low, 0.02)
    step = _WIDTH / (len(trend) - 1)
    return " ".join(
        f"{index * step:.1f},{2 + (high - value) / span * (_HEIGHT - 4):.1f}" for index, value in enumerate(trend)
    )


def render_service_page(facts: ServiceFacts) -> str:
    """Return the page."""
    page: str = _template().render(
        facts=facts, record=facts, Word=Word, letters=LETTERS, noted=facts.noted[:_MOST_NOTED],
        more_noted=max(0, len(facts.noted) - _MOST_NOTED), rows=facts.lines[:MOST_ROWS],
        more_rows=max(0, len(facts.lines) - MOST_ROWS), width=_WIDTH, height=_HEIGHT,
    )  # fmt: skip
    return visible(page)
