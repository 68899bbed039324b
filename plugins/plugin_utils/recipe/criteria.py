# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Criteria: what a recipe is for, and which recipes match a query."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ..outcome.errors import BringupError, InputError, ProblemsError
from .nearest import unknown_hint

ANY = "any"
# The order in which criteria are printed and named. Dimensions of a private tree follow these by name.
ORDER = ("service", "accelerator", "intent", "os", "platform", "fabric", "nvlink_domain", "nodes")
# The dimensions that upstream's own tool writes into every result.
UPSTREAM_DIMENSIONS = ("service", "accelerator", "intent", "os", "platform")


@dataclass(frozen=True, slots=True, kw_only=True)
class Dimension:
    """One dimension of the criteria: its values and their aliases.

    With `number` any whole number is a value, and 0 is `any`. With `advisory` it is reported and never matched.
    `meant` maps words that are no values to the value that people mean by them. `unsuggested` are values that are
    suggested only to users who state them.
    """

    name: str
    values: frozenset[str] = frozenset()
    aliases: Mapping[str, str] = field(default_factory=dict)
    number: bool = False
    advisory: bool = False
    meant: Mapping[str, str] = field(default_factory=dict)
    unsuggested: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class Contradiction:
    """A fact of any node, or the server's version, that rules a detection out if it matches the pattern."""

    fact: str
    pattern: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DetectionRule:
    """The value of a dimension that follows from a fact of a cluster: the fact matches the pattern.

    A match of `unless` rules it out.
    """

    dimension: str
    value: str
    fact: str
    pattern: str
    unless: tuple[Contradiction, ...] = ()


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """All dimensions, other names for them in queries (`gpu` for `accelerator`), and how to detect values.

    `node_only` are the kinds of GPU whose NVLink domain is the node, each with its source file.
    """

    dimensions: Mapping[str, Dimension]
    query_keys: Mapping[str, str] = field(default_factory=dict)
    detection: tuple[DetectionRule, ...] = ()
    node_only: Mapping[str, str] = field(default_factory=dict)

    @property
    def names(self) -> tuple[str, ...]:
        """The dimensions in the order in which they are printed."""
        known = [name for name in ORDER if name in self.dimensions]
        return (*known, *sorted(set(self.dimensions) - set(known)))


@dataclass(frozen=True, slots=True)
class Criteria:
    """The stated values by dimension. A dimension that is not stated is `any` and missing here."""

    stated: tuple[tuple[str, str], ...] = ()

    def get(self, dimension: str) -> str:
        """Return the value of a dimension. It is `any` if it is not stated."""
        for name, value in self.stated:
            if name == dimension:
                return value
        return ANY

    @property
    def specificity(self) -> int:
        """How many dimensions are stated."""
        return len(self.stated)

    def matches(self, query: Criteria) -> bool:
        """Tell whether a recipe with these criteria matches a query.

        This is asymmetric. A dimension that the recipe leaves open matches every query. A dimension that the query
        leaves open never matches a recipe that states it.
        """
        return all(item in query.stated for item in self.stated)

    def without(self, dimension: str) -> Criteria:
        """Return the criteria without a dimension."""
        return Criteria(tuple(item for item in self.stated if item[0] != dimension))

    def to_dict(self) -> dict[str, str]:
        """Return the stated values by dimension."""
        return dict(self.stated)

    def __str__(self) -> str:
        return ", ".join(f"{name}={value}" for name, value in self.stated) or ANY


def order_key(name: str) -> tuple[int, str]:
    """Return the sort key of a dimension in the order of printing."""
    return (ORDER.index(name), "") if name in ORDER else (len(ORDER), name)


def make_criteria(configured: Mapping[str, str]) -> Criteria:
    """Return criteria from values that are already canonical."""
    items = [(name, value) for name, value in configured.items() if value not in ("", ANY)]
    return Criteria(tuple(sorted(items, key=lambda item: order_key(item[0]))))


def _canonical(dimension: Dimension, value: Any) -> str:
    text = str(value).strip().lower() if value is not None and not isinstance(value, bool) else ""
    if isinstance(value, (bool, dict, list)):
        raise InputError(f"criteria {dimension.name}", f"must be one word, found {value!r}.")
    if dimension.number:
        if text in ("", "0", ANY):
            return ANY
        if not (text.isascii() and text.isdigit()):
            raise InputError(f"criteria {dimension.name}", f"must be a whole number, 0 for any, found {value!r}.")
        return str(int(text))
    text = dimension.aliases.get(text, text)
    if text in ("", ANY):
        return ANY
    if text not in dimension.values:
        known = dimension.values | set(dimension.aliases)
        meant = dimension.meant.get(text)
        hint = f"Did you mean {meant!r}?" if meant else unknown_hint(text, known - {""})
        raise InputError(f"criteria {dimension.name}", f"{text!r} is not a known value.", hint)
    return text


def parse_criteria(given: Mapping[str, Any], vocabulary: Vocabulary, subject: str = "criteria") -> Criteria:
    """Return criteria from the text of a user or an overlay: trimmed, in lower case, with aliases replaced.

    Raises:
        ProblemsError: all unknown dimensions and values, each with the nearest known one.
    """
    problems: list[BringupError] = []
    configured: dict[str, str] = {}
    for key, value in given.items():
        name = vocabulary.query_keys.get(key, key)
        dimension = vocabulary.dimensions.get(name)
        if dimension is None:
            hint = unknown_hint(str(key), vocabulary.dimensions)
            problems.append(InputError(f"criteria {key}", "is not a known criterion.", hint))
            continue
        try:
            canonical = _canonical(dimension, value)
        except InputError as error:
            problems.append(error)
            continue
        if configured.get(name, canonical) != canonical:
            reason = f"is given twice: {configured[name]} and {canonical}."
            problems.append(InputError(f"criteria {name}", reason))
        configured[name] = canonical
    if problems:
        raise ProblemsError(subject, tuple(problems))
    return make_criteria(configured)
