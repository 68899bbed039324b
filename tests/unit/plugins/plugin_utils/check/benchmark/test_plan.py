# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Plans, launch problems, network of pods and permissions: what all benchmark gates share."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import date
from pathlib import Path
from typing import Any, cast, get_args

import pytest
from sites import make_site

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.benchmark.network import (
    Network,
    NetworkSettings,
    adapter_resource,
    connected_placement,
    gang_permissions,
    pod_network,
    port_filter,
    read_network,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.benchmark.plan import (
    BenchmarkHost,
    device_class,
    placement,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.benchmark.problem import (
    Problem,
    hint_for,
    launch_problem,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.benchmark.records import EvidenceFolder, kept_text
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.spec import ObserveContext
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.collect.host_facts import HostAdapters
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.hardware.sku import Sku, load_hardware
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.site.adapters import ComputeAdapters
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.site.model import Host
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.workload.capacity import NodeCapacity, imex_nodes
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.workload.job import JobKind, JobState, PodNeeds

HOST = Host(name="gpu01", sku="dgx-h100", node_name="node-1")
SETTINGS = NetworkSettings(
    hcas=(), rdma_resource="", rdma_count=8, rdma_prefixes=("rdma/",), annotations={"net": "ib"}, env={}
)
# States that say something about the run itself: each gate has its own problem for them.
OF_THE_RUN = {"succeeded", "failed", "timeout"}


@pytest.fixture(scope="module")
def dgx(repository: Path) -> Sku:
    return load_hardware([repository / "recipes/hardware"])["dgx-h100"]


@pytest.mark.parametrize(
    ("used", "closed", "least", "why"),
    [
        (0, "", 0, ""),
        (1, "", 0, "7 of 8 GPUs are free on node-1, 8 are needed"),
        (1, "", 4, ""),
        (5, "", 4, "3 of 8 GPUs are free on node-1, 4 are needed"),
        (0, "", 16, "8 of 8 GPUs are free on node-1, 16 are needed"),
        (0, "cordoned", 0, "cordoned"),
    ],
)
def test_a_host_is_closed_where_its_pods_do_not_fit(dgx: Sku, used: int, closed: str, least: int, why: str) -> None:
    capacity = NodeCapacity(name="node-1", total=8, used=used, closed=closed)
    assert placement(HOST, dgx, capacity, least) == {
        "name": "gpu01", "node": "node-1", "sku": "dgx-h100", "closed": why, "by_dra": False, "asks": {}, "imex": False,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("total", "parts", "offered"),
    [
        (0, {"nvidia.com/gpu.shared": 80}, "nvidia.com/gpu.shared: 80"),
        (0, {"nvidia.com/mig-1g.10gb": 56}, "nvidia.com/mig-1g.10gb: 56"),
        (4, {"nvidia.com/mig-1g.10gb": 28}, "nvidia.com/mig-1g.10gb: 28"),
        # Time-slicing without a name of its own: eight of these may be one GPU eight times.
        (80, {}, "nvidia.com/gpu: 80"),
    ],
)
def test_gpus_in_parts_are_no_place_for_a_benchmark(dgx: Sku, total: int, parts: dict[str, int], offered: str) -> None:
    capacity = NodeCapacity(name="node-1", total=total, used=0, parts=parts)
    why = f"node-1 gives out its 8 GPUs in parts ({offered}), and the gate needs whole ones"
    assert placement(HOST, dgx, capacity)["closed"] == why


def test_whole_gpus_are_there_beside_slices_that_a_claim_could_make(dgx: Sku) -> None:
    """The DRA driver may list each GPU and the slices that it could be cut into."""
    capacity = NodeCapacity(name="node-1", total=64, used=0, by_dra=True)
    assert placement(HOST, dgx, capacity)["closed"] == ""


def test_devices_are_asked_of_dra_where_the_plugin_has_none() -> None:
    host = BenchmarkHost(name="a", node="a", sku="x")
    assert device_class(host) == ""
    assert device_class(host, replace(host, by_dra=True)) == "gpu.nvidia.com"


def test_every_state_of_a_job_is_a_launch_problem_or_one_of_the_run() -> None:
    for state in get_args(JobState):
        found = launch_problem(state, "why")
        assert (found is None) is (state in OF_THE_RUN), state
        if found is not None:
            cause, text = found
            assert (cause, text.endswith(": why")) == (f"launch-{state}", True)
            assert hint_for(cause, {}) != hint_for("anything-else", {})
    assert hint_for("run-hung", {"run-hung": "own"}) == "own"
    transient = {state for state in get_args(JobState) if Problem(f"launch-{state}", "").transient}
    assert transient == {"unschedulable", "preempted"}


def planned(name: str, **asks: str) -> BenchmarkHost:
    return BenchmarkHost(
        name=name, node=name, sku="dgx-h100", asks={f"rdma/{key}": amount for key, amount in asks.items()}
    )


def test_one_host_needs_no_network_unless_its_adapters_are_measured() -> None:
    alone = pod_network([planned("a", hca="8")], SETTINGS, gang="volcano", fabric="infiniband")
    assert (alone["gang"], alone["limits"], alone["annotations"]) == ("none", {}, {})
    looped = pod_network(
        [planned("a", hca="8")], SETTINGS, gang="volcano", fabric="infiniband", alone_with_adapters=True
    )
    assert (looped["gang"], looped["limits"]) == ("none", {"rdma/hca": "8"})


def test_all_pods_of_a_run_ask_for_what_every_host_offers() -> None:
    found = pod_network([planned("a", hca="16"), planned("b", hca="15")], SETTINGS, gang="volcano", fabric="infiniband")
    assert (found["gang"], found["limits"], found["annotations"]) == ("volcano", {"rdma/hca": "15"}, {"net": "ib"})


def test_what_a_fabric_needs_beside_adapters_comes_with_runs_between_hosts() -> None:
    needs = PodNeeds(annotations={"net": "vpc1", "devices": "all"}, env={"A": "1"}, host_paths={"lib": "/lib"})
    settings = replace(SETTINGS, pods={"tcpxo": needs})
    both = [planned("a", hca="8"), planned("b", hca="8")]
    found = pod_network(both, settings, gang="none", fabric="tcpxo")
    # What the site states wins: its networks may have other names.
    assert (found["annotations"], found["needs"]) == ({"net": "ib", "devices": "all"}, needs)
    assert pod_network(both, settings, gang="none", fabric="infiniband")["needs"] == PodNeeds()
    assert pod_network(both[:1], settings, gang="none", fabric="tcpxo")["needs"] == PodNeeds()


GKE = {f"networking.gke.io.networks/rdma-{n}": 1 for n in range(8)}


@pytest.mark.parametrize(
    ("sku", "offers", "expected"),
    [
        ("p5-48xlarge", {"vpc.amazonaws.com/efa": 32}, {"vpc.amazonaws.com/efa": "32"}),
        ("p5en-48xlarge", {"vpc.amazonaws.com/efa": 15}, {"vpc.amazonaws.com/efa": "15"}),
        ("nd96isr-h100-v5", {"rdma/ib": 8}, {"rdma/ib": "8"}),
        ("hgx-h100", {"rdma/ib": 1}, {"rdma/ib": "1"}),
        ("nd96isr-h100-v5", {"rdma/shared_ib": 63}, {"rdma/shared_ib": "1"}),
        ("bm-gpu-h100-8", {"nvidia.com/rdma-vf": 16}, {"nvidia.com/rdma-vf": "16"}),
        ("a3-ultragpu-8g", GKE, dict.fromkeys(GKE, "1")),
        ("hgx-h100", {}, {}),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_pods_ask_for_all_adapters_in_the_way_the_nodes_offer_them(
    repository: Path, sku: str, offers: dict[str, int], expected: dict[str, str]
) -> None:
    """As AWS, Azure, CoreWeave, OCI and Google document their resources."""
    hardware = load_hardware([repository / "recipes/hardware"])
    found = Network(
        settings=replace(SETTINGS, rdma_count=0), resource=adapter_resource({"node-1": offers}, ""),
        offers={"node-1": offers}, gang="",
    )  # fmt: skip
    assert found.asks(HOST, hardware[sku]) == expected
    stated = replace(found, settings=replace(SETTINGS, rdma_count=4))
    assert set(stated.asks(HOST, hardware[sku]).values()) <= {"4", "1"}


def test_efa_needs_huge_pages_where_nodes_have_them(repository: Path) -> None:
    sku = load_hardware([repository / "recipes/hardware"])["p5-48xlarge"]
    offers = {"node-1": {"vpc.amazonaws.com/efa": 32}}
    beside = {"vpc.amazonaws.com/efa": {"hugepages-2Mi": "5120Mi", "memory": "32000Mi"}}
    found = Network(
        settings=replace(SETTINGS, rdma_count=0, beside=beside), resource="vpc.amazonaws.com/efa", offers=offers,
        gang="", pages={"node-1": True},
    )  # fmt: skip
    assert found.asks(HOST, sku) == {"vpc.amazonaws.com/efa": "32", "hugepages-2Mi": "5120Mi", "memory": "32000Mi"}
    assert replace(found, pages={}).asks(HOST, sku) == {"vpc.amazonaws.com/efa": "32"}


def network(**stated: Any) -> Network:
    return Network(
        settings=replace(SETTINGS, **stated), resource="rdma/hca", offers={"node-1": {"rdma/hca": 8}}, gang=""
    )


def known(*names: str, open_between: tuple[str, ...] = ()) -> HostAdapters:
    found = ComputeAdapters(names=names, wanted=8, basis="topology", open_between=open_between)
    return HostAdapters(compute=found)


def test_ports_are_stated_or_resolved_and_never_guessed(dgx: Sku) -> None:
    assert network().ports(HOST, dgx) == ()
    names = [f"mlx5_{n}" for n in (0, 3, 4, 5, 6, 9, 10, 11)]
    resolved = replace(network(), adapters={"gpu01": known(*names)})
    assert resolved.ports(HOST, dgx) == tuple(f"{name}:1" for name in names)
    assert resolved.no_ports(HOST, dgx) == ""
    assert network(hcas=("mlx5_3", "mlx5_9:2")).ports(HOST, dgx) == ("mlx5_3:1", "mlx5_9:2")
    assert network().ports(replace(HOST, hcas=("own_0", "own_1")), dgx) == ("own_0:1", "own_1:1")
    assert port_filter(["mlx5_3:1", "mlx5_3:1", "mlx5_9:2"]) == {"NCCL_IB_HCA": "=mlx5_3:1,mlx5_9:2"}
    assert port_filter([]) == {}
    assert (network().offered(HOST), network().offered(replace(HOST, node_name="other"))) == (8, 0)


def test_a_host_whose_adapters_are_open_runs_nothing_between_hosts(dgx: Sku) -> None:
    capacity = NodeCapacity(name="node-1", total=8, used=0, closed="")
    open_ones = replace(network(), adapters={"gpu01": known(open_between=("mlx5_0", "mlx5_1"))})
    closed = connected_placement(open_ones, HOST, dgx, capacity)["closed"]
    assert closed.startswith("2 adapters fit (mlx5_0, mlx5_1)") and "gpufleet_hcas" in closed
    fine = replace(network(), adapters={"gpu01": known("mlx5_3")})
    assert connected_placement(fine, HOST, dgx, capacity)["closed"] == ""
    efa = replace(dgx, fabric="efa")
    assert connected_placement(network(), HOST, efa, capacity)["closed"] == "", "no filter picks those"


def test_pods_ask_for_the_resource_that_most_nodes_offer() -> None:
    offers = {"a": {"rdma/one": 1}, "b": {"rdma/two": 8}, "c": {"rdma/one": 0, "rdma/two": 8}}
    assert adapter_resource(offers, "") == "rdma/two"
    assert adapter_resource({}, "") == ""
    assert adapter_resource(offers, "rdma/own") == "rdma/own"
    assert adapter_resource(offers, "none") == ""


@dataclass
class Nodes:
    """A cluster that lists nodes."""

    offers: dict[str, dict[str, str]]

    def served_versions(self, _group: str) -> tuple[str, ...]:
        return ()

    def list_objects(self, _kind: Any) -> list[dict[str, Any]]:
        return [
            {"metadata": {"name": name}, "status": {"allocatable": amounts}} for name, amounts in self.offers.items()
        ]


def test_the_network_is_that_of_the_hosts_in_scope(tmp_path: Path) -> None:
    site = make_site((HOST,), name="here", capabilities=())
    recipe = {"deploymentOrder": ["gpu-operator", "volcano"]}
    context = ObserveContext(site=site, run_dir=tmp_path, today=date(2026, 1, 1), recipe=recipe)
    nodes = Nodes({"node-1": {"rdma/hca": "8", "cpu": "64", "rdma/half": "500m"}, "other": {"rdma/own": "1"}})
    found = read_network(cast(Any, nodes), context, SETTINGS)
    assert (found.resource, found.offered(HOST), found.gang) == ("rdma/hca", 8, "volcano")
    assert found.offers == {"node-1": {"rdma/hca": 8}}
    bare = read_network(cast(Any, Nodes({})), replace(context, recipe=None), SETTINGS)
    assert (bare.resource, bare.offered(HOST), bare.gang) == ("", 0, "native")


@pytest.mark.parametrize("kind", get_args(JobKind))
@pytest.mark.parametrize("count", [1, 2])
def test_permissions_follow_what_the_jobs_are_made_of(kind: JobKind, count: int) -> None:
    hosts = [BenchmarkHost(name=f"{n}", node=f"{n}", sku="x") for n in range(count)]
    found = {permission.text for permission in gang_permissions(kind, hosts, "volcano")}
    owner = "mpijobs.kubeflow.org" if kind == "mpijob" else "jobs.batch"
    assert {f"create {owner}", f"delete {owner}"} <= found
    assert ("create secrets" in found) is (kind in ("gang-job", "torchrun", "ranks"))
    assert ("create configmaps" in found) is (kind in ("torchrun", "ranks"))
    assert ("create podgroups.scheduling.volcano.sh" in found) is (count > 1 and kind != "mpijob")
    assert not any("resourceclaimtemplates" in text for text in found)
    by_dra = gang_permissions(kind, [replace(host, by_dra=True) for host in hosts], "volcano")
    assert "create resourceclaimtemplates.resource.k8s.io" in {permission.text for permission in by_dra}


def test_a_text_that_was_kept_is_read_again(tmp_path: Path) -> None:
    folder = EvidenceFolder(tmp_path, "fabric_validation")
    kept = folder.keep("pair-1.log", "bearer abcdefghijklmnop")
    assert kept_text(tmp_path, kept.path) == kept.text == "bearer [redacted]"
    assert kept_text(tmp_path, "") == kept_text(tmp_path, "evidence/none.log") == ""
    assert folder.keep("x.json", '{"token": "abc"}', mask=str).text == '{"token": "abc"}'


class Dra:
    """A cluster whose DRA driver offers channels on these nodes; `served`: it has ComputeDomains."""

    def __init__(self, nodes: tuple[str, ...], *, served: bool = True) -> None:
        self.nodes, self.served = nodes, served

    def served_versions(self, _group: str) -> tuple[str, ...]:
        return ("v1beta1",) if self.served else ()

    def list_objects(self, _kind: object) -> list[dict[str, Any]]:
        drivers = ("gpu.nvidia.com", "compute-domain.nvidia.com")
        return [{"spec": {"driver": driver, "nodeName": node}} for driver in drivers for node in self.nodes]


def test_channels_are_claimed_where_nodes_offer_them() -> None:
    assert imex_nodes(cast(Any, Dra(("node-1", "node-2")))) == {"node-1", "node-2"}
    assert imex_nodes(cast(Any, Dra(("node-1",), served=False))) == frozenset()


@pytest.mark.parametrize(
    ("domain", "offering", "hosts", "claimed"),
    [
        ("rack", ("node-1", "node-2"), 2, True),
        # One host of two offers none: then adapters carry everything.
        ("rack", ("node-1",), 2, False),
        # The driver offers channels on every node; a host whose NVLink ends in it has no use for them.
        ("node", ("node-1", "node-2"), 2, False),
        ("rack", ("node-1", "node-2"), 1, False),
    ],
)
def test_pods_share_gpu_memory_where_nvlink_reaches_other_hosts(
    dgx: Sku, domain: Any, offering: tuple[str, ...], hosts: int, claimed: bool
) -> None:
    sku = replace(dgx, nvlink_domain=domain)
    network = Network(settings=SETTINGS, resource="", offers={}, gang="native", imex=frozenset(offering))
    names = ("node-1", "node-2")[:hosts]
    free = {name: NodeCapacity(name=name, total=8, used=0) for name in names}
    placed = [
        BenchmarkHost(**connected_placement(network, replace(HOST, node_name=name), sku, free[name])) for name in names
    ]
    assert pod_network(placed, SETTINGS, gang="native", fabric="infiniband")["compute_domain"] is claimed
    asked = {permission.resource for permission in gang_permissions("gang-job", placed, "native")}
    assert ("computedomains" in asked) is (hosts > 1 and any(host.imex for host in placed))
