# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""One cycle over the idle nodes of a site: batch after batch until no test is due, the time is over, or the cycle is
asked to end.

The queue is built anew before every batch, and every node is checked once more when its lease is taken, right before
its job is created. A node has one test at a time. A test that is preempted by a user's pod is `pending`, and its node
goes back into the queue. Results are written as they arrive. Results of nodes that were slow with a partner are written
once other partners show which of the two is slow (pairs.py).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace

from ...check.node_tests.pair_spec import PairRun, PairTest, read_pair_job
from ...check.node_tests.reading import log_of, read_job, without_secrets
from ...check.node_tests.spec import NodeTest
from ...outcome.errors import BringupError
from ...outcome.model import Rating, Status
from ...outcome.wording import natural
from ...runtime.clock import Deadline
from ...runtime.progress import Progress
from ...store.records import Lease, NodeResult
from ...verdict.localise import Blame, PairVerdict, blame
from ...workload.job import JobResult, JobSpec
from ...workload.namespace import MARGIN_S
from .cycle_record import Begun, Choice, CycleLog, CycleWork, RunJobs, Seat, Stock
from .node_history import DAY_S, histories_by_test, parts_now, saved_state
from .queue import BatchPlan, Position, QueueNode, Room, demands_of, plan_batch, room_beside

# Tests over two idle nodes within one cycle: who is paired with whom, and which node of slow pairs is to blame. Pure. A
# slow pair says nothing about either node. Each gets another partner. A node is named only when it was slow with two,
# one of which was well with a third node (verdict.localise). Until then its result is `pending`, so that a cycle that
# dies leaves nothing behind that looks like a result. Without another partner it ends as `other`.

UNCONFIRMED, WAY, NO_PARTNER = "pair-unconfirmed", "slow-way-between", "no-partner"
# The most partners for a node in doubt. After that, more runs say less than a look at the partners.
_MOST_PARTNERS = 4


@dataclass(frozen=True, slots=True)
class _Met:
    """One run of a pair: its nodes and its result."""

    nodes: tuple[str, str]
    run: PairRun

    def partner(self, node: str) -> str:
        return self.nodes[1] if node == self.nodes[0] else self.nodes[0]

    def result(self, node: str) -> NodeResult:
        return self.run.results[self.nodes.index(node)]

    @property
    def given_back(self) -> bool:
        return all(result.status is Status.PENDING for result in self.run.results)


