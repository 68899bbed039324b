# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Gate telemetry on a rehearsal with a real Prometheus and Alertmanager: healthy it passes, every fault is found."""

from __future__ import annotations

import json
import random
import shutil
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import date
from functools import cached_property, partial
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
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.telemetry.observe_alert import (
    ALERTMANAGER_CONFIGS,
    PROMETHEUS_RULES,
    PROMETHEUSES,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.clients.kube.cluster import Cluster
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.clients.kube.connection import Connection
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.clients.kube.errors import UnreachableError
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.clients.kube.kinds import NAMESPACES, PODS
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.clients.kube.port_forward import connect_to_pod
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.collect.host_evidence import (
    HostEvidence,
    ToolRun,
    write_evidence,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.hardware.sku import load_hardware
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.errors import NotFoundError
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.model import Outcome, Status
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.rehearsal.faults.catalogue import load_catalogue
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.rehearsal.faults.choose import choose_faults
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.rehearsal.hosts.accelerators import (
    printed_facts,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.rehearsal.hosts.nvidia_smi_xml import XmlRenderer
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.rehearsal.model.patch import build_model, healthy_cluster
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.rehearsal.model.spec import read_spec, write_spec
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.rehearsal.model.values import ClusterModel
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.runtime.clock import Deadline
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.runtime.run_dir import CLUSTER, RECIPE, RUN
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.site.model import Host, Site

GATE = "telemetry"
COUNT = 4
DATA = ROOT / "recipes" / "rehearsal"
CATALOGUE = load_catalogue(DATA)
OURS = [name for name, entry in CATALOGUE.items() if entry.expect.gate == GATE]
HARDWARE = load_hardware([ROOT / "recipes" / "hardware"])
TODAY = date(2026, 1, 1)
# Long enough for a sample to get older than two scrape intervals, on a machine that has more to do.
SETTINGS = {"settle_s": 7.0, "load_s": 8.0, "fire_s": 8.0, "arrive_s": 12.0, "rule_interval_s": 1}
XML = XmlRenderer(DATA)


@dataclass
class Bench:
    """A kept rehearsal whose telemetry can be broken and mended while it runs."""

    work: Path
    healthy: Rehearsed
    serial: int = 0

    @cached_property
    def user(self) -> RoleUser:
        """Who looks: somebody with the roles of this gate alone."""
        return role_user(GATE, self.kubeconfig, self.site(), self.recipe)

    @cached_property
    def recipe(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads((self.healthy.run_dir / RECIPE).read_text(encoding="utf-8"))
        return found

    @property
    def model(self) -> Path:
        return self.work / "rehearsal" / "model.yaml"

    @property
    def kubeconfig(self) -> str:
        return str(self.work / "rehearsal" / "cluster" / "admin.kubeconfig")

    def cluster(self) -> Cluster:
        return Cluster(Connection(kubeconfig=self.kubeconfig))

    def site(self, **settings: Any) -> Site:
        hosts = tuple(
            Host(name=node.name, sku=node.sku, node_name=node.name, rack=node.rack)
            for node in read_spec(self.model).nodes
        )
        return make_site(
            hosts,
            name="rehearsal",
            capabilities=("kubernetes", "multi_node"),
            settings={GATE: {**SETTINGS, **settings}, "pod-autoscaling": {"metric_s": 20.0}},
        )

    def judged(self, fault: str, keys: tuple[str, ...]) -> tuple[Outcome, ...]:
        """Apply the fault, look with these observers until it shows, and judge from what was saved; then take it back.

        The operators apply the model first; then Prometheus has to scrape, and what was fresh before has to get old.
        """
        before = read_spec(self.model)
        faults = choose_faults((fault,), healthy_cluster(before, HARDWARE), CATALOGUE)
        spec = replace(before, faults=faults)
        write_spec(spec, self.model)
        try:
            await_model(self.model)
            deadline = time.monotonic() + 90
            shown: set[tuple[str, str]] = set()
            while True:
                outcomes = self.observed(keys, build_model(spec, HARDWARE))
                earlier, shown = shown, {(o.check, o.cause) for o in outcomes if o.status is not Status.PASSED}
                # Seen twice: one look may fall into the reload of a configuration.
                if time.monotonic() > deadline or (shown and shown == earlier):
                    return outcomes
        finally:
            write_spec(before, self.model)
            await_model(self.model)
            eventually(
                lambda: all(o.status is Status.PASSED for o in self.observed(("metrics",))), what="all pass again"
            )

    def observed(
        self, keys: tuple[str, ...], model: ClusterModel | None = None, *, may_fail: bool = False, **settings: Any
    ) -> tuple[Outcome, ...]:
        """Look and judge; what is not looked at is taken from the healthy run."""
        self.serial += 1
        site, run_dir = self.site(**settings), self.work / f"own-{self.serial}"
        # Evidence is of the run that it names: what is looked at anew is of the healthy one as well.
        run_dir.mkdir()
        for name in (RUN, CLUSTER):
            shutil.copy(self.healthy.run_dir / name, run_dir)
        for kept in ("observations", "evidence"):
            shutil.copytree(self.healthy.run_dir / kept / GATE, run_dir / kept / GATE)
        if model is not None:
            _leave_evidence(model, run_dir)
        context = ObserveContext(
            site=site, run_dir=run_dir, today=TODAY, hardware=HARDWARE, connections=self.user.connections
        )
        for key in keys:
            # Only autoscaling is of a component.
            recipe = self.recipe if key == "autoscaling" else None
            assert observe(observers_of(GATE)[key], GATE, replace(context, recipe=recipe)).error is None or may_fail
        return judge_gate(
            declare(GATE, site), JudgeContext(gate=GATE, site=site, today=TODAY, hardware=HARDWARE), run_dir
        )


def _leave_evidence(model: ClusterModel, run_dir: Path) -> None:
    """What gate nodes would have left: nvidia-smi of every host."""
    for node in model.nodes:
        text = XML.render(node, printed_facts(node.accelerator, DATA), "Thu Jan  1 00:00:00 2026")
        tools = {"nvidia_smi_xml": ToolRun(argv=("nvidia-smi", "-q", "-x"), rc=0, stdout=text)}
        write_evidence(run_dir, HostEvidence(host=node.name, reached=True, tools=tools))


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    work = tmp_path_factory.mktemp(GATE)
    try:
        run = rehearse(work, rehearsal_nodes=COUNT, rehearsal_keep=True, gates=["gpu_stack", GATE])
        yield Bench(work, run)
    finally:
        rehearse(work / "stop", playbook="rehearse_stop.yml", rehearsal_dir=str(work / "rehearsal"))
        assert left_behind(work) == []


def test_healthy(bench: Bench) -> None:
    assert bench.healthy.rc == 0, bench.healthy.output[-3000:]
    assert bench.healthy.findings() == []
    gate = next(entry for entry in bench.healthy.record["gates"] if entry["gate"] == GATE)
    assert gate["key_figure"] == f"{8 * COUNT} GPUs seen by Prometheus"
    log = (bench.healthy.run_dir / "evidence" / GATE / "alert-receiver.log").read_text()
    assert any(json.loads(line).get("alerts") for line in log.splitlines())


def _passed(outcomes: tuple[Outcome, ...]) -> bool:
    return all(outcome.status is Status.PASSED for outcome in outcomes)


def _subject(fault: str, draw: random.Random) -> str:
    node = f"gpu{draw.randint(1, COUNT):02d}"
    parts = {"node": node, "gpu": f"{node}/gpu{draw.randrange(8)}"}
    return parts.get(CATALOGUE[fault].kind, "rehearsal")


@pytest.mark.drawn(3)
@pytest.mark.parametrize("fault", OURS)
def test_faults(bench: Bench, fault: str) -> None:
    subject, expected = _subject(fault, drawing(fault)), CATALOGUE[fault].expect
    keys = ("metrics", "alert") if expected.cause == "prometheus-unreachable" else ("metrics",)
    keys = {"alert-delivery": ("alert",), "pod-autoscaling": ("autoscaling",)}.get(expected.check, keys)
    outcomes = bench.judged(f"{fault}@{subject}", keys)
    # Waiting for what another check reports is no finding of its own.
    found = [o for o in outcomes if o.status is not Status.PASSED and not o.blocked_by]
    assert [(o.check, o.cause, o.status.value) for o in found] == [(expected.check, expected.cause, expected.status)], (
        subject,
        [o.summary for o in found],
    )
    assert subject in [entry.name for entry in found[0].subjects]


def test_gpus_are_expected_as_nvidia_smi_lists_them(bench: Bench) -> None:
    outcomes = bench.observed(("metrics",), build_model(read_spec(bench.model), HARDWARE))
    assert [o.summary for o in outcomes if o.status is not Status.PASSED] == []
    assert any("nvidia-smi on the host" in o.summary for o in outcomes)


def test_a_rule_is_made_as_the_operator_selects_it(bench: Bench) -> None:
    """With a selector by labels, and one that only looks at Prometheus' own namespace."""
    with bench.cluster() as cluster:
        (prometheus,) = cluster.list_objects(PROMETHEUSES)
        name, namespace = prometheus["metadata"]["name"], prometheus["metadata"]["namespace"]
        patch = partial(cluster.patch, PROMETHEUSES, name, namespace=namespace)
        before = {key: prometheus["spec"][key] for key in ("ruleSelector", "ruleNamespaceSelector")}
        patch(body={"spec": {"ruleSelector": {"matchLabels": {"team": "gpu"}}, "ruleNamespaceSelector": None}})
        try:
            outcomes = bench.observed(("alert",))
            assert [o.summary for o in outcomes if o.status is not Status.PASSED] == []
            assert cluster.list_objects(PROMETHEUS_RULES, labels="gpufleet.io/purpose=test") == []
            patch(body={"spec": {"ruleSelector": None}})
            (lost,) = (o for o in bench.observed(("alert",)) if o.status is not Status.PASSED)
            assert (lost.check, lost.status, lost.cause) == ("alert-delivery", Status.OTHER, "no-way-for-alerts")
        finally:
            patch(body={"spec": before})


def test_forwarding_a_port_says_what_is_wrong(bench: Bench) -> None:
    with bench.cluster() as cluster:
        (pod,) = cluster.list_objects(PODS, labels="app.kubernetes.io/name=prometheus")
        place = (pod["metadata"]["name"], pod["metadata"]["namespace"])
        connection = connect_to_pod(cluster, *place, 9091, Deadline.after(5))
        with pytest.raises(UnreachableError, match="9091"):
            connection.receive()
        connection.end()
        with pytest.raises(NotFoundError):
            connect_to_pod(cluster, "nobody", place[1], 9090, Deadline.after(5))


def test_a_right_that_is_missing_is_named_and_leaves_nothing(bench: Bench) -> None:
    """All tests of this file look as somebody who has just the roles of the gate; now one right less."""
    for right in bench.user.drawn():
        with bench.user.without(right):
            assert_refused_by_name(
                bench.user, right, bench.observed(("metrics", "alert", "autoscaling"), may_fail=True)
            )
        assert bench.user.objects_left() == []


def test_nothing_is_left_in_the_cluster(bench: Bench) -> None:
    with bench.cluster() as cluster:
        eventually(lambda: not cluster.list_objects(NAMESPACES, labels="gpufleet.io/purpose=test"))
        for kind in (PROMETHEUS_RULES, ALERTMANAGER_CONFIGS):
            assert cluster.list_objects(kind, labels="gpufleet.io/purpose=test") == []
