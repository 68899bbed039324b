# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Published figures: between scales and sizes without jumps, beyond them nothing is known (domain.md T212 to T216)."""

from __future__ import annotations

import math
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import assume, given
from hypothesis import strategies as st

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.fabric_validation.settings import RunSettings
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.kit.settings_layers import settings_for
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.hardware.sku import Sku, load_hardware
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.errors import InputError, ProblemsError
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.model import Rating
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.runtime.files import RECIPES
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.verdict import ceiling
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.verdict.ceiling import Rated, Reference, Topology
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.verdict.published_reference import (
    reference_for,
    with_floor,
    with_share_of_gate,
)

GIB = 2**30
SKUS: dict[str, Sku] = load_hardware([RECIPES / "hardware"])
NETWORKS: dict[str, Any] = yaml.safe_load((RECIPES / "thresholds/fabric_validation.yaml").read_text())[
    "fabric_validation"
]["networks"]
GB200 = ("gb200-nvl72", "nd128isr-ndr-gb200-v6", "a4x-highgpu-4g", "p6e-gb200-36xlarge", "bm-gpu-gb200-4")
B200 = ("dgx-b200", "hgx-b200", "bm-gpu-b200-8", "a4-highgpu-8g", "p6-b200-48xlarge")


def topology(name: str, domains: int, gib: float = 8.0) -> Topology:
    sku = SKUS[name]
    members = 1 if sku.nvlink_domain == "node" else sku.nvlink_domain_gpus // sku.gpus
    efficiency = NETWORKS.get(sku.fabric, {}).get("efficiency", {})
    found = ceiling.topology_of(sku, (members,) * domains, efficiency=efficiency)
    return Topology(**{name: getattr(found, name) for name in found.__slots__} | {"size_bytes": int(gib * GIB)})


def rated(name: str, domains: int, gbps: float, algorithm: str = "", gib: float = 8.0) -> Rated:
    return ceiling.judge(gbps, reference_for(topology(name, domains, gib), algorithm), 0.02)


# Public figures of systems that are well: SKU, domains, algorithm, GiB, GB/s. Sources: Azure/AI-benchmarking-guide,
# Azure/aks-rdma-infiniband, Azure/ai-infrastructure-on-azure, NVIDIA/nccl 1221, coreweave/nccl-tests,
# oracle-quickstart/oci-hpc and oci-hpc-oke, awslabs/awsome-distributed-training, NVIDIA/aicr 1565, a report on B200.
SYSTEMS = [
    ("nd96amsr-a100-v4", 1, "", 8, 231.6), ("nd96amsr-a100-v4", 2, "", 8, 187.2), ("nd96isr-h100-v5", 1, "", 8, 478.9),
    ("nd96isr-h200-v5", 1, "", 8, 480.0), ("nd96isr-h100-v5", 8, "collnetchain", 16, 450.0),
    ("hgx-h100", 1, "ring", 8, 330.0), ("hgx-h100", 2, "nvlstree", 8, 430.0), ("hgx-h100", 4, "ring", 8, 320.0),
    ("hgx-h100", 8, "", 8, 386.56), ("bm-gpu-h100-8", 2, "nvlstree", 16, 471.2), ("p4de-24xlarge", 2, "", 2, 78.3),
    ("p5-48xlarge", 2, "nvlstree", 16, 487.1), ("bm-gpu-b4-8", 2, "ring", 8, 189.6),
    ("a3-megagpu-8g", 2, "nvlstree", 8, 338.0), ("hgx-b200", 4, "ring", 16, 384.0),
    ("hgx-b200", 4, "nvlstree", 16, 388.0), ("gb200-nvl72", 1, "nvls", 8, 834.57),
    ("gb200-nvl72", 2, "nvlstree", 8, 793.06), ("gb200-nvl72", 2, "nvlstree", 16, 810.41),
    ("gb200-nvl72", 20, "nvlstree", 8, 381.48), ("gb200-nvl72", 20, "nvlstree", 16, 405.74),
    ("nd128isr-ndr-gb200-v6", 20, "", 16, 405.74), ("gb300-nvl72", 1, "nvls", 16, 937.0),
]  # fmt: skip


