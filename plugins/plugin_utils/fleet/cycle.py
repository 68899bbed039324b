# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""One cycle over the idle nodes of a site: batch after batch until nothing is due, the time is over, or somebody asks
for the end.

The queue is built anew before every batch, and every node is looked at once more when its lease is taken, right before
its job is made. A node has one test at a time. What a user's pod took the place of is `pending`, and its node goes back
into the queue. Results are written as they come; those of nodes that were slow with a partner once others have told
which of both it is (pairs.py).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace

from ..check.node_tests.pair_spec import PairTest, read_pair_job
from ..check.node_tests.reading import log_of, read_job, without_secrets
from ..outcome.errors import BringupError
from ..outcome.model import Status
from ..runtime.clock import Deadline
from ..runtime.progress import Progress
from ..store.service_model import Lease, NodeResult
from ..workload.model import JobResult, JobSpec
from ..workload.namespace import MARGIN_S
from .choosing import Choosing, Chosen
from .cycle_model import Begun, Choice, CycleLog, CycleWork, RunJobs, Seat, Stock
from .demands import demands_of
from .pairs import NO_PARTNER, UNCONFIRMED, PairBook, partners_before
from .queue import plan_batch, room_beside
from .queue_model import BatchPlan, Position
from .remembered import remembered
from .standing import DAY_S, parts_now, standings

# A Job ends this much later in the cluster than its own time limits say (recipes/workloads/job-*.yaml.j2).
_LATER_S = 60.0
_ASKED_TO_END = "the cycle was asked to end"
# The lease of a node that helps to tell which of two others is slow, and has its own result.
_HELPS = "{} (partner)"


class FleetCycle:
    """One cycle; `run` returns when it is over, `log` has what came of it, also after an error."""

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
        """Return the queue as it is now.

        Raises:
            BringupError: cluster or store do not answer.
        """
        work, now_s = self.work, self.work.now()
        site, rehearsal = work.cycle.site, work.cycle.rehearsal
        seen = remembered(work.store, site, rehearsal=rehearsal, now_s=now_s)
        parts = parts_now(seen, now_s)
        nodes = tuple(
            replace(node, not_free=node.not_free or self._left.get(node.name, ""), parts=parts.get(node.name, {}))
            for node in (stock or work.stock()).nodes
        )
        again = {key for key in work.again if key not in self.log.results} | set(self._in_doubt())
        known = standings(seen, now_s)
        demands = demands_of(work.tests.values(), work.settings)
        self.log.plan = plan_batch(nodes, demands, known, self._all_leases(now_s), work.limits, now_s, again=again)
        return self.log.plan

    def _all_leases(self, now_s: float) -> tuple[Lease, ...]:
        """Return the leases of all cycles by this controller's clock: only what is left of them matters."""
        work, ahead_s = self.work, now_s - self._lease_now()
        found = work.store.leases(work.cycle.site, rehearsal=work.cycle.rehearsal)
        return tuple(replace(lease, until_s=lease.until_s + ahead_s) for lease in found)

    def run(self, run_jobs: RunJobs, deadline: Deadline) -> None:
        """Run batches until nothing is left to do.

        Args:
            run_jobs: runs the jobs of a batch.
            deadline: its end; what runs then is pending.

        Raises:
            BringupError: cluster or store do not answer.
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
        """Take the leases of a batch, and yield the tests of the nodes that are still free. What has no result at the
        end is pending, however the end came."""
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
        """Return what the nodes of a batch begin with; nodes without a partner are done with here."""
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
        """Return the runs of every test of pairs; what the last cycles say of partners is asked once."""
        work = self.work
        for test in work.tests.values():
            if isinstance(test, PairTest) and test.id not in self._books:
                since_s = work.now() - 4 * test.common.days * DAY_S
                seen = work.store.results(
                    work.cycle.site, rehearsal=work.cycle.rehearsal, since_s=since_s, tests={test.id}, whole=False
                )
                self._books[test.id] = PairBook(partners_before(seen))
        return self._books

    def _give_up(self, node: str, test: str, why: str) -> None:
        """Write that a node has nobody to be tested with in this cycle, or nobody more."""
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
        """Take the leases of a test, all or none, and make its job."""
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
        """Return the nodes of a test with their leases; without one of them there is none."""
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
                    held = claim.holder
                    said = f"cycle {held.cycle_id} has the lease of {held.test}" if held else "this cycle did it"
                    self._left[node] = said
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
        """When nothing of a job is left in the cluster, whatever became of its controller."""
        return spec.placing_s + spec.pull_s + spec.timeout_s + _LATER_S + MARGIN_S

    @property
    def _closed(self) -> frozenset[tuple[str, str]]:
        done = {key for key, result in self.log.results.items() if result.status is not Status.PENDING}
        often = {key for key, times in self._given_back.items() if times >= self.work.settings.tries}
        return frozenset(done | often)

    def _take(self, job: JobResult) -> None:
        """Read the end of a job, keep its log, write its result and give its lease back."""
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
        """Take what a run over two nodes says, and write what it tells of each by itself."""
        first, second = entry.hosts
        run = read_pair_job(test, self.work.cycle.cycle_id, (first, second), job, entry.started_s)
        one, other = (replace(result, log=log) for result in run.results)
        run, book = replace(run, results=(one, other)), self._books[test.id]
        book.add((first.name, second.name), run)
        for seat, result, partner in zip(entry.seats, run.results, (second.name, first.name), strict=True):
            key = (seat.host.name, test.id)
            doubted = key in self._in_doubt()
            if seat.helps or (doubted and result.status is not Status.FAILED):
                # Given back so often, it stays as it is.
                self._given_back[key] += _is_open(result)
                continue
            self.add(book.waiting(result, partner) if run.word == "low" else result)

    def _in_doubt(self) -> tuple[tuple[str, str], ...]:
        """Return, as node and test, who was slow and is not told apart from its partner yet."""
        found = self.log.results.items()
        return tuple(key for key, result in found if result.cause == UNCONFIRMED and _is_open(result))

    def _settle(self) -> None:
        """Write the results of nodes in doubt that all runs together tell by now."""
        for node, test in self._in_doubt():
            told = self._books[test].judged(node)
            if told is not None:
                self._add_judged(told)

    def _add_judged(self, result: NodeResult) -> None:
        """Write a result that rests on several runs: it is of now, and not of the first of them."""
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
        """Write that a test did not come to its end."""
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
