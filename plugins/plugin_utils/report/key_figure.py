# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The key figure of a gate, from the data in recipes/key_figures.yaml."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from ..outcome.errors import InputError
from ..outcome.model import Outcome, Status
from ..runtime.strict import read_yaml

_AGGREGATES: dict[str, Callable[[list[float]], float]] = {"sum": sum, "min": min, "max": max, "count": len}


def load_key_figures(path: Path) -> dict[str, dict[str, Any]]:
    """Return gate id to `check`, `measure`, `aggregate` (sum, min, max, count) and `text` with `{value}`.

    A second figure, `{other}` in the text, has check, measure and aggregate of its own below `other`. `instead` is the
    rule for a site where nothing was measured for this one.

    Raises:
        InputError: the file is not such a mapping.
    """
    plain = read_yaml(path)
    if not isinstance(plain, dict) or not all(isinstance(entry, dict) for entry in plain.values()):
        raise InputError(str(path), "expected gate ids with check, measure, aggregate and text.")
    return plain


def key_figure(rule: Mapping[str, Any] | None, outcomes: Sequence[Outcome]) -> str:
    """Return the text of the key figure, empty where there is no rule or nothing was measured."""
    if rule is None:
        return ""
    figures = {"value": _figure(rule, outcomes)}
    if "other" in rule:
        figures["other"] = _figure(rule["other"], outcomes)
    if None in figures.values():
        return key_figure(rule.get("instead"), outcomes)
    return str(rule["text"]).format(**figures)


def _figure(rule: Mapping[str, Any], outcomes: Sequence[Outcome]) -> float | None:
    values = [
        measure.value
        for outcome in outcomes
        if outcome.check == rule["check"] and outcome.status is Status.PASSED
        for measure in outcome.measured
        if measure.name == rule["measure"] and isinstance(measure.value, (int, float))
    ]
    return _AGGREGATES[rule["aggregate"]](values) if values else None
