# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests of two nodes in a cycle with a real history: who goes with whom, who is named, and what is written if not."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.benchmark.plan import BenchmarkHost
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.kit.settings_layers import checked_settings
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.node_tests.pair_spec import (
    Hosts,
    PairRun,
    PairTest,
)
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
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.workload.job import JobResult, JobSpec, PodResult

NOW = 1_800_000_000.0
Pair = tuple[str, str]


class Duo(PairTest):
    """A test of two nodes whose job says in its log how it went."""

    id = "duo"
    title = "Duo"

    def __init__(self) -> None:
        self.common = NodeTestSettings(enabled=True, days=7.0, timeout_s=60.0, pull_s=60.0)
        self.misfits: set[str] = set()

    def unfit(self, host: BenchmarkHost) -> str:
        return "it has no adapters" if host.name in self.misfits else ""

    def pair_job(self, name: str, hosts: Hosts) -> JobSpec:
        nodes = tuple(host.node for host in hosts)
        return JobSpec(
            name=name, nodes=nodes, gpus_per_node=8, image="i", command=("duo",), kind="gang-job", gang="native"
        )

    def read_pair(self, cycle_id: str, hosts: Hosts, result: JobResult, started_s: float) -> PairRun:
        early = [without_result(self.id, cycle_id, host, result, started_s) for host in hosts]
        if early[0] and early[1]:
            return PairRun(word="told", results=(early[0], early[1]))
        if result.log == "garbage":
            raise ValueError("no such table")

        def said(status: Status, rating: Rating) -> tuple[NodeResult, NodeResult]:
            first, second = (
                result_of(self.id, cycle_id, host, result, started_s, status, rating=rating, summary=host.name)
                for host in hosts
            )
            return first, second

        if result.log == "broken":
            culprit = replace(said(Status.FAILED, Rating.BAD)[0], node="a", cause="socket-transport")
            other = replace(said(Status.PENDING, Rating.UNKNOWN)[0], cause="partner-at-fault")
            first, second = (culprit if host.name == "a" else replace(other, node=host.name) for host in hosts)
            return PairRun(word="told", results=(first, second))
        if result.log == "well":
            return PairRun(word="well", results=said(Status.PASSED, Rating.GOOD))
        bad = result.log == "bad"
        return PairRun(word="low", results=said(Status.OTHER, Rating.MARGINAL), bad=bad, named="slow" if bad else "")


class Own(NodeTest):
    """A test of one node that always passes."""

    id = "own"
    title = "Own"

    def __init__(self) -> None:
        self.common = NodeTestSettings(enabled=True, days=7.0, timeout_s=60.0, pull_s=60.0)

    def job(self, name: str, host: BenchmarkHost) -> JobSpec:
        return JobSpec(name=name, nodes=(host.node,), gpus_per_node=8, image="i", command=("own",), kind="plain-job")

    def read(self, cycle_id: str, host: BenchmarkHost, result: JobResult, started_s: float) -> NodeResult:
        return result_of(self.id, cycle_id, host, result, started_s, Status.PASSED, rating=Rating.GOOD)


