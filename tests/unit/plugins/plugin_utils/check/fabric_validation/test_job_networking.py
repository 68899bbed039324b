# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Ranks of one Job: the pods that are submitted, what their program really does, who is to blame for what it saw."""

from __future__ import annotations

import importlib.util
import json
import threading
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, date, datetime
from pathlib import Path
from types import ModuleType
from typing import Any, cast

import pytest
from sites import make_site

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.benchmark.plan import Placement
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.fabric_validation.job_networking import judge
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.fabric_validation.observe_ranks import (
    PROGRAM,
    RanksBenchmark,
    further_networks,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.fabric_validation.rank_model import (
    CHECK_ID,
    NetworkingSettings,
    Plan,
    RankHost,
    Record,
    Results,
    Run,
    read_run,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.spec import JudgeContext, ObserveContext
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.hardware.sku import Sku
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.errors import InputError
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.model import Outcome, Status
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.probe.rank_log import parse
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.site.model import Host, Site
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.workload.job import JobResult, JobSpec, PodResult
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.workload.manifests import access_objects, job_objects
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.workload.namespace import TemporaryNamespace
from ansible_collections.gpufleet.rehearsal.plugins.plugin_utils.control_plane.ports import free_ports
from ansible_collections.gpufleet.rehearsal.plugins.plugin_utils.model.patch import build_model
from ansible_collections.gpufleet.rehearsal.plugins.plugin_utils.model.spec import ModelSpec, numbered_nodes
from ansible_collections.gpufleet.rehearsal.plugins.plugin_utils.workloads.pod_simulator import (
    PodGroup,
    SimContext,
)
from ansible_collections.gpufleet.rehearsal.plugins.plugin_utils.workloads.registry import simulator_for

SKU = "dgx-h100"
RAILS = {"k8s.v1.cni.cncf.io/networks": ",".join(f"rail-{rail}" for rail in range(8))}
ASKS = {"rdma/rdma_shared_device_a": "1"}
Json = dict[str, Any]


class Bench:
    """A fleet whose ranks run in the simulator: Job as it is submitted, its pods, their lines, the verdict."""

    def __init__(self, count: int, hardware: Mapping[str, Sku], run_dir: Path, **stated: Any) -> None:
        self.hardware = hardware
        self.nodes = numbered_nodes(count, SKU)
        hosts = tuple(Host(name=n.name, sku=SKU, node_name=n.name, rack=n.rack) for n in self.nodes)
        settings = {"fabric_validation": {"annotations": RAILS, **stated}}
        self.site: Site = make_site(hosts, capabilities=("kubernetes", "multi_node"), settings=settings)
        context = ObserveContext(site=self.site, run_dir=run_dir, today=date(2026, 1, 1), hardware=hardware)
        self.benchmark = RanksBenchmark(context, context.settings_of(CHECK_ID, NetworkingSettings))
        self.asks: dict[str, dict[str, str]] = {node.name: dict(ASKS) for node in self.nodes}

    def plan(self) -> Plan:
        placed = [
            Placement(name=n.name, node=n.name, sku=SKU, closed="", by_dra=False, asks=self.asks[n.name], imex=False)
            for n in self.nodes
        ]
        hosts = tuple(RankHost(**place, devices=("mlx5_0", "mlx5_3")) for place in placed)
        return Plan(hosts=hosts, settings=self.benchmark.settings, resource=next(iter(ASKS)), networks=8)

    def job(self) -> JobSpec:
        self.benchmark.plan = self.plan()
        (want,) = self.benchmark.next_runs()
        return self.benchmark.job(want)

    def pods(self, spec: JobSpec) -> list[Json]:
        """The pods that the Job controller makes: a hostname for each index (Job with Pod-to-Pod Communication)."""
        *_others, job = job_objects(spec, namespace())
        template = job["spec"]["template"]
        return [
            {
                "metadata": {**template["metadata"], "name": f"{spec.name}-{index}-x", "namespace": "ns"},
                "spec": {**template["spec"], "hostname": f"{spec.name}-{index}", "nodeName": node},
                "status": {"phase": "Running"},
            }
            for index, node in enumerate(spec.nodes)
        ]

    def judged(self, **broken: Mapping[str, Any]) -> dict[str, Outcome]:
        """Return the outcome of each host, where `broken` says what is wrong with the nodes of these names."""
        spec = self.job()
        model = build_model(ModelSpec(name="t", seed=3, nodes=self.nodes), self.hardware)
        changed = tuple(
            replace(node, kubernetes=replace(node.kubernetes, **broken.get(node.name, {}))) for node in model.nodes
        )
        pods = self.pods(spec)
        simulator = simulator_for(pods[0])
        assert simulator is not None and simulator.name == "ranks"
        context = SimContext(model=replace(model, nodes=changed), skus=self.hardware, now=datetime.now(UTC))
        outputs = simulator.simulate(PodGroup(name=spec.name, pods=tuple(pods)), context)
        assert outputs is not None
        texts = ["\n".join(text for _s, text in outputs[pod["metadata"]["name"]].lines) for pod in pods]
        return self.verdict(spec, texts)

    def verdict(self, spec: JobSpec, texts: list[str], state: Any = "succeeded") -> dict[str, Outcome]:
        pods = tuple(
            PodResult(name=f"p{n}", node=node, hostname=f"p{n}", exit_code=0, log=text, index=n)
            for n, (node, text) in enumerate(zip(spec.nodes, texts, strict=True))
        )
        result = JobResult(name=spec.name, state=state, reason="", pods=pods, started="", duration_s=1.0)
        run = self.benchmark.read((SKU, 1), spec, result)
        return self.of(run)

    def of(self, *runs: Run) -> dict[str, Outcome]:
        results = Results(plan=self.benchmark.plan, runs=runs)
        context = JudgeContext(
            gate="fabric_validation", site=self.site, today=date(2026, 1, 1), hardware=dict(self.hardware)
        )
        return {s.name: outcome for outcome in judge(results, context) for s in outcome.subjects}


def namespace() -> TemporaryNamespace:
    return TemporaryNamespace(cast(Any, None), "ns", 60.0, ())


@pytest.fixture
def bench(hardware: dict[str, Sku], tmp_path: Path) -> Bench:
    return Bench(4, hardware, tmp_path)


def failed(found: Mapping[str, Outcome]) -> dict[str, str]:
    return {host: outcome.cause for host, outcome in found.items() if outcome.status is not Status.PASSED}


def test_the_job_that_is_submitted_has_names_adapters_and_networks_and_no_gpu(bench: Bench) -> None:
    spec = bench.job()
    files, job = job_objects(spec, namespace())
    template = job["spec"]["template"]
    (container,) = template["spec"]["containers"]
    service = next(obj for obj in access_objects(namespace()) if obj["kind"] == "Service")
    assert service["spec"]["clusterIP"] == "None" and service["spec"]["publishNotReadyAddresses"]
    assert service["metadata"]["name"] == template["spec"]["subdomain"]
    assert service["spec"]["selector"].items() <= template["metadata"]["labels"].items()
    assert f"--name={spec.name}-{{}}.{service['metadata']['name']}" in container["command"]
    assert (job["spec"]["completionMode"], job["spec"]["completions"]) == ("Indexed", 4)
    assert container["resources"]["limits"] == {"rdma/rdma_shared_device_a": "1"}
    assert template["metadata"]["annotations"].items() >= RAILS.items()
    assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]} and "hostNetwork" not in template["spec"]
    assert files["data"] == {PROGRAM.name: PROGRAM.read_text(encoding="utf-8")}


