# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A year of continuous validation of a fleet, simulated: what is covered, found, taken out, and what that costs.

    python bench/fleet_year.py [--nodes 10000] [--days 365] [--seed 1]

Queue, classes and policy are the product's own (plan_batch, classify, steps), fed with results of simulated nodes:
users come and go as in tests/support/service_year.py; a hundredth of the nodes breaks in the course of the year, half
of them with wrong arithmetic (a hard fact), half by a tenth of their speed; good parts differ for good, and runs by 2 %
with heavy tails. At 0.7 of the time a bad image lets 17 % of all nodes fail for ten days, which is no fault of theirs.
A planted node that is taken out comes back within days with another GPU. Printed are, with their bounds:

coverage        nodes with a result of the last Z days (7) and one; nodes without, although a plan found them free for
                long enough when they owed it
passed over     how often a free node that owed its test was left out in a row, at most
found           planted nodes that were taken out, and after how many days; those that were not, with the reason
false           nodes that were taken out and were well
breaker         whether it held while the bad image failed, and how many were out by us then
"""

from __future__ import annotations

import argparse
import math
import sys
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from statistics import median
from time import process_time

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / ".cache"), str(ROOT / "tests/support")]

from service_year import BEGIN, DAY, HOUR, Machine

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.features.continuous.classify import classify
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.features.continuous.figures import figure_rules
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.features.continuous.node_history import (
    BatchLimits,
    Demand,
    histories_by_test,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.features.continuous.queue import QueueNode, plan_batch
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.features.remediation.app import (
    CORDON,
    RemediationPolicy,
    RemediationSite,
    steps,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.model import Rating, Status
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.store.records import Figure, NodeResult

TEST, Z_DAYS, RUN_S, RACK = "gemm", 7.0, 1200.0, 8
NOISE, LASTING, LOSS, TAILS = 0.02, 0.005, 0.10, 5
PLANTED, EVENT_AT, EVENT_DAYS, EVENT_SHARE = 0.01, 0.7, 10.0, 0.17
# A soft loss needs three repeats after the sample that saw it, all within days once the node is free.
FOUND_WITHIN_DAYS = 2 * Z_DAYS


@dataclass(slots=True)
class Told:
    """What came of the year."""

    tests: int = 0
    plans: int = 0
    covered: list[float] = field(default_factory=list)
    passed_over: int = 0
    missed: int = 0
    found_days: list[float] = field(default_factory=list)
    late: list[str] = field(default_factory=list)
    false: list[str] = field(default_factory=list)
    taken_in_event: int = 0
    breaker: int = 0
    most_out: int = 0


@dataclass(slots=True)
class Node:
    """One node: its users, its speed, from when it is broken and how, and what is remembered of it."""

    machine: Machine
    speed: float
    hard: bool = False
    in_event: bool = False
    free_days: int = 0
    left_out: int = 0
    seen_free_s: float = -math.inf
    missed: bool = False
    results: deque[NodeResult] = field(default_factory=deque)


class Year:
    """The fleet and its policy; `run` goes through the days."""

    def __init__(self, nodes: int, days: float, seed: int) -> None:
        self.draw, self.days, self.told = Random(f"fleet year {seed}"), days, Told()
        # Every test holds a week, and a plan is made twice a day: what a plan can test is four times what falls due.
        self.limits = BatchLimits(size=max(8, nodes * 4 // 14), per_rack=4)
        self.nodes = [self._node(number) for number in range(nodes)]
        self.by_name = {node.machine.name: node for node in self.nodes}
        for number, node in enumerate(self.draw.sample(self.nodes, max(2, int(nodes * PLANTED)))):
            node.machine.bad_from = BEGIN + self.draw.uniform(0.08, 0.9) * days * DAY
            node.hard = number % 2 == 0
        for node in self.draw.sample(self.nodes, int(nodes * EVENT_SHARE)):
            node.in_event = True
        self.event = (BEGIN + EVENT_AT * days * DAY, BEGIN + (EVENT_AT * days + EVENT_DAYS) * DAY)
        self.out: set[str] = set()
        self.again: set[tuple[str, str]] = set()
        self.policy = RemediationPolicy(acts=(CORDON,))

    def _node(self, number: int) -> Node:
        own = Random(self.draw.random())
        idle_h, job_h = own.choices([(1.5, 60.0), (12.0, 20.0), (200.0, 4.0)], [3, 6, 1])[0]
        machine = Machine(f"n{number:05d}", own, idle_h, job_h, untestable=False)
        machine.job_to = BEGIN + own.uniform(-job_h, 0) * HOUR
        return Node(machine, own.gauss(600.0, 600.0 * LASTING))

    def run(self) -> Told:
        """Go through the days: two plans each, then classes and policy."""
        for half in range(int(self.days * 2)):
            now = BEGIN + half * DAY / 2
            self._plan(now)
            if half % 2:
                self._classify(now + HOUR)
            if half % 60 == 59:
                self._progress((half + 1) // 2)
        return self.told

    def _progress(self, day: int) -> None:
        told = self.told
        text = f"    day {day}: {told.tests} tests, {len(told.found_days)} found, {len(told.false)} false"
        print(f"{text}, {process_time():.0f} s CPU", file=sys.stderr, flush=True)

    def _keeps(self, node: Node, now: float) -> str:
        """Return why nothing may be tested there; who is out by us has no users."""
        if node.machine.away_to > now:
            return "away"
        return "" if node.machine.name in self.out else node.machine.work(now)

    def _plan(self, now: float) -> None:
        keeps = {node.machine.name: self._keeps(node, now) for node in self.nodes}
        fleet = [
            QueueNode(name=node.machine.name, rack=f"r{number // RACK}", parts=node.machine.parts,
                      not_free=keeps[node.machine.name])
            for number, node in enumerate(self.nodes)
        ]  # fmt: skip
        known = histories_by_test((result for node in self.nodes for result in node.results), now)
        demand = (Demand(test=TEST, max_age_days=Z_DAYS, longest_s=RUN_S),)
        plan = plan_batch(fleet, demand, known, (), self.limits, now, again=self.again)
        self.told.plans += 1
        chosen, owed = {position.node for position in plan.batch}, {position.node for position in plan.positions}
        for position in plan.positions:
            node = self.by_name[position.node]
            node.left_out = 0 if position.node in chosen else node.left_out + 1
            self.told.passed_over = max(self.told.passed_over, node.left_out)
        for name, why in keeps.items():
            node = self.by_name[name]
            if not why and (name in self.out or node.machine.job_from >= now + RUN_S):
                node.seen_free_s = now
                # Owed and not begun: a chance that was missed, until the next result.
                node.missed = node.missed or (name in owed and name not in chosen)
        for name in chosen:
            self._test(self.by_name[name], now)

    def _test(self, node: Node, now: float) -> None:
        machine, self.told.tests = node.machine, self.told.tests + 1
        status, rating, cause, figures = Status.PASSED, Rating.GOOD, "", ()
        if machine.name not in self.out and machine.job_from < now + RUN_S:
            status, rating, cause = Status.PENDING, Rating.UNKNOWN, "launch-preempted"
        else:
            broken = machine.bad_from <= now
            if (broken and node.hard) or (node.in_event and self.event[0] <= now < self.event[1]):
                status, rating, cause = Status.FAILED, Rating.BAD, "digest-differs"
            square = self.draw.gammavariate(TAILS / 2, 2)
            tail = self.draw.gauss(0, 1) / (square / TAILS) ** 0.5 * ((TAILS - 2) / TAILS) ** 0.5
            speed = node.speed * (1 - LOSS * (broken and not node.hard)) * max(0.1, 1 + NOISE * tail)
            figures = (Figure(name="gemm-bf16", number=speed, unit="TFLOP/s", part="gpu0"),)
        node.results.append(NodeResult(
            cycle_id="c", node=machine.name, test=TEST, started_s=now, duration_s=RUN_S, status=status, rating=rating,
            cause=cause, cohort="h100, driver 580", parts=machine.parts, figures=figures,
        ))  # fmt: skip
        node.missed = node.missed and status is Status.PENDING
        while node.results[0].started_s < now - 90 * DAY:
            node.results.popleft()

    def _classify(self, now: float) -> None:
        results = (result for node in self.nodes for result in node.results)
        found = classify("c", tuple(self.by_name), (TEST,), results, now, figure_rules())
        self.again = set(found.repeats)
        words = {entry.node: entry.word for entry in found.classes}
        todo = steps(
            RemediationSite(words=words, out=self.out, recorded=self.out, in_a_row=found.in_a_row), self.policy
        )
        self.told.breaker += bool(todo.stopped)
        for name in todo.take:
            self._take(self.by_name[name], now)
        self.out -= set(todo.give_back)
        self.told.most_out = max(self.told.most_out, len(self.out))
        self._count(now, words)

    def _take(self, node: Node, now: float) -> None:
        machine = node.machine
        self.out.add(machine.name)
        if machine.bad_from <= now:
            self.told.found_days.append((now - machine.bad_from) / DAY)
            machine.bad_from, machine.serial = math.inf, machine.serial + 1
            machine.away_to = now + self.draw.uniform(1, 5) * DAY
        elif any(result.status is Status.FAILED for result in node.results):
            # It was well, and did fail: the image did it.
            self.told.taken_in_event += 1
        else:
            self.told.false.append(machine.name)

    def _count(self, now: float, words: dict[str, str]) -> None:
        """Note who is covered, and who is broken for too long although it was free."""
        if now < BEGIN + 2 * Z_DAYS * DAY:
            return
        covered, missed = 0, 0
        for node in self.nodes:
            last = next((r for r in reversed(node.results) if r.status is not Status.PENDING), None)
            fresh = last is not None and now - last.started_s <= (Z_DAYS + 1) * DAY
            covered += fresh
            missed += node.missed and not fresh
            broken_days = (now - node.machine.bad_from) / DAY
            node.free_days += broken_days > 0 and node.seen_free_s > now - DAY
            if broken_days > FOUND_WITHIN_DAYS and node.free_days > FOUND_WITHIN_DAYS:
                kind = "hard" if node.hard else "soft"
                self.told.late.append(f"{node.machine.name} ({kind}, taken for {words[node.machine.name]})")
        self.told.covered.append(covered / len(self.nodes))
        self.told.missed = max(self.told.missed, missed)


def main(arguments: Sequence[str]) -> int:
    """Print what came of the year; 1 if a bound is not kept."""
    import resource

    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("--nodes", type=int, default=10_000)
    parser.add_argument("--days", type=float, default=365)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args(arguments)
    year = Year(given.nodes, given.days, given.seed)
    told = year.run()
    bound = 2 * math.ceil(given.nodes / year.limits.size) + math.ceil(RACK / year.limits.per_rack) + 4
    open_now = sum(node.machine.bad_from < BEGIN + given.days * DAY for node in year.nodes)
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    found, late = sorted(told.found_days), sorted(set(told.late))
    print(f"  {given.nodes} nodes, {given.days:g} days: {told.plans} plans, {told.tests} tests; "
          f"{process_time():.0f} s CPU, {memory:.0f} MB")  # fmt: skip
    lowest, middle = min(told.covered, default=1.0), median(told.covered or [1.0])
    print(f"  coverage        {middle:.2%} of all nodes (median of the days, at least {lowest:.2%}), the others at "
          f"work; at most {told.missed} at once that waited their turn")  # fmt: skip
    print(f"  passed over     at most {told.passed_over} times, bound {bound}")
    if found:
        at95 = found[int(len(found) * 0.95)]
        print(f"  found           {len(found)} planted nodes after {median(found):.1f} days (median), {at95:.1f} "
              f"(95 %), {found[-1]:.1f} at most; {open_now} not yet")  # fmt: skip
    print(f"  found too late  {len(late)}: {', '.join(late[:5]) or 'none'}")
    # One in a sweep of 10,000 nodes (docs/design/classification.md); a sweep takes Z days.
    allowed = max(1, round(given.nodes / 10_000 * given.days / Z_DAYS))
    named = ", ".join(told.false[:5]) or "none"
    print(f"  false           {len(told.false)} taken out that were well: {named}; bound {allowed}")
    print(f"  breaker         held in {told.breaker} cycles; {told.taken_in_event} taken out by the bad image, at "
          f"most {told.most_out} out at once (10 % are {given.nodes // 10})")  # fmt: skip
    kept = told.passed_over <= bound and not late and len(told.false) <= allowed
    kept = kept and told.breaker > 0 and told.most_out <= given.nodes // 10
    print("  every bound is kept" if kept else "  A BOUND IS NOT KEPT")
    return 0 if kept else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
