# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The ceilings against every published figure, from the hardware facts that ship."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.hardware.sku import load_hardware
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.errors import InputError
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.model import Rating
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.verdict import ceiling
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.verdict.ceiling import Topology
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.verdict.plateau import last_gain
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.verdict.published_reference import (
    published_reference,
    reference_for,
)

# The SKU whose facts give a row of the vectors, and the hosts of one NVLink domain.
SKUS = {
    "2x p4de, 4x100G EFA": ("p4de-24xlarge", 1),
    "2x p5, 32x100G EFA": ("p5-48xlarge", 1),
    "2x OCI H100, 8x400G": ("bm-gpu-h100-8", 1),
    "2x OCI A100, 16x100G": ("bm-gpu-b4-8", 1),
    "2x GKE A3 Mega, 8x200G": ("a3-megagpu-8g", 1),
    "8x CoreWeave H100 IB": ("hgx-h100", 1),
    "4x B200 8x400G, ring": ("hgx-b200", 1),
    "20x GB200 NVL72 racks": ("gb200-nvl72", 18),
    "2x B200 8x400G, algorithm unknown": ("dgx-b200", 1),
    "2x B200 8x400G, algorithm unknown, slow": ("dgx-b200", 1),
}
NO_SKU = {"2x MI300X 8x400G RoCE"}


@pytest.fixture(scope="module")
def vectors(shared: Path) -> list[dict[str, Any]]:
    entries: list[dict[str, Any]] = yaml.safe_load((shared / "vectors/ceilings.yaml").read_text())
    return entries


def test_systems(vectors: list[dict[str, Any]], repository: Path) -> None:
    hardware = load_hardware([repository / "recipes/hardware"])
    systems = [entry for entry in vectors if "system" in entry]
    assert {entry["system"] for entry in systems} == set(SKUS) | NO_SKU
    for entry in systems:
        if entry["system"] in NO_SKU:
            topology = Topology(nodes=entry["nodes"], gpus=entry["gpus"], nics=entry["nics"], nic_gbps=entry["gbps"])
        else:
            name, members = SKUS[entry["system"]]
            topology = ceiling.topology_of(hardware[name], (members,) * entry["nodes"])
        assert (topology.gpus, topology.nics, topology.nic_gbps) == (entry["gpus"], entry["nics"], entry["gbps"]), entry
        assert entry["b_x"] is None or topology.intra_gbps == entry["b_x"], entry
        assert topology.net_gbps == entry["b_net"], entry
        against = ceiling.reference(topology, entry.get("algorithm", ""))
        assert against.marginal.gbps == pytest.approx(entry["ref"]), entry
        rated = ceiling.judge(entry["measured"], against, entry.get("last_gain"))
        assert rated.rating.value == entry["rating"], (entry, rated)
        assert rated.unsaturated is (entry.get("last_gain", 0) > 0.05)


def test_factors(vectors: list[dict[str, Any]]) -> None:
    for entry in (entry for entry in vectors if "factor" in entry):
        topology = Topology(
            nodes=entry["nodes"], gpus=entry["gpus"], nics=entry.get("nics", 8), nic_gbps=entry.get("gbps", 400)
        )
        found = topology.factor if entry["factor"] == "hierarchical" else ceiling.alltoall(topology).gbps
        assert found == pytest.approx(entry["value"], rel=1e-4), entry


H100 = Topology(nodes=2, gpus=8, nics=8, nic_gbps=400, intra_gbps=480)


def test_arithmetic_is_told() -> None:
    assert ceiling.ring(H100).arithmetic == "8 x 400 Gb/s / 8 = 400 GB/s"
    assert ceiling.hierarchical(H100).arithmetic == (
        "min(8 x 400 Gb/s / 8 = 400 GB/s x f(2, 8) 1.875; within a node 480 GB/s)"
    )


def test_a_known_algorithm_decides() -> None:
    assert ceiling.reference(H100, "ring").bad == ceiling.reference(H100, "ring").marginal == ceiling.ring(H100)
    assert ceiling.reference(H100, "nvlstree").bad == ceiling.hierarchical(H100)
    unknown = ceiling.reference(H100)
    assert (unknown.bad, unknown.marginal) == (ceiling.ring(H100), ceiling.hierarchical(H100))


