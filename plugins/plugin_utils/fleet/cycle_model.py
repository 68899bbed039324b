# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""One cycle over idle nodes as values: what it works with, what it found, what it began."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from ..check.benchmark.plan import BenchmarkHost
from ..check.node_tests.settings import ContinuousSettings
from ..check.node_tests.spec import NodeTest
from ..runtime.clock import Deadline
from ..runtime.progress import Emit, Progress, silent
from ..store.records import Cycle, Lease, NodeResult
from ..store.service import ServiceStore
from ..workload.job import JobResult, JobSpec
from .node_logs import NodeLogs
from .queue_model import BatchLimits, BatchPlan, QueueNode

# Runs jobs, each alone on its node, and tells each result as it comes; what is not done at the deadline is `aborted`.
RunJobs = Callable[[Sequence[JobSpec], Progress, Deadline, Callable[[JobResult], None]], object]


@dataclass(frozen=True, slots=True)
class Stock:
    """All nodes of the site as they are now, and the hosts as benchmarks place their pods, by name."""

    nodes: tuple[QueueNode, ...]
    hosts: Mapping[str, BenchmarkHost]


@dataclass(frozen=True, slots=True, kw_only=True)
class CycleWork:
    """What a cycle works with.

    `stock` looks at the cluster anew each time; `limits` are those of a batch; `again` are tests, by node and test,
    that are repeated however young their result is; `now` is the time in seconds since the epoch, `lease_now` that by
    which leases run out, None for the same.
    """

    cycle: Cycle
    store: ServiceStore
    tests: Mapping[str, NodeTest]
    settings: ContinuousSettings
    limits: BatchLimits
    stock: Callable[[], Stock]
    logs: NodeLogs
    again: frozenset[tuple[str, str]] = frozenset()
    emit: Emit = silent
    now: Callable[[], float] = time.time
    lease_now: Callable[[], float] | None = None


@dataclass(frozen=True, slots=True)
class Seat:
    """A node that takes part in a test, with its lease; `helps` is one that has its result in this cycle already."""

    host: BenchmarkHost
    lease: Lease
    helps: bool = False


@dataclass(frozen=True, slots=True)
class Begun:
    """A test that runs: on one node or on two, its job, and when it began (seconds since the epoch)."""

    seats: tuple[Seat, ...]
    test: NodeTest
    spec: JobSpec
    started_s: float

    @property
    def hosts(self) -> tuple[BenchmarkHost, ...]:
        """Where it runs."""
        return tuple(seat.host for seat in self.seats)

    @property
    def name(self) -> str:
        """For people."""
        return f"{' with '.join(host.name for host in self.hosts)} ({self.test.id})"


@dataclass(frozen=True, slots=True)
class Choice:
    """A test that a batch begins on these nodes."""

    test: str
    nodes: tuple[str, ...]


@dataclass(slots=True)
class CycleLog:
    """What came of a cycle: the last result of each node and test, what people should know, the last queue."""

    results: dict[tuple[str, str], NodeResult] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    batches: int = 0
    plan: BatchPlan | None = None

    @property
    def idle_text(self) -> str:
        """Why nothing is left to do, as the queue says it."""
        plan = self.plan
        if plan is None:
            return "nobody looked"
        first = next((f" ({node}: {why})" for node, why in plan.not_free.items()), "")
        waits = next((f", {len(plan.positions)} wait ({p.node}: {p.waits})" for p in plan.positions if p.waits), "")
        return f"{len(plan.not_due)} nodes not due, {len(plan.not_free)} not free{first}{waits}"