@pytest.mark.parametrize(("name", "domains", "algorithm", "gib", "gbps"), SYSTEMS)
def test_public_systems_that_are_well_are_good(
    name: str, domains: int, algorithm: str, gib: float, gbps: float
) -> None:
    assert rated(name, domains, gbps, algorithm, gib).rating.value == "good"
    assert rated(name, domains, 0.6 * gbps, algorithm, gib).rating.value != "good"


def test_every_published_figure_says_what_it_is(tmp_path: Path) -> None:
    """A row without its size, or without what kind of figure it is, cannot be loaded."""
    rows = {(sku.name, row) for sku in SKUS.values() for row in sku.published_busbw}
    assert len(rows) > 100 and not [row.problem for _name, row in rows if row.problem]
    for path in sorted([*(RECIPES / "hardware").glob("*.yaml"), *(RECIPES / "accelerators").glob("*.yaml")]):
        found = yaml.safe_load(path.read_text()).get("published_busbw", [])
        for row in [figure for entry in found for figure in entry.get("figures", [entry])]:
            assert {"domains", "gbps", "size_bytes", "kind", "source"} <= row.keys(), path.name
    shipped = (RECIPES / "hardware/p5-48xlarge.yaml").read_text()
    for field in ("size_bytes: 17179869184, ", "kind: plateau,"):
        (tmp_path / "p5-48xlarge.yaml").write_text(shipped.replace(field, ""))
        with pytest.raises(ProblemsError, match=field.partition(":")[0]):
            load_hardware([tmp_path])
    assert all("efficiency" not in facts or min(facts["efficiency"].values()) >= 0.84 for facts in NETWORKS.values())


@pytest.mark.parametrize("name", GB200)
def test_racks_are_held_against_rows_of_racks_and_sizes_whoever_sells_them(name: str) -> None:
    assert [round(reference_for(topology(name, racks), "nvlstree").bad.gbps) for racks in (1, 2, 20)] == [835, 793, 381]
    # Four racks at 350 were good, twenty and one at 405 bad.
    assert rated(name, 4, 350).rating.value == "bad"
    assert [rated(name, racks, 405, gib=16).rating.value for racks in (20, 21, 32)] == ["good", "marginal", "marginal"]
    assert rated(name, 20, 270).rating.value == "bad"


def test_racks_of_which_nothing_is_published_wait_for_a_person() -> None:
    for gbps in (200, 405, 700):
        assert rated("gb300-nvl72", 20, gbps).rating.value == "marginal"
    assert rated("gb300-nvl72", 20, 900).rating.value == "good"


def test_from_one_scale_to_the_next_there_is_no_jump() -> None:
    """Neighbouring scales differ by at most 15 %; from two hosts to three a tree sends more out of each."""
    for name in (*GB200, "dgx-h100", "p5-48xlarge", "hgx-b200", "nd96asr-v4", "a3-megagpu-8g"):
        for algorithm in ("ring", "nvlstree"):
            racks = SKUS[name].nvlink_domain == "rack"
            scales = range(1 if racks else 3, 21 if racks else 1025)
            figures = [reference_for(topology(name, domains), algorithm).marginal.gbps for domains in scales]
            for smaller, (before, after) in zip(scales, pairwise(figures), strict=False):
                assert before / after <= 1.15 and after <= before * 1.0001, (
                    name,
                    algorithm,
                    smaller,
                    before,
                    after,
                )
    sizes = [reference_for(topology("gb200-nvl72", 7, 0.5 * 2**step)).bad.gbps for step in range(6)]
    assert sizes == sorted(sizes)


@pytest.mark.parametrize("name", B200)
def test_a_ring_over_two_hosts_that_is_slow_by_choice_is_neither_good_nor_bad(name: str) -> None:
    assert {gbps: rated(name, 2, gbps, "ring", 16).rating.value for gbps in (384, 240, 205, 150)} == {
        384: "good", 240: "marginal", 205: "marginal", 150: "bad",
    }  # fmt: skip