@dataclass
class Site:
    """Nodes, those that are slow, ways between two that are, and what users hold."""

    store: ServiceStore
    logs: NodeLogs
    names: tuple[str, ...] = ("a", "b", "c", "d")
    bad: dict[str, str] = field(default_factory=dict)
    ways: set[frozenset[str]] = field(default_factory=set)
    busy: set[str] = field(default_factory=set)
    skus: dict[str, str] = field(default_factory=dict)
    racks: dict[str, str] = field(default_factory=dict)
    preempted: Callable[[Pair], bool] = lambda pair: False
    dies_after: int = 10**6
    ran: list[Pair] = field(default_factory=list)
    own: list[str] = field(default_factory=list)
    test: Duo = field(default_factory=Duo)
    cycle: str = ""
    at: float = NOW
    notes: list[str] = field(default_factory=list)

    def now(self) -> float:
        self.at += 1.0
        return self.at

    def stock(self) -> Stock:
        nodes = tuple(
            QueueNode(name=n, rack=self.racks.get(n, ""), not_free="a user is there" if n in self.busy else "")
            for n in self.names
        )
        return Stock(nodes, {n: BenchmarkHost(name=n, node=n, sku=self.skus.get(n, "s")) for n in self.names})

    def says(self, pair: Pair) -> str:
        words = [self.bad[name] for name in pair if name in self.bad]
        return "bad" if "bad" in words else words[0] if words else "bad" if frozenset(pair) in self.ways else "well"

    def run_jobs(
        self, specs: Sequence[JobSpec], progress: Any, deadline: Deadline, on_result: Callable[[JobResult], None]
    ) -> None:
        at_once = [node for spec in specs for node in spec.nodes]
        assert len(set(at_once)) == len(at_once) <= 8 and not self.busy & set(at_once)
        leased = [lease.node for lease in self.leases()]
        assert all(leased.count(node) == 1 for node in at_once)
        for spec in specs:
            state, log = "succeeded", "own"
            if len(spec.nodes) == 2:
                if len(self.ran) >= self.dies_after:
                    raise UnavailableError("API server", "does not answer.", "look")
                pair = (spec.nodes[0], spec.nodes[1])
                self.ran.append(pair)
                state, log = "preempted" if self.preempted(pair) else "succeeded", self.says(pair)
            else:
                self.own.append(spec.nodes[0])
            pod = PodResult(name="p", node=spec.nodes[0], hostname="h", exit_code=0, log=log, role="launcher")
            on_result(JobResult(name=spec.name, state=state, reason="so", pods=(pod,), started="", duration_s=1.0))  # type: ignore[arg-type]

    def leases(self) -> tuple[Any, ...]:
        return self.store.leases("here", rehearsal=False)

    def go(self, *more: NodeTest, size: int = 8, per_rack: int = 0, limit_s: float = 60.0) -> dict[str, str]:
        """Run a cycle; by node what it says of the pair, status and cause."""
        self.at += 3600.0
        self.cycle, self.ran, self.own = f"c{self.at:.0f}", [], []
        cycle = Cycle(cycle_id=self.cycle, site="here", rehearsal=False, started="2027-01-15T08:00:00Z", controller="c")
        self.store.begin_cycle(cycle)
        work = CycleWork(
            cycle=cycle, store=self.store, tests={t.id: t for t in (self.test, *more)},
            settings=checked_settings(ContinuousSettings, "continuous", {}),
            limits=BatchLimits(size=size, per_rack=per_rack), stock=self.stock, logs=self.logs, now=self.now,
        )  # fmt: skip
        going = FleetCycle(work)
        try:
            going.run(self.run_jobs, Deadline.after(limit_s))
        finally:
            assert self.leases() == ()
        kept = {node: result for (node, test), result in going.log.results.items() if test == "duo"}
        seen = self.store.results("here", rehearsal=False, since_s=0.0)
        last = {result.node: result for result in seen if (result.cycle_id, result.test) == (self.cycle, "duo")}
        # What the cycle says is what the history keeps.
        assert {n: r.status for n, r in last.items()} == {n: r.status for n, r in kept.items()}
        return {node: f"{result.status.value} {result.cause}".strip() for node, result in sorted(kept.items())}

    def summary(self, node: str) -> str:
        found = self.store.results("here", rehearsal=False, since_s=0.0, nodes=[node], tests=["duo"])
        return found[-1].summary


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(open_service(tmp_path / "history.sqlite"), NodeLogs(tmp_path / "logs"))


def test_idle_nodes_are_run_in_pairs_and_both_have_the_result(site: Site) -> None:
    assert site.go() == dict.fromkeys("abcd", "passed")
    assert sorted(itertools.chain(*site.ran)) == list("abcd")
    assert site.go() == {} and site.ran == []


def test_the_slow_node_is_named_by_a_second_partner_and_the_first_one_is_cleared(site: Site) -> None:
    site.bad = {"a": "bad"}
    assert site.go() == {"a": "failed slow", "b": "passed", "c": "passed", "d": "passed"}
    partners = [pair[pair[0] == "a"] for pair in site.ran if "a" in pair]
    assert len(set(partners)) == len(partners) == 2 and "which is" not in site.summary("a")
    assert f"slow with {partners[0]}, {partners[1]}, of which" in site.summary("a")


def test_one_that_is_slow_by_little_waits_for_a_person(site: Site) -> None:
    site.bad = {"c": "marginal"}
    assert site.go() == {"a": "passed", "b": "passed", "c": "other", "d": "passed"}


def test_a_node_whose_way_is_broken_is_named_at_once_and_its_partner_gets_another_one(site: Site) -> None:
    site.bad = {"a": "broken"}
    assert site.go() == {"a": "failed socket-transport", "b": "passed", "c": "passed", "d": "passed"}
    assert sum("a" in pair for pair in site.ran) == 1


def test_two_nodes_alone_cannot_tell_and_neither_passes_nor_fails(site: Site) -> None:
    site.names, site.bad = ("a", "b"), {"b": "bad"}
    assert site.go() == dict.fromkeys("ab", "other pair-unconfirmed") and len(site.ran) == 1
    # A third one is idle in the next cycle.
    site.names = ("a", "b", "c")
    assert site.go() == {"a": "passed", "b": "failed slow", "c": "passed"}


def test_three_nodes_tell_which_one_is_slow(site: Site) -> None:
    site.names = ("a", "b", "c")
    for bad in site.names:
        site.bad, site.at = {bad: "bad"}, site.at + 30 * 86400.0
        assert site.go() == dict.fromkeys("abc", "passed") | {bad: "failed slow"}


def test_a_node_without_a_partner_is_pending_with_the_reason_and_does_its_own_tests(site: Site) -> None:
    site.busy = {"b", "c", "d"}
    assert site.go(Own()) == {"a": "pending no-partner"} and site.own == ["a"]
    assert site.summary("a") == "a: no other s is idle, and this test needs two"
    site.busy = set()
    assert site.go(Own()) == dict.fromkeys("abcd", "passed")


