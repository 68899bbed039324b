# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""What a person may accept for figures without published values: the median of the hosts, together with their spread.

On the first bring-up it is unknown what such hosts reach. Hosts with a fault have another cause than `no-reference` and
are not included.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

from ...outcome.model import Outcome, Status
from ...run.run import Run
from ...verdict.peers import compare

NO_REFERENCE = "no-reference"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Way:
    """Which measure of which check proposes which setting; `room` is how much worse than the median it may be."""

    gate: str
    check: str
    measure: str
    setting: tuple[str, ...]
    room: float = 1.0


_GATE = "inference_acceptance"
_WAYS = (
    _Way(gate=_GATE, check="inference-throughput", measure="output throughput per GPU",
         setting=("slo", "throughput_per_gpu")),
    _Way(gate=_GATE, check="inference-ttft", measure="TTFT", setting=("slo", "ttft_ms"), room=1.2),
    _Way(gate=_GATE, check="inference-tpot", measure="TPOT", setting=("slo", "tpot_ms"), room=1.2),
    _Way(gate="training_acceptance", check="training-mfu", measure="proposed peak", setting=("peak_tflops",)),
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class ProposedFigure:
    """One setting that would accept the measured values of hosts of a SKU.

    `value` is the setting; `middle`, `least`, `most` and `spread` (relative, of the faster mode) are those of the
    `count` measured values.
    """

    gate: str
    setting: tuple[str, ...]
    sku: str
    measure: str
    unit: str
    value: float
    middle: float
    least: float
    most: float
    spread: float
    count: int


def proposed(run: Run) -> tuple[ProposedFigure, ...]:
    """Return what can be accepted of a run that had nothing to compare with.

    Raises:
        BringupError: results of the run cannot be read.
    """
    gates = [
        gate for gate in dict.fromkeys(way.gate for way in _WAYS) if run.record.gate(gate).status is not Status.PENDING
    ]
    outcomes = [outcome for gate in gates for outcome in run.own_outcomes(gate)]
    return proposed_of(outcomes, {host.name: host.sku for host in run.site.hosts})


def proposed_of(outcomes: Sequence[Outcome], skus: Mapping[str, str]) -> tuple[ProposedFigure, ...]:
    """Return what can be accepted of the measures in these outcomes; `skus` has the SKU by host."""
    return tuple(entry for way in _WAYS for entry in _of(way, outcomes, skus))


def _of(way: _Way, outcomes: Iterable[Outcome], skus: Mapping[str, str]) -> list[ProposedFigure]:
    """Return a proposal for each SKU for which the check had nothing to compare with."""
    values: dict[tuple[str, str], dict[str, float]] = {}
    for outcome in outcomes:
        measure = next((entry for entry in outcome.measured if entry.name == way.measure), None)
        if outcome.check != way.check or outcome.cause != NO_REFERENCE or measure is None:
            continue
        host = next((subject.node for subject in outcome.subjects if subject.node), "")
        values.setdefault((skus.get(host, ""), measure.unit), {})[outcome.about] = float(str(measure.value))
    return [_proposal(way, sku, unit, found) for (sku, unit), found in values.items()]


def _proposal(way: _Way, sku: str, unit: str, values: Mapping[str, float]) -> ProposedFigure:
    middle, found = median(values.values()), compare(values)
    return ProposedFigure(
        gate=way.gate, setting=way.setting, sku=sku, measure=way.measure, unit=unit, value=_digits(middle * way.room),
        middle=middle, least=min(values.values()), most=max(values.values()),
        spread=found.spread / found.median if found.median > 0 else 0.0, count=len(values),
    )  # fmt: skip


def _digits(value: float) -> float:
    """Return a number for a setting: four digits are more than a measurement repeats."""
    return float(f"{value:.4g}")


def proposed_lines(found: Sequence[ProposedFigure]) -> list[str]:
    """Return the proposals as text: a line each, then the settings with all of them."""
    if not found:
        return []
    lines = [
        f"nothing is published of {entry.measure} on {entry.sku or 'these hosts'}: median {entry.middle:.4g} "
        f"{entry.unit}{_differing(entry)}; proposed: {'.'.join(entry.setting)} {entry.value:g}"
        for entry in found
    ]
    skus = {entry.sku for entry in found}
    if len(skus) > 1:
        return [*lines, "these settings are those of all hosts: run the gates for the hosts of one SKU at a time"]
    configured = json.dumps(settings_of(found))
    return [
        *lines,
        f"if such hosts should reach that, a person accepts it in the inventory: gpufleet_settings: {configured}",
    ]


def _differing(entry: ProposedFigure) -> str:
    if entry.count == 1:
        return ", measured once: nothing says how much it differs"
    return f" of {entry.count}, from {entry.least:.4g} to {entry.most:.4g}, deviation {entry.spread:.1%}"


def settings_of(found: Iterable[ProposedFigure]) -> dict[str, Any]:
    """Return the proposals as the variable gpufleet_settings."""
    settings: dict[str, Any] = {}
    for entry in found:
        place = settings.setdefault(entry.gate, {})
        for name in entry.setting[:-1]:
            place = place.setdefault(name, {})
        place[entry.setting[-1]] = entry.value
    return settings


def plain_proposed(found: Iterable[ProposedFigure]) -> list[dict[str, Any]]:
    """Return the proposals as the result of a module."""
    return [
        {
            "gate": entry.gate, "setting": ".".join(entry.setting), "value": entry.value, "sku": entry.sku,
            "unit": entry.unit, "median": entry.middle, "least": entry.least, "most": entry.most,
            "deviation": round(entry.spread, 6), "measured": entry.count,
        }
        for entry in found
    ]  # fmt: skip