@dataclass(slots=True)
class PairBook:
    """The runs of one pair test in a cycle. `before` has each node's partner in the last cycle that had one."""

    before: Mapping[str, str] = field(default_factory=dict)
    _met: list[_Met] = field(default_factory=list)
    _of: dict[str, list[_Met]] = field(default_factory=dict)

    def add(self, nodes: tuple[str, str], run: PairRun) -> None:
        """Add a run."""
        met = _Met(nodes, run)
        self._met.append(met)
        for node in nodes:
            self._of.setdefault(node, []).append(met)

    def partners(self, node: str) -> tuple[str, ...]:
        """Return the partners of the node in this cycle. Runs that both nodes gave back do not count."""
        return tuple(met.partner(node) for met in self._of.get(node, ()) if not met.given_back)

    def is_well(self, node: str) -> bool:
        """Whether any run of the node was well, which clears both of its nodes."""
        return any(met.run.word == "well" for met in self._of.get(node, ()))

    def is_open(self, node: str) -> bool:
        """Whether the node was slow, and never well."""
        return bool(self._low(node)) and not self.is_well(node)

    def bad(self) -> set[str]:
        """Return the nodes that one run, or all runs together, name. They are not used as partners any more."""
        reported = {n for met in self._met for n in met.nodes if met.result(n).status is Status.FAILED}
        return reported.union(self._blame().nodes)

    def slow_runs(self, node: str) -> int:
        """Return the number of runs in which the node was slow."""
        return len(self._low(node))

    def waiting(self, result: NodeResult, partner: str) -> NodeResult:
        """Return the pending result of a slow run, until another partner shows which node is slow."""
        summary = f"{result.summary}; which of both it is another partner than {partner} has to tell"
        return replace(result, status=Status.PENDING, rating=Rating.UNKNOWN, cause=UNCONFIRMED, summary=summary)

    def judged(self, node: str) -> NodeResult | None:
        """Return the result that all runs together give for a slow node; None while they do not decide."""
        low = self._low(node)
        if not low:
            return None
        found = self._blame()
        if node in found.nodes:
            return self._named(node, low)
        well = next((met for met in self._of[node] if met.run.word == "well"), None)
        if well is None:
            return None
        slow = [met.partner(node) for met in low]
        ways = [partner for partner in slow if {(node, partner), (partner, node)} & set(found.paths)]
        good = well.result(node)
        if not ways:
            return replace(good, summary=f"{good.summary}; slow with {', '.join(slow)}, who is well with nobody")
        text = f"{good.summary}; but slow with {', '.join(ways)}, which is well with others: look at what lies between"
        # About the path between nodes, not the node: this is no measurement of it.
        return replace(good, status=Status.OTHER, rating=Rating.UNKNOWN, cause=WAY, summary=text)

    def unconfirmed(self, node: str) -> NodeResult:
        """Return the result of a slow node for which no other partner could decide."""
        last = self._low(node)[-1].result(node)
        slow = ", ".join(met.partner(node) for met in self._low(node))
        text = f"{last.summary}; slow with {slow}, and no partner that is well was free to tell which of them it is"
        return replace(last, status=Status.OTHER, rating=Rating.UNKNOWN, cause=UNCONFIRMED, summary=text)

    def _named(self, node: str, low: Sequence[_Met]) -> NodeResult:
        """Return the failure of a node. It is marginal where no run with a well partner was bad."""
        with_well = [met for met in low if self.is_well(met.partner(node))]
        worst = next((met for met in with_well if met.run.bad), with_well[0])
        last, slow = worst.result(node), ", ".join(met.partner(node) for met in low)
        well = ", ".join(met.partner(node) for met in with_well)
        text = f"{last.summary}; slow with {slow}, of which {well} is well with others"
        status, rating = (Status.FAILED, Rating.BAD) if worst.run.bad else (Status.OTHER, Rating.MARGINAL)
        return replace(last, status=status, rating=rating, cause=worst.run.named or last.cause, summary=text)

    def _low(self, node: str) -> list[_Met]:
        return [met for met in self._of.get(node, ()) if met.run.word == "low"]

    def _blame(self) -> Blame:
        return blame(PairVerdict(met.nodes, met.run.word == "well") for met in self._met if met.run.word != "told")


@dataclass(frozen=True, slots=True, kw_only=True)
class Mate:
    """A free node as a partner. `owes`: it has this test due in this batch, too."""

    node: QueueNode
    owes: bool = False


def order_of_mates(
    node: QueueNode, mates: Sequence[Mate], book: PairBook, places: Mapping[str, QueueNode]
) -> list[Mate]:
    """Return partners for a node, best first; none for a node that already met as many as it may.

    Partners that it met in this cycle and named nodes are left out. A node in doubt prefers a partner that is known to
    be well. Any other node prefers one that has the test due as well and is not in doubt; then not the partner of last
    time, on either side; then another neighbourhood (rack and leaf switches) than that partner was in; then the least
    used one.

    Args:
        node: the node that needs a partner.
        mates: free nodes that fit it.
        book: the runs so far.
        places: all nodes of the site, by name.
    """
    met, doubted, last = set(book.partners(node.name)), book.is_open(node.name), book.before.get(node.name, "")
    was_near = near(node, places[last]) if last in places else None

    def cost(mate: Mate) -> tuple[object, ...]:
        name = mate.node.name
        known = 0 if book.is_well(name) else 1 if not book.is_open(name) else 2
        trust = known if doubted else int(known > 1)
        again = last == name or book.before.get(name) == node.name
        same_way = was_near is not None and near(node, mate.node) == was_near
        used = len(book.partners(name))
        return trust, not mate.owes and not doubted, again, same_way, used, natural(name)

    if doubted and book.slow_runs(node.name) >= _MOST_PARTNERS:
        return []
    left_out = {node.name, *met, *book.bad()}
    return sorted((mate for mate in mates if mate.node.name not in left_out), key=cost)


def near(one: QueueNode, other: QueueNode) -> bool:
    """Whether two nodes are on the same leaf switches; without a cabling plan, in the same rack."""
    return one.rail == other.rail if one.rail and other.rail else one.rack == other.rack


