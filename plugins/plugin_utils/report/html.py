# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The HTML page of a run: self-contained, readable on screen and printed."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from ..outcome.gates import GATES
from ..outcome.model import Outcome, Status
from ..runtime.clock import elapsed_text
from ..verdict.run import RunRecord, all_passed, statement


@cache
def _template() -> Any:
    from jinja2 import Environment, FileSystemLoader, StrictUndefined, select_autoescape

    environment = Environment(
        loader=FileSystemLoader(Path(__file__).parent / "templates"),
        autoescape=select_autoescape(default=True),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["elapsed"] = elapsed_text
    return environment.get_template("run.html.j2")


def render_page(record: RunRecord, outcomes: Mapping[str, tuple[Outcome, ...]]) -> str:
    """Return the page for a run.

    Args:
        record: the run's verdicts.
        outcomes: gate id to the outcomes of its CTRF file.
    """
    gates = [{"spec": gate, "verdict": record.gate(gate.id), "outcomes": outcomes[gate.id]} for gate in GATES]
    page: str = _template().render(
        record=record, statement=statement(record), passed=all_passed(record), gates=gates, Status=Status
    )
    return page
