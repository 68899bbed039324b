# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""What a catalogue offers: its combinations, components and criteria, as plain data for people and tools."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .criteria import Criteria
from .lattice import Lattice, lattice
from .model import Catalogue
from .resolve import matching_leaves
from .support import supported_combinations

EVERYTHING = Criteria()


def listing_lines(found: Mapping[str, Any]) -> list[str]:
    """Return a listing as lines for people: one row for each service and for each component."""
    matching, supported = found["matching"], found["supported"]
    head = (
        f"{supported} questions are supported."
        if matching == supported
        else f"{matching} of {supported} supported questions have these criteria."
    )
    lines = [f"{head} By service (two values of a row need not go together):"]
    for row in found["environments"]:
        values = [f"{name}: {', '.join(items)}" for name, items in row.items() if name != "service"]
        lines.append(f"  {row['service']}")
        lines += [f"    {value}" for value in values]
    if not found["environments"]:
        lines.append("  none with these criteria")
    width = max((len(entry["name"]) for entry in found["components"]), default=0)
    lines.append("Components:")
    return lines + [
        f"  {entry['name']:{width}}  {entry['version'] or '-'}" + (f"  {entry['source']}" if entry["source"] else "")
        for entry in found["components"]
    ]


def environments(supported: Lattice, catalogue: Catalogue, configured: Criteria) -> list[dict[str, Any]]:
    """Return for each service the values of every other criterion that it is supported with, and with `configured`.

    Two values of one row need not be supported together.
    """
    together: dict[str, int] = {}
    mask = supported.mask(configured)
    service_bits = supported.places("service")
    for member in supported.members if mask or not configured.stated else ():
        if member & mask == mask:
            for service, bit in service_bits.items():
                if member & bit:
                    together[service] = together.get(service, 0) | member
    rows = []
    for service in sorted(together):
        values: dict[str, list[str]] = {}
        for name, value in supported.criteria(together[service]).stated:
            values.setdefault(name, []).append(value)
        others = [name for name in catalogue.vocabulary.names if name in values and name != "service"]
        rows.append({"service": service, **{name: values[name] for name in others}})
    return rows


def listing(catalogue: Catalogue, configured: Criteria = EVERYTHING) -> dict[str, Any]:
    """Return what the catalogue supports, every component with its version, and every criteria value.

    `combinations` are those that a layer is for. `environments` has for each service the values that it is supported
    with, and with `configured`. `supported` is the number of combinations, and `matching` the number of those with the
    stated values.
    """
    supported = lattice(catalogue)
    mask = supported.mask(configured)
    return {
        "matching": sum(member & mask == mask for member in supported.members) if mask or not configured.stated else 0,
        "supported": len(supported),
        "environments": environments(supported, catalogue, configured),
        "combinations": [
            {
                "criteria": criteria.to_dict(),
                "overlays": [layer.name for layer in matching_leaves(criteria, catalogue)],
            }
            for criteria in supported_combinations(catalogue)
            if configured.matches(criteria)
        ],
        "components": [
            {
                "name": name,
                "chart": entry.default("helm", "defaultChart"),
                "version": entry.default("helm", "defaultVersion") or entry.default("kustomize", "defaultTag"),
                "source": entry.default("helm", "defaultRepository") or entry.default("kustomize", "defaultSource"),
            }
            for name, entry in sorted(catalogue.registry.items())
        ],
        "criteria": {
            name: [value for _name, value in supported.items if _name == name] for name in catalogue.vocabulary.names
        },
    }