def test_the_network_of_the_host_is_looked_at_by_its_adapters(hardware: dict[str, Sku], tmp_path: Path) -> None:
    spec = Bench(2, hardware, tmp_path, host_network=True).job()
    *_files, job = job_objects(spec, namespace())
    assert job["spec"]["template"]["spec"]["hostNetwork"] is True
    assert job["spec"]["template"]["spec"]["dnsPolicy"] == "ClusterFirstWithHostNet"
    assert "--devices=mlx5_0,mlx5_3" in job["spec"]["template"]["spec"]["containers"][0]["command"]


def test_a_healthy_fleet_passes_and_says_what_was_reached(bench: Bench) -> None:
    found = bench.judged()
    assert failed(found) == {} and len(found) == 4
    assert "3 of 3 ranks by name, and on 8 further networks" in found["gpu01"].summary


@pytest.mark.parametrize(
    ("broken", "cause", "says"),
    [
        ({"cut_networks": ("dns",)}, "rank-name-unresolved", "Name or service not known"),
        ({"cut_networks": ("eth0",)}, "pod-network-unreachable", "timed out"),
        ({"cut_networks": ("net3",)}, "further-network-unreachable", "network net3"),
    ],
)
def test_each_fault_is_found_at_its_host_alone(bench: Bench, broken: Json, cause: str, says: str) -> None:
    found = bench.judged(gpu03=broken)
    assert failed(found) == {"gpu03": cause}
    assert says in found["gpu03"].summary and found["gpu03"].hint