def partners_before(results: Iterable[NodeResult]) -> dict[str, str]:
    """Return each node's partner in its last run. A run over two nodes has one log, which both results name."""
    by_log: dict[tuple[str, str], list[NodeResult]] = {}
    for result in results:
        if result.log:
            by_log.setdefault((result.cycle_id, result.log), []).append(result)
    found: dict[str, tuple[float, str]] = {}
    for entries in by_log.values():
        names = {entry.node for entry in entries}
        if len(names) == 2:
            for entry in entries:
                (other,) = names - {entry.node}
                found[entry.node] = max(found.get(entry.node, (entry.started_s, "")), (entry.started_s, other))
    return {node: other for node, (_at, other) in found.items()}


# Which test each node of a batch begins with, and the partners of tests that need two nodes. Pure. A partner need not
# be in the batch: any idle node that fits will do, as long as the limits of the batch have room.


@dataclass(slots=True)
class Chosen:
    """What a batch begins.

    `alone`: nodes that found no partner in this cycle, as (node, test, why). `done`: nodes whose tests are all done in
    this cycle.
    """

    choices: list[Choice] = field(default_factory=list)
    alone: list[tuple[str, str, str]] = field(default_factory=list)
    done: list[str] = field(default_factory=list)

    @property
    def taken(self) -> set[str]:
        """Return the nodes that have something to do."""
        return {name for choice in self.choices for name in choice.nodes}


@dataclass(frozen=True, slots=True, kw_only=True)
class Choosing:
    """The input of a choice.

    `free`: the nodes on which a test may run now, by name. `closed`: what this cycle does not try again, by node and
    test. `books`: the runs of pair tests, by test.
    """

    tests: Mapping[str, NodeTest]
    stock: Stock
    free: Mapping[str, QueueNode]
    closed: Collection[tuple[str, str]]
    books: Mapping[str, PairBook]
    room: Room

    def choose(self, batch: Iterable[Position]) -> Chosen:
        """Return what the nodes of a batch begin with."""
        found, waiting = Chosen(), list[tuple[str, list[str]]]()
        for position in batch:
            due = [due.test for due in position.tests if (position.node, due.test) not in self.closed]
            if not due:
                found.done.append(position.node)
            elif self._pairs(due[0], position.node):
                waiting.append((position.node, due))
            else:
                self._begin(found, due[0], position.node)
        # Nodes that are not in doubt go first: their runs help to judge those that are.
        waiting.sort(key=lambda entry: self.books[entry[1][0]].slow_runs(entry[0]))
        deferred = [left for node, due in waiting if (left := self._pair(found, node, due, waiting)) is not None]
        if not found.choices:
            # Nothing runs that would make room later.
            found.alone += deferred
        return found

    def _pair(
        self, found: Chosen, node: str, due: Sequence[str], waiting: Iterable[tuple[str, list[str]]]
    ) -> tuple[str, str, str] | None:
        """Let a node begin with a partner, else with a single-node test. If it has to wait, return it with the
        reason."""
        if node in found.taken:
            return None
        owing = {other for other, tests in waiting if tests[0] == due[0]}
        mates = self._mates(due[0], node, owing)
        there = [mate for mate in mates if mate.node.name not in found.taken]
        partner = next((mate for mate in there if not self.room.full(self.free[node], mate.node)), None)
        if partner is not None:
            self._begin(found, due[0], node, partner.node.name)
            return None
        own = next((test for test in due[1:] if not self._pairs(test, node)), "")
        if own and not self.room.full(self.free[node]):
            self._begin(found, own, node)
            return None
        book = self.books[due[0]]
        if not mates:
            met = book.partners(node)
            beside = f" beside {', '.join(met)}" if met else ""
            alone = (node, due[0], f"no other {self.stock.hosts[node].sku} is idle{beside}, and this test needs two")
            if book.is_open(node):
                # Runs of those that it met may still decide.
                return alone
            found.alone.append(alone)
            return None
        full = self.room.full(self.free[node], mates[0].node)
        return node, due[0], f"no room for two nodes: {full or 'partners are under test'}"

    def _begin(self, found: Chosen, test: str, *nodes: str) -> None:
        found.choices.append(Choice(test, nodes))
        for name in nodes:
            self.room.take(self.free[name])

    def _pairs(self, test: str, node: str) -> bool:
        """Whether that test of that node needs a partner. A test that does not fit the node needs none to report
        that."""
        kind, host = self.tests[test], self.stock.hosts[node]
        return isinstance(kind, PairTest) and not kind.unfit(host) and not kind.unready(host)

    def _mates(self, test: str, node: str, owing: Collection[str]) -> list[Mate]:
        kind, host = self.tests[test], self.stock.hosts[node]
        mates = [
            Mate(node=other, owes=name in owing)
            for name, other in self.free.items()
            if name != node and isinstance(kind, PairTest) and name in self.stock.hosts
            and not kind.misfit(host, self.stock.hosts[name]) and self._pairs(test, name)
        ]  # fmt: skip
        places = {entry.name: entry for entry in self.stock.nodes}
        return order_of_mates(self.free[node], mates, self.books[test], places)


