# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The policy of a site against a real API server: labels, taint and cordon of ours, and nothing of others."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from cluster_bench import ClusterBench, cluster_bench
from rehearsal_harness import ROOT
from service_rows import SITE, cycle, node_result

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.clients.kube.objects import NODES
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.features.continuous.service import (
    ContinuousService,
    CycleEnd,
    after_cycle,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.features.remediation.app import (
    LABEL_KEY,
    OWNER,
    RemediationPolicy,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.features.waves.kubernetes import HELD_TAINT, MARK, REASON
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.model import Status
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.store.service import open_service
from ansible_collections.gpufleet.rehearsal.plugins.plugin_utils.toolchain.store import default_cache

pytestmark = pytest.mark.drawn(1, of="nodes in service", whole=True)

NOW, DAY = 1793440800.0, 86400.0
NAMES = tuple(f"gpu{number:02d}" for number in range(1, 5))
BAD, OTHERS = "gpu02", "gpu03"
WRONG = {"status": Status.FAILED, "cause": "wrong-results", "summary": "7 wrong"}
POLICY = RemediationPolicy(acts=("label", "cordon"), breaker_percent=50)


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ClusterBench]:
    """A cluster of four nodes."""
    with cluster_bench(ClusterBench, tmp_path_factory.mktemp("remediation"), 4, {}) as found:
        yield found


class Days:
    """A site with a history over that cluster; a cycle a day."""

    def __init__(self, bench: ClusterBench, path: Path) -> None:
        self.cluster, self.path, self.day = bench.cluster, path, 0
        self.store = open_service(path / "history.sqlite")

    def pass_by(self, policy: RemediationPolicy = POLICY, wrong: tuple[str, ...] = (), **options: Any) -> CycleEnd:
        self.day += 1
        ours, now_s = cycle(f"c{self.day}", day=self.day), NOW + self.day * DAY
        self.store.begin_cycle(ours)
        for node in NAMES:
            known: dict[str, Any] = {"started_s": now_s - 3600, "digests": {}} | (WRONG if node in wrong else {})
            self.store.add_result(node_result(ours.cycle_id, node, **known))
        service = ContinuousService(
            nodes={node: node for node in NAMES}, tests=("dl",), directory=self.path / "report", policy=policy
        )
        return after_cycle(self.store, ours, service, now_s=now_s, cluster=self.cluster, **options)

    def node(self, name: str) -> dict[str, Any]:
        return self.cluster.get(NODES, name)

    def out(self) -> list[str]:
        return [name for name in NAMES if self.node(name)["spec"].get("unschedulable")]

    def taints(self, name: str) -> list[tuple[str, str]]:
        return [(taint["key"], taint.get("value", "")) for taint in self.node(name)["spec"].get("taints") or []]


@pytest.fixture
def days(bench: ClusterBench, tmp_path: Path) -> Iterator[Days]:
    yield Days(bench, tmp_path)
    clean = {
        "metadata": {"annotations": {MARK: None, REASON: None}, "labels": {LABEL_KEY: None}},
        "spec": {"unschedulable": None, "taints": None},
    }
    for name in NAMES:
        bench.cluster.patch(NODES, name, clean)


def test_a_bad_node_is_labelled_tainted_and_cordoned_and_returns_by_passing(days: Days) -> None:
    end = days.pass_by(wrong=(BAD,), check_mode=True)
    assert f"{BAD}: would be taken out of service" in end.actions and not days.out()
    assert LABEL_KEY not in days.node(BAD)["metadata"]["labels"]
    end = days.pass_by(wrong=(BAD,))
    assert f"{BAD}: was taken out of service" in end.actions and days.out() == [BAD]
    assert (HELD_TAINT, OWNER) in days.taints(BAD)
    notes = days.node(BAD)["metadata"]["annotations"]
    assert notes[MARK] == OWNER and "wrong-results" in notes[REASON]
    labels = {name: days.node(name)["metadata"]["labels"][LABEL_KEY] for name in NAMES}
    assert labels == {name: "bad" if name == BAD else "healthy" for name in NAMES}
    for _day in range(2):
        days.pass_by()
        assert days.out() == [BAD]
    end = days.pass_by()
    assert f"{BAD}: was given back" in end.actions and not days.out() and not days.taints(BAD)
    assert not {MARK, REASON} & days.node(BAD)["metadata"].get("annotations", {}).keys()
    assert days.node(BAD)["metadata"]["labels"][LABEL_KEY] == "healthy"
    assert [cordon.node for cordon in days.store.cordons(SITE, rehearsal=False)] == [BAD]
    assert not days.store.open_cordons(SITE, rehearsal=False)


def test_cordons_of_others_are_neither_taken_over_nor_lifted(days: Days) -> None:
    days.cluster.patch(NODES, OTHERS, {"spec": {"unschedulable": True}})
    roll = {"metadata": {"annotations": {MARK: "driver"}}, "spec": {"unschedulable": True}}
    days.cluster.patch(NODES, "gpu04", roll)
    end = days.pass_by(wrong=(OTHERS,))
    assert any(f"{OTHERS}: was not taken out of service: cordoned by somebody else" in text for text in end.actions)
    for _day in range(4):
        days.pass_by()
    assert days.out() == [OTHERS, "gpu04"] and not days.taints(OTHERS).count((HELD_TAINT, OWNER))
    assert days.node("gpu04")["metadata"]["annotations"][MARK] == "driver"
    assert not days.store.cordons(SITE, rehearsal=False)


def test_what_a_person_gave_back_is_not_taken_again(days: Days) -> None:
    days.pass_by(wrong=(BAD,))
    days.cluster.patch(NODES, BAD, {"spec": {"unschedulable": None}})
    end = days.pass_by(wrong=(BAD,))
    assert not days.out() and any("somebody gave it back" in text for text in end.actions)


def test_the_breaker_takes_nobody_out(days: Days) -> None:
    end = days.pass_by(RemediationPolicy(acts=("cordon",), breaker_percent=10), wrong=())
    assert not end.stopped
    days.cluster.patch(NODES, "gpu01", {"metadata": {"annotations": {MARK: OWNER}}, "spec": {"unschedulable": True}})
    end = days.pass_by(RemediationPolicy(acts=("cordon",), breaker_percent=10, give_back=False), wrong=(BAD,))
    assert "the breaker holds" in end.stopped and days.out() == ["gpu01"]
    assert "breaker_holds{" in end.files["metrics"].read_text() and "Breaker" in end.files["html"].read_text()


def test_prometheus_takes_the_rules() -> None:
    promtool = next(default_cache(os.environ).glob("telemetry*/**/promtool"))
    rules = ROOT / "recipes" / "monitoring" / "continuous-rules.yaml"
    done = subprocess.run([promtool, "check", "rules", rules], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0 and "10 rules found" in done.stdout, done.stdout + done.stderr
