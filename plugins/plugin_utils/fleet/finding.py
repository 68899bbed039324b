# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""What is said of one node by one test, and what all nodes are judged by."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import takewhile

from ..store.service_model import NodeResult
from ..verdict.drift import Drift
from .class_rules import ClassLimits, FigureRules, Word
from .cohorts import Cohort, Group
from .digests import Digests
from .references import References
from .series import Series


@dataclass(frozen=True, slots=True)
class Finding:
    """One sentence about a node, and what it makes of it. `row`: how many of the newest events in a row say so.
    `sure`: more than half of its repeats were low, each the best of several samples. `repeat`: whether another result
    of the node would tell more."""

    word: Word
    text: str
    row: int = 0
    sure: bool = False
    repeat: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Context:
    """What all nodes are judged by; `hard` and `marginal` are by test and cohort why a cohort is to blame."""

    now_s: float
    rules: FigureRules
    limits: ClassLimits
    cohorts: Mapping[Group, Cohort]
    hard: Mapping[tuple[str, str], str]
    marginal: Mapping[tuple[str, str], str]
    drifts: Mapping[Series, Drift]
    digests: Mapping[tuple[str, str], Digests]
    figures: Mapping[tuple[str, str], Mapping[str, float]]
    parts: Mapping[str, Mapping[str, str]]
    references: References = field(default_factory=dict)

    def needed(self, test: str) -> int:
        """Return how many of the repeats of a test have to be low."""
        return self.limits.needed(test, self.rules)

    def age(self, result: NodeResult) -> str:
        """Return how old a result is, for people."""
        hours = max(0.0, self.now_s - result.started_s) / 3600
        return f"{hours / 24:.1f} days" if hours >= 48 else f"{hours:.1f} h"


def newest_in_a_row(low: Sequence[bool]) -> int:
    """Return how many samples at the end of a series, the oldest first, are low."""
    return len(list(takewhile(bool, reversed(low))))
