# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Gate training_acceptance on a rehearsal: healthy it passes, every fault of the catalogue is found, wherever it is."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import date
from functools import cached_property
from pathlib import Path
from typing import Any

import pytest
from rehearsal_harness import ROOT, Rehearsed, left_behind, rehearse
from role_bench import RoleUser, assert_refused_by_name, role_user
from seeds import drawing
from sites import make_site
from waiting import await_model, eventually

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.declare import declare
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.judge import judge_gate
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.observation import observe
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.registry import observers_of
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.spec import JudgeContext, ObserveContext
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.clients.kube.cluster import Cluster
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.clients.kube.connection import Connection
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.clients.kube.kinds import NAMESPACES, NODES
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.hardware.sku import load_hardware
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.model import Outcome, Status
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.rehearsal.faults.catalogue import load_catalogue
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.rehearsal.faults.choose import choose_faults
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.rehearsal.model.patch import healthy_cluster
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.rehearsal.model.spec import read_spec, write_spec
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.rehearsal.substitution.settings import (
    STORAGE,
    storage_settings,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.site.model import Host, Site

GATE = "training_acceptance"
COUNT = 5
CATALOGUE = load_catalogue(ROOT / "recipes" / "rehearsal")
# What a load changes on a host is read by playbook site: test_last_gates.py.
OURS = [
    name
    for name, entry in CATALOGUE.items()
    if entry.expect.gate == GATE and not entry.expect.check.startswith("host-state-after-")
]
# What the scheduler or the kubelet says, and no pod.
OF_THE_CLUSTER = ("launch-unschedulable", "half-placed", "launch-image")
HARDWARE = load_hardware([ROOT / "recipes" / "hardware"])
TODAY = date(2026, 1, 1)
SETTINGS: dict[str, Any] = {"timeout_s": 15.0, "schedule_s": 6.0}


@dataclass
class Bench:
    """A kept rehearsal whose hardware can be broken and mended while it runs."""

    work: Path
    healthy: Rehearsed
    recipe: dict[str, Any]
    serial: int = 0

    @cached_property
    def user(self) -> RoleUser:
        """Who looks: somebody with the roles of this gate alone."""
        return role_user(GATE, self.kubeconfig, self.site(), self.recipe)

    @property
    def model(self) -> Path:
        return self.work / "rehearsal" / "model.yaml"

    @property
    def kubeconfig(self) -> str:
        return str(next((self.work / "rehearsal" / "cluster").rglob("*kubeconfig*")))

    def site(self, storage: bool = False, **settings: Any) -> Site:
        nodes = read_spec(self.model).nodes
        hosts = tuple(Host(name=node.name, sku=node.sku, node_name=node.name, rack=node.rack) for node in nodes)
        return make_site(
            hosts,
            name="rehearsal",
            capabilities=("kubernetes", "multi_node", *(("shared_volume",) if storage else ())),
            settings={GATE: {**SETTINGS, **settings}, STORAGE: storage_settings(len(hosts))},
        )

    def judged(self, fault: str, **settings: Any) -> tuple[Outcome, ...]:
        """Break the hardware, observe the gate and judge it from what was saved; then mend the hardware."""
        before = read_spec(self.model)
        faults = choose_faults((fault,), healthy_cluster(before, HARDWARE), CATALOGUE)
        write_spec(replace(before, faults=faults), self.model)
        try:
            self._settle(short=sum("memory_gib" in change.at for fault in faults for change in fault.patch))
            return self.observed(**settings)
        finally:
            write_spec(before, self.model)
            self._settle(short=0)

    def _settle(self, *, short: int) -> None:
        """Wait until the operators have read the model again and the nodes offer what they should."""
        await_model(self.model)
        with Cluster(Connection(kubeconfig=self.kubeconfig)) as cluster:

            def lacking() -> int:
                offered = [node["status"]["allocatable"]["memory"] for node in cluster.list_objects(NODES)]
                return len(offered) - offered.count("2Ti")

            eventually(lambda: lacking() == short)

    def observed(self, *, may_fail: bool = False, **settings: Any) -> tuple[Outcome, ...]:
        """Observe the gate, with `storage=True` the shared volume too, and judge it from what was saved."""
        self.serial += 1
        site, run_dir = self.site(**settings), self.work / f"own-{self.serial}"
        context = ObserveContext(
            site=site,
            run_dir=run_dir,
            today=TODAY,
            hardware=HARDWARE,
            recipe=self.recipe,
            connections=self.user.connections,
        )
        for name in ("storage", "training") if settings.get("storage") else ("training",):
            seen = observe(observers_of(GATE)[name], GATE, context)
            assert may_fail or seen.error is None
        return judge_gate(
            declare(GATE, site), JudgeContext(gate=GATE, site=site, today=TODAY, hardware=HARDWARE), run_dir
        )


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    work = tmp_path_factory.mktemp("training")
    try:
        run = rehearse(work, rehearsal_nodes=COUNT, rehearsal_keep=True, gates=["gpu_stack", GATE])
        yield Bench(work, run, json.loads((run.run_dir / "recipe.json").read_text()))
    finally:
        # ansible-runner keeps the variables of a directory, `keep` among them.
        rehearse(work / "stop", playbook="rehearse_stop.yml", rehearsal_dir=str(work / "rehearsal"))
        assert left_behind(work) == []


def _findings(outcomes: tuple[Outcome, ...]) -> list[Outcome]:
    """What is not passed; waiting for what another check reports is no finding of its own."""
    return [o for o in outcomes if o.status is not Status.PASSED and not o.blocked_by]


def test_healthy(bench: Bench) -> None:
    assert bench.healthy.rc == 0, bench.healthy.output[-3000:]
    assert bench.healthy.findings() == []
    gate = next(entry for entry in bench.healthy.record["gates"] if entry["gate"] == GATE)
    assert "MFU" in gate["key_figure"] and f"over {8 * COUNT} GPUs" in gate["key_figure"]
    logs = sorted(path.name for path in (bench.healthy.run_dir / "evidence" / GATE).iterdir())
    fio = [f"fio-{number}-1.log" for number in range(1, COUNT + 1)]
    assert logs == [*fio, *(f"train-1-1-{index}.log" for index in range(COUNT))]
    print(f"gate took {gate.get('duration_s')} s")


def _subject(fault: str, draw: random.Random) -> str:
    node = f"gpu{draw.randint(1, COUNT):02d}"
    return {"node": node, "gpu": f"{node}/gpu{draw.randrange(8)}"}.get(CATALOGUE[fault].kind, "")


@pytest.mark.parametrize("fault", [name for name in OURS if CATALOGUE[name].expect.cause in OF_THE_CLUSTER])
def test_faults_of_the_cluster(bench: Bench, fault: str) -> None:
    _assert_found(bench, fault)


# tests/unit/plugins/plugin_utils/rehearsal/workloads/test_training_judged.py judges each of these without a cluster.
@pytest.mark.drawn(3)
@pytest.mark.parametrize("fault", [name for name in OURS if CATALOGUE[name].expect.cause not in OF_THE_CLUSTER])
def test_faults(bench: Bench, fault: str) -> None:
    _assert_found(bench, fault)


def _assert_found(bench: Bench, fault: str) -> None:
    subject = _subject(fault, drawing(fault))
    expected = CATALOGUE[fault].expect
    more = {"storage": True} if expected.check.startswith("storage-") else {}
    outcomes = bench.judged(f"{fault}@{subject}" if subject else fault, **more)
    found = _findings(outcomes)
    told = {(o.check, o.cause, o.status.value) for o in found}
    assert told == {(expected.check, expected.cause, expected.status)}, [o.summary for o in found]
    if subject and expected.cause != "launch-unschedulable":
        # The scheduler says what is missing, and not where.
        assert len(found) == 1
        assert {subject, subject.partition("/")[0]} <= {entry.name for entry in found[0].subjects}


def test_without_a_gang_scheduler_a_job_is_half_placed(bench: Bench) -> None:
    found = _findings(bench.judged("training-memory-short@gpu03", gang="none"))
    assert [(o.cause, o.subjects[0].name) for o in found] == [("half-placed", "gpu03")]
    assert "Insufficient memory" in found[0].summary


def test_a_right_that_is_missing_is_named_and_leaves_nothing(bench: Bench) -> None:
    """All tests of this file look as somebody who has just the roles of the gate; now one right less."""
    for right in bench.user.drawn():
        with bench.user.without(right):
            assert_refused_by_name(bench.user, right, bench.observed(may_fail=True))
        assert bench.user.objects_left() == []


def test_nothing_is_left_in_the_cluster(bench: Bench) -> None:
    with Cluster(Connection(kubeconfig=bench.kubeconfig)) as cluster:
        # The API server takes a moment to empty the last namespace.
        eventually(lambda: not cluster.list_objects(NAMESPACES, labels="gpufleet.io/purpose=test"))
