# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A cycle with a real history and jobs that end as a test says: who is tested how often, and what is written of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.benchmark.plan import BenchmarkHost
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.kit.settings_layers import checked_settings
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.node_tests.reading import (
    result_of,
    without_result,
)
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
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.errors import UnavailableError
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.model import Rating, Status
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.runtime.clock import Deadline
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.store.records import Cycle, NodeResult
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.store.service import ServiceStore, open_service
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.workload.job import (
    JobResult,
    JobSpec,
    JobState,
    PodResult,
)

NOW = 1_800_000_000.0
CYCLE = Cycle(cycle_id="c1", site="here", rehearsal=False, started="2027-01-15T08:00:00Z", controller="bastion")
Way = Callable[[JobSpec], JobState]


class Probe(NodeTest):
    """A test that passes where its job succeeded."""

    id = "probe"
    title = "Probe"

    def __init__(self, name: str = "probe", unfit: str = "", unready: str = "") -> None:
        self.id, self._unfit, self._unready = name, unfit, unready  # type: ignore[misc]
        self.common = NodeTestSettings(enabled=True, days=7.0, timeout_s=60.0, pull_s=60.0)

    def unfit(self, host: BenchmarkHost) -> str:
        return self._unfit

    def unready(self, host: BenchmarkHost) -> str:
        return self._unready

    def job(self, name: str, host: BenchmarkHost) -> JobSpec:
        return JobSpec(name=name, nodes=(host.node,), gpus_per_node=8, image="i", command=(self.id,), kind="plain-job")

    def read(self, cycle_id: str, host: BenchmarkHost, result: JobResult, started_s: float) -> NodeResult:
        if "garbage" in result.log:
            raise ValueError("no such table")
        early = without_result(self.id, cycle_id, host, result, started_s)
        word, rating = (Status.PASSED, Rating.GOOD) if result.state == "succeeded" else (Status.FAILED, Rating.BAD)
        return early or result_of(self.id, cycle_id, host, result, started_s, word, rating=rating, cause="bad")


@dataclass
class Rig:
    """A site of nodes, what users hold, and how jobs end."""

    store: ServiceStore
    work: CycleWork
    busy: dict[str, str] = field(default_factory=dict)
    log: str = "fine"
    ran: list[tuple[str, str]] = field(default_factory=list)
    batches: list[int] = field(default_factory=list)
    way: Way = lambda spec: "succeeded"
    looks: int = 0

    def stock(self) -> Stock:
        self.looks += 1
        names = ("gpu01", "gpu02", "gpu03")
        nodes = tuple(QueueNode(name=name, not_free=self.busy.get(name, "")) for name in names)
        return Stock(nodes, {name: BenchmarkHost(name=name, node=name, sku="s") for name in names})

    def run_jobs(
        self, specs: Sequence[JobSpec], progress: Any, deadline: Deadline, on_result: Callable[[JobResult], None]
    ) -> None:
        self.batches.append(len(specs))
        for spec in specs:
            self.ran.append((spec.nodes[0], spec.command[0]))
            assert [lease.node for lease in self.leases()].count(spec.nodes[0]) == 1
            pod = PodResult(name="p", node=spec.nodes[0], hostname="h", exit_code=0, log=self.log, role="launcher")
            state = self.way(spec)
            on_result(JobResult(name=spec.name, state=state, reason="so", pods=(pod,), started="", duration_s=1.0))

    def leases(self) -> tuple[Any, ...]:
        return self.store.leases("here", rehearsal=False)

    def go(self, *tests: Probe, limit_s: float = 60.0, **more: Any) -> dict[tuple[str, str], str]:
        chosen = tests or (Probe(),)
        going = FleetCycle(replace(self.work, tests={t.id: t for t in chosen}, stock=self.stock, **more))
        try:
            going.run(self.run_jobs, Deadline.after(limit_s))
        finally:
            assert [lease for lease in self.leases() if lease.cycle_id == CYCLE.cycle_id] == []
        kept = self.store.results("here", rehearsal=False, since_s=0.0)
        return {(result.node, result.test): result.status.value for result in kept}


@pytest.fixture
def rig(tmp_path: Path) -> Rig:
    store = open_service(tmp_path / "history.sqlite")
    store.begin_cycle(CYCLE)
    work = CycleWork(
        cycle=CYCLE, store=store, tests={}, settings=checked_settings(ContinuousSettings, "continuous", {}),
        limits=BatchLimits(size=2), stock=lambda: Stock((), {}), logs=NodeLogs(tmp_path / "logs"), now=lambda: NOW,
    )  # fmt: skip
    return Rig(store, work)


def test_every_free_node_is_tested_once_in_batches_and_its_log_is_kept(rig: Rig) -> None:
    rig.busy["gpu02"] = "pod team/train-0 holds GPUs"
    assert rig.go() == {("gpu01", "probe"): "passed", ("gpu03", "probe"): "passed"}
    assert sorted(rig.ran) == [("gpu01", "probe"), ("gpu03", "probe")] and rig.batches == [2]
    (first, _second) = rig.store.results("here", rehearsal=False, since_s=0.0)
    assert rig.work.logs.read(first.log) == "fine"


