# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Gate inference_acceptance on a rehearsal: healthy it passes, every fault of the catalogue is found where it is."""

from __future__ import annotations

import json
import subprocess
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
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.clients.kube.kinds import NAMESPACES
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.hardware.sku import load_hardware
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.model import Outcome, Status
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.rehearsal.faults.catalogue import load_catalogue
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.rehearsal.faults.choose import choose_faults
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.rehearsal.model.patch import healthy_cluster
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.rehearsal.model.spec import (
    Change,
    Fault,
    ModelSpec,
    read_spec,
    write_spec,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.rehearsal.substitution.settings import inference_settings
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.site.model import Host, Site

GATE = "inference_acceptance"
COUNT = 4
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
    """A kept rehearsal whose servers can be broken and mended while it runs."""

    work: Path
    first: Rehearsed
    full: bool
    serial: int = 0

    @cached_property
    def user(self) -> RoleUser:
        """Who looks: somebody with the roles of this gate alone."""
        return role_user(GATE, self.kubeconfig, self.site({}))

    @property
    def model(self) -> Path:
        return self.work / "rehearsal" / "model.yaml"

    @property
    def kubeconfig(self) -> str:
        return str(next((self.work / "rehearsal" / "cluster").rglob("*kubeconfig*")))

    def judged(self, *faults: str, **settings: Any) -> tuple[Outcome, ...]:
        """Break the servers, observe the gate and judge it from what was saved; then mend them."""
        before = read_spec(self.model)
        found = choose_faults(faults, healthy_cluster(before, HARDWARE), CATALOGUE)
        return self.judge_spec(replace(before, faults=found), before, settings)

    def patched(self, node: str, patch: dict[str, Any], **settings: Any) -> tuple[Outcome, ...]:
        """The same with a change that is in no catalogue."""
        before = read_spec(self.model)
        changes = tuple(Change(at=f"node.serving.{name}", set=value) for name, value in patch.items())
        fault = Fault(id="own", kind="node", subject=node, patch=changes)
        return self.judge_spec(replace(before, faults=(fault,)), before, settings)

    def judge_spec(self, spec: ModelSpec, before: ModelSpec, settings: dict[str, Any]) -> tuple[Outcome, ...]:
        """The same with a whole model; then it is as `before`."""
        write_spec(spec, self.model)
        try:
            await_model(self.model)
            return self.observed(settings)
        finally:
            write_spec(before, self.model)

    def site(self, settings: dict[str, Any]) -> Site:
        nodes = read_spec(self.model).nodes
        hosts = tuple(Host(name=node.name, sku=node.sku, node_name=node.name, rack=node.rack) for node in nodes)
        healthy = healthy_cluster(replace(read_spec(self.model), faults=()), HARDWARE)
        own = {**inference_settings(healthy, full=self.full), **settings}
        return make_site(hosts, name="rehearsal", capabilities=("kubernetes", "multi_node"), settings={GATE: own})

    def observed(self, settings: dict[str, Any], *, may_fail: bool = False) -> tuple[Outcome, ...]:
        """Observe the gate and judge it from what was saved."""
        self.serial += 1
        site, run_dir = self.site(settings), self.work / f"own-{self.serial}"
        context = ObserveContext(
            site=site,
            run_dir=run_dir,
            today=TODAY,
            hardware=HARDWARE,
            connections=self.user.connections,
        )
        seen = observe(observers_of(GATE)["inference"], GATE, context)
        assert may_fail or seen.error is None
        return judge_gate(
            declare(GATE, site), JudgeContext(gate=GATE, site=site, today=TODAY, hardware=HARDWARE), run_dir
        )


def _bench(work: Path, nodes: int, *, full: bool) -> Iterator[Bench]:
    try:
        variables = {"rehearsal_nodes": nodes, "rehearsal_keep": True, "rehearsal_full": full}
        yield Bench(work, rehearse(work, gates=["gpu_stack", GATE], **variables), full)
    finally:
        # ansible-runner keeps the variables of a directory, `keep` among them.
        rehearse(work / "stop", playbook="rehearse_stop.yml", rehearsal_dir=str(work / "rehearsal"))
        assert left_behind(work) == []


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    yield from _bench(tmp_path_factory.mktemp("llm"), COUNT, full=False)


def _found(outcomes: tuple[Outcome, ...]) -> list[tuple[str, str, str, str]]:
    """What is not passed; waiting for what another check reports is no finding of its own."""
    return [
        (o.check, o.cause, o.status.value, o.subjects[0].name)
        for o in outcomes
        if o.status is not Status.PASSED and not o.blocked_by
    ]


def test_healthy(bench: Bench) -> None:
    assert bench.first.rc == 0, bench.first.output[-3000:]
    assert bench.first.findings() == []
    gate = next(entry for entry in bench.first.record["gates"] if entry["gate"] == GATE)
    assert "tokens/s per GPU, TTFT" in gate["key_figure"]
    names = sorted(path.name for path in (bench.first.run_dir / "evidence" / GATE).iterdir())
    wanted = {f"load-{n}-1{leg}.json" for n in range(1, COUNT + 1) for leg in ("", "-uncached", "-light")}
    assert {name for name in names if name.endswith(".json")} == wanted


@pytest.mark.drawn(3)
@pytest.mark.parametrize("fault", OURS)
def test_faults(bench: Bench, fault: str) -> None:
    node = f"gpu{drawing(fault).randint(1, COUNT):02d}"
    settings = {"aiperf-hangs": {"timeout_s": 8.0}, "model-hub-refuses": {"ready_s": 15.0}}.get(fault, {})
    outcomes = bench.judged(f"{fault}@{node}", **settings)
    expected = CATALOGUE[fault].expect
    wanted = [(expected.check, expected.cause, expected.status, node)] if expected.cause else []
    assert _found(outcomes) == wanted
    assert all(o.status is Status.PASSED for o in outcomes if o.subjects[0].name != node)


def test_a_hub_that_refuses_every_host_first_is_waited_for(bench: Bench) -> None:
    outcomes = bench.patched("gpu01", {"hub_refusals": 2}, downloads=1)
    assert _found(outcomes) == []
    everywhere = tuple(
        Fault(id=f"own-{n}", kind="node", subject=f"gpu{n:02d}", patch=(Change(at="node.serving.hub_refusals", set=2),))
        for n in range(1, COUNT + 1)
    )
    before = read_spec(bench.model)
    assert _found(bench.judge_spec(replace(before, faults=everywhere), before, {})) == []


def test_the_weights_are_fetched_once_where_they_are_shared(bench: Bench) -> None:
    assert _found(bench.judged(stage=True, volume={"hostPath": {"path": "/models"}})) == []


def test_out_of_memory_says_which_flag(bench: Bench) -> None:
    outcomes = bench.judged("vllm-out-of-memory@gpu02")
    found = next(o for o in outcomes if o.status is Status.FAILED)
    assert "max_model_len" in found.hint
    assert (bench.work / f"own-{bench.serial}" / found.evidence[0].path).read_text().count("KV cache") >= 1


def test_cold_first_requests_are_hidden_by_the_warm_up_alone(bench: Bench) -> None:
    # A load so small that the first request of each copy is more than one in a hundred.
    small = {
        "concurrency_per_gpu": 8,
        "least_requests": 100,
        "slo": {"throughput_per_gpu": 100.0, "ttft_ms": 2000.0, "tpot_ms": 50.0},
    }
    assert _found(bench.patched("gpu03", {"cold_ms": 3000.0}, **small)) == []
    outcomes = bench.patched("gpu03", {"cold_ms": 3000.0}, warmup_per_concurrency=0.0, **small)
    assert ("inference-ttft", "ttft-high", "failed", "gpu03") in _found(outcomes)


def test_throughput_below_the_slo(bench: Bench) -> None:
    outcomes = bench.patched("gpu01", {"rate": 0.5})
    assert ("inference-throughput", "throughput-low", "failed", "gpu01") in _found(outcomes)
    low = next(o for o in outcomes if o.cause == "throughput-low")
    assert "6250 (Qwen/Qwen3-8B on h100) x (1 - 0.1) = 5625" in low.expected[0].arithmetic


def test_the_schedulers_words(bench: Bench) -> None:
    outcomes = bench.judged(resources={"memory": "900Ti"}, schedule_s=5.0)
    ready = [o for o in outcomes if o.check == "inference-endpoint-ready"]
    assert {o.cause for o in ready} == {"launch-unschedulable"}
    assert all("Insufficient memory" in o.summary for o in ready)


def test_an_address_where_nobody_answers(bench: Bench) -> None:
    outcomes = bench.judged(reach="url", url="http://127.0.0.1:9/{node}")
    ready = [o for o in outcomes if o.check == "inference-endpoint-ready"]
    assert {o.cause for o in ready} == {"endpoint-unreachable"}


def test_hosts_one_after_the_other(bench: Bench) -> None:
    assert _found(bench.judged(parallel=3)) == []


def test_a_right_that_is_missing_is_named_and_leaves_nothing(bench: Bench) -> None:
    """All tests of this file look as somebody who has just the roles of the gate; now one right less."""
    for right in bench.user.drawn():
        with bench.user.without(right):
            assert_refused_by_name(bench.user, right, bench.observed({}, may_fail=True))
        assert bench.user.objects_left() == []


def test_nothing_is_left_in_the_cluster(bench: Bench) -> None:
    with Cluster(Connection(kubeconfig=bench.kubeconfig)) as cluster:
        # The API server takes a moment to empty the last namespace.
        eventually(lambda: not cluster.list_objects(NAMESPACES, labels="gpufleet.io/purpose=test"))
    assert list((bench.work / "rehearsal" / "serving").glob("gpufleet-test-*")) == []


@pytest.fixture(scope="module")
def real(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    subprocess.run([ROOT / "tools" / "setup_full"], check=True)
    yield from _bench(tmp_path_factory.mktemp("aiperf"), 2, full=True)


def test_the_real_aiperf_on_a_healthy_server(real: Bench) -> None:
    assert real.first.rc == 0, real.first.output[-3000:]
    assert real.first.findings() == []
    export = json.loads((real.first.run_dir / "evidence" / GATE / "load-1-1.json").read_text())
    # Not computed: the real one writes about a hundred metrics.
    assert len(export) > 60
    assert export["request_count"]["avg"] == 32


@pytest.mark.drawn(1)
@pytest.mark.parametrize("fault", ["first-token-slow", "requests-fail", "answers-short"])
def test_the_real_aiperf_finds(real: Bench, fault: str) -> None:
    expected = CATALOGUE[fault].expect
    assert _found(real.judged(f"{fault}@gpu02")) == [(expected.check, expected.cause, expected.status, "gpu02")]


@pytest.mark.drawn(1)
@pytest.mark.parametrize("settings", [{}, {"warmup_per_concurrency": 0.0}], ids=["warm-up", "no warm-up"])
def test_cold_first_requests_are_over_before_the_real_aiperf_measures(real: Bench, settings: dict[str, float]) -> None:
    """Every engine has answered before the load, so that not even a load without warm-up meets a cold one."""
    assert _found(real.patched("gpu01", {"cold_ms": 2500.0}, **settings)) == []
