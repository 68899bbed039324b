# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""One simulated training: its pods, the options of the program, and what follows from them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ..model.values import Gpu, Node
from .benchmark import RankPod


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingJob:
    """One training job: its pods in the order of their ranks, and the options of the program."""

    name: str
    places: tuple[RankPod, ...]
    options: Mapping[str, str]
    env: Mapping[str, str]

    def number(self, name: str) -> int:
        """Return the value of an integer option."""
        return int(self.options[name])

    @property
    def matmul_parameters(self) -> int:
        """Parameters of its matrices: four of attention and eight of the feed-forward network a layer, the output."""
        hidden = self.number("hidden")
        return 12 * self.number("layers") * hidden**2 + hidden * self.number("vocabulary")

    @property
    def parameters(self) -> int:
        """All parameters, embeddings and norms included."""
        hidden, norms = self.number("hidden"), 4 * self.number("layers") + 2
        return self.matmul_parameters + hidden * (self.number("vocabulary") + self.number("sequence") + norms)

    @property
    def tokens(self) -> int:
        """Tokens of one rank in one step."""
        return self.number("batch") * self.number("accumulate") * self.number("sequence")

    @property
    def flop(self) -> float:
        """Floating point operations of one rank in one step."""
        attention = 12 * self.number("layers") * self.number("hidden") * self.number("sequence")
        return self.tokens * (6.0 * self.matmul_parameters + attention)


@dataclass(frozen=True, slots=True)
class Rank:
    """One rank: its number, its GPU and its node."""

    number: int
    gpu: Gpu
    node: Node