def test_a_batch_of_one_has_no_room_for_two(site: Site) -> None:
    assert site.go(size=1) == dict.fromkeys("abcd", "pending no-partner") and site.ran == []
    assert "no room for two nodes: 1 node at once" in site.summary("a")


def test_limits_of_a_batch_count_partners_too(site: Site) -> None:
    site.racks = {"a": "r1", "b": "r1", "c": "r2", "d": "r2"}
    assert site.go(per_rack=1) == dict.fromkeys("abcd", "passed")
    assert all({site.racks[one], site.racks[other]} == {"r1", "r2"} for one, other in site.ran)
    site.at += 8 * 86400.0
    assert site.go(size=2) == dict.fromkeys("abcd", "passed")


def test_only_nodes_of_one_sku_that_fit_are_paired(site: Site) -> None:
    site.skus, site.test.misfits = {"a": "t", "c": "t"}, {"d"}
    assert site.go() == {"a": "passed", "b": "pending no-partner", "c": "passed", "d": "skipped"}
    assert [set(pair) for pair in site.ran] == [{"a", "c"}]


def test_the_same_pair_is_not_run_twice_in_a_row_if_there_is_another(site: Site) -> None:
    site.racks = {"a": "r1", "b": "r1", "c": "r2", "d": "r2"}
    before: set[frozenset[str]] = set()
    for _cycle in range(4):
        site.at += 8 * 86400.0
        assert site.go() == dict.fromkeys("abcd", "passed")
        now = {frozenset(pair) for pair in site.ran}
        assert not before & now
        before = now
    # Two alone have nobody else, which is no reason never to test them again.
    site.names, site.at = ("a", "b"), site.at + 8 * 86400.0
    assert site.go() == site.go() | dict.fromkeys("ab", "passed")


def test_a_user_takes_one_of_both_and_both_are_given_back(site: Site) -> None:
    site.names, site.preempted = ("a", "b"), lambda pair: True
    assert site.go() == dict.fromkeys("ab", "pending launch-preempted") and len(site.ran) == 2
    site.preempted = lambda pair: False
    assert site.go() == dict.fromkeys("ab", "passed")


def test_a_partner_that_is_given_back_for_ever_ends_the_doubt_with_the_tries(site: Site) -> None:
    site.names, site.bad = ("a", "b", "c"), {"a": "bad"}
    site.preempted = lambda pair: "c" in pair
    found = site.go()
    assert {found["a"], found["b"]} <= {"pending pair-unconfirmed", "other pair-unconfirmed"}
    assert found["c"].startswith("pending") and len(site.ran) <= 6


def test_a_log_that_nobody_can_read_is_no_answer(site: Site) -> None:
    site.bad = {"a": "garbage"}
    found = site.go()
    assert found["a"] == "other unreadable" and list(found.values()).count("other unreadable") == 2


def test_a_slow_way_between_two_good_nodes_is_no_fault_of_theirs_and_no_pass(site: Site) -> None:
    site.ways = {frozenset("ab")}
    assert site.go() == dict.fromkeys("ab", "other slow-way-between") | dict.fromkeys("cd", "passed")
    assert "but slow with b, which is well with others: look at what lies between" in site.summary("a")


def test_where_all_are_slow_nobody_is_named(site: Site) -> None:
    site.names = tuple("abcdef")
    site.bad = dict.fromkeys(site.names, "bad")
    assert set(site.go().values()) == {"other pair-unconfirmed"} and len(site.ran) <= 15


@pytest.mark.parametrize("dies_after", [0, 1, 2, 3])
def test_a_cycle_that_dies_leaves_no_answer_that_it_did_not_have_and_the_next_one_goes_on(
    site: Site, dies_after: int
) -> None:
    site.bad, site.dies_after = {"a": "bad"}, dies_after
    with pytest.raises(UnavailableError):
        site.go()
    kept = site.store.results("here", rehearsal=False, since_s=0.0)
    assert all(result.status in (Status.PASSED, Status.PENDING) for result in kept)
    assert all(result.status is Status.PENDING for result in kept if result.node == "a")
    site.dies_after = 10**6
    assert site.go()["a"] == "failed slow"


def test_in_any_site_the_slow_are_named_and_no_other_one(site: Site, tmp_path: Path) -> None:
    """One slow node of four and more, wherever it is, however small the batch: never another one, and always that."""
    draw = random.Random(7)
    for number in range(12):
        size = draw.randint(4, 9)
        names = tuple(f"n{n}" for n in range(size))
        bad = draw.sample(names, draw.choice((0, 1, 1, 2 if size >= 7 else 1)))
        one = replace(
            site, store=open_service(tmp_path / f"{number}.sqlite"), names=names, bad=dict.fromkeys(bad, "bad"),
            racks={name: f"r{draw.randint(1, 3)}" for name in names},
        )  # fmt: skip
        found = one.go(size=draw.randint(2, 8))
        wanted = dict.fromkeys(names, "passed") | dict.fromkeys(bad, "failed slow")
        assert found == wanted, (number, bad, one.ran)
