# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Simulated benchmarks: as fast as published ones, every fault shows where it would, the text is the tools' own."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.hardware.sku import Sku, load_hardware
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.errors import InputError
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.probe import nccl_debug, nccl_tests
from ansible_collections.gpufleet.rehearsal.plugins.plugin_utils.model.patch import build_model
from ansible_collections.gpufleet.rehearsal.plugins.plugin_utils.model.spec import (
    Change,
    Fault,
    ModelSpec,
    numbered_nodes,
)
from ansible_collections.gpufleet.rehearsal.plugins.plugin_utils.workloads.benchmark import Benchmark, RankPod
from ansible_collections.gpufleet.rehearsal.plugins.plugin_utils.workloads.nccl_run import (
    Measured,
    RunOutput,
    columns,
    row_parts,
    simulate_run,
)
from ansible_collections.gpufleet.rehearsal.plugins.plugin_utils.workloads.physics import hca_selected

OTHERS = ("gpu03", "gpu04")
ROOT = Path(__file__).resolve().parents[6]
NAMES = tuple(f"mlx5_{n}" for n in (0, 3, 4, 5, 6, 9, 10, 11))
ADAPTERS = "=" + ",".join(f"{name}:1" for name in NAMES)
ENV = {
    "NCCL_DEBUG": "INFO",
    "NCCL_DEBUG_SUBSYS": "INIT,ENV,NET,GRAPH,TUNING",
    "NCCL_DEBUG_FILE": "/dev/stderr",
    "NCCL_IB_HCA": ADAPTERS,
}


@cache
def hardware() -> dict[str, Sku]:
    return load_hardware([ROOT / "recipes" / "hardware"])


def fault(at: str, value: Any, subject: str = "gpu02", kind: Any = "node") -> Fault:
    return Fault(id="f", kind=kind, subject=subject, patch=(Change(at=at, set=value),))


def benchmark(nodes: int, gpus: int = 8, env: Mapping[str, str] | None = None, **more: Any) -> Benchmark:
    places = tuple(
        RankPod(hostname=f"pair-{n}", node=f"gpu{n + 1:02d}", gpus=gpus, adapters=True) for n in range(nodes)
    )
    settings: dict[str, Any] = {"test": "all_reduce_perf", "smallest": 8, "largest": 8 << 30, "factor": 2}
    return Benchmark(places=places, env=ENV if env is None else env, **(settings | more))


def simulate(
    nodes: int = 2, *faults: Fault, sku: str = "dgx-h100", run: Benchmark | None = None, name: str = "pair"
) -> RunOutput:
    spec = ModelSpec(name="bench", seed=7, nodes=numbered_nodes(max(nodes, 4), sku), faults=faults)
    every = {key: value for key, value in ENV.items() if sku == "dgx-h100" or key != "NCCL_IB_HCA"}
    found = run or benchmark(nodes, hardware()[sku].gpus, every)
    return simulate_run(found, build_model(spec, hardware()), hardware(), name)


def text(output: RunOutput) -> str:
    return "\n".join(line for _stream, line in output.lines) + "\n"


def speed(output: RunOutput) -> float:
    found: float = nccl_tests.parse(text(output)).largest.busbw_gbps
    return found


# Published figures of such machines, bus bandwidth of all_reduce at the largest size, GB/s.
PUBLISHED = [
    ("dgx-h100", 1, 473, 0.05),
    ("bm-gpu-h100-8", 2, 471.2, 0.05),
    ("p5-48xlarge", 2, 487.1, 0.05),
    ("dgx-h100", 8, 386.6, 0.05),
    ("dgx-a100", 1, 235, 0.05),
    ("nd96amsr-a100-v4", 2, 187.1, 0.05),
    ("bm-gpu-b200-8", 4, 388, 0.25),
]


@pytest.mark.parametrize(("sku", "nodes", "published", "tolerance"), PUBLISHED)
def test_healthy_machines_are_as_fast_as_published_ones(
    sku: str, nodes: int, published: float, tolerance: float
) -> None:
    assert speed(simulate(nodes, sku=sku)) == pytest.approx(published, rel=tolerance)


def test_the_parsers_find_every_fact_of_a_healthy_run() -> None:
    output = simulate(2)
    test, debug = nccl_tests.parse(text(output)), nccl_debug.parse(text(output))
    assert output.exit_code == 0
    assert test.correct and test.complete and test.concluded and test.rank_count == 16
    assert not test.missing_sizes(8, 8 << 30)
    assert debug.all_ready and debug.ranks_expected == 16 and debug.nvls
    assert debug.algorithm(8 << 30) == "nvlstree"
    assert set(debug.hosts) == {"pair-0", "pair-1"}
    for host in debug.hosts.values():
        assert host.networks == ("IB",) and not host.uses_socket
        assert len(host.devices) == 8
        assert host.network_channels and all(channel.direct for channel in host.network_channels)