def test_two_cut_hosts_are_two_and_no_third(bench: Bench) -> None:
    cut = {"cut_networks": ("net1",)}
    assert failed(bench.judged(gpu01=cut, gpu04=cut)) == dict.fromkeys(
        ("gpu01", "gpu04"), "further-network-unreachable"
    )


def test_where_nobody_reaches_anybody_it_is_told_once_of_all(bench: Bench) -> None:
    cut = {"cut_networks": ("eth0",)}
    found = bench.judged(**{node.name: cut for node in bench.nodes})
    assert failed(found) == dict.fromkeys((n.name for n in bench.nodes), "pod-network-unreachable")
    assert len({id(outcome) for outcome in found.values()}) == 1


def test_of_two_hosts_that_do_not_reach_each_other_neither_passes(hardware: dict[str, Sku], tmp_path: Path) -> None:
    found = Bench(2, hardware, tmp_path).judged(gpu02={"cut_networks": ("eth0",)})
    assert set(failed(found)) == {"gpu01", "gpu02"}


def test_a_host_that_offers_no_adapters_is_told_of_by_nccl_transport_and_does_not_spoil_the_others(
    bench: Bench,
) -> None:
    bench.asks["gpu02"] = {}
    found = bench.judged()
    assert found["gpu02"].blocked_by == ("nccl-transport",) or "nccl-transport" in str(found["gpu02"].blocked_by)
    assert set(failed(found)) == {"gpu02"}


def lines(index: int, ranks: int = 2, **rank: Any) -> str:
    peer = (index + 1) % ranks
    begun = {"networks": {f"net{n}": f"10.{n}.0.{index}" for n in range(1, 9)}, "devices": ["uverbs0"], **rank}
    pair = {"peer": peer, "named": "ok", "reached": "ok", "networks": dict.fromkeys(begun["networks"], "ok")}
    events = [{"event": "rank", "ranks": ranks, **begun}, {"event": "pair", **pair}, {"event": "end"}]
    return "\n".join(
        json.dumps({"schema_version": 1, "index": index, **event}, separators=(",", ":")) for event in events
    )


@pytest.fixture
def two(hardware: dict[str, Sku], tmp_path: Path) -> Bench:
    return Bench(2, hardware, tmp_path)


