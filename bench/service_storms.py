# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""False cordons and misses of continuous validation under congestion, for sites of 1 to 1,000 nodes.

Nodes run nccl_loop once a week and suspects again, in a cycle a day. A leaf group of eight nodes is congested on a part
of the days for some hours; whoever is tested then is slower. Classes are the product's own (classify, with the limits
that ship). Printed are, for every storm and number of nodes, how many healthy nodes were ever called bad in how many
node-months, and how many nodes with a lasting loss were noticed (suspect, drifting or bad) and called bad within 30
days. Budgets: at most one in 10,000 node-months; of 20 losses of 8 % all noticed from four nodes on, of 15 % from one.

    python bench/service_storms.py [--months 10000] [--nodes 1,2,4,16,128,1000] [--storms 0,1,2,3,4]
"""

from __future__ import annotations

import argparse
import random
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / ".cache"))

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.fabric_validation.settings import (
    JudgeSettings,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.kit.settings_layers import (
    settings_for,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.features.continuous.classify import classify
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.features.continuous.figures import (
    ClassLimits,
    figure_rules,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.model import Rating, Status
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.store.records import Figure, NodeResult

DAY_S, HOUR_S, TEST, CEILING = 86400.0, 3600.0, "nccl_loop", 50.0
GROUP, NOISE, LASTING, WELL = 8, 0.006, 0.003, 48.0
MONTH_DAYS = 28


@dataclass(frozen=True)
class Storm:
    """On `share` of the days a leaf group is congested for `hours`, and tests there lose between `least` and `most`."""

    share: float
    hours: float
    least: float
    most: float

    def __str__(self) -> str:
        return f"{self.share:.0%} of days, {self.hours:g} h, -{self.least:.0%} to -{self.most:.0%}"


STORMS = (
    Storm(0.0, 1, 0.0, 0.0), Storm(0.02, 2, 0.08, 0.14), Storm(0.02, 4, 0.08, 0.14), Storm(0.05, 4, 0.08, 0.14),
    Storm(0.05, 8, 0.08, 0.30),
)  # fmt: skip


@dataclass
class Site:
    """A site under a storm; `lost` is by node the part of its speed that is missing from the first day."""

    nodes: int
    storm: Storm
    draw: random.Random
    lost: dict[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.names = tuple(f"n{number:04d}" for number in range(self.nodes))
        self.own = {name: self.draw.gauss(1, LASTING) for name in self.names}
        self.due = {name: self.draw.randrange(7) for name in self.names}
        self.results: list[NodeResult] = []
        self.again: set[str] = set()
        self.bad: dict[str, int] = {}
        self.noticed: dict[str, int] = {}
        gate = settings_for(JudgeSettings, "fabric_validation", {}).peers
        self.limits = ClassLimits(stale_by_test={TEST: 14.0}, peers_by_test={TEST: gate})

    def go(self, days: int) -> None:
        """Let days go by, a cycle each."""
        for day in range(days):
            hot = self._hot()
            at_s = day * DAY_S
            for name in self.names:
                if self.due[name] <= day or name in self.again:
                    self._measure(name, at_s + self.draw.uniform(0, 1) * HOUR_S, day, hot)
                    self.due[name] = day + 7
            self._classify(at_s + DAY_S - 60, day)

    def _hot(self) -> dict[int, float]:
        """Return what is lost in the groups that are congested when this day's cycle runs."""
        groups, storm = -(-self.nodes // GROUP), self.storm
        now = storm.share * storm.hours / 24
        return {g: self.draw.uniform(storm.least, storm.most) for g in range(groups) if self.draw.random() < now}

    def _measure(self, name: str, at_s: float, day: int, hot: dict[int, float]) -> None:
        left = (1 - self.lost.get(name, 0.0)) * (1 - hot.get(self.names.index(name) // GROUP, 0.0))
        gbps = WELL * self.own[name] * self.draw.gauss(1, NOISE) * left
        status, rating = Status.FAILED, Rating.BAD
        if gbps >= 0.75 * CEILING:
            good = gbps >= 0.85 * CEILING
            status, rating = (Status.PASSED, Rating.GOOD) if good else (Status.OTHER, Rating.MARGINAL)
        self.results.append(NodeResult(
            cycle_id=f"c{day}", node=name, test=TEST, started_s=at_s, duration_s=60.0, status=status, rating=rating,
            cause="" if status is Status.PASSED else "slow-adapter", cohort="h100",
            figures=(Figure(name="busbw", number=gbps, unit="GB/s"),),
        ))  # fmt: skip

    def _classify(self, now_s: float, day: int) -> None:
        since_s = now_s - self.limits.history_days * DAY_S
        self.results = [result for result in self.results if result.started_s >= since_s]
        found = classify("c", self.names, (TEST,), self.results, now_s, figure_rules(), self.limits)
        for entry in found.classes:
            if entry.word == "bad":
                self.bad.setdefault(entry.node, day)
            if entry.word in ("bad", "suspect", "drifting"):
                self.noticed.setdefault(entry.node, day)
        # The next cycle is a day later, when another result is another event.
        self.again = {entry.node for entry in found.classes if entry.word in ("bad", "suspect")}


def false_cordons(nodes: int, storm: Storm, months: int, seed: str) -> tuple[int, int]:
    """Return how many healthy nodes were called bad, in how many node-months."""
    draw, found, done = random.Random(f"{seed}/{nodes}/{storm}"), 0, 0
    while done < months:
        span = max(1, min(3, (months - done) // nodes))
        site = Site(nodes, storm, draw)
        site.go(span * MONTH_DAYS)
        found, done = found + len(site.bad), done + span * nodes
    return found, done


def losses(nodes: int, storm: Storm, loss: float, seed: str, trials: int = 20) -> tuple[int, int]:
    """Return of how many of these lasting losses the node was noticed, and called bad, within 30 days."""
    draw, noticed, bad = random.Random(f"{seed}/{nodes}/{storm}/{loss}"), 0, 0
    each = max(1, min(trials, nodes // 32))
    for _trial in range(trials // each):
        names = draw.sample(range(nodes), each)
        site = Site(nodes, storm, draw, {f"n{number:04d}": loss for number in names})
        site.go(30)
        noticed += sum(name in site.noticed for name in site.lost)
        bad += sum(name in site.bad for name in site.lost)
    return noticed, bad


def main() -> int:
    """Print the table; return 1 if a budget is not kept."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--months", type=int, default=10_000, help="node-months of each row at least")
    parser.add_argument("--nodes", default="1,2,4,16,128,1000")
    parser.add_argument("--storms", default="0,1,2,3,4", help="which of the storms")
    parser.add_argument("--seed", default="storms")
    args, over = parser.parse_args(), False
    print(f"{'nodes':>5}  {'storm':34} {'healthy called bad':>22}  8 %: noticed, bad   15 %: noticed, bad      s")
    for nodes in map(int, args.nodes.split(",")):
        for storm in (STORMS[int(number)] for number in args.storms.split(",")):
            begun = time.monotonic()
            found, done = false_cordons(nodes, storm, max(args.months, nodes), args.seed)
            eight, fifteen = (losses(nodes, storm, loss, args.seed) for loss in (0.08, 0.15))
            row = f"{nodes:>5}  {storm!s:34} {found:>8} in {done:>6} months  {eight[0]:>8} {eight[1]:>4} of 20"
            print(f"{row} {fifteen[0]:>8} {fifteen[1]:>4} of 20 {time.monotonic() - begun:>6.0f}", flush=True)
            over |= found > max(1, done // 10_000) or fifteen[0] < 20 or (nodes >= 4 and eight[0] < 20)
    return int(over)


if __name__ == "__main__":
    sys.exit(main())