def test_a_node_has_one_test_at_a_time(rig: Rig) -> None:
    found = rig.go(Probe("one"), Probe("two"))
    assert set(found.values()) == {"passed"} and len(found) == 6 and max(rig.batches) == 2


@pytest.mark.parametrize("state", ["preempted", "unschedulable", "held"])
def test_what_is_given_back_or_not_placed_in_time_frees_its_slot_comes_again_and_is_pending(
    rig: Rig, state: JobState
) -> None:
    rig.work = replace(rig.work, limits=BatchLimits(size=1))
    rig.way = lambda spec: state if spec.nodes[0] == "gpu01" else "succeeded"
    assert rig.go() == {("gpu01", "probe"): "pending", ("gpu02", "probe"): "passed", ("gpu03", "probe"): "passed"}
    assert [node for node, _test in rig.ran].count("gpu01") == rig.work.settings.tries == 2
    assert set(rig.batches) == {1}


@pytest.mark.parametrize(("state", "word"), [("failed", "failed"), ("timeout", "failed"), ("image", "other")])
def test_what_failed_or_said_nothing_is_not_tried_again_in_the_same_cycle(rig: Rig, state: JobState, word: str) -> None:
    rig.way = lambda spec: state
    assert set(rig.go().values()) == {word} and len(rig.ran) == 3


def test_a_log_that_nobody_can_read_is_no_answer(rig: Rig) -> None:
    rig.log = "garbage"
    assert set(rig.go().values()) == {"other"}
    assert rig.store.results("here", rehearsal=False, since_s=0.0)[0].cause == "unreadable"


def test_a_node_that_a_user_takes_after_the_plan_is_left_alone(rig: Rig) -> None:
    stock = rig.stock

    def taken_meanwhile() -> Stock:
        found = stock()
        # The first look makes the plan, the second is the one right before the pod.
        nodes = tuple(replace(n, not_free="pod team/x waits for it") if n.name == "gpu01" else n for n in found.nodes)
        return replace(found, nodes=nodes) if rig.looks > 1 else found

    rig.stock = taken_meanwhile  # type: ignore[method-assign]
    assert ("gpu01", "probe") not in rig.go() and "gpu01" not in dict(rig.ran)


def test_a_test_that_does_not_fit_is_skipped_and_one_that_cannot_be_run_is_not_known(rig: Rig) -> None:
    found = rig.go(Probe("misfit", unfit="it has one GPU"), Probe("blind", unready="nothing is known of its adapters"))
    assert {word for (_node, test), word in found.items() if test == "misfit"} == {"skipped"}
    assert {word for (_node, test), word in found.items() if test == "blind"} == {"other"} and rig.ran == []


def test_a_lease_of_another_cycle_is_respected(rig: Rig) -> None:
    rig.store.begin_cycle(replace(CYCLE, cycle_id="c2"))
    claim = rig.store.take_lease("gpu01", "other", "c2", NOW, NOW + 600)
    assert claim.lease is not None
    assert sorted(rig.go()) == [("gpu02", "probe"), ("gpu03", "probe")]
    assert [lease.cycle_id for lease in rig.leases()] == ["c2"]


@pytest.mark.parametrize("ahead_s", [86400.0, -86400.0])
def test_a_controller_whose_clock_is_wrong_steals_no_lease_and_leaves_none_for_ever(rig: Rig, ahead_s: float) -> None:
    """Its own clock says something else by a day; leases run out by the clock of the history."""
    rig.store.begin_cycle(replace(CYCLE, cycle_id="c2"))
    assert rig.store.take_lease("gpu01", "probe", "c2", NOW, NOW + 600).lease is not None
    skewed: dict[str, Any] = {"now": lambda: NOW + ahead_s, "lease_now": lambda: NOW}
    assert sorted(rig.go(**skewed)) == [("gpu02", "probe"), ("gpu03", "probe")]
    assert [lease.cycle_id for lease in rig.leases()] == ["c2"]
    # The lease of a controller that died runs out for it as for every other.
    skewed["lease_now"] = lambda: NOW + 601
    rig.work = replace(rig.work, cycle=replace(CYCLE, cycle_id="c3"))
    rig.store.begin_cycle(rig.work.cycle)
    assert ("gpu01", "probe") in rig.go(**skewed)


def test_an_error_on_the_way_leaves_no_lease_and_says_what_was_not_done(rig: Rig) -> None:
    def broken(spec: JobSpec) -> JobState:
        raise UnavailableError("API server", "does not answer.", "look")

    rig.way = broken
    with pytest.raises(UnavailableError):
        rig.go()
    kept = rig.store.results("here", rehearsal=False, since_s=0.0)
    assert {(result.status, result.cause) for result in kept} == {(Status.PENDING, "cycle-ended")}


def test_nothing_begins_once_the_time_is_over(rig: Rig) -> None:
    assert rig.go(limit_s=0.0) == {} and rig.ran == []
