# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Gates telemetry and inference_acceptance on one rehearsal, with a real Prometheus and Alertmanager: healthy they
pass, and every fault of the catalogue is found where it is."""

from __future__ import annotations

import json
import random
import shutil
import socket
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from gate_bench import CATALOGUE, HARDWARE, GateBench, faults_of, not_passed
from inference_bench import INFERENCE, InferenceBench, inference_findings
from rehearsal_harness import ROOT, rehearsal_below
from seeds import drawing
from shared_site import NODES as COUNT
from shared_site import SharedSite
from sites import make_site
from waiting import eventually

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.telemetry.observe_alert import (
    ALERTMANAGER_CONFIGS,
    PROMETHEUS_RULES,
    PROMETHEUSES,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.clients.kube.errors import UnreachableError
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.clients.kube.objects import PODS
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.clients.kube.streams import connect_to_pod
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.collect.host_evidence import (
    HostEvidence,
    ToolRun,
    write_evidence,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.errors import NotFoundError
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.model import Outcome, Status
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.runtime.clock import Deadline
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.runtime.files import CLUSTER, RUN
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.site.model import Site
from ansible_collections.gpufleet.rehearsal.plugins.plugin_utils.hosts.accelerators import printed_facts
from ansible_collections.gpufleet.rehearsal.plugins.plugin_utils.hosts.prepare import XmlRenderer
from ansible_collections.gpufleet.rehearsal.plugins.plugin_utils.model.patch import build_model
from ansible_collections.gpufleet.rehearsal.plugins.plugin_utils.model.spec import read_spec
from ansible_collections.gpufleet.rehearsal.plugins.plugin_utils.model.values import ClusterModel
from ansible_collections.gpufleet.rehearsal.plugins.plugin_utils.telemetry.plan import PORTS_FILE

TELEMETRY = "telemetry"
DATA = ROOT / "rehearsal" / "recipes"
# Long enough for a sample to get older than two scrape intervals, on a machine that has more to do.
SETTINGS = {"settle_s": 7.0, "load_s": 8.0, "fire_s": 8.0, "arrive_s": 12.0, "rule_interval_s": 1}
XML = XmlRenderer(DATA)


class TelemetryBench(GateBench):
    """Gate telemetry: what is not looked at is taken from the healthy run."""

    gate, looks = TELEMETRY, ("metrics", "alert", "autoscaling")
    # Whose nvidia-smi gate nodes has read; nobody's if not stated.
    seen: ClusterModel | None = None

    def site(self, **settings: Any) -> Site:
        stated = {TELEMETRY: {**SETTINGS, **settings}, "pod-autoscaling": {"metric_s": 20.0}}
        return make_site(
            self.kept.hosts(), name="rehearsal", capabilities=("kubernetes", "multi_node"), settings=stated
        )

    def recipe_of(self, look: str) -> dict[str, Any] | None:
        """Only autoscaling is of a component."""
        return self.kept.recipe if look == "autoscaling" else None

    def prepare(self, run_dir: Path) -> None:
        """Evidence is of the run that it names: what is looked at anew is of the healthy one as well."""
        run_dir.mkdir()
        healthy = self.kept.first.run_dir
        for name in (RUN, CLUSTER):
            shutil.copy(healthy / name, run_dir)
        for kept in ("observations", "evidence"):
            shutil.copytree(healthy / kept / TELEMETRY, run_dir / kept / TELEMETRY)
        if self.seen is not None:
            _leave_evidence(self.seen, run_dir)

    def shown(self, fault: str, looks: Sequence[str]) -> tuple[Outcome, ...]:
        """Apply the fault, look with these observers until it shows, and judge from what was saved; then take it back.

        The operators apply the model first; then Prometheus has to scrape, and what was fresh before has to get old.
        """
        spec = self.with_faults(fault)
        self.seen = build_model(spec, HARDWARE)
        try:
            with self.modelled(spec):
                return self._seen_twice(looks)
        finally:
            self.seen = None
            eventually(
                lambda: all(o.status is Status.PASSED for o in self.observed(("metrics",))), what="all pass again"
            )

    def _seen_twice(self, looks: Sequence[str]) -> tuple[Outcome, ...]:
        """One look may fall into the reload of a configuration."""
        deadline = time.monotonic() + 90
        shown: set[tuple[str, str]] = set()
        while True:
            outcomes = self.observed(looks)
            earlier, shown = shown, {(o.check, o.cause) for o in outcomes if o.status is not Status.PASSED}
            if time.monotonic() > deadline or (shown and shown == earlier):
                return outcomes


def _leave_evidence(model: ClusterModel, run_dir: Path) -> None:
    """What gate nodes would have left: nvidia-smi of every host."""
    for node in model.nodes:
        text = XML.render(node, printed_facts(node.accelerator, DATA), "Thu Jan  1 00:00:00 2026")
        tools = {"nvidia_smi_xml": ToolRun(argv=("nvidia-smi", "-q", "-x"), rc=0, stdout=text)}
        write_evidence(run_dir, HostEvidence(host=node.name, reached=True, tools=tools))


@pytest.fixture(scope="module")
def telemetry(site: SharedSite) -> TelemetryBench:
    return TelemetryBench(site)


@pytest.fixture(scope="module")
def inference(site: SharedSite) -> InferenceBench:
    return InferenceBench(site)


def test_healthy_telemetry(site: SharedSite) -> None:
    assert site.passed(TELEMETRY)["key_figure"] == f"{8 * COUNT} GPUs seen by Prometheus"
    log = (site.first.run_dir / "evidence" / TELEMETRY / "alert-receiver.log").read_text()
    assert any(json.loads(line).get("alerts") for line in log.splitlines())


def test_healthy_servers(site: SharedSite) -> None:
    assert "tokens/s per GPU, TTFT" in site.passed(INFERENCE)["key_figure"]
    wanted = {f"load-{n}-1{leg}.json" for n in range(1, COUNT + 1) for leg in ("", "-uncached", "-light")}
    assert {name for name in site.evidence(INFERENCE) if name.endswith(".json")} == wanted


def _subject(fault: str, draw: random.Random) -> str:
    node = f"gpu{draw.randint(1, COUNT):02d}"
    parts = {"node": node, "gpu": f"{node}/gpu{draw.randrange(8)}"}
    return parts.get(CATALOGUE[fault].kind, "rehearsal")


@pytest.mark.drawn(2)
@pytest.mark.parametrize("fault", faults_of(TELEMETRY))
def test_faults_of_telemetry(telemetry: TelemetryBench, fault: str) -> None:
    subject, expected = _subject(fault, drawing(fault)), CATALOGUE[fault].expect
    looks = ("metrics", "alert") if expected.cause == "prometheus-unreachable" else ("metrics",)
    looks = {"alert-delivery": ("alert",), "pod-autoscaling": ("autoscaling",)}.get(expected.check, looks)
    found = not_passed(telemetry.shown(f"{fault}@{subject}", looks))
    assert [(o.check, o.cause, o.status.value) for o in found] == [(expected.check, expected.cause, expected.status)], (
        subject,
        [o.summary for o in found],
    )
    assert subject in [entry.name for entry in found[0].subjects]


def test_gpus_are_expected_as_nvidia_smi_lists_them(telemetry: TelemetryBench) -> None:
    telemetry.seen = build_model(read_spec(telemetry.kept.model), HARDWARE)
    outcomes = telemetry.observed(("metrics",))
    telemetry.seen = None
    assert [o.summary for o in outcomes if o.status is not Status.PASSED] == []
    assert any("nvidia-smi on the host" in o.summary for o in outcomes)


def test_a_rule_is_made_as_the_operator_selects_it(telemetry: TelemetryBench) -> None:
    """With a selector by labels, and one that only looks at Prometheus' own namespace."""
    with telemetry.kept.cluster() as cluster:
        (prometheus,) = cluster.list_objects(PROMETHEUSES)
        name, namespace = prometheus["metadata"]["name"], prometheus["metadata"]["namespace"]
        patch = partial(cluster.patch, PROMETHEUSES, name, namespace=namespace)
        before = {key: prometheus["spec"][key] for key in ("ruleSelector", "ruleNamespaceSelector")}
        patch(body={"spec": {"ruleSelector": {"matchLabels": {"team": "gpu"}}, "ruleNamespaceSelector": None}})
        try:
            outcomes = telemetry.observed(("alert",))
            assert [o.summary for o in outcomes if o.status is not Status.PASSED] == []
            assert cluster.list_objects(PROMETHEUS_RULES, labels="gpufleet.io/purpose=test") == []
            patch(body={"spec": {"ruleSelector": None}})
            (lost,) = (o for o in telemetry.observed(("alert",)) if o.status is not Status.PASSED)
            assert (lost.check, lost.status, lost.cause) == ("alert-delivery", Status.OTHER, "no-way-for-alerts")
        finally:
            patch(body={"spec": before})