def test_within_a_node_needs_a_published_figure() -> None:
    with pytest.raises(InputError):
        ceiling.reference(Topology(nodes=1, gpus=8, nics=8, nic_gbps=400))
    with pytest.raises(InputError):
        ceiling.judge(1.0, ceiling.reference(Topology(nodes=4, gpus=8, nics=0, nic_gbps=0)), None)


def test_a_part_of_a_rack_is_as_fast_as_a_ring_is(repository: Path) -> None:
    """One tray with 4 GPUs is published with a ring at 679.6 GB/s; switches reduce from 8 GPUs on."""
    gb200 = load_hardware([repository / "recipes/hardware"])["gb200"]
    assert ceiling.topology_of(gb200, (1,)).intra_gbps == 679.6
    assert [ceiling.topology_of(gb200, (trays,)).intra_gbps for trays in (2, 9, 14, 17, 18)] == [838] * 5
    slow = ceiling.judge(0.5 * 838, ceiling.reference(ceiling.topology_of(gb200, (17,)), "nvls"), None)
    assert slow.rating is Rating.BAD


def test_racks_with_unequal_trays_have_a_ceiling(repository: Path) -> None:
    gb200 = load_hardware([repository / "recipes/hardware"])["gb200"]
    topology = ceiling.topology_of(gb200, (18, 17))
    assert (topology.nodes, topology.ranks, topology.nics) == (2, 35 * 4, 17 * 4)
    assert topology.net_gbps == 17 * 4 * 400 / 8
    assert ceiling.reference(topology, "nvlstree").bad.gbps == 838
    with pytest.raises(InputError):
        ceiling.topology_of(gb200, ())


def test_within_a_node_the_algorithm_decides() -> None:
    h100 = Topology(nodes=1, gpus=8, nics=8, nic_gbps=400, intra_gbps=480, intra_ring_gbps=365.6)
    rating = {
        (name, figure): ceiling.judge(figure, ceiling.reference(h100, name), None).rating
        for name in ("ring", "nvls", "")
        for figure in (355.0, 240.0, 473.0)
    }
    assert rating["ring", 355.0] is Rating.GOOD
    assert rating["nvls", 355.0] is Rating.BAD
    assert rating["", 355.0] is Rating.MARGINAL
    assert rating["nvls", 473.0] is rating["", 473.0] is Rating.GOOD
    assert {rating[name, 240.0] for name in ("ring", "nvls", "")} == {Rating.BAD}


# Published by operators and vendors of healthy hosts: SKU, hosts by NVLink domain, algorithm as told, GB/s.
PUBLISHED = [
    ("nd96amsr-a100-v4", (1,), "", 231.6),
    ("nd96amsr-a100-v4", (1, 1), "", 187.2),
    ("nd96isr-h100-v5", (1,), "", 478.9),
    ("nd96isr-h200-v5", (1,), "", 480.0),
    ("nd96isr-h100-v5", (1,) * 8, "collnetchain", 450.0),
    ("hgx-h100", (1,), "ring", 330.0),
    ("hgx-h100", (1,), "nvls", 430.0),
    ("hgx-h100", (1, 1), "ring", 330.0),
    ("hgx-h100", (1, 1), "nvlstree", 430.0),
    ("hgx-h100", (1,) * 4, "ring", 320.0),
    ("hgx-h100", (1,) * 8, "", 386.6),
    ("p4de-24xlarge", (1, 1), "", 78.3),
    ("p4de-24xlarge", (1, 1), "nvlstree", 78.3),
    ("p5-48xlarge", (1, 1), "nvlstree", 437.8),
    ("p5-48xlarge", (1, 1), "nvlstree", 487.1),
    ("bm-gpu-b4-8", (1, 1), "ring", 189.6),
    ("bm-gpu-b4-8", (1, 1), "", 189.6),
    ("a3-megagpu-8g", (1, 1), "nvlstree", 338.0),
    # The same adapters, by the ring that takes 1.875 times as long as a tree over two hosts (domain.md T213).
    ("a3-megagpu-8g", (1, 1), "ring", 180.0),
    ("a3-megagpu-8g", (1,) * 16, "ring", 180.0),
    ("a3-highgpu-8g", (1,), "ring", 355.0),
    ("hgx-b200", (1,) * 4, "ring", 384.0),
    ("gb200-nvl72", (18,), "nvls", 847.0),
    ("gb200-nvl72", (18, 18), "nvlstree", 820.0),
    ("gb200-nvl72", (18,) * 20, "nvlstree", 405.0),
    # A tray in each of two racks: 4 adapters of 400 Gb/s each, and not what is published of two whole racks.
    ("gb200-nvl72", (1, 1), "ring", 187.0),
    ("gb300-nvl72", (14,), "nvls", 937.0),
    ("gb200-nvl72", (1,), "ring", 679.6),
]