def test_a_run_is_the_same_each_time_and_another_one_differs_a_little() -> None:
    assert simulate(2) == simulate(2)
    speeds = [speed(simulate(2, name=f"pair-{n}")) for n in range(20)]
    assert 0 < (max(speeds) - min(speeds)) / max(speeds) < 0.03


# What is broken, and what part of its speed a run over two nodes keeps.
SLOW = {
    "adapter": (fault("hca.goodput", 0.5, "gpu02/mlx5_5", "hca"), 0.6, 0.74),
    "adapter rate": (fault("hca.rate_gbps", 200, "gpu02/mlx5_5", "hca"), 0.6, 0.74),
    "cable": (fault("hca.cable.width", "2x", "gpu02/mlx5_5", "hca"), 0.6, 0.74),
    "rail": (fault("rail.goodput", 0.5, "rail3", "rail"), 0.6, 0.74),
    "node": (fault("node.performance.network", 0.5), 0.6, 0.74),
    "nvlink": (fault("node.performance.nvlink", 0.5), 0.45, 0.6),
    "no gpudirect": (fault("node.performance.gpudirect", False), 0.3, 0.65),
    "no devices": (fault("node.performance.rdma_devices", False), 0.005, 0.02),
}


@pytest.mark.parametrize(("broken", "least", "most"), SLOW.values(), ids=SLOW.keys())
def test_every_fault_slows_the_runs_with_it_and_no_others(broken: Fault, least: float, most: float) -> None:
    healthy = speed(simulate(2))
    assert least < speed(simulate(2, broken)) / healthy < most
    elsewhere = replace(
        benchmark(2), places=tuple(replace(p, node=n) for p, n in zip(benchmark(2).places, OTHERS, strict=True))
    )
    expected = 1.0 if broken.kind != "rail" else speed(simulate(2, broken)) / healthy
    assert speed(simulate(2, broken, run=elsewhere)) / healthy == pytest.approx(expected, abs=0.01)


def test_one_rail_alone_shows_which_adapter_is_slow() -> None:
    broken = fault("hca.goodput", 0.5, "gpu02/mlx5_5", "hca")
    speeds = []
    for number in range(8):
        env = {**ENV, "NCCL_IB_HCA": f"={NAMES[number]}:1"}
        speeds.append(speed(simulate(2, broken, run=benchmark(2, env=env))))
    assert min(range(8), key=lambda n: speeds[n]) == 3
    assert speeds[3] < 0.55 * speeds[0]


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (fault("node.performance.rdma_devices", False), "no-device"),
        (fault("node.performance.adapter_prefix", "ibp"), "no-device"),
        (fault("node.performance.rdma_libraries", False), "verbs-missing"),
    ],
)
def test_a_node_without_rdma_talks_tcp_and_says_why(change: Fault, reason: str) -> None:
    output = simulate(2, change)
    hosts = nccl_debug.parse(text(output)).hosts
    assert hosts["pair-1"].uses_socket and reason in hosts["pair-1"].reasons
    assert not hosts["pair-0"].uses_socket
    assert {channel.network for channel in hosts["pair-1"].network_channels} == {"Socket"}
    assert speed(output) < 10


def test_without_gpudirect_no_channel_has_its_suffix() -> None:
    hosts = nccl_debug.parse(text(simulate(2, fault("node.performance.gpudirect", False)))).hosts
    assert not any(channel.direct for channel in hosts["pair-1"].network_channels)
    assert all(channel.direct for channel in hosts["pair-0"].network_channels)


def test_memory_that_cannot_be_locked_ends_the_run() -> None:
    output = simulate(2, fault("node.performance.memory_lock", False))
    assert output.exit_code == 3
    assert nccl_tests.failure_lines(text(output))
    assert "memlock" in nccl_debug.parse(text(output)).hosts["pair-1"].reasons
    alone = replace(benchmark(1), places=(replace(benchmark(1).places[0], node="gpu02"),))
    assert simulate(1, fault("node.performance.memory_lock", False), run=alone).exit_code == 0


def test_a_network_that_must_be_there_and_is_not_ends_the_run() -> None:
    broken = fault("node.performance.rdma_devices", False)
    output = simulate(2, broken, run=benchmark(2, env={**ENV, "NCCL_NET": "IB"}))
    assert output.exit_code == 3
    assert "Failed to initialize any NET plugin" in text(output)


def test_a_gpu_that_computes_wrong_is_seen_in_rows_and_footer() -> None:
    output = simulate(2, fault("gpu.computes_right", False, "gpu02/gpu5", "gpu"))
    test = nccl_tests.parse(text(output))
    assert output.exit_code == 1
    assert test.wrong > 0 and test.out_of_bounds_ok is False
    unchecked = simulate(2, run=benchmark(2, validate=False))
    assert not nccl_tests.parse(text(unchecked)).validated


