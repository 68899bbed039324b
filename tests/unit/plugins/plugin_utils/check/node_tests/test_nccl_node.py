# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a run over the NVLinks of one node says: the way before the figure, and nothing that was not seen passes."""

from __future__ import annotations

from dataclasses import replace
from datetime import date
from pathlib import Path

import pytest
from known_hardware import HARDWARE
from nccl_fleet import Fleet

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.fabric_validation.model import Wanted
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.fabric_validation.nccl_job import NcclJobs
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.node_tests.nccl_node import NcclNode
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.spec import ObserveContext
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.hardware.sku import Sku
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.store.records import NodeResult
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.workload.job import JobResult, JobState, PodResult

NODE = "gpu01"
WANT = Wanted(phase="node", hosts=(NODE,))
WELL = "\n".join(
    f"Channel 00/0 : {rank}[{rank}] -> {(rank + 1) % 8}[{(rank + 1) % 8}] via P2P/CUMEM" for rank in range(8)
)


class Node(Fleet):
    """One node whose GPUs reduce at so many GB/s."""

    gbps = 460.0

    def speed(self, want: Wanted) -> float:
        return self.gbps

    def log(self, want: Wanted, smallest: int) -> str:
        said = "".join(f"{NODE}-pod:1:1 [0] NCCL INFO {line}\n" for line in self.says[NODE].splitlines())
        return said + super().log(want, smallest)


@pytest.fixture
def node() -> Node:
    return Node((NODE,), HARDWARE, says={NODE: WELL}, noise=0.0)


def read(node: Node, tmp_path: Path, *, state: JobState = "succeeded", code: int | None = 0) -> NodeResult:
    context = ObserveContext(site=node.site(), run_dir=tmp_path, today=date(2026, 1, 1), hardware=node.hardware)
    test, plan = NcclNode(context), node.plan()
    test._jobs, test._adapters = NcclJobs(plan, node.hardware), {}
    log = node.log(WANT, plan.settings.run.smallest)
    pod = PodResult(name="p", node=NODE, hostname=f"{NODE}-pod", exit_code=code, log=log, role="launcher")
    job = JobResult(name="nccl-node-1", state=state, reason="as the test says", pods=(pod,), started="", duration_s=9.0)
    return test.read("c1", plan.host(NODE), job, 100.0)


def test_a_node_whose_nvlinks_carry_what_they_should_passes(node: Node, tmp_path: Path) -> None:
    found = read(node, tmp_path)
    assert (found.status.value, found.rating.value, found.cause) == ("passed", "good", ""), found.summary
    assert [(figure.name, figure.unit) for figure in found.figures] == [("busbw", "GB/s")] and found.parts == {}


@pytest.mark.parametrize(
    ("gbps", "status", "cause"), [(60.0, "failed", "slow-nvlink"), (250.0, "failed", "slow-nvlink")]
)
def test_a_node_that_reduces_at_the_rate_of_pcie_or_half_of_its_links_fails(
    node: Node, tmp_path: Path, gbps: float, status: str, cause: str
) -> None:
    node.gbps = gbps
    found = read(node, tmp_path)
    assert (found.status.value, found.cause) == (status, cause) and "nvlink --status" in found.summary


@pytest.mark.parametrize(
    ("says", "word"),
    [
        (f"{WELL}\nChannel 01/0 : 0[0] -> 1[1] via SHM/direct/direct", "via SHM"),
        (f"{WELL}\nChannel 01/0 : 0[0] -> 1[1] [send] via NET/IB/0/GDRDMA", "via NET/IB"),
        ("Using network IB", "no line says"),
    ],
)
def test_data_that_went_another_way_says_nothing_of_nvlinks(node: Node, tmp_path: Path, says: str, word: str) -> None:
    node.says[NODE] = says
    found = read(node, tmp_path)
    assert (found.status.value, found.cause) == ("other", "transport-unproven") and word in found.summary


@pytest.mark.parametrize("state", ["preempted", "unschedulable", "image", "lost-node", "timeout"])
def test_a_job_without_an_end_of_its_own_never_passes(node: Node, tmp_path: Path, state: JobState) -> None:
    found = read(node, tmp_path, state=state, code=None)
    assert found.status.value in ("pending", "other") and found.cause and found.figures == ()


def test_nodes_without_nvlink_are_skipped(node: Node, tmp_path: Path) -> None:
    def unfit(sku: Sku) -> str:
        context = ObserveContext(site=node.site(), run_dir=tmp_path, today=date(2026, 1, 1), hardware={"dgx-h100": sku})
        return NcclNode(context).unfit(node.plan().host(NODE))

    sku = node.hardware["dgx-h100"]
    assert unfit(sku) == "" and "one GPU" in unfit(replace(sku, gpus=1))
    assert "has no NVLink" in unfit(replace(sku, nvlink_links=0, nvlink_generation=None))