def test_a_receiver_that_crashes_is_told_with_its_last_words(telemetry: TelemetryBench) -> None:
    """It happened: the BMC of a host had been given its port."""
    directory = rehearsal_below(telemetry.kept.work)
    port = json.loads((directory / "telemetry" / PORTS_FILE).read_text())["alert-receiver"]
    began = time.monotonic()
    with socket.create_server(("127.0.0.1", port)):
        (lost,) = (o for o in telemetry.observed(("alert",)) if o.check == "alert-delivery")
    assert (lost.status, lost.cause) == (Status.OTHER, "alert-test-failed")
    assert "container receiver was started" in lost.summary and "Address already in use" in lost.summary
    assert "last lines" in lost.hint and time.monotonic() - began < 90
    assert "Address already in use" in (directory / "logs" / "controllers.log").read_text()


def test_forwarding_a_port_says_what_is_wrong(site: SharedSite) -> None:
    with site.cluster() as cluster:
        (pod,) = cluster.list_objects(PODS, labels="app.kubernetes.io/name=prometheus")
        place = (pod["metadata"]["name"], pod["metadata"]["namespace"])
        connection = connect_to_pod(cluster, *place, 9091, Deadline.after(5))
        with pytest.raises(UnreachableError, match="9091"):
            connection.receive()
        connection.end()
        with pytest.raises(NotFoundError):
            connect_to_pod(cluster, "nobody", place[1], 9090, Deadline.after(5))


