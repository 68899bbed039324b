# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A healthy shared volume as a busy site has it: slow by day, slow for hours while somebody writes a checkpoint, and
never the same for two clients at once.

That such a volume has seasons of long and transients of short duration is what a year of measurements at two centres
shows (Lockwood et al., "A Year in the Life of a Parallel File System", SC18), and that credits run out is what vendors
say of theirs (Amazon FSx for Lustre User Guide, "Performance characteristics of SSD and HDD storage classes"). How far
it goes is drawn here: an answer takes 1 / (1 - load) times as long, as in a queue with one server.
"""

from __future__ import annotations

import math
import random
from collections.abc import Mapping
from dataclasses import dataclass, field

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.features.continuous.classify import Classified, classify
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.features.continuous.figures import (
    FigureRules,
    figure_rules,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.model import Rating, Status
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.store.records import Figure, NodeResult

HOUR_S, DAY_S = 3600.0, 86400.0
TEST = "storage_io"
# MiB/s of one client on an idle volume, and its 99th percentile in ms.
_PATTERNS = {
    "sequential-write": (2000.0, 8.0), "sequential-read": (3000.0, 5.0), "random-read": (900.0, 3.0),
    "random-write": (500.0, 6.0),
}  # fmt: skip


@dataclass
class NoisyVolume:
    """`slow`: by node the part of its speed that a client has left; `limit_mib_s`: what storage_io asks for at most, 0
    for no limit; `storms`: how often an hour begins one; `every_h`: hours from one cycle to the next."""

    nodes: int
    seed: str
    slow: Mapping[str, float] = field(default_factory=dict)
    limit_mib_s: float = 500.0
    storms: float = 0.03
    every_h: float = 3.0

    def __post_init__(self) -> None:
        self.draw = random.Random(self.seed)
        self.names = tuple(f"n{number:03d}" for number in range(self.nodes))
        self.results: list[NodeResult] = []
        self.now_s, self.storm = 100 * DAY_S, 1.0
        self.last: dict[str, float] = {}
        self.again: set[str] = set()
        self.seen: dict[str, set[str]] = {name: set() for name in self.names}
        self.bad_after_days: dict[str, float] = {}

    def load(self) -> float:
        """Return how busy the volume is now."""
        for _hour in range(round(self.every_h)):
            if self.draw.random() < self.storms:
                self.storm = self.draw.uniform(1.5, 4.0)
            elif self.draw.random() < 0.3:
                self.storm = 1.0
        hour = self.now_s % DAY_S / HOUR_S
        by_day = 0.25 + 0.45 * max(0.0, math.sin((hour - 8) / 12 * math.pi)) + 0.15 * self.draw.random()
        return min(0.97, by_day * self.storm)

    def measure(self, node: str, load: float) -> None:
        """Add what fio reached on a node."""
        own = min(0.98, load * self.draw.lognormvariate(0, 0.3))
        part, figures = self.slow.get(node, 1.0), list[Figure]()
        for name, (mib_s, p99_ms) in _PATTERNS.items():
            rate = mib_s * (1 - own) * self.draw.lognormvariate(0, 0.1) * part
            if self.limit_mib_s:
                rate = min(rate, self.limit_mib_s * (1 - abs(self.draw.gauss(0, 0.003))))
            ms = p99_ms / (1 - own) * self.draw.lognormvariate(0, 0.5) / part
            for what, number, unit in (
                ("", rate, "MiB/s"), (" operations", rate * 4, "1/s"), (" p50", ms / 4, "ms"), (" p99", ms, "ms"),
                (" p99.9", ms * 3 * self.draw.lognormvariate(0, 0.5), "ms"),
            ):  # fmt: skip
                figures.append(Figure(name=name + what, number=number, unit=unit, part="shared-volume"))
        self.results.append(NodeResult(
            cycle_id=f"c{self.now_s:.0f}", node=node, test=TEST, started_s=self.now_s, duration_s=60.0,
            status=Status.PASSED, rating=Rating.GOOD, cohort="h100, fio-3.36", figures=tuple(figures),
        ))  # fmt: skip

    def go(self, days: float, rules: FigureRules | None = None) -> Classified:
        """Test what is due or suspected, cycle after cycle, and classify; return the last classes."""
        begun_s, found = self.now_s, None
        while self.now_s < begun_s + days * DAY_S:
            load = self.load()
            due = [n for n in self.names if n in self.again or self.now_s - self.last.get(n, -math.inf) >= 7 * DAY_S]
            for name in self.draw.sample(due, min(8, len(due))):
                self.last[name] = self.now_s
                self.measure(name, load)
            found = classify("c", self.names, (TEST,), self.results, self.now_s + 60, rules or figure_rules())
            self.again = {node for node, _test in found.repeats}
            for entry in found.classes:
                self.seen[entry.node].add(entry.word)
                if entry.word == "bad":
                    self.bad_after_days.setdefault(entry.node, (self.now_s - begun_s) / DAY_S)
            self.now_s += self.every_h * HOUR_S
        if found is None:
            raise AssertionError("no time at all")
        return found
