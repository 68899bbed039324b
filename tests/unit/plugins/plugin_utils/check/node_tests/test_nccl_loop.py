# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a run over the adapters of one node says: transport before figure, and nothing that was not seen passes."""

from __future__ import annotations

from dataclasses import replace
from datetime import date
from pathlib import Path

import pytest
from known_hardware import HARDWARE
from nccl_fleet import Fleet
from sites import make_site

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.benchmark.plan import BenchmarkHost
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.fabric_validation.model import Wanted
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.fabric_validation.nccl_job import NcclJobs
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.node_tests.nccl_loop import NcclLoop
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.spec import ObserveContext
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.hardware.sku import Sku
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.site.model import Host
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.store.records import NodeResult
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.workload.job import JobResult, JobState, PodResult

NODE = "gpu01"
OVER_ADAPTERS = "\n".join(
    f"Channel 00/0 : {rank}[{rank}] -> {(rank + 1) % 8}[{(rank + 1) % 8}] [send] via NET/IB/{rank}/GDRDMA"
    for rank in range(8)
)
DEVICES = " ".join(f"[{number}]mlx5_{number}:1/IB" for number in range(8))
WELL = f"NET/IB : Using {DEVICES} [RO]; OOB eth0:10.0.0.1<0>\nUsing network IB\n{OVER_ADAPTERS}"


class Node(Fleet):
    """One node whose GPUs reach each other through their adapters at a part of what these carry."""

    part = 0.95

    def speed(self, want: Wanted) -> float:
        return 50.0 * self.part


@pytest.fixture
def node() -> Node:
    return Node((NODE,), HARDWARE, says={NODE: WELL}, noise=0.0)


def read(
    node: Node, tmp_path: Path, *, state: JobState = "succeeded", code: int | None = 0, cut: str = ""
) -> NodeResult:
    context = ObserveContext(site=node.site(), run_dir=tmp_path, today=date(2026, 1, 1), hardware=node.hardware)
    test, plan = NcclLoop(context), node.plan()
    test._jobs, test._adapters = NcclJobs(plan, node.hardware), {}
    log = node.log(Wanted(phase="loop", hosts=(NODE,)), plan.settings.run.rail_smallest)
    pod = PodResult(
        name="p", node=NODE, hostname=f"{NODE}-pod", exit_code=code, log=log.partition(cut)[0] if cut else log,
        role="launcher",
    )  # fmt: skip
    job = JobResult(name="nccl-loop-1", state=state, reason="as the test says", pods=(pod,), started="", duration_s=9.0)
    return test.read("c1", plan.host(NODE), job, 100.0)


def test_all_data_over_all_adapters_at_their_rate_passes(node: Node, tmp_path: Path) -> None:
    found = read(node, tmp_path)
    assert (found.status.value, found.rating.value, found.cause) == ("passed", "good", "")
    assert [(figure.name, figure.unit) for figure in found.figures] == [("busbw", "GB/s")]
    assert found.figures[0].number == pytest.approx(47.5, rel=0.02) and "NCCL 2.27.7" in found.cohort
    assert list(found.parts) == [f"mlx5_{number}:1" for number in range(8)]


@pytest.mark.parametrize(
    ("part", "status", "cause"), [(0.5, "failed", "slow-adapter"), (0.8, "other", "loop-bandwidth-marginal")]
)
def test_what_is_below_the_rate_of_the_adapters_does_not_pass(
    node: Node, tmp_path: Path, part: float, status: str, cause: str
) -> None:
    node.part = part
    found = read(node, tmp_path)
    assert (found.status.value, found.cause) == (status, cause) and "loop over adapters: 8 x 400 Gb/s" in found.summary


@pytest.mark.parametrize(
    ("says", "status", "cause"),
    [
        (WELL.replace("/GDRDMA", ""), "failed", "gpudirect-missing"),
        (WELL.replace("[7]mlx5_7:1/IB", ""), "failed", "hca-set-differs"),
        ("Using network Socket\nNET/Socket : Using [0]eth0:10.0.0.1<0>", "failed", "socket-transport"),
        # NVLink in spite of what the run asked for: the figure says nothing about adapters.
        (WELL + "\nChannel 01/0 : 0[0] -> 1[1] via P2P/CUMEM", "other", "transport-unproven"),
        ("Using network IB", "other", "transport-unproven"),
    ],
)
def test_the_transport_decides_before_the_figure(
    node: Node, tmp_path: Path, says: str, status: str, cause: str
) -> None:
    node.says[NODE] = says
    found = read(node, tmp_path)
    assert (found.status.value, found.cause) == (status, cause), found.summary


