# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What NCCL does in worlds: units of adapters, networks of plugins, NVLink domains of racks, tapers, told figures."""

from __future__ import annotations

import re
from typing import Any

import pytest
from known_hardware import HARDWARE

from ansible_collections.gpufleet.rehearsal.plugins.plugin_utils.fabric.net import build_net
from ansible_collections.gpufleet.rehearsal.plugins.plugin_utils.model.patch import healthy_cluster
from ansible_collections.gpufleet.rehearsal.plugins.plugin_utils.model.spec import (
    Change,
    ModelSpec,
    PlannedNode,
    Shape,
)
from ansible_collections.gpufleet.rehearsal.plugins.plugin_utils.model.values import ClusterModel
from ansible_collections.gpufleet.rehearsal.plugins.plugin_utils.workloads.benchmark import Benchmark, RankPod
from ansible_collections.gpufleet.rehearsal.plugins.plugin_utils.workloads.nccl_run import simulate_run


def cluster(sku: str, *patches: tuple[str, str, Any], racks: tuple[str, ...] = ("r1",), **planned: Any) -> ClusterModel:
    """Two hosts of a SKU, changed at `(kind, at, value)`."""
    nodes = tuple(
        PlannedNode(name=f"gpu{n + 1:02d}", sku=sku, rack=racks[n % len(racks)], unit=n if planned.get("units") else 0)
        for n in range(2)
    )
    shapes = tuple(Shape(kind=kind, patch=(Change(at=at, set=value),)) for kind, at, value in patches)  # type: ignore[arg-type]
    return healthy_cluster(ModelSpec(name="x", seed=1, nodes=nodes, shapes=shapes), HARDWARE)


def ran(model: ClusterModel, *, adapters: int = 1, daemon: bool = True, **env: str) -> tuple[str, float]:
    """The log of all_reduce on both hosts, and its bus bandwidth at the largest size."""
    sku = HARDWARE[model.nodes[0].sku]
    places = tuple(
        RankPod(hostname=f"pair-{n}", node=node.name, gpus=sku.gpus, adapters=adapters, daemon=daemon)
        for n, node in enumerate(model.nodes)
    )
    settings = {
        "NCCL_DEBUG": "INFO",
        "NCCL_DEBUG_SUBSYS": "INIT,ENV,NET,GRAPH,TUNING,P2P",
        "NCCL_DEBUG_FILE": "/dev/stderr",
    }
    run = Benchmark(
        test="all_reduce_perf", places=places, smallest=1 << 30, largest=8 << 30, factor=2, env={**settings, **env}
    )
    lines = [line for _stream, line in simulate_run(run, model, HARDWARE, "pair-1").lines]
    rows = [line.split() for line in lines if re.match(r"\s+8589934592\s", line)]
    return "\n".join(lines), float(rows[-1][7])


@pytest.mark.parametrize(("asked", "found"), [(1, 1), (32, 32)])
def test_a_unit_of_efa_is_one_device(asked: int, found: int) -> None:
    model = cluster("p5-48xlarge", ("node", "node.kubernetes.adapter_units", "each"))
    log, _speed = ran(model, adapters=asked)
    assert f"fabric is efa-direct (found {found} nics)" in log


def test_where_one_unit_is_all_one_brings_all() -> None:
    log, _speed = ran(cluster("p5-48xlarge"), adapters=1)
    assert "(found 32 nics)" in log


@pytest.mark.parametrize(
    ("sku", "name"), [("a3-highgpu-8g", "Socket"), ("a3-megagpu-8g", "Socket"), ("p5-48xlarge", "Libfabric")]
)
def test_transports_over_tcp_need_their_daemon_in_the_pod(sku: str, name: str) -> None:
    log, _speed = ran(cluster(sku), daemon=False)
    assert f"Using network {name}" in log


@pytest.mark.parametrize(
    ("sku", "name"),
    [("a3-highgpu-8g", "GPUDirectTCPX_v7"), ("a3-megagpu-8g", "FasTrak"), ("p5-48xlarge", "Libfabric")],
)
def test_plugins_say_their_own_names(sku: str, name: str) -> None:
    log, _speed = ran(cluster(sku))
    assert f"Using network {name}" in log
    assert f"via NET/{name}/0/GDRDMA" in log
    assert "NET/IB" not in log


def test_trays_of_a_rack_are_one_node_to_nccl() -> None:
    log, speed = ran(cluster("gb200-nvl72"))
    assert "nNodes 1 localRanks 8" in log
    assert "MNNVL 1 cliqueId" in log
    assert "via P2P/MNNVL" in log
    assert "via NET/" not in log
    assert speed > 600


@pytest.mark.parametrize("change", ["two racks", "switched off"])
def test_trays_that_nccl_does_not_join_use_their_adapters(change: str) -> None:
    model = cluster("gb200-nvl72", racks=("r1", "r2") if change == "two racks" else ("r1",))
    log, speed = ran(model, **({"NCCL_MNNVL_ENABLE": "0"} if change == "switched off" else {}))
    assert "nNodes 2 localRanks 4" in log
    assert "via NET/IB/0/GDRDMA" in log
    assert 150 < speed < 250


def test_units_share_no_leaf_and_reach_each_other_by_the_taper() -> None:
    taper = ("cluster", "cluster.infiniband.taper", 2.0)
    near, far = cluster("dgx-a100", taper), cluster("dgx-a100", taper, units=True)
    assert ran(far)[1] / ran(near)[1] == pytest.approx(0.5, abs=0.05)
    assert len(far.infiniband.switches) == len(near.infiniband.switches) + 8


def test_a_told_figure_is_printed_and_a_fault_takes_from_it() -> None:
    told = ("cluster", "cluster.nccl.busbw_gbps", {"2": 487.1})
    healthy = ran(cluster("p5-48xlarge", told), adapters=32)[1]
    broken = ran(cluster("p5-48xlarge", told, ("node", "node.performance.network", 0.5)), adapters=32)[1]
    assert healthy == pytest.approx(487.1, rel=0.02)
    assert broken == pytest.approx(487.1 / 2, rel=0.02)


def test_a_host_outside_of_the_inventory_is_on_the_fabric_and_not_in_kubernetes() -> None:
    nodes = tuple(PlannedNode(name=f"gpu0{n}", sku="dgx-a100", rack="r1", outside=n == 2) for n in (1, 2))
    model = healthy_cluster(ModelSpec(name="x", seed=1, nodes=nodes), HARDWARE)
    assert [node.kubernetes.member for node in model.nodes] == [True, False]
    assert {node.title.partition(" ")[0] for node in build_net(model).nodes} >= {"gpu01", "gpu02"}
