# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""How a change between two snapshots is told: what moves by itself, and how much it matters (recipes/drift.yaml)."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum
from functools import cache
from typing import Any

from ..outcome.errors import InputError
from ..runtime.recipe_files import RECIPES
from ..runtime.strict import decode, read_yaml
from .gpus import has_gpus
from .node import Node

_RULES = RECIPES / "drift.yaml"


class Importance(str, Enum):
    """How much a change matters, the most important first."""

    CRITICAL = "critical"
    HIGH = "high"
    MEDIUM = "medium"
    LOW = "low"

    @property
    def rank(self) -> int:
        """0 for the most important."""
        return list(Importance).index(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class IgnoredPath:
    """What moves by itself; see the head of the file."""

    path: str
    reason: str
    source: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SiteRule:
    """What a site knows to move by itself: regular expressions of the whole path and of whose fact it is."""

    path: str
    subject: str = ".*"
    reason: str = ""

    def __post_init__(self) -> None:
        for text in (self.path, self.subject):
            try:
                re.compile(text)
            except re.error as error:
                hint = r"a path is written as drift prints it, with dots and brackets escaped: node\.labels\[team\]"
                raise InputError("ignore", f"{text!r} is no regular expression: {error}.", hint) from None

    def fits(self, path: str, subject: str) -> bool:
        """Tell whether it is about that fact."""
        return bool(re.fullmatch(self.path, path) and re.fullmatch(self.subject, subject))


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportancePath:
    """How important changes of some paths are."""

    path: str
    level: Importance


@dataclass(frozen=True, slots=True, kw_only=True)
class PassingNode:
    """A label of nodes that come and go by themselves; without a value any counts."""

    label: str
    source: str
    value: str = ""

    def fits(self, node: Node) -> bool:
        """Tell whether a node is such a one."""
        return self.label in node.labels and self.value in ("", node.labels[self.label])


@dataclass(frozen=True, slots=True, kw_only=True)
class DriftRules:
    """The whole file."""

    ignored: tuple[IgnoredPath, ...]
    importance: tuple[ImportancePath, ...]
    passing_nodes: tuple[PassingNode, ...]
    not_kept: tuple[str, ...]


@cache
def drift_rules() -> DriftRules:
    """Return the rules.

    Raises:
        InputError: the file is not what it should be.
    """
    return decode(DriftRules, read_yaml(_RULES), str(_RULES))


@cache
def ignored(path: str) -> IgnoredPath | None:
    """Return the rule by which a path moves by itself, if any."""
    return next((rule for rule in drift_rules().ignored if re.fullmatch(rule.path, path)), None)


@cache
def importance_of(path: str) -> Importance:
    """Return how much a change of a path matters."""
    rules = drift_rules().importance
    return next((rule.level for rule in rules if re.fullmatch(rule.path, path)), Importance.MEDIUM)


def passes_by(there: Any) -> bool:
    """Tell whether something is a node that nobody misses: made and removed by an autoscaler, and without GPUs."""
    if not isinstance(there, Node) or has_gpus(there):
        return False
    return any(rule.fits(there) for rule in drift_rules().passing_nodes)
