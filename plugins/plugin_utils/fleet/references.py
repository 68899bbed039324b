# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""What a figure of a node is held against beside its equals: what a person accepted, what its hardware is published to
reach. Pure.

A site of one to three nodes has no equals that prove anything by agreeing, and a history proves that nothing changed,
not that it is as it should be.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

# By node, test and figure.
References = Mapping[tuple[str, str, str], "Reference"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Reference:
    """A speed (more is better, as FigureRules.speed) that every part reaches; under the part `marginal` of it a node is
    suspect, under `bad` its repeats make it bad. `source` says where it comes from, `shown` the figure in its unit."""

    speed: float
    marginal: float
    bad: float
    source: str
    shown: str

    @property
    def text(self) -> str:
        """In words."""
        return f"{self.shown} ({self.source}; suspect under {self.marginal:.0%}, bad under {self.bad:.0%})"
