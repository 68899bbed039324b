# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The figures of a gate's outcomes, each with the conditions that a comparable figure must share:
recipes/figures.yaml."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Literal

from ..hardware.sku import Sku
from ..outcome.model import Outcome, Scalar
from ..runtime.files import RECIPES
from ..runtime.strict import decode, read_yaml
from ..site.model import Host, Site

SKU, DRIVER = "SKU", "driver"


@dataclass(frozen=True, slots=True, kw_only=True)
class FigureRule:
    """One kind of figure; see the head of the file."""

    title: str
    gate: str
    check: str
    measure: str
    unit: str
    better: Literal["higher", "lower"]
    conditions: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """One measured figure of a subject. `node` is the host that it is about, empty for all of them; an unknown
    condition is an empty text."""

    figure: str
    subject: str
    node: str
    value: float
    unit: str
    conditions: Mapping[str, str]

    @property
    def unknown(self) -> tuple[str, ...]:
        """The unknown conditions."""
        return tuple(name for name, word in self.conditions.items() if not word)


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where figures were measured: the site, its SKUs, and the driver of every observed host."""

    site: Site
    hardware: Mapping[str, Sku] = field(default_factory=dict)
    drivers: Mapping[str, str] = field(default_factory=dict)


@cache
def figure_rules() -> dict[str, FigureRule]:
    """Return every kind of figure by its name.

    Raises:
        InputError: the file does not have the form that its head describes.
    """
    return load_figure_rules(RECIPES / "figures.yaml")


def load_figure_rules(path: Path) -> dict[str, FigureRule]:
    """Return the kinds of figures in a file (see figure_rules for errors)."""
    return decode(dict[str, FigureRule], read_yaml(path), str(path))


def rules_of(gate: str) -> dict[str, FigureRule]:
    """Return the kinds of figures of a gate by name."""
    return {name: rule for name, rule in figure_rules().items() if rule.gate == gate}


def figures_of(gate: str, outcomes: Iterable[Outcome], place: Place) -> tuple[Figure, ...]:
    """Return every figure in the outcomes of a gate, whatever their status.

    Values that are no number, and figures of hosts that were set aside, are left out.
    """
    found = []
    rules = rules_of(gate)
    for outcome in outcomes:
        for name, rule in rules.items():
            if outcome.check == rule.check and outcome.subjects[0].node not in place.site.quarantined:
                found += _figure(name, rule, outcome, place)
    return tuple(found)


def _figure(name: str, rule: FigureRule, outcome: Outcome, place: Place) -> list[Figure]:
    measured = {measure.name: measure for measure in outcome.measured}
    measure = measured.get(rule.measure)
    if measure is None or measure.unit != rule.unit or not _is_number(measure.value):
        return []
    hosts = hosts_of(outcome, place.site)
    reported = {word: (_word(measured[word].value) if word in measured else "") for word in rule.conditions}
    subject = outcome.subjects[0]
    conditions = {SKU: _one_text(_sku(place, host) for host in hosts)} | reported
    conditions |= {DRIVER: _one_text(place.drivers.get(host.name, "") for host in hosts)}
    return [
        Figure(
            figure=name,
            subject=subject.name,
            node=subject.node,
            value=float(str(measure.value)),
            unit=rule.unit,
            conditions=conditions,
        )
    ]


def hosts_of(outcome: Outcome, site: Site) -> tuple[Host, ...]:
    """Return the hosts that a result depends on: those that it names, or all if it is about more of them or names
    none."""
    named = {subject.node for subject in outcome.subjects}
    hosts = tuple(host for host in site.in_scope if host.name in named)
    count = next((measure.value for measure in outcome.measured if measure.name == "nodes"), None)
    took_more = isinstance(count, int) and count > len(hosts)
    return site.in_scope if took_more or not hosts else hosts


def _sku(place: Place, host: Host) -> str:
    known = place.hardware.get(host.sku)
    return known.name if known else host.sku


def _one_text(words: Iterable[str]) -> str:
    """Return the values of hosts, several in one text; empty where one is unknown."""
    found = set(words)
    return "" if "" in found else ", ".join(sorted(found))


def _word(value: Scalar) -> str:
    text = "" if value is None else str(value)
    return "" if text == "unknown" else text


def _is_number(value: Scalar) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value) and value > 0
