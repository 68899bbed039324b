# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Criteria that follow from the SKUs of hosts where they are not stated.

A stated criterion that the hardware contradicts is an error. Stating less than the hardware has (no fabric, NVLink
within the node) is none, because a cluster need not use all of it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from ..hardware.sku import Sku, load_hardware, sku_or_error
from ..outcome.errors import BringupError, InputError, ProblemsError
from ..runtime.files import recipe_directories
from .criteria import make_criteria, parse_criteria
from .model import Catalogue
from .support import not_honoured

DIMENSIONS = ("accelerator", "fabric", "nvlink_domain")
_LESS = {"fabric": "none", "nvlink_domain": "node"}


def said_by(skus: Iterable[tuple[Sku, str]]) -> dict[str, dict[str, str]]:
    """Return by criterion each value of the SKUs, with a text on which SKU has it.

    Args:
        skus: SKUs, each with a text on where it is configured (`gpufleet_sku of host a is b`).
    """
    found: dict[str, dict[str, str]] = {dimension: {} for dimension in DIMENSIONS}
    for sku, words in skus:
        for dimension, values in found.items():
            value = str(getattr(sku, dimension))
            values.setdefault(value, f"{words}, which has {value}")
    return found


def criteria_on(
    reported: Mapping[str, Mapping[str, str]], criteria: Mapping[str, Any], catalogue: Catalogue
) -> dict[str, Any]:
    """Add the criteria in which all hardware agrees, where a layer of the catalogue honours them.

    Raises:
        ProblemsError: stated criteria that no hardware has, each with both sources.
    """
    vocabulary = catalogue.vocabulary
    configured = parse_criteria(criteria, vocabulary)
    problems: list[BringupError] = []
    found = dict(criteria)
    for dimension, values in reported.items():
        if dimension not in vocabulary.dimensions or not values:
            continue
        value = configured.get(dimension)
        if value != "any":
            if value not in values and value != _LESS.get(dimension):
                hint = f"correct gpufleet_criteria.{dimension} or gpufleet_sku, or leave the criterion out"
                reason = f"is {value}; {'; '.join(values.values())}."
                problems.append(InputError(f"gpufleet_criteria.{dimension}", reason, hint))
        elif len(values) == 1 and not set(values) & set(_LESS.values()):
            messages = make_criteria({**configured.to_dict(), dimension: next(iter(values))})
            if (dimension, messages.get(dimension)) not in not_honoured(messages, catalogue):
                configured, found[dimension] = messages, messages.get(dimension)
    if problems:
        raise ProblemsError("criteria and hardware", tuple(problems))
    return found


def criteria_of_skus(
    names: Sequence[str], criteria: Mapping[str, Any], catalogue: Catalogue, recipe_data: Sequence[Path]
) -> dict[str, Any]:
    """Add the criteria in which these SKUs agree, by their names or aliases. Private SKUs are in `recipe_data`.

    Raises:
        BringupError: an unknown SKU, wrong hardware facts, or a criterion that they contradict.
    """
    hardware = load_hardware(recipe_directories("hardware", recipe_data))
    kinds = [(sku_or_error(hardware, name), f"gpufleet_sku is {name}") for name in dict.fromkeys(names)]
    return criteria_on(said_by(kinds), criteria, catalogue)