@pytest.mark.drawn(2)
@pytest.mark.parametrize("fault", faults_of(INFERENCE))
def test_faults_of_inference(inference: InferenceBench, fault: str) -> None:
    node = f"gpu{drawing(fault).randint(1, COUNT):02d}"
    settings = {"aiperf-hangs": {"timeout_s": 8.0}, "model-hub-refuses": {"ready_s": 15.0}}.get(fault, {})
    outcomes = inference.judged(f"{fault}@{node}", **settings)
    expected = CATALOGUE[fault].expect
    wanted = [(expected.check, expected.cause, expected.status, node)] if expected.cause else []
    assert inference_findings(outcomes) == wanted
    assert all(o.status is Status.PASSED for o in outcomes if o.subjects[0].name != node)


@pytest.mark.drawn(3, of="ways of a server")
def test_a_hub_that_refuses_every_host_first_is_waited_for(inference: InferenceBench) -> None:
    assert inference_findings(inference.patched({"hub_refusals": 2}, "gpu01", downloads=1)) == []
    everywhere = [f"gpu{n:02d}" for n in range(1, COUNT + 1)]
    assert inference_findings(inference.patched({"hub_refusals": 2}, *everywhere)) == []


@pytest.mark.drawn(3, of="ways of a server")
def test_the_weights_are_fetched_once_where_they_are_shared(inference: InferenceBench) -> None:
    assert inference_findings(inference.judged(stage=True, volume={"hostPath": {"path": "/models"}})) == []


