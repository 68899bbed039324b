# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A simulated fleet that is swept: noise with heavy tails, lasting differences of good parts, planted losses."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass, field

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.features.continuous.classify import Classified, classify
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.features.continuous.figures import (
    ClassLimits,
    figure_rules,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.model import Rating, Status
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.store.records import Figure, NodeResult

DAY_S = 86400.0
TEST = "gemm"


@dataclass
class Fleet:
    """`noise`: deviation of a run, from Student's t with `tails` degrees of freedom; `lasting`: what good parts differ
    by for good; `left`: the share of them that is slower than that, by `left_mean` on average (an exponential tail, as
    silicon has); `losses`: by node, of all its parts or of the first. `limits`: what they are classified by. `hot` are
    nodes that lose that much as long as `now_s` is before `cool_s`: what they share is busy."""

    nodes: int
    noise: float
    tails: int = 5
    lasting: float = 0.005
    parts: int = 8
    losses: Mapping[str, float] = field(default_factory=dict)
    only_first: bool = True
    left: float = 0.0
    left_mean: float = 0.02
    limits: ClassLimits = field(default_factory=ClassLimits)
    hot: Mapping[str, float] = field(default_factory=dict)
    cool_s: float = 0.0
    seed: str = ""

    def __post_init__(self) -> None:
        self.draw = random.Random(f"{self.seed}/{self.nodes}/{self.noise}/{self.tails}/{self.lasting}")
        self.names = tuple(f"n{number:05d}" for number in range(self.nodes))
        self.own = {name: [self._lasting() for _part in range(self.parts)] for name in self.names}
        self.results: list[NodeResult] = []
        self.now_s = 100 * DAY_S

    def _lasting(self) -> float:
        found = self.draw.gauss(1, self.lasting)
        slower = self.left > 0 and self.draw.random() < self.left
        return found - self.draw.expovariate(1 / self.left_mean) if slower else found

    def _factor(self) -> float:
        if not self.tails:
            return 1 + self.draw.gauss(0, self.noise)
        # Student's t, scaled to the same deviation.
        square = self.draw.gammavariate(self.tails / 2, 2)
        scale = ((self.tails - 2) / self.tails) ** 0.5
        return 1 + self.noise * scale * self.draw.gauss(0, 1) / (square / self.tails) ** 0.5

    def measure(self, node: str) -> None:
        """Add a result of that node."""
        figures = []
        for part in range(self.parts):
            loss = self.losses.get(node, 0.0) if part == 0 or not self.only_first else 0.0
            busy = self.hot.get(node, 0.0) if self.now_s < self.cool_s else 0.0
            speed = 600 * self.own[node][part] * (1 - loss) * (1 - busy) * self._factor()
            figures.append(Figure(name="gemm_bf16", number=max(0.0, speed), unit="TFLOP/s", part=f"{node}-{part}"))
        self.results.append(
            NodeResult(
                cycle_id=f"c{self.now_s:.0f}", node=node, test=TEST, started_s=self.now_s, duration_s=60,
                status=Status.PASSED, rating=Rating.GOOD, cohort="h100/580", figures=tuple(figures),
            )
        )  # fmt: skip

    def sweep(self, repeats: int = 4, apart_h: float = 6.0) -> Classified:
        """Test every node once and suspects again, that often; return what the fleet is taken for."""
        for name in self.names:
            self.measure(name)
        for _round in range(repeats):
            # Repeats that are nearer to each other than six hours are one event.
            self.now_s += apart_h * 3600
            found = self.classify()
            for node, _test in found.repeats:
                self.measure(node)
        return self.classify()

    def classify(self) -> Classified:
        """Classify by all results so far."""
        return classify("c1", self.names, (TEST,), self.results, self.now_s + 60, figure_rules(), self.limits)
