# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""What the hosts of a rack draw, shed as heat and weigh, by SKU, with the arithmetic."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ...hardware.sku import Sku, sku_or_error
from ...outcome.errors import InputError


@dataclass(frozen=True, slots=True, kw_only=True)
class Quantity:
    """One quantity that a room must bear: the SKU facts for it, the factor to its unit, and its names in texts."""

    name: str
    verb: str
    unit: str
    host_fact: str
    rack_fact: str
    per_unit: float
    stated_as: str


POWER = Quantity(
    name="power", verb="draw", unit="kW", host_fact="power_max_w", rack_fact="rack_power_max_w", per_unit=1000,
    stated_as="power_max_w",
)  # fmt: skip
HEAT = Quantity(
    name="heat", verb="shed", unit="kW", host_fact="heat_max_w", rack_fact="rack_heat_max_w", per_unit=1000,
    stated_as="heat_w (or power_max_w)",
)  # fmt: skip
WEIGHT = Quantity(
    name="weight", verb="weigh", unit="kg", host_fact="weight_kg", rack_fact="rack_weight_kg", per_unit=1,
    stated_as="weight_kg",
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """The sum of one rack in the quantity's unit, and the text of its arithmetic.

    `least` is below `value` only for a rack system that is not full, because only the whole rack is specified. Its
    trays take at least their share, and at most what the whole takes: switches and shelves are there however many trays
    are.
    """

    value: float
    arithmetic: str
    least: float


def rack_load(quantity: Quantity, skus: Sequence[str], hardware: Mapping[str, Sku], allowance: float = 0.0) -> Load:
    """Return what the hosts of one rack draw, shed or weigh together.

    Args:
        quantity: POWER, HEAT or WEIGHT.
        skus: SKU name or alias of every host in the rack.
        hardware: the SKU facts.
        allowance: what else is in the rack, in the quantity's unit.

    Raises:
        NotFoundError: an unknown SKU.
        InputError: a SKU's facts lack the quantity.
    """
    # Counted by the SKU's own name: a rack may name the same SKU by several aliases, and the facts may have only those.
    found = {sku.name: sku for sku in (sku_or_error(hardware, name) for name in skus)}
    counts = Counter(sku_or_error(hardware, name).name for name in skus)
    total, least, terms = 0.0, 0.0, []
    for name, hosts in sorted(counts.items()):
        value, share, term = _term(quantity, found[name], hosts)
        total += value
        least += share
        terms.append(term)
    if allowance:
        total += allowance
        least += allowance
        terms.append(f"{number(allowance)} {quantity.unit} beside the hosts")
    arithmetic = f"{' + '.join(terms)} = {number(total)} {quantity.unit}"
    return Load(value=round(total, 3), arithmetic=arithmetic, least=round(least, 3))


def number(value: float) -> str:
    """Return a number for people: at most two decimals, no trailing zeros."""
    return f"{value:.2f}".rstrip("0").rstrip(".")


def _term(quantity: Quantity, sku: Sku, hosts: int) -> tuple[float, float, str]:
    """Return what hosts of one SKU take at most, at least, and the text of how that was computed."""
    host_fact, rack_fact = getattr(sku, quantity.host_fact), getattr(sku, quantity.rack_fact)
    if host_fact is not None:
        each = host_fact / quantity.per_unit
        return hosts * each, hosts * each, f"{hosts} x {sku.name} at {number(each)} {quantity.unit}"
    if rack_fact is not None and sku.rack_hosts:
        # Rack systems are specified as a whole: their trays share switches, power shelves and coolant.
        racks, each = -(-hosts // sku.rack_hosts), rack_fact / quantity.per_unit
        whole = f"{racks} x rack of {sku.rack_hosts} {sku.name} at {number(each)} {quantity.unit} ({hosts} hosts)"
        return racks * each, hosts / sku.rack_hosts * each, whole
    raise InputError(
        f"SKU {sku.name}",
        f"{quantity.stated_as} is not known.",
        f"state it in a hardware file of your own that replaces {sku.name} (docs/facility.md), from its data sheet",
    )