def test_missing_devices_and_networks_are_found(two: Bench) -> None:
    spec = two.job()
    assert failed(two.verdict(spec, [lines(0), lines(1)])) == {}
    assert failed(two.verdict(spec, [lines(0), lines(1, devices=[])])) == {"gpu02": "adapter-devices-missing"}
    short = {f"net{n}": "" if n == 5 else f"10.{n}.0.1" for n in range(1, 9)}
    found = two.verdict(spec, [lines(0), lines(1, networks=short)])
    assert failed(found) == {"gpu02": "further-network-missing"} and "net5" in found["gpu02"].summary
    none = two.verdict(spec, [lines(0, networks={}), lines(1, networks={})])
    assert failed(none) == dict.fromkeys(("gpu01", "gpu02"), "further-network-missing")


def test_where_only_adapters_without_an_address_are_there_the_pass_says_what_it_does_not_prove(two: Bench) -> None:
    spec = two.job()
    two.benchmark.plan = replace(two.plan(), networks=0)
    found = two.verdict(spec, [lines(0, networks={}), lines(1, networks={})])
    assert failed(found) == {} and "what they carry nccl-transport proves" in found["gpu01"].summary


@pytest.mark.parametrize("spoiled", ["cut", "other release", "no end", "nothing", "another size"])
def test_what_is_not_whole_is_no_pass(two: Bench, spoiled: str) -> None:
    good = lines(1)
    text = {
        "cut": good[:-30],
        "other release": good.replace('"schema_version":1', '"schema_version":9'),
        "no end": good.rpartition("\n")[0],
        "nothing": "Killed",
        "another size": lines(1, ranks=3),
    }[spoiled]
    found = two.verdict(two.job(), [lines(0), text])
    assert found["gpu02"].status is Status.OTHER
    # What the other one saw is whole by itself, unless the log is of another test.
    assert (found["gpu01"].status is Status.PASSED) == (spoiled in ("cut", "no end", "nothing"))


def test_who_had_nobody_to_reach_on_a_network_does_not_pass(two: Bench) -> None:
    spec = two.job()
    unreached = lines(0).replace('"net4":"ok"', '"net4":"timed out"')
    found = two.verdict(spec, [unreached, "Killed"])
    assert failed(found) == {"gpu01": "further-network-unreachable", "gpu02": "no-output"}
    alone = two.verdict(spec, [lines(0), lines(1, networks={"net1": "10.1.0.1"})])
    assert failed(alone)["gpu02"] == "further-network-missing" and failed(alone)["gpu01"] == "no-partner"


def test_who_is_left_alone_follows_what_keeps_the_other_host_out(two: Bench) -> None:
    two.asks["gpu02"] = {}
    two.benchmark.plan = two.plan()
    assert {name: o.blocked_by for name, o in two.of().items()} == dict.fromkeys(("gpu01", "gpu02"), "nccl-transport")
    first, second = two.plan().hosts
    two.benchmark.plan = replace(
        two.plan(), hosts=(replace(first, asks=ASKS), replace(second, closed="dead", asks=ASKS))
    )
    assert {name: o.blocked_by for name, o in two.of().items()} == dict.fromkeys(("gpu01", "gpu02"), "nccl-results")


def test_a_job_that_never_ran_is_other_with_its_reason(two: Bench) -> None:
    two.job()
    record = Record(
        attempt=1, state="image", reason="gpu02: ErrImagePull", name="ranks-1-1", sku=SKU, hosts=("gpu01", "gpu02")
    )
    found = two.of(read_run(record, "", two.benchmark.settings))
    assert {outcome.cause for outcome in found.values()} == {"launch-image"}
    assert all(outcome.status is Status.OTHER for outcome in found.values())
    assert {outcome.cause for outcome in two.of().values()} == {"no-run"}


def test_networks_are_counted_from_the_annotations_of_multus_and_gke() -> None:
    assert further_networks(RAILS) == 8
    assert further_networks({"k8s.v1.cni.cncf.io/networks": '[{"name": "a"}, {"name": "b", "interface": "x"}]'}) == 2
    gke = json.dumps([{"interfaceName": f"eth{n}", "network": "n"} for n in range(9)])
    assert further_networks({"networking.gke.io/interfaces": gke}) == 8
    assert further_networks({}) == 0
    with pytest.raises(InputError, match="is no list"):
        further_networks({"networking.gke.io/interfaces": "eth0"})


