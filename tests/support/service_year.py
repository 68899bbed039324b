# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A fleet in service for a year, simulated: users come and go, nodes break and get other GPUs, controllers die.

The fleet knows nothing of the queue. It says what is on a node, lets a test run there and ends it when a user comes,
and keeps a book of its own of what was done where. What must hold is asserted at each step: no test on a node with
work, two tests never at once, no test again that still holds, and nobody passed over more often than the bound says.

    .cache/venv/bin/python tests/support/service_year.py --nodes 10000 --days 365 --seed 1
"""

from __future__ import annotations

import argparse
import math
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from heapq import heappop, heappush
from pathlib import Path
from random import Random, SystemRandom
from time import process_time

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parents[2] / ".cache"))

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.features.continuous.node_history import (
    BatchLimits,
    Demand,
    histories_by_test,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.features.continuous.queue import QueueNode, plan_batch
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.model import Status
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.store.records import Lease, NodeResult

HOUR, DAY = 3600.0, 86400.0
BEGIN = 1767225600.0
TESTS = ("dl", "nccl", "fio")
MAX_DAYS, FAILED_AGAIN_S, LONGEST_S, LEASE_S = 7.0, 6 * HOUR, 1200.0, 2400.0
RACK = 8
PLAN, END = "plan", "end"


@dataclass(slots=True)
class Machine:
    """One node as it is, whether anybody looks or not: the next job of a user, and until when it is broken or away."""

    name: str
    random: Random
    idle_h: float
    job_h: float
    untestable: bool
    job_from: float = BEGIN
    job_to: float = BEGIN
    bad_from: float = math.inf
    away_to: float = 0.0
    serial: int = 0
    under_test: str = ""
    failures: int = 0

    def at(self, now: float) -> None:
        """Let users come and go until this time."""
        while self.job_to <= now:
            length = self.job_h * (0.05 if self.bad_from <= now else 1.0)
            self.job_from = self.job_to + self.random.expovariate(1 / self.idle_h) * HOUR
            self.job_to = self.job_from + max(0.1, self.random.expovariate(1 / length)) * HOUR

    def work(self, now: float) -> str:
        """Return what keeps it from being free now."""
        self.at(now)
        if self.away_to > now:
            return "away"
        return "a job" if self.job_from <= now else ""

    @property
    def parts(self) -> dict[str, str]:
        """Its GPU that is replaced by repairs."""
        return {"gpu0": f"{self.name}-{self.serial}"}


@dataclass(slots=True)
class Entry:
    """The fleet's own book of one test on one node; `chances` counts how often it was owed, could run, and did not."""

    answered: float = -math.inf
    passed: bool = True
    serial: int = -1
    tried: float = -math.inf
    silent: bool = False
    chances: int = 0


@dataclass(slots=True)
class Figures:
    """What came of it."""

    tests: Counter[str] = field(default_factory=Counter)
    plans: int = 0
    crashes: int = 0
    repairs: int = 0
    chances: int = 0
    oldest_s: float = 0.0
    untouched: int = 0
    chances_later: int = 0