@pytest.mark.parametrize(("name", "members", "algorithm", "gbps"), PUBLISHED)
def test_published_figures_of_healthy_hosts_are_good(
    repository: Path, name: str, members: tuple[int, ...], algorithm: str, gbps: float
) -> None:
    sku = load_hardware([repository / "recipes/hardware"])[name]
    topology = ceiling.topology_of(sku, members, efficiency=_efficiency(repository, sku.fabric))
    against = reference_for(topology, algorithm)
    assert ceiling.judge(gbps, against, None).rating is Rating.GOOD, against
    assert ceiling.judge(gbps * 0.6, against, None).rating is not Rating.GOOD, against


def _efficiency(repository: Path, fabric: str) -> dict[str, float]:
    shipped = yaml.safe_load((repository / "recipes/thresholds/fabric_validation.yaml").read_text())
    found: dict[str, float] = shipped["fabric_validation"]["networks"][fabric].get("efficiency", {})
    return found


def test_a_ring_that_nccl_did_not_name_is_never_failed_by_a_published_tree(repository: Path) -> None:
    sku = load_hardware([repository / "recipes/hardware"])["p4de-24xlarge"]
    topology = ceiling.topology_of(sku, (1, 1), efficiency={"ring": 0.84, "hierarchical": 0.84})
    against = published_reference(topology, "")
    assert against is not None
    assert ceiling.judge(41.0, against, None).rating is Rating.MARGINAL


def test_the_adapters_alone_know_no_nvlink() -> None:
    """Every GPU with its place in the other host: eight adapters of 400 Gb/s give each 50 GB/s, NVLink caps nothing."""
    assert ceiling.adapters(H100).gbps == 50.0
    slow = Topology(nodes=2, gpus=8, nics=8, nic_gbps=0.63 * 400, intra_gbps=480)
    full = ceiling.Reference(ceiling.adapters(H100), ceiling.adapters(H100))
    assert ceiling.judge(ceiling.adapters(slow).gbps, full, None).rating is Rating.BAD
    assert ceiling.judge(48.5, full, None).rating is Rating.GOOD
    fifteen = ceiling.adapters(Topology(nodes=2, gpus=8, nics=15, nic_gbps=200))
    assert (fifteen.gbps, ceiling.adapters(Topology(nodes=2, gpus=8, nics=4, nic_gbps=100)).gbps) == (25.0, 6.25)
    with pytest.raises(InputError):
        ceiling.adapters(Topology(nodes=2, gpus=8, nics=0, nic_gbps=0))


@given(st.integers(2, 128), st.integers(1, 72), st.integers(1, 72), st.sampled_from([100, 200, 400, 800]))
def test_ceilings_are_ordered(nodes: int, gpus: int, nics: int, rate: int) -> None:
    topology = Topology(nodes=nodes, gpus=gpus, nics=nics, nic_gbps=rate, intra_gbps=480)
    ring, tree = (f(topology).gbps for f in (ceiling.ring, ceiling.hierarchical))
    assert 0 < ring <= tree * (1 + 1e-9)
    assert tree <= 480


@given(st.integers(1, 64), st.floats(1, 900), st.floats(1, 900), st.sampled_from(["", "ring", "tree"]))
def test_more_bandwidth_is_never_rated_worse(nodes: int, one: float, other: float, algorithm: str) -> None:
    topology = Topology(nodes=nodes, gpus=8, nics=8, nic_gbps=400, intra_gbps=480)
    order = [Rating.BAD, Rating.MARGINAL, Rating.GOOD]
    against = ceiling.reference(topology, algorithm)
    low, high = (order.index(ceiling.judge(x, against, None).rating) for x in sorted((one, other)))
    assert low <= high


def test_plateau() -> None:
    assert last_gain({8: 1.0}) is None
    assert last_gain({1 << 30: 400.0, 1 << 31: 420.0}) == pytest.approx(0.05)
    assert last_gain({8: 1.0, 1 << 31: 420.0}) is None
    assert last_gain({8: 0.0, 16: 420.0}) is None