@pytest.fixture(scope="module")
def program() -> ModuleType:
    spec = importlib.util.spec_from_file_location("gpufleet_ranks", PROGRAM)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def really(
    program: ModuleType,
    there: Mapping[int, int],
    rail: Mapping[int, str],
    monkeypatch: pytest.MonkeyPatch,
) -> Mapping[int, Any]:
    """Run ranks in threads, each at an address of its own (127.9.0.x), as if that were a pod; return what they saw.

    `there` is by rank who is at its address, `rail` its address on a further network.
    """
    port = free_ports(("ranks",))["ranks"]
    said: list[str] = []
    lock = threading.Lock()

    def say(event: str, **words: Any) -> None:
        with lock:
            said.append(json.dumps({"schema_version": 1, "event": event, **words}, separators=(",", ":")))

    monkeypatch.setattr(program, "say", say)
    options = program.options_of(
        [f"--ranks={len(rail)}", "--name=127.9.0.{}", f"--port={port}", "--peers=16", "--meet-s=1", "--wait-s=3"]
    )
    ranks = {n: program.Rank(n, options, {"net1": rail[n]} if rail[n] else {}, listen=f"127.9.0.{at}")
             for n, at in there.items()}  # fmt: skip
    for number, rank in ranks.items():
        rank.serve()
        if rail[number]:
            twin = program.Rank(number, options, rank.own, listen=rail[number])
            twin.serve()

    def whole(rank: Any) -> None:
        say("rank", index=rank.index, ranks=options.ranks, networks=rank.own, devices=[])
        rank.try_all()
        say("end", index=rank.index)
        rank.part()

    threads = [threading.Thread(target=whole, args=(rank,)) for rank in ranks.values()]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    return parse("\n".join(said))


def test_the_program_itself_reaches_the_others_on_both_networks(
    program: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = really(program, {0: 0, 1: 1, 2: 2}, {n: f"127.10.0.{n}" for n in range(3)}, monkeypatch)
    assert set(seen) == {0, 1, 2}
    for rank in seen.values():
        assert {pair.peer for pair in rank.pairs} == {0, 1, 2} - {rank.index}
        assert all((p.named, p.reached, dict(p.networks)) == ("ok", "ok", {"net1": "ok"}) for p in rank.pairs)


def test_the_program_tells_a_silent_rank_a_wrong_one_and_one_without_the_network(
    program: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    rail = {0: "127.10.1.0", 1: "127.10.1.1", 2: "", 3: "127.10.1.3"}
    # Rank 3 is at the address of rank 2, so nobody is at its own, and whoever looks for rank 2 gets rank 3.
    seen = really(program, {0: 0, 1: 1, 3: 2}, rail, monkeypatch)
    of = {pair.peer: pair for pair in seen[0].pairs}
    assert of[1].reached == "ok" and of[1].networks == {"net1": "ok"}
    assert of[2].reached == "rank 3 answers in its place" and of[2].networks == {}
    assert of[3].named == "ok" and "refused" in of[3].reached.lower()


def test_the_program_asks_all_of_few_and_powers_of_two_of_many(program: ModuleType) -> None:
    assert program.distances(4, 16) == [1, 2, 3]
    assert program.distances(1000, 16) == [1, 2, 4, 8, 16, 32, 64, 128, 256, 512]
    assert program.distances(2, 1) == [1]
    table = "fd00000000000000000000000000000a 02 40 00 80 net1\nfe800000000000000000000000000001 02 40 20 80 net1\n"
    assert program.ipv6_addresses(table) == {"net1": "fd00::a"}