@pytest.mark.drawn(3, of="ways of a server")
def test_out_of_memory_says_which_flag(inference: InferenceBench) -> None:
    outcomes = inference.judged("vllm-out-of-memory@gpu02")
    found = next(o for o in outcomes if o.status is Status.FAILED)
    assert "max_model_len" in found.hint
    assert (inference.own / found.evidence[0].path).read_text().count("KV cache") >= 1


@pytest.mark.drawn(3, of="ways of a server")
def test_cold_first_requests_are_hidden_by_the_warm_up_alone(inference: InferenceBench) -> None:
    # A load so small that the first request of each copy is more than one in a hundred.
    small = {
        "concurrency_per_gpu": 8,
        "least_requests": 100,
        "slo": {"throughput_per_gpu": 100.0, "ttft_ms": 2000.0, "tpot_ms": 50.0},
    }
    assert inference_findings(inference.patched({"cold_ms": 3000.0}, "gpu03", **small)) == []
    outcomes = inference.patched({"cold_ms": 3000.0}, "gpu03", warmup_per_concurrency=0.0, **small)
    assert ("inference-ttft", "ttft-high", "failed", "gpu03") in inference_findings(outcomes)


@pytest.mark.drawn(3, of="ways of a server")
def test_throughput_below_the_slo(inference: InferenceBench) -> None:
    outcomes = inference.patched({"rate": 0.5}, "gpu01")
    assert ("inference-throughput", "throughput-low", "failed", "gpu01") in inference_findings(outcomes)
    low = next(o for o in outcomes if o.cause == "throughput-low")
    assert "6250 (Qwen/Qwen3-8B on h100) x (1 - 0.1) = 5625" in low.expected[0].arithmetic


@pytest.mark.drawn(3, of="ways of a server")
def test_the_schedulers_words(inference: InferenceBench) -> None:
    outcomes = inference.judged(resources={"memory": "900Ti"}, schedule_s=5.0)
    ready = [o for o in outcomes if o.check == "inference-endpoint-ready"]
    assert {o.cause for o in ready} == {"launch-unschedulable"}
    assert all("Insufficient memory" in o.summary for o in ready)


@pytest.mark.drawn(3, of="ways of a server")
def test_an_address_where_nobody_answers(inference: InferenceBench) -> None:
    outcomes = inference.judged(reach="url", url="http://127.0.0.1:9/{node}")
    ready = [o for o in outcomes if o.check == "inference-endpoint-ready"]
    assert {o.cause for o in ready} == {"endpoint-unreachable"}


@pytest.mark.drawn(3, of="ways of a server")
def test_hosts_one_after_the_other(inference: InferenceBench) -> None:
    assert inference_findings(inference.judged(parallel=3)) == []


@pytest.mark.drawn(1, of="a right that a gate lacks")
@pytest.mark.parametrize("gate", [TELEMETRY, INFERENCE])
def test_a_right_that_is_missing_is_named_and_leaves_nothing(
    telemetry: TelemetryBench, inference: InferenceBench, gate: str
) -> None:
    {TELEMETRY: telemetry, INFERENCE: inference}[gate].assert_missing_rights_are_named()


def test_nothing_is_left_in_the_cluster(site: SharedSite) -> None:
    site.assert_nothing_left()
    with site.cluster() as cluster:
        for kind in (PROMETHEUS_RULES, ALERTMANAGER_CONFIGS):
            assert cluster.list_objects(kind, labels="gpufleet.io/purpose=test") == []
    assert list((rehearsal_below(site.work) / "serving").glob("gpufleet-test-*")) == []
