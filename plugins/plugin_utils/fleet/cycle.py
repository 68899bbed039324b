# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""One cycle over the idle nodes of a site: batch after batch until nothing is due, the time is over, or somebody asks
for the end.

The queue is built anew before every batch, and every node is looked at once more when its lease is taken, right before
its job is made. A node has one test at a time. What a user's pod took the place of is `pending`, and its node goes back
into the queue. Results are written as they come.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace

from ..check.node_tests.reading import log_of, read_job, without_secrets
from ..outcome.errors import BringupError
from ..outcome.model import Status
from ..runtime.clock import Deadline
from ..runtime.progress import Progress
from ..store.service_model import NodeResult
from ..workload.model import JobResult, JobSpec
from ..workload.namespace import MARGIN_S
from .cycle_model import Begun, CycleLog, CycleWork, RunJobs, Stock
from .demands import demands_of
from .queue import plan_batch
from .queue_model import BatchPlan, Position
from .remembered import remembered
from .standing import parts_now, standings

# A Job ends this much later in the cluster than its own time limits say (recipes/workloads/job-*.yaml.j2).
_LATER_S = 60.0
_ASKED_TO_END = "the cycle was asked to end"


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
        # By this controller's clock from here on: only what is left of them matters.
        ahead_s = now_s - self._lease_now()
        leases = tuple(
            replace(lease, until_s=lease.until_s + ahead_s) for lease in work.store.leases(site, rehearsal=rehearsal)
        )
        again = frozenset(key for key in work.again if key not in self.log.results)
        known = standings(seen, now_s)
        demands = demands_of(work.tests.values(), work.settings)
        self.log.plan = plan_batch(nodes, demands, known, leases, work.limits, now_s, again=again)
        return self.log.plan

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
        names = ", ".join(f"{entry.host.name} ({entry.test.id})" for entry in begun)
        self.work.emit(f"batch {self.log.batches}: {names}"[:199])
        run_jobs([entry.spec for entry in begun], Progress(self.work.emit), deadline, self._take)

    @contextmanager
    def _leases(self, batch: Sequence[Position], stock: Stock) -> Iterator[list[Begun]]:
        """Take the leases of a batch, and yield the tests of the nodes that are still free. What has no result at the
        end is pending, however the end came."""
        for position in batch:
            self._begin(position, stock)
        try:
            if self._begun:
                free = {node.name: node.not_free for node in self.work.stock().nodes}
                for entry in list(self._begun.values()):
                    if free.get(entry.host.name, "it is not in the cluster any more"):
                        self.work.emit(f"{entry.host.name}: not free any more: {free.get(entry.host.name)}"[:199])
                        self._forget(entry)
            yield list(self._begun.values())
        finally:
            for entry in list(self._begun.values()):
                with suppress(BringupError):
                    self._record(entry, self._not_done(entry))

    def _begin(self, position: Position, stock: Stock) -> None:
        """Take the lease of the first test that this cycle has not done on a node."""
        node, host = position.node, stock.hosts[position.node]
        due = next((due.test for due in position.tests if (node, due.test) not in self._closed), None)
        if due is None:
            self._left[node] = "this cycle has tested it"
            return
        test, work, now_s = self.work.tests[due], self.work, self.work.now()
        lease_s = self._lease_now()
        self._serial += 1
        unfit, unready = test.unfit(host), ""
        spec = None
        if not unfit:
            unready = test.unready(host)
            spec = None if unready else self._spec(test.job(f"{due.replace('_', '-')}-{self._serial}", host))
        until_s = lease_s + (self._until_gone_s(spec) if spec else MARGIN_S)
        claim = work.store.take_lease(node, due, work.cycle.cycle_id, lease_s, until_s)
        if claim.lease is None:
            held = claim.holder
            self._left[node] = f"cycle {held.cycle_id} has the lease of {held.test}" if held else "this cycle did it"
            return
        entry = Begun(claim.lease, test, host, spec, now_s) if spec else None
        if entry is None:
            status, cause, why = (Status.SKIPPED, "", unfit) if unfit else (Status.OTHER, "not-ready", unready)
            self.add(NodeResult(
                cycle_id=work.cycle.cycle_id, node=node, test=due, started_s=now_s, duration_s=0.0, status=status,
                cause=cause, summary=f"{node}: {why}",
            ))  # fmt: skip
            work.store.release(claim.lease)
            return
        self._begun[entry.spec.name] = entry

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
        entry = self._begun[job.name]
        clean = without_secrets(job)
        result = read_job(entry.test, self.work.cycle.cycle_id, entry.host, clean, entry.started_s)
        log = self.work.logs.keep(entry.test.id, entry.host.name, entry.started_s, log_of(clean))
        self._record(entry, replace(result, log=log))

    def _record(self, entry: Begun, result: NodeResult) -> None:
        self.add(result)
        self._forget(entry)

    def _forget(self, entry: Begun) -> None:
        del self._begun[entry.spec.name]
        self.work.store.release(entry.lease)

    def add(self, result: NodeResult) -> None:
        """Write a result into the history and the log of the cycle.

        Raises:
            BringupError: the history cannot be written.
        """
        key = (result.node, result.test)
        self.work.store.add_result(result)
        self.log.results[key] = result
        if result.status is Status.PENDING:
            self._given_back[key] += 1
        if result.status is not Status.PASSED:
            self.work.emit(f"{result.status.value} {result.test} on {result.node}: {result.summary}"[:199])

    def _not_done(self, entry: Begun) -> NodeResult:
        return NodeResult(
            cycle_id=self.work.cycle.cycle_id, node=entry.host.name, test=entry.test.id, started_s=entry.started_s,
            duration_s=max(0.0, self.work.now() - entry.started_s), status=Status.PENDING, cause="cycle-ended",
            summary=f"{entry.host.name}: {_ASKED_TO_END} before this test did",
        )  # fmt: skip