def test_wrong_values_fail_and_a_log_that_is_cut_says_nothing(node: Node, tmp_path: Path) -> None:
    cut = read(node, tmp_path, cut="# Out of bounds")
    assert (cut.status.value, cut.cause, cut.figures) == ("other", "output-incomplete", ())
    node_wrong = replace(node, says={NODE: WELL})
    node_wrong.log = lambda want, smallest: node.log(want, smallest).replace(" 0  10.0", " 5  10.0")  # type: ignore[method-assign]
    wrong = read(node_wrong, tmp_path)
    assert (wrong.status.value, wrong.cause) == ("failed", "wrong-results")


@pytest.mark.parametrize(
    ("state", "status"),
    [
        ("preempted", "pending"), ("unschedulable", "pending"), ("held", "pending"), ("aborted", "pending"),
        ("image", "other"), ("refused", "other"), ("lost-node", "other"), ("slow-start", "other"), ("timeout", "other"),
        ("failed", "other"),
    ],
)  # fmt: skip
def test_a_job_without_an_end_of_its_own_never_passes(node: Node, tmp_path: Path, state: JobState, status: str) -> None:
    found = read(node, tmp_path, state=state, code=None)
    assert found.status.value == status and found.cause and found.figures == ()


def test_nodes_without_such_adapters_are_skipped_and_unknown_ones_are_not(node: Node, tmp_path: Path) -> None:
    def asked(sku: Sku, hcas: tuple[str, ...]) -> tuple[str, str]:
        hardware = {"dgx-h100": sku}
        context = ObserveContext(site=node.site(), run_dir=tmp_path, today=date(2026, 1, 1), hardware=hardware)
        test, plan = NcclLoop(context), node.plan()
        host = replace(plan.host(NODE), hcas=hcas)
        test._jobs, test._adapters = NcclJobs(replace(plan, hosts=(host,)), hardware), {}
        return test.unfit(host), test.unready(host)

    sku, ports = node.hardware["dgx-h100"], ("mlx5_0:1",)
    assert asked(sku, ports) == ("", "")
    assert "one GPU" in asked(replace(sku, gpus=1), ports)[0]
    assert "fabric none" in asked(replace(sku, fabric="none"), ports)[0]
    assert "rails that do not reach each other" in asked(replace(sku, rails_isolated=True), ports)[0]
    assert asked(sku, ()) == ("", "nothing is known of its adapters")


def test_over_slurm_a_job_uses_the_stated_adapters_of_its_node(tmp_path: Path) -> None:
    ports = tuple(f"mlx5_{number}" for number in range(8))
    hosts = (Host(name=NODE, sku="dgx-h100", node_name="n-gpu01", hcas=ports),)
    site = make_site(hosts, orchestrator="slurm")
    test = NcclLoop(ObserveContext(site=site, run_dir=tmp_path, today=date(2026, 1, 1), hardware=HARDWARE))
    test.look(None)
    host = BenchmarkHost(name=NODE, node="n-gpu01", sku="dgx-h100")
    assert not test.unready(host) and not test.unfit(host)
    spec = test.job("nccl-loop-1", host)
    assert spec.nodes == ("n-gpu01",) and spec.ranks == 8 and not spec.limits and spec.gang == "none"
    assert spec.env["NCCL_IB_HCA"] == "=" + ",".join(f"{port}:1" for port in ports)
    assert spec.env["NCCL_P2P_DISABLE"] == spec.env["NCCL_SHM_DISABLE"] == "1"


def test_over_slurm_a_machine_whose_name_nobody_said_proves_nothing(node: Node, tmp_path: Path) -> None:
    said = node.log(Wanted(phase="loop", hosts=(NODE,)), node.plan().settings.run.rail_smallest)
    for machine, status in ((f"{NODE}-pod", "passed"), ("", "other"), ("another", "other")):
        context = ObserveContext(site=node.site(), run_dir=tmp_path, today=date(2026, 1, 1), hardware=node.hardware)
        test, plan = NcclLoop(context), node.plan()
        test._jobs, test._adapters = NcclJobs(plan, node.hardware), {}
        pod = PodResult(name="job 4", node=NODE, hostname=machine, exit_code=0, log=said, role="launcher")
        job = JobResult(name="nccl-loop-1", state="succeeded", reason="", pods=(pod,), started="", duration_s=9.0)
        assert test.read("c1", plan.host(NODE), job, 100.0).status.value == status, machine