def test_an_average_is_no_reference_and_what_a_vendor_accepts_is_no_fault() -> None:
    assert [rated("a3-megagpu-8g", 16, gbps).rating.value for gbps in (189, 170, 140, 128, 110)] == [
        "good", "good", "marginal", "bad", "bad",
    ]  # fmt: skip
    leg = ceiling.adapters(topology("a3-megagpu-8g", 2))
    assert leg.gbps == pytest.approx(22.5)
    assert [rated("a3-highgpu-8g", 2, gbps, "ring").rating.value for gbps in (85, 60, 55)] == [
        "good",
        "marginal",
        "bad",
    ]


@pytest.mark.parametrize(
    ("name", "gbps", "word"),
    [
        ("nd96asr-v4", 18.0, "marginal"), ("nd96asr-v4", 17.0, "bad"), ("nd96isr-h100-v5", 40.0, "marginal"),
        ("nd96isr-h100-v5", 36.0, "bad"), ("nd96isr-h100-v5", 48.0, "good"), ("dgx-h100", 36.0, "bad"),
    ],
)  # fmt: skip
def test_a_loop_that_its_vendor_accepts_is_not_bad(name: str, gbps: float, word: str) -> None:
    """Azure/azurehpc-health-checks accepts 18 and 40 GB/s; its peers tell who is slow (domain.md T214)."""
    of = topology(name, 1, 16)
    against = with_floor(Reference(ceiling.loop(of), ceiling.loop(of)), of, phase="loop")
    assert ceiling.judge(gbps, against, 0.02).rating.value == word


@pytest.mark.parametrize(("hosts", "gbps"), [(64, 330), (128, 320)])
def test_beyond_64_hosts_the_ring_is_held_to_what_its_steps_leave(hosts: int, gbps: float) -> None:
    assert rated("dgx-h100", hosts, gbps).rating.value == "good"
    assert rated("dgx-h100", hosts, 0.6 * gbps).rating.value != "good"
    assert "steps of" in reference_for(topology("dgx-h100", hosts), "ring").bad.arithmetic


def test_the_largest_message_grows_with_the_gpus_as_far_as_they_hold_it() -> None:
    run = settings_for(RunSettings, "fabric_validation", {})
    for gpus, memory_mib, gib in (
        (8, 81559, 8), (504, 81559, 8), (512, 81559, 16), (4096, 81559, 16), (4096, 183359, 32), (8000, 40960, 8),
    ):  # fmt: skip
        assert run.largest_for(gpus, memory_mib) == gib * GIB
    assert math.isclose(rated("dgx-h100", 1000, 300, gib=32).ratio, 0.83, abs_tol=0.05)


@given(
    st.sampled_from(sorted(SKUS)), st.integers(1, 40), st.sampled_from(["", "ring", "nvlstree"]), st.floats(1, 1000),
    st.floats(0.1, 1.0), st.sampled_from([None, 0.0, 0.03, 0.06]), st.sampled_from([0.5, 2.0, 8.0, 16.0]),
)  # fmt: skip
def test_slower_is_never_rated_better(
    name: str, domains: int, algorithm: str, gbps: float, left: float, gain: float | None, gib: float
) -> None:
    try:
        against = reference_for(topology(name, domains, gib), algorithm)
        ratings = [ceiling.judge(figure, against, gain).rating for figure in (gbps * left, gbps)]
    except InputError:
        assume(False)
    order = [Rating.BAD, Rating.MARGINAL, Rating.GOOD]
    assert order.index(ratings[0]) <= order.index(ratings[1])


def test_what_a_vendor_accepts_of_all_gpus_is_not_bad_of_one_gpu_of_each_node() -> None:
    # cluster-health-scanner accepts 60 GB/s of two A3 High by ring, an eighth of it for each GPU; nothing better is
    # published, so a person decides between that and our part of the adapters.
    known = topology("a3-highgpu-8g", 2)
    against = with_share_of_gate(Reference(ceiling.adapters(known), ceiling.adapters(known)), known)
    assert ceiling.judge(7.6, against, 0.02).rating is Rating.MARGINAL
    assert ceiling.judge(7.0, against, 0.02).rating is Rating.BAD
    # A slow ring of NCCL's says nothing of the adapters, which this leg is about.
    known = topology("hgx-b200", 2)
    plain = Reference(ceiling.adapters(known), ceiling.adapters(known))
    assert with_share_of_gate(plain, known) == plain
