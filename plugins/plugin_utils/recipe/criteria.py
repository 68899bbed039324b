# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Criteria: what a recipe is for, and which recipes a question matches."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ..outcome.errors import BringupError, InputError, ProblemsError
from .nearest import unknown_hint

ANY = "any"
# The order in which criteria are printed and named; dimensions of a private tree follow these by name.
ORDER = ("service", "accelerator", "intent", "os", "platform", "fabric", "nvlink_domain", "nodes")
# What upstream's own tool writes into every result.
UPSTREAM_DIMENSIONS = ("service", "accelerator", "intent", "os", "platform")


@dataclass(frozen=True, slots=True, kw_only=True)
class Dimension:
    """One dimension of the criteria: its values and their aliases.

    `number`: any whole number is a value and 0 is `any`. `advisory`: told, never matched. `meant`: what people mean by
    words that are no values. `unsuggested`: values that nobody wants who did not state them.
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
    """What a rule does not stand beside: a fact of any node, or the server's version, that matches a pattern."""

    fact: str
    pattern: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DetectionRule:
    """What a fact of a cluster says about a dimension: the fact matches the pattern, so the value is that, unless
    something else of the cluster says that it cannot be."""

    dimension: str
    value: str
    fact: str
    pattern: str
    unless: tuple[Contradiction, ...] = ()


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """All dimensions, other names under which one may be given (`gpu` for `accelerator`), and how to detect values.

    `node_only` are the kinds of GPU whose NVLink ends at the node, each with the file that says so.
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
    """The stated values by dimension; a dimension that is not stated is `any` and absent here."""

    stated: tuple[tuple[str, str], ...] = ()

    def get(self, dimension: str) -> str:
        """Return the value of a dimension, `any` if it is not stated."""
        for name, value in self.stated:
            if name == dimension:
                return value
        return ANY

    @property
    def specificity(self) -> int:
        """How many dimensions are stated."""
        return len(self.stated)

    def matches(self, query: Criteria) -> bool:
        """Tell whether a recipe with these criteria answers a query.

        Asymmetric: a recipe that does not care matches every query; a query that does not say never pulls in a
        recipe that cares.
        """
        return all(item in query.stated for item in self.stated)

    def without(self, dimension: str) -> Criteria:
        """Return the criteria with a dimension no longer stated."""
        return Criteria(tuple(item for item in self.stated if item[0] != dimension))

    def to_dict(self) -> dict[str, str]:
        """Return the stated values by dimension."""
        return dict(self.stated)

    def __str__(self) -> str:
        return ", ".join(f"{name}={value}" for name, value in self.stated) or ANY


def order_key(name: str) -> tuple[int, str]:
    """Sort dimensions as they are printed."""
    return (ORDER.index(name), "") if name in ORDER else (len(ORDER), name)


def make_criteria(stated: Mapping[str, str]) -> Criteria:
    """Return criteria of values that are already canonical."""
    items = [(name, value) for name, value in stated.items() if value not in ("", ANY)]
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
    """Return criteria from what a user or an overlay wrote: trimmed, lower-cased, aliases replaced.

    Raises:
        ProblemsError: unknown dimensions or values; all of them, each with the nearest known one.
    """
    problems: list[BringupError] = []
    stated: dict[str, str] = {}
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
        if stated.get(name, canonical) != canonical:
            reason = f"is given twice: {stated[name]} and {canonical}."
            problems.append(InputError(f"criteria {name}", reason))
        stated[name] = canonical
    if problems:
        raise ProblemsError(subject, tuple(problems))
    return make_criteria(stated)