def test_a_run_that_hangs_has_no_end_and_a_cut_log_no_footer() -> None:
    hung = simulate(2, fault("node.performance.benchmark", "hangs"))
    assert hung.exit_code is None and "Out of bounds" not in text(hung)
    cut = simulate(2, fault("node.performance.benchmark", "truncated"))
    assert cut.exit_code == 0 and "Out of bounds" not in text(cut)
    crashed = simulate(2, fault("node.performance.benchmark", "crashes"))
    assert crashed.exit_code == 3 and nccl_tests.failure_lines(text(crashed))


def test_on_one_stream_nccl_writes_into_the_rows() -> None:
    env = {key: value for key, value in ENV.items() if key != "NCCL_DEBUG_FILE"}
    with pytest.raises(InputError):
        nccl_tests.parse(text(simulate(2, run=benchmark(2, env=env))))
    quiet = simulate(2, run=benchmark(2, env={"NCCL_IB_HCA": ADAPTERS}))
    assert "NCCL INFO" not in text(quiet) and nccl_tests.parse(text(quiet)).complete


def test_only_the_subsystems_that_are_asked_for_speak() -> None:
    spoken = text(simulate(2, run=benchmark(2, env={"NCCL_DEBUG": "INFO", "NCCL_DEBUG_FILE": "/dev/stderr"})))
    assert "Init COMPLETE" in spoken and "Using network IB" in spoken
    assert "Algo" not in spoken and "GPU Direct RDMA" not in spoken
    written = text(simulate(2, run=benchmark(2, env={**ENV, "NCCL_DEBUG_FILE": "/tmp/nccl.%h"})))
    assert "NCCL INFO" not in written


def test_ranks_can_be_split_by_rail_or_by_node() -> None:
    broken = fault("hca.goodput", 0.5, "gpu02/mlx5_5", "hca")
    healthy, one = (
        speed(simulate(2, *faults, run=benchmark(2, env={**ENV, "NCCL_TESTS_SPLIT": "MOD 8"})))
        for faults in ((), (broken,))
    )
    assert 0.8 < one / healthy < 0.98
    nodes = speed(simulate(2, broken, run=benchmark(2, env={**ENV, "NCCL_TESTS_SPLIT": "DIV 8"})))
    assert nodes > healthy


@pytest.mark.parametrize("test", ["all_gather_perf", "reduce_scatter_perf", "alltoall_perf", "sendrecv_perf"])
def test_other_collectives_stay_within_what_the_adapters_carry(test: str) -> None:
    found = speed(simulate(2, run=benchmark(2, test=test)))
    most = {"alltoall_perf": 93.8, "sendrecv_perf": 50.0}.get(test, 400.0)
    assert 0.85 * most < found < most


@pytest.mark.parametrize(
    ("name", "rule", "expected"),
    [
        ("mlx5_1", "", True), ("mlx5_1", "mlx5", True), ("mlx5_10", "mlx5_1", True), ("mlx5_10", "=mlx5_1", False),
        ("mlx5_1", "=mlx5_1:1,mlx5_2:1", True), ("mlx5_1", "=mlx5_1:2", False), ("mlx5_1", "^mlx5_1", False),
        ("mlx5_10", "^=mlx5_1", True), ("ibp0", "=mlx5_0:1", False),
    ],
)  # fmt: skip
def test_the_filter_of_adapters_is_read_as_nccl_reads_it(name: str, rule: str, expected: bool) -> None:
    assert hca_selected(name, rule) is expected


def test_table_and_rows_are_those_of_a_real_run(shared: Path) -> None:
    capture = (shared / "captures" / "nccl-tests" / "allreduce-2node-h100-oci-roce.txt").read_text(encoding="utf-8")
    assert [line.rstrip() for line in columns()] == [
        line.rstrip() for line in capture.splitlines() if line.startswith(("#   ",)) and "Rank" not in line
    ]
    rows = [line for line in capture.splitlines() if re.match(r" +\d+ +\d+ +float", line)]
    assert len(rows) == 5
    for line in rows:
        words = line.split()
        row = Measured(size=int(words[0]), out_of_place_us=float(words[5]), in_place_us=float(words[9]), wrong=0)
        assert _close("".join(row_parts(benchmark(2), row)), line)


def _close(made: str, real: str) -> bool:
    """Same columns to the character; rates may differ by the rounding of the time that they were computed from."""
    if len(made) != len(real) or [m.span() for m in re.finditer(r"\S+", made)] != [
        m.span() for m in re.finditer(r"\S+", real)
    ]:
        return False
    pairs = zip(made.split(), real.split(), strict=True)
    return all(a == b or abs(float(a) - float(b)) <= 0.02 for a, b in pairs)
