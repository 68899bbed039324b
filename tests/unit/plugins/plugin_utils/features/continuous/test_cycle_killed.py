# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A cycle that is killed (SIGKILL) at any statement of its history: what was told stays, nothing runs twice, and the
next one does the rest."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Sequence
from itertools import count
from pathlib import Path
from typing import Any

from seeds import drawing, every_case

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.benchmark.plan import BenchmarkHost
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.kit.settings_layers import checked_settings
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.node_tests.reading import result_of
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.node_tests.settings import (
    ContinuousSettings,
    NodeTestSettings,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.node_tests.spec import NodeTest
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.features.continuous.cycle import FleetCycle
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.features.continuous.cycle_record import (
    CycleWork,
    NodeLogs,
    Stock,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.features.continuous.node_history import BatchLimits
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.features.continuous.queue import QueueNode
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.model import Rating, Status
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.runtime.clock import Deadline
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.store.records import Cycle, NodeResult
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.store.service import open_service
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.workload.job import JobResult, JobSpec, PodResult

NOW = 1_800_000_000.0
NODES = ("gpu01", "gpu02", "gpu03")
# How many points of a cycle are tried in one run of the tests.
DRAWN = 8


class Probe(NodeTest):
    """A test that passes."""

    id = "probe"
    title = "Probe"

    def __init__(self) -> None:
        self.common = NodeTestSettings(enabled=True, days=7.0, timeout_s=60.0, pull_s=60.0)

    def unfit(self, host: BenchmarkHost) -> str:
        return ""

    def unready(self, host: BenchmarkHost) -> str:
        return ""

    def job(self, name: str, host: BenchmarkHost) -> JobSpec:
        return JobSpec(name=name, nodes=(host.node,), gpus_per_node=8, image="i", command=(self.id,), kind="plain-job")

    def read(self, cycle_id: str, host: BenchmarkHost, result: JobResult, started_s: float) -> NodeResult:
        return result_of(self.id, cycle_id, host, result, started_s, Status.PASSED, rating=Rating.GOOD)


def cycle(place: Path, name: str, at_s: float, tell: Callable[[str], object]) -> None:
    """Run one cycle, and tell each job as it begins and as it ends."""
    now = count(at_s, 0.001)
    store = open_service(place / "history.sqlite")
    work = CycleWork(
        cycle=Cycle(cycle_id=name, site="here", rehearsal=False, started="2027-01-15T08:00:00Z", controller="bastion"),
        store=store, tests={"probe": Probe()}, settings=checked_settings(ContinuousSettings, "continuous", {}),
        limits=BatchLimits(size=2), logs=NodeLogs(place / "logs"), now=lambda: next(now),
        stock=lambda: Stock(
            tuple(QueueNode(name=node) for node in NODES),
            {node: BenchmarkHost(name=node, node=node, sku="s") for node in NODES},
        ),
    )  # fmt: skip

    def run_jobs(
        specs: Sequence[JobSpec], _progress: Any, _deadline: Deadline, on_result: Callable[[JobResult], None]
    ) -> None:
        for spec in specs:
            tell(f"began {spec.nodes[0]}\n")
        for spec in specs:
            pod = PodResult(name="p", node=spec.nodes[0], hostname="h", exit_code=0, log="fine", role="launcher")
            on_result(JobResult(name=spec.name, state="succeeded", reason="", pods=(pod,), started="", duration_s=1.0))
            tell(f"wrote {spec.nodes[0]}\n")

    store.begin_cycle(work.cycle)
    FleetCycle(work).run(run_jobs, Deadline.after(60.0))


def killed(place: Path, point: int) -> tuple[list[str], bool]:
    """Run a cycle in a process of its own, which dies at that statement or commit; return what it told, and whether it
    died."""
    place.mkdir()
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            _die_at(point)
            cycle(place, "c1", NOW, lambda text: os.write(write, text.encode()))
        finally:
            os._exit(0)
    os.close(write)
    with os.fdopen(read) as told:
        lines = told.read().splitlines()
    _pid, status = os.waitpid(child, 0)
    return lines, os.WIFSIGNALED(status)


def _die_at(point: int) -> None:
    from sqlalchemy import event
    from sqlalchemy.engine import Engine

    passed = count(1)

    def step(*_args: object) -> None:
        if next(passed) == point:
            os.kill(os.getpid(), signal.SIGKILL)

    for name in ("before_cursor_execute", "after_cursor_execute", "commit"):
        event.listen(Engine, name, step)


def points(place: Path) -> range:
    """Return every point at which a cycle can die: powers of two until one lives, then by halves."""
    low, high = 1, 2
    while killed(place / f"size-{high}", high)[1]:
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if killed(place / f"size-{middle}", middle)[1] else (low, middle)
    return range(1, high)


def test_what_a_killed_cycle_told_stays_and_the_next_does_the_rest_once(tmp_path: Path) -> None:
    every = points(tmp_path)
    assert len(every) > 40
    chosen = every if every_case() else sorted(drawing("killed cycles").sample(every, DRAWN))
    for point in chosen:
        place = tmp_path / f"at-{point}"
        told, died = killed(place, point)
        assert died, point
        _next_cycles(place, told, point)


def _next_cycles(place: Path, told: list[str], point: int) -> None:
    store = open_service(place / "history.sqlite")
    held = {lease.node for lease in store.leases("here", rehearsal=False)}
    kept = [result.node for result in store.results("here", rehearsal=False, since_s=0.0)]
    wrote = {line.split()[1] for line in told if line.startswith("wrote")}
    running = {line.split()[1] for line in told if line.startswith("began")} - set(kept)
    assert len(kept) == len(set(kept)) and wrote <= set(kept), (point, told)
    # What may still run in the cluster is leased, so that nobody tests there beside it.
    assert running <= held, (point, told)
    soon: list[str] = []
    cycle(place, "c2", NOW + 1, soon.append)
    assert {line.split()[1] for line in soon}.isdisjoint(held | set(kept)), (point, soon)
    later: list[str] = []
    cycle(place, "c3", NOW + 86400.0, later.append)
    results = list(store.results("here", rehearsal=False, since_s=0.0))
    assert sorted(result.node for result in results) == list(NODES), (point, later)
    assert {result.status for result in results} == {Status.PASSED}
    assert [lease for lease in store.leases("here", rehearsal=False) if lease.cycle_id != "c1"] == []
