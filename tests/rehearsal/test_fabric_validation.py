# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Gate fabric_validation on a rehearsal: healthy it passes, every fault of the catalogue is found, wherever it is."""

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
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.site.model import Host, Site

GATE = "fabric_validation"
COUNT = 8
CATALOGUE = load_catalogue(ROOT / "recipes" / "rehearsal")
# What a load changes on a host is read by playbook site: test_last_gates.py.
OURS = [
    name
    for name, entry in CATALOGUE.items()
    if entry.expect.gate == GATE and not entry.expect.check.startswith("host-state-after-")
]
HARDWARE = load_hardware([ROOT / "recipes" / "hardware"])
TODAY = date(2026, 1, 1)


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

    def site(self) -> Site:
        hosts = tuple(
            Host(name=node.name, sku=node.sku, node_name=node.name, rack=node.rack)
            for node in read_spec(self.model).nodes
        )
        settings = {
            GATE: {"timeout_s": 30.0},
            "dl_unit": {"timeout_s": 30.0},
            "fabric": {"plan": str(self.work / "rehearsal" / "cabling.yaml")},
        }
        return make_site(hosts, name="rehearsal", capabilities=("kubernetes", "multi_node"), settings=settings)

    def judged(self, fault: str) -> tuple[Outcome, ...]:
        """Break the hardware, observe the gate and judge it from what was saved; then mend the hardware."""
        before = read_spec(self.model)
        faults = choose_faults((fault,), healthy_cluster(before, HARDWARE), CATALOGUE)
        write_spec(replace(before, faults=faults), self.model)
        try:
            self._settle(adapters=not fault.startswith("rdma-resource-missing"))
            return self.observed()
        finally:
            write_spec(before, self.model)

    def _settle(self, *, adapters: bool) -> None:
        """Wait until the operators have read the model again and the nodes offer what they should."""
        await_model(self.model)
        with Cluster(Connection(kubeconfig=self.kubeconfig)) as cluster:

            def offering() -> int:
                found = [
                    n["status"]["allocatable"].get("rdma/rdma_shared_device_a") for n in cluster.list_objects(NODES)
                ]
                return found.count("63")

            eventually(lambda: offering() == (COUNT if adapters else COUNT - 1))

    def observed(self, *, may_fail: bool = False) -> tuple[Outcome, ...]:
        """Observe the gate and judge it from what was saved."""
        self.serial += 1
        site, run_dir = self.site(), self.work / f"own-{self.serial}"
        context = ObserveContext(
            site=site,
            run_dir=run_dir,
            today=TODAY,
            hardware=HARDWARE,
            recipe=self.recipe,
            connections=self.user.connections,
        )
        for key in ("dl_unit", "nccl"):
            seen = observe(observers_of(GATE)[key], GATE, context)
            assert may_fail or seen.error is None
        return judge_gate(
            declare(GATE, site), JudgeContext(gate=GATE, site=site, today=TODAY, hardware=HARDWARE), run_dir
        )


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    work = tmp_path_factory.mktemp("nccl")
    try:
        run = rehearse(work, rehearsal_nodes=COUNT, rehearsal_keep=True, gates=["gpu_stack", GATE])
        yield Bench(work, run, json.loads((run.run_dir / "recipe.json").read_text()))
    finally:
        # ansible-runner keeps the variables of a directory, `keep` among them.
        rehearse(work / "stop", playbook="rehearse_stop.yml", rehearsal_dir=str(work / "rehearsal"))
        assert left_behind(work) == []


def test_healthy(bench: Bench) -> None:
    assert bench.healthy.rc == 0, bench.healthy.output[-3000:]
    assert bench.healthy.findings() == []
    gate = next(entry for entry in bench.healthy.record["gates"] if entry["gate"] == GATE)
    assert "GB/s over all nodes" in gate["key_figure"]
    logs = sorted(path.name for path in (bench.healthy.run_dir / "evidence" / GATE).iterdir())
    assert len([name for name in logs if name.startswith("node-")]) == COUNT
    assert len([name for name in logs if name.startswith("dl-unit-")]) == COUNT
    assert len([name for name in logs if name.startswith("pair-")]) == COUNT // 2
    assert len([name for name in logs if name.startswith("all-")]) == 1


# Of the adapters for GPU traffic of a DGX H100.
NUMBERS = (0, 3, 4, 5, 6, 9, 10, 11)


def _subject(fault: str, draw: random.Random) -> str:
    node = f"gpu{draw.randint(1, COUNT):02d}"
    parts = {
        "cluster": "",
        "node": node,
        "hca": f"{node}/mlx5_{draw.choice(NUMBERS)}",
        "gpu": f"{node}/gpu{draw.randrange(8)}",
    }
    return parts.get(CATALOGUE[fault].kind, f"rail{draw.randrange(8)}")


# tests/rehearsal/test_worlds.py judges these without a cluster, drawn as well.
@pytest.mark.drawn(3)
@pytest.mark.parametrize("fault", OURS)
def test_faults(bench: Bench, fault: str) -> None:
    subject = _subject(fault, drawing(fault))
    outcomes = bench.judged(f"{fault}@{subject}" if subject else fault)
    expected = CATALOGUE[fault].expect
    # Waiting for what another check reports is no finding of its own.
    found = [o for o in outcomes if o.status is not Status.PASSED and not o.blocked_by]
    assert [(o.check, o.cause, o.status.value) for o in found] == [(expected.check, expected.cause, expected.status)], (
        subject
    )
    names = [entry.name for entry in found[0].subjects]
    # A fault of the whole cluster is told of what is compared, whatever that is called.
    assert not subject or (subject if CATALOGUE[fault].kind != "gpu" else subject.partition("/")[0]) in names
    assert any(o.status is Status.PASSED for o in outcomes)


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
