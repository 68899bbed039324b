# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""What figures of nodes in service are held against beside their equals: accepted figures, and published ones."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ..check.dl_unit.rates import reference_of
from ..check.dl_unit.settings import ID as DL_UNIT
from ..fleet.class_rules import FigureRules
from ..fleet.series import Reference, References
from ..hardware.sku import Sku
from ..outcome.errors import InputError
from ..probe.dl_unit import RATES
from ..site.model import Host
from ..store.records import Figure
from ..verdict.baseline import AcceptedFigure
from ..verdict.ceiling import CeilingLimits
from ..verdict.figures import SKU

# Names that a test of an idle node and an accepted figure share (recipes/figures.yaml).
_STORAGE = "storage_io"
_STORAGE_FIGURES = ("sequential-write", "sequential-read", "random-read", "random-write")
# What an accepted figure may lose: twice the tolerance of check fabric-baseline is bad.
_LOSS = 0.05


def class_references(
    hosts: Iterable[Host], hardware: Mapping[str, Sku], accepted: Iterable[AcceptedFigure], rules: FigureRules
) -> References:
    """Return by node, test and figure what it is held against; what a person accepted of a node beats what is
    published."""
    nodes, found = {host.name: host.sku for host in hosts}, dict[tuple[str, str, str], Reference]()
    limits = CeilingLimits()
    for node, sku in nodes.items():
        for rate, unit in RATES.items():
            best = reference_of(hardware.get(sku), rate)
            if best is not None:
                found[node, DL_UNIT, rate] = Reference(
                    speed=best, marginal=limits.marginal, bad=limits.bad, shown=f"{best:,.4g} {unit}",
                    source=f"the best that is published of {sku}",
                )  # fmt: skip
    for entry in accepted:
        figure = entry.figure
        test = DL_UNIT if figure.figure in RATES else _STORAGE if figure.figure in _STORAGE_FIGURES else ""
        if test and figure.node in nodes and figure.conditions.get(SKU) in _names(nodes[figure.node], hardware):
            made = _accepted(entry, test, rules)
            if made is not None:
                found[figure.node, test, figure.figure] = made
    return found


def _names(sku: str, hardware: Mapping[str, Sku]) -> tuple[str, ...]:
    """Return how a site may call that SKU: by its name or by an alias."""
    return (sku, hardware[sku].name) if sku in hardware else (sku,)


def _accepted(entry: AcceptedFigure, test: str, rules: FigureRules) -> Reference | None:
    figure, shared = entry.figure, rules.shared.get(test)
    try:
        speed = rules.speed(Figure(name=figure.figure, number=figure.value, unit=figure.unit))
    except InputError:
        return None
    loss = shared.tolerance if shared else _LOSS
    return None if not speed else Reference(
        speed=speed, marginal=1 - loss, bad=1 - min(2 * loss, 0.9), shown=f"{figure.value:,.4g} {figure.unit}",
        source=f"accepted by {entry.who} on {entry.accepted[:10]}, run {entry.run_id}",
    )  # fmt: skip