# A Job ends this much later in the cluster than its own time limits (recipes/workloads/job-*.yaml.j2).
_LATER_S = 60.0
_ASKED_TO_END = "the cycle was asked to end"
# Lease text of a node that has its own result and helps to find which of two others is slow.
_HELPS = "{} (partner)"


class FleetCycle:
    """One cycle. `run` returns when it is over; `log` has the results, also after an error."""

    def __init__(self, work: CycleWork) -> None:
        self.work = work
        self.log = CycleLog()
        self._begun: dict[str, Begun] = {}
        self._serial = 0
        self._given_back: Counter[tuple[str, str]] = Counter()
        # Nodes on which this cycle does nothing more, with the reason.
        self._left: dict[str, str] = {}
        self._books: dict[str, PairBook] = {}

    def plan(self, stock: Stock | None = None) -> BatchPlan:
        """Return the current queue.

        Raises:
            BringupError: the cluster or the store does not respond.
        """
        work, now_s = self.work, self.work.now()
        site, rehearsal = work.cycle.site, work.cycle.rehearsal
        observed = saved_state(work.store, site, rehearsal=rehearsal, now_s=now_s)
        parts = parts_now(observed, now_s)
        nodes = tuple(
            replace(node, not_free=node.not_free or self._left.get(node.name, ""), parts=parts.get(node.name, {}))
            for node in (stock or work.stock()).nodes
        )
        again = {key for key in work.again if key not in self.log.results} | set(self._in_doubt())
        known = histories_by_test(observed, now_s)
        demands = demands_of(work.tests.values(), work.settings)
        self.log.plan = plan_batch(nodes, demands, known, self._all_leases(now_s), work.limits, now_s, again=again)
        return self.log.plan

    def _all_leases(self, now_s: float) -> tuple[Lease, ...]:
        """Return the leases of all cycles in the time of this controller's clock. Only the time left matters."""
        work, ahead_s = self.work, now_s - self._lease_now()
        found = work.store.leases(work.cycle.site, rehearsal=work.cycle.rehearsal)
        return tuple(replace(lease, until_s=lease.until_s + ahead_s) for lease in found)

    def run(self, run_jobs: RunJobs, deadline: Deadline) -> None:
        """Run batches until no test is left to do.

        Args:
            run_jobs: runs the jobs of a batch.
            deadline: when the cycle ends; tests that run then are pending.

        Raises:
            BringupError: the cluster or the store does not respond.
        """
        while True:
            if deadline.left_s <= 0:
                self.log.notes.append(f"the time of the cycle was over after {deadline.limit_s:.0f} s")
                return
            stock = self.work.stock()
            batch = self.plan(stock).batch
            if not batch:
                return
            with self._leases(batch, stock) as begun:
                if begun:
                    self._run_batch(run_jobs, deadline, begun)

    def _run_batch(self, run_jobs: RunJobs, deadline: Deadline, begun: Sequence[Begun]) -> None:
        self.log.batches += 1
        names = ", ".join(entry.name for entry in begun)
        self.work.emit(f"batch {self.log.batches}: {names}")
        run_jobs([entry.spec for entry in begun], Progress(self.work.emit), deadline, self._take)
        self._settle()

    @contextmanager
    def _leases(self, batch: Sequence[Position], stock: Stock) -> Iterator[list[Begun]]:
        """Take the leases of a batch, and yield the tests of the nodes that are still free.

        At the end every test without a result is pending, however the end came.
        """
        try:
            for choice in self._chosen(batch, stock).choices:
                self._begin(choice, stock)
            if self._begun:
                free = {node.name: node.not_free for node in self.work.stock().nodes}
                for entry in list(self._begun.values()):
                    gone = {host.name: free.get(host.name, "it is not in the cluster any more") for host in entry.hosts}
                    taken = next((f"{name}: not free any more: {why}" for name, why in gone.items() if why), "")
                    if taken:
                        self.work.emit(taken)
                        self._forget(entry)
            yield list(self._begun.values())
        finally:
            for entry in list(self._begun.values()):
                with suppress(BringupError):
                    self._not_done(entry)

    def _chosen(self, batch: Sequence[Position], stock: Stock) -> Chosen:
        """Return what the nodes of a batch begin with. Nodes without a partner get their result here."""
        work, now_s, plan = self.work, self.work.now(), self.log.plan
        occupied = plan.not_free if plan else {}
        found = Choosing(
            tests=work.tests, stock=stock, closed=self._closed, books=self._books_now(),
            free={node.name: node for node in stock.nodes if node.name not in occupied},
            room=room_beside(stock.nodes, self._all_leases(now_s), work.limits, now_s),
        ).choose(batch)  # fmt: skip
        for node in found.done:
            self._left[node] = "this cycle has tested it"
        for node, test, why in found.alone:
            self._give_up(node, test, why)
        return found

    def _books_now(self) -> dict[str, PairBook]:
        """Return the runs of every pair test. The partners of earlier cycles are read once."""
        work = self.work
        for test in work.tests.values():
            if isinstance(test, PairTest) and test.id not in self._books:
                since_s = work.now() - 4 * test.common.days * DAY_S
                observed = work.store.results(
                    work.cycle.site, rehearsal=work.cycle.rehearsal, since_s=since_s, tests={test.id}, whole=False
                )
                self._books[test.id] = PairBook(partners_before(observed))
        return self._books

    def _give_up(self, node: str, test: str, why: str) -> None:
        """Record that a node has no (further) partner in this cycle."""
        book = self._books[test]
        if book.is_open(node):
            self._add_judged(book.unconfirmed(node))
            return
        self.add(NodeResult(
            cycle_id=self.work.cycle.cycle_id, node=node, test=test, started_s=self.work.now(), duration_s=0.0,
            status=Status.PENDING, cause=NO_PARTNER, summary=f"{node}: {why}",
        ))  # fmt: skip
        self._given_back[node, test] = self.work.settings.tries

    def _begin(self, choice: Choice, stock: Stock) -> None:
        """Take the leases of a test, all or none, and create its job."""
        test, hosts = self.work.tests[choice.test], tuple(stock.hosts[name] for name in choice.nodes)
        now_s, name = self.work.now(), f"{choice.test.replace('_', '-')}-{self._serial + 1}"
        self._serial += 1
        unfit, unready, spec = "", "", None
        if isinstance(test, PairTest) and len(hosts) == 2:
            spec = self._spec(test.pair_job(name, hosts))
        else:
            unfit = test.unfit(hosts[0])
            unready = "" if unfit else test.unready(hosts[0])
            spec = None if unfit or unready else self._spec(test.job(name, hosts[0]))
        seats = self._seats(choice, stock, spec)
        if not seats:
            return
        if spec is not None:
            self._begun[spec.name] = Begun(seats, test, spec, now_s)
            return
        status, cause, why = (Status.SKIPPED, "", unfit) if unfit else (Status.OTHER, "not-ready", unready)
        self.add(NodeResult(
            cycle_id=self.work.cycle.cycle_id, node=hosts[0].name, test=test.id, started_s=now_s, duration_s=0.0,
            status=status, cause=cause, summary=f"{hosts[0].name}: {why}",
        ))  # fmt: skip
        self.work.store.release(seats[0].lease)

    def _seats(self, choice: Choice, stock: Stock, spec: JobSpec | None) -> tuple[Seat, ...]:
        """Return the nodes of a test with their leases; empty if one of the leases was not granted."""
        work, lease_s = self.work, self._lease_now()
        until_s = lease_s + (self._until_gone_s(spec) if spec else MARGIN_S)
        seats: list[Seat] = []
        try:
            for node in choice.nodes:
                known = self.log.results.get((node, choice.test))
                helps = known is not None and not _is_open(known)
                right = _HELPS.format(choice.test) if helps else choice.test
                claim = work.store.take_lease(node, right, work.cycle.cycle_id, lease_s, until_s)
                if claim.lease is None:
                    on_hold = claim.holder
                    reported = (
                        f"cycle {on_hold.cycle_id} has the lease of {on_hold.test}" if on_hold else "this cycle did it"
                    )
                    self._left[node] = reported
                    break
                seats.append(Seat(stock.hosts[node], claim.lease, helps))
        finally:
            if len(seats) < len(choice.nodes):
                for seat in seats:
                    work.store.release(seat.lease)
        return tuple(seats) if len(seats) == len(choice.nodes) else ()

    def _lease_now(self) -> float:
        return (self.work.lease_now or self.work.now)()

    def _spec(self, spec: JobSpec) -> JobSpec:
        return replace(spec, schedule_s=self.work.settings.schedule_s)

    def _until_gone_s(self, spec: JobSpec) -> float:
        """Return the seconds until nothing of a job is left in the cluster, even if its controller dies."""
        return spec.placing_s + spec.pull_s + spec.timeout_s + _LATER_S + MARGIN_S

    @property
    def _closed(self) -> frozenset[tuple[str, str]]:
        done = {key for key, result in self.log.results.items() if result.status is not Status.PENDING}
        often = {key for key, times in self._given_back.items() if times >= self.work.settings.tries}
        return frozenset(done | often)

    def _take(self, job: JobResult) -> None:
        """Read the end of a job, keep its log, write its result and release its lease."""
        entry, cycle_id = self._begun[job.name], self.work.cycle.cycle_id
        clean = without_secrets(job)
        log = self.work.logs.keep(entry.test.id, entry.hosts[0].name, entry.started_s, log_of(clean))
        if isinstance(entry.test, PairTest):
            self._take_pair(entry, entry.test, clean, log)
        else:
            result = read_job(entry.test, cycle_id, entry.hosts[0], clean, entry.started_s)
            self.add(replace(result, log=log))
        self._forget(entry)

    def _take_pair(self, entry: Begun, test: PairTest, job: JobResult, log: str) -> None:
        """Record a run over two nodes, and write the result of each node."""
        first, second = entry.hosts
        run = read_pair_job(test, self.work.cycle.cycle_id, (first, second), job, entry.started_s)
        one, other = (replace(result, log=log) for result in run.results)
        run, book = replace(run, results=(one, other)), self._books[test.id]
        book.add((first.name, second.name), run)
        for seat, result, partner in zip(entry.seats, run.results, (second.name, first.name), strict=True):
            key = (seat.host.name, test.id)
            doubted = key in self._in_doubt()
            if seat.helps or (doubted and result.status is not Status.FAILED):
                # Once it was given back often enough, it keeps this result.
                self._given_back[key] += _is_open(result)
                continue
            self.add(book.waiting(result, partner) if run.word == "low" else result)

    def _in_doubt(self) -> tuple[tuple[str, str], ...]:
        """Return, as (node, test), the slow nodes that are not told apart from their partners yet."""
        found = self.log.results.items()
        return tuple(key for key, result in found if result.cause == UNCONFIRMED and _is_open(result))

    def _settle(self) -> None:
        """Write the results of nodes in doubt that all runs together decide by now."""
        for node, test in self._in_doubt():
            reported = self._books[test].judged(node)
            if reported is not None:
                self._add_judged(reported)

    def _add_judged(self, result: NodeResult) -> None:
        """Write a result that rests on several runs. Its time is now, not that of the first run."""
        self.add(replace(result, started_s=self.work.now()))

    def _forget(self, entry: Begun) -> None:
        del self._begun[entry.spec.name]
        for seat in entry.seats:
            self.work.store.release(seat.lease)

    def add(self, result: NodeResult) -> None:
        """Write a result into the history and the log of the cycle.

        Raises:
            BringupError: the history cannot be written.
        """
        key = (result.node, result.test)
        self.work.store.add_result(result)
        self.log.results[key] = result
        if _is_open(result) and result.cause != UNCONFIRMED:
            self._given_back[key] += 1
        if result.status is not Status.PASSED:
            self.work.emit(f"{result.status.value} {result.test} on {result.node}: {result.summary}")

    def _not_done(self, entry: Begun) -> None:
        """Record that a test did not finish."""
        for seat in entry.seats:
            node = seat.host.name
            if not seat.helps and (node, entry.test.id) not in self._in_doubt():
                self.add(NodeResult(
                    cycle_id=self.work.cycle.cycle_id, node=node, test=entry.test.id, started_s=entry.started_s,
                    duration_s=max(0.0, self.work.now() - entry.started_s), status=Status.PENDING, cause="cycle-ended",
                    summary=f"{node}: {_ASKED_TO_END} before this test did",
                ))  # fmt: skip
        self._forget(entry)


def _is_open(result: NodeResult) -> bool:
    return result.status is Status.PENDING