class ServiceYear:
    """The fleet, its history and its controllers; `run` goes to the end."""

    def __init__(
        self, nodes: int, days: float, seed: int, size: int, every_h: float = 6.0, dying: float = 0.02
    ) -> None:
        self.random = Random(f"service year {seed}")
        self.limits = BatchLimits(size=size, per_rack=2, failed_again_h=FAILED_AGAIN_S / HOUR)
        self.demands = tuple(Demand(test=name, max_age_days=MAX_DAYS, longest_s=LONGEST_S) for name in TESTS)
        self.dying = dying
        self.end, self.every_s = BEGIN + days * DAY, every_h * HOUR
        self.machines = [self._machine(number) for number in range(nodes)]
        self.by_name = {machine.name: machine for machine in self.machines}
        self.book = {(m.name, test): Entry() for m in self.machines for test in TESTS}
        self.known: dict[tuple[str, str], list[NodeResult]] = {}
        self.leases: dict[str, Lease] = {}
        self.outages = [BEGIN + self.random.uniform(0.1, 0.9) * days * DAY for unused in range(2)]
        self.events: list[tuple[float, int, str, object]] = []
        self.serial, self.figures = 0, Figures()
        # In front of a node that waits are at most all others once, and its rack once; those that fail again, are given
        # back once, or lose their controller stand there twice.
        self.bound = 2 * math.ceil(nodes / size) + math.ceil(RACK / self.limits.per_rack) + 4

    def _machine(self, number: int) -> Machine:
        random = Random(f"{self.random.random()}/{number}")
        idle_h, job_h = random.choices([(1.5, 60.0), (12.0, 20.0), (200.0, 4.0)], [3, 6, 1])[0]
        machine = Machine(f"n{number:05d}", random, idle_h, job_h, untestable=random.random() < 0.003)
        machine.job_to = BEGIN + random.uniform(-job_h, 0) * HOUR
        machine.bad_from = BEGIN + random.expovariate(1 / (120 * DAY))
        return machine

    def _push(self, at: float, kind: str, what: object) -> None:
        self.serial += 1
        heappush(self.events, (at, self.serial, kind, what))

    def run(self) -> Figures:
        """Go through the year and return what came of it."""
        for number in (0, 1):
            # The second controller begins while tests of the first run.
            self._push(BEGIN + number * 0.4 * HOUR, PLAN, number)
        while self.events and self.events[0][0] < self.end:
            now, _serial, kind, what = heappop(self.events)
            if kind == PLAN:
                self._plan(now)
                self._push(now + self.every_s, PLAN, what)
            else:
                self._ended(now, *what)  # type: ignore[misc]
        free = {name for name, _test in self.book if not self.by_name[name].untestable}
        self.figures.untouched = sum(self.book[name, test].answered == -math.inf for name in free for test in TESTS)
        return self.figures

    def _break(self, now: float) -> None:
        """Let some nodes go away for hours."""
        for machine in self.random.sample(self.machines, max(1, len(self.machines) // 500)):
            if not machine.under_test:
                machine.away_to = max(machine.away_to, now + self.random.uniform(1, 12) * HOUR)

    def _plan(self, now: float) -> None:
        self._break(now)
        crash = now + self.random.uniform(0, 1.2 * HOUR) if self.random.random() < self.dying else math.inf
        self.figures.plans += 1
        self.figures.crashes += crash < math.inf
        nodes = [
            QueueNode(
                name=m.name,
                rack=f"r{number // RACK}",
                parts=m.parts,
                not_free="our test" if m.under_test else m.work(now),
            )
            for number, m in enumerate(self.machines)
        ]
        results = (result for found in self.known.values() for result in found)
        plan = plan_batch(
            nodes, self.demands, histories_by_test(results, now), tuple(self.leases.values()), self.limits, now
        )  # fmt: skip
        chosen = {position.node for position in plan.batch}
        assert len(chosen) == len(plan.batch) <= self.limits.size
        if crash == math.inf:
            self._count_chances(now, chosen)
        for position in plan.batch:
            keeps = self.by_name[position.node].work(now)
            assert not keeps, f"{position.node} is to be tested, and {keeps} is on it"
            self._start(now, position.node, [due.test for due in position.tests], crash)

    def _count_chances(self, now: float, chosen: set[str]) -> None:
        """Note whose test could have been run by this batch and was not."""
        for machine in self.machines:
            lease = self.leases.get(machine.name)
            busy = machine.under_test or machine.work(now) or (lease is not None and lease.until_s > now)
            if busy or machine.job_from - now < len(TESTS) * LONGEST_S or machine.name in chosen:
                continue
            for test in TESTS:
                entry = self.book[machine.name, test]
                if self._owed(now, machine, entry) and not machine.untestable:
                    entry.chances += 1
                    self.figures.chances = max(self.figures.chances, entry.chances)
                    if now > BEGIN + 30 * DAY:
                        self.figures.chances_later = max(self.figures.chances_later, entry.chances)
                    assert entry.chances <= self.bound, (machine.name, test, entry, self.bound)

    def _owed(self, now: float, machine: Machine, entry: Entry) -> bool:
        if entry.silent and now - entry.tried < DAY:
            return False
        if entry.passed and entry.serial == machine.serial:
            return now - entry.answered >= MAX_DAYS * DAY
        return now - max(entry.answered, entry.tried) >= FAILED_AGAIN_S

    def _start(self, now: float, name: str, tests: list[str], crash: float) -> None:
        """Begin the first test there, unless a user was faster or the controller died."""
        machine = self.by_name[name]
        if not tests or now >= crash:
            return
        if machine.work(now):
            self._record(now, machine, tests[0], Status.PENDING)
            return
        test, entry = tests[0], self.book[name, tests[0]]
        lease = self.leases.get(name)
        assert not machine.under_test, f"{name}: {test} while {machine.under_test} runs"
        assert lease is None or lease.until_s <= now, f"{name}: {lease} is held"
        holds = entry.passed and entry.serial == machine.serial and now - entry.answered < MAX_DAYS * DAY
        assert not holds or entry.silent, f"{name}: {test} again after {(now - entry.answered) / DAY:.2f} days"
        machine.under_test = test
        self.leases[name] = Lease(node=name, test=test, cycle_id="c", until_s=now + LEASE_S)
        over = now + self.random.uniform(0.5, 1.0) * LONGEST_S
        self._push(min(over, max(now, machine.job_from)), END, (name, tests, crash, machine.job_from < over))

    def _ended(self, now: float, name: str, tests: list[str], crash: float, taken: bool) -> None:
        machine = self.by_name[name]
        machine.under_test = ""
        if now >= crash:
            # Nobody wrote the result down, and the lease runs out by itself.
            return
        del self.leases[name]
        self._record(now, machine, tests[0], self._outcome(now, machine, tests[0], taken=taken))
        if not taken:
            self._start(now, name, tests[1:], crash)

    def _outcome(self, now: float, machine: Machine, test: str, *, taken: bool) -> Status:
        if taken:
            return Status.PENDING
        if (machine.untestable and test == "nccl") or self._outage(now, test):
            return Status.OTHER
        return Status.FAILED if machine.bad_from <= now and test != "fio" else Status.PASSED

    def _outage(self, now: float, test: str) -> bool:
        return test == "fio" and any(0 <= now - begun < 12 * HOUR for begun in self.outages)

    def _record(self, now: float, machine: Machine, test: str, status: Status) -> None:
        key, entry = (machine.name, test), self.book[machine.name, test]
        result = NodeResult(
            cycle_id="c", node=machine.name, test=test, started_s=now, duration_s=LONGEST_S, status=status,
            parts=machine.parts,
        )  # fmt: skip
        self.figures.tests[status.value] += 1
        if status is Status.PENDING:
            self.known.setdefault(key, []).append(result)
            return
        entry.tried, entry.silent = now, status is Status.OTHER
        if status is Status.OTHER:
            self.known.setdefault(key, []).append(result)
            return
        if entry.answered > -math.inf and entry.serial == machine.serial:
            self.figures.oldest_s = max(self.figures.oldest_s, now - entry.answered)
        entry.answered, entry.passed, entry.serial = now, status is Status.PASSED, machine.serial
        self.known[key] = [result]
        if status is Status.FAILED:
            self._found_bad(now, machine)
        entry.chances = 0

    def _found_bad(self, now: float, machine: Machine) -> None:
        """Repair after the second failure: it is away for days, and comes back with another GPU."""
        machine.failures += 1
        if machine.failures >= 2:
            machine.failures, machine.bad_from = 0, now + self.random.expovariate(1 / (120 * DAY))
            machine.away_to = now + self.random.uniform(1, 5) * DAY
            machine.serial += 1
            self.figures.repairs += 1


def main(arguments: Sequence[str]) -> int:
    """Simulate, print the figures; an assertion ends it where something does not hold."""
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("--nodes", type=int, default=10_000)
    parser.add_argument("--days", type=float, default=365)
    parser.add_argument("--size", type=int, default=0, help="nodes in a batch; a 16th of the fleet")
    parser.add_argument("--every-h", type=float, default=6.0, help="hours between the plans of each controller")
    parser.add_argument("--seed", type=int, default=SystemRandom().randrange(10**6))
    given = parser.parse_args(arguments)
    print(f"seed {given.seed}", flush=True)
    begun = process_time()
    year = ServiceYear(given.nodes, given.days, given.seed, given.size or max(4, given.nodes // 16), given.every_h)
    found = year.run()
    print(
        f"{given.nodes} nodes, {given.days:g} days, batches of {year.limits.size}: {process_time() - begun:.0f} s CPU"
    )
    print(f"{found.plans} plans, {found.crashes} controllers died, {found.repairs} repairs, tests: {dict(found.tests)}")
    told = f"{found.chances} times, after the first month {found.chances_later}"
    print(f"passed over while free and owed: at most {told}; bound {year.bound}")
    print(f"oldest answer that was renewed: {found.oldest_s / DAY:.1f} days; never answered: {found.untouched} tests")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
