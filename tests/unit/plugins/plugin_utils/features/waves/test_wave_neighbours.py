# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""With whom a node is measured that is alone in its wave, and what is said where nobody is free."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from sites import make_site

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.features.waves.plan import NodeState, Stage
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.features.waves.proof import choose, lonely_nodes
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.hardware.sku import Sku
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.decisions import Quarantine
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.run.run import Run
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.site.model import Host
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.workload.capacity import NodeCapacity

HOSTS = tuple(
    Host(name=f"gpu0{n}", sku="h200" if n == 6 else "h100", node_name=f"node-{n}", rack=f"r{(n + 1) // 2}")
    for n in range(1, 7)
)
HARDWARE = {
    name: Sku(
        name=f"dgx-{name}", title=name, accelerator="h100", sources=("test",), gpus=8, gpu_product="p",
        gpu_product_label="p", gpu_memory_mib=81559,
    )
    for name in ("h100", "h200")
}  # fmt: skip
ASIDE = Quarantine(node="gpu05", reason="bad fan", ticket="OPS-7", who="jo")
FREE = {host.node_name: NodeCapacity(name=host.node_name, total=8, used=0) for host in HOSTS}
PENDING = {host.name: NodeState() for host in HOSTS}


@pytest.fixture
def run(tmp_path: Path) -> Run:
    made = Run(tmp_path)
    made.save_site(make_site(HOSTS, quarantine=(ASIDE,)))
    made.save_hardware(HARDWARE)
    return made


def names(hosts: tuple[Host, ...]) -> list[str]:
    return [host.name for host in hosts]


def test_who_is_alone(run: Run) -> None:
    assert names(lonely_nodes(run, ["gpu01"])) == ["gpu01"]
    assert names(lonely_nodes(run, ["gpu01", "gpu02"])) == []
    # The only host of its SKU is measured alone, as gate fabric_validation does.
    assert names(lonely_nodes(run, ["gpu06"])) == []
    assert names(lonely_nodes(run, ["gpu01", "gpu06"])) == ["gpu01"]


def test_who_came_back_goes_before_who_stands_in_the_same_rack(run: Run) -> None:
    lonely = lonely_nodes(run, ["gpu01"])
    assert choose(run, lonely, ["gpu01"], PENDING, FREE).neighbours == ("gpu02",)
    back = {**PENDING, "gpu04": NodeState(stage=Stage.RETURNED)}
    assert choose(run, lonely, ["gpu01"], back, FREE).neighbours == ("gpu04",)


def test_nobody_is_taken_that_works_or_is_out(run: Run) -> None:
    busy = replace(FREE["node-2"], used=4)
    closed = replace(FREE["node-3"], closed="cordoned")
    found = choose(
        run, lonely_nodes(run, ["gpu01"]), ["gpu01", "gpu04"], PENDING, {**FREE, "node-2": busy, "node-3": closed}
    )
    assert found.neighbours == () and list(found.alone) == ["gpu01"]
    assert found.alone["gpu01"] == (
        "NCCL between hosts needs a second host of SKU h100, and none in service is free "
        "(gpu02: 4 of 8 GPUs are free; gpu03: cordoned)"
    )


def test_a_node_that_is_not_in_the_cluster_is_no_neighbour(run: Run) -> None:
    found = choose(run, lonely_nodes(run, ["gpu01"]), ["gpu01", "gpu02", "gpu03"], PENDING, {})
    assert "gpu04: not in the cluster" in found.alone["gpu01"]
