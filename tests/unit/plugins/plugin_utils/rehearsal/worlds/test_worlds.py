# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The files of the worlds: what is wrong with one is said with its line, and each can be drawn."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from known_hardware import HARDWARE

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.errors import NotFoundError, ProblemsError
from ansible_collections.gpufleet.rehearsal.plugins.plugin_utils.hosts.accelerators import printed_facts
from ansible_collections.gpufleet.rehearsal.plugins.plugin_utils.hosts.nvidia_smi_text import topology
from ansible_collections.gpufleet.rehearsal.plugins.plugin_utils.hosts.prepare import XmlRenderer
from ansible_collections.gpufleet.rehearsal.plugins.plugin_utils.hosts.system_tools import ibstat
from ansible_collections.gpufleet.rehearsal.plugins.plugin_utils.lifecycle.simulators import (
    kubernetes_node,
    system_nodes,
)
from ansible_collections.gpufleet.rehearsal.plugins.plugin_utils.model.patch import healthy_cluster
from ansible_collections.gpufleet.rehearsal.plugins.plugin_utils.model.spec import (
    Change,
    ModelSpec,
    OtherAdapter,
    PlannedNode,
    Shape,
    read_spec,
    write_spec,
)
from ansible_collections.gpufleet.rehearsal.plugins.plugin_utils.model.values import Node
from ansible_collections.gpufleet.rehearsal.plugins.plugin_utils.worlds.catalogue import (
    load_worlds,
    offers,
    world_hardware,
    world_or_error,
    worlds_table,
)

ROOT = Path(__file__).resolve().parents[6]
DATA = ROOT / "rehearsal" / "recipes"
WORLDS = load_worlds(DATA)
GOOD = """---
title: a site
sources: [a page]
gates: [nodes]
hosts:
  - {sku: dgx-h100}
"""


def written(directory: Path, text: str) -> Path:
    (directory / "worlds").mkdir()
    (directory / "worlds" / "mine.yaml").write_text(text, encoding="utf-8")
    return directory


def drawn(*shapes: Shape, **planned: object) -> Node:
    node = PlannedNode(name="gpu01", sku="dgx-h100", rack="r1", **planned)  # type: ignore[arg-type]
    return healthy_cluster(ModelSpec(name="x", seed=1, nodes=(node,), shapes=shapes), HARDWARE).nodes[0]


@pytest.mark.parametrize("name", WORLDS)
def test_a_world_can_be_drawn(name: str, tmp_path: Path) -> None:
    world = WORLDS[name]
    spec = ModelSpec(name=name, seed=1, nodes=world.nodes, shapes=world.model)
    model = healthy_cluster(spec, world_hardware(world, tmp_path))
    assert len(model.nodes) == len(world.nodes)
    assert offers(world, world_hardware(world, tmp_path), model) >= set(world.gates)


def test_the_list_has_every_world() -> None:
    assert all(name in worlds_table(WORLDS) for name in WORLDS)


@pytest.mark.parametrize(
    ("wrong", "line", "said"),
    [
        (GOOD.replace("title:", "titel:"), 2, "titel"),
        (GOOD.replace("{sku: dgx-h100}", "{sku: dgx-h100, count: many}"), 6, "count"),
        (GOOD + "model:\n  - kind: node\n    patch:\n      - {at: node.kernel, sett: 1}\n", 10, "sett"),
        (GOOD + "inventory:\n  profile: moon\n", 8, "moon"),
        (GOOD.replace("gates: [nodes]", "gates: [nods]"), 1, "nods"),
        (GOOD.replace("[a page]", "[]"), 1, "sources"),
    ],
)
def test_what_is_wrong_with_a_file_is_said_with_its_line(tmp_path: Path, wrong: str, line: int, said: str) -> None:
    with pytest.raises(ProblemsError) as caught:
        load_worlds(written(tmp_path, wrong))
    assert f"mine.yaml:{line}" in str(caught.value)
    assert said in str(caught.value)


def test_a_wrong_name_gets_the_nearest_ones() -> None:
    name = next(iter(WORLDS))
    with pytest.raises(NotFoundError, match=name):
        world_or_error(WORLDS, f"{name}x")


def test_a_shape_that_matches_nothing_is_refused() -> None:
    with pytest.raises(NotFoundError, match="no node matches 'gpu9\\*'"):
        drawn(Shape(kind="node", match="gpu9*", patch=(Change(at="node.kernel", set="6"),)))


def test_a_model_file_keeps_shapes_and_other_adapters(tmp_path: Path) -> None:
    shape = Shape(kind="hca", match="*/mlx5_1", patch=(Change(at="hca.cable.downed", set=255),))
    other = OtherAdapter(name="mlx5_bond_0", rate_gbps=200)
    spec = ModelSpec(
        name="x", seed=1, shapes=(shape,),
        nodes=(PlannedNode(name="gpu01", sku="dgx-h100", rack="r1", others=(other,)),),
    )  # fmt: skip
    write_spec(spec, tmp_path / "model.yaml")
    assert read_spec(tmp_path / "model.yaml") == spec


def test_adapters_that_carry_no_gpu_traffic_are_printed_among_the_others() -> None:
    node = drawn(
        hcas=tuple(f"mlx5_{number}" for number in (0, 3, 4, 5, 6, 9, 10, 11)),
        others=(OtherAdapter(name="mlx5_1"), OtherAdapter(name="mlx5_2", state="Down", physical_state="Polling")),
    )
    names = [line.split("'")[1] for line in ibstat(node).splitlines() if line.startswith("CA ")]
    assert names == [f"mlx5_{number}" for number in (0, 1, 2, 3, 4, 5, 6, 9, 10, 11)]
    assert "  NIC1: mlx5_1\n  NIC2: mlx5_2\n  NIC3: mlx5_3\n" in topology(node)


def test_elements_of_nvidia_smi_read_as_the_world_says() -> None:
    changes = (
        Change(at="node.smi_xml.remapped_rows", set="N/A"),
        Change(at="node.smi_xml.ecc_errors/channel_repair_pending", set="(absent)"),
    )
    node = drawn(Shape(kind="node", patch=changes))
    text = XmlRenderer(DATA).render(node, printed_facts(node.accelerator, DATA), "now")
    assert text.count("<remapped_rows>N/A</remapped_rows>") == len(node.gpus)
    assert "channel_repair_pending" not in text
    assert "tpc_repair_pending" in text


def test_a_world_brings_hardware_files_of_its_own(tmp_path: Path) -> None:
    world = WORLDS["four-nics-eight-gpus"]
    sku = world_hardware(world, tmp_path)["hgx-h100-4-nics"]
    assert (sku.compute_hcas, sku.fabric, sku.gpus) == (4, "roce", 8)
    shutil.rmtree(tmp_path / "hardware")


@pytest.mark.parametrize(("name", "there"), [("mig-slices", False), ("time-sliced-gpus", True)])
def test_a_world_in_mig_mode_is_no_place_for_faults_of_nvlink_and_of_that_mode(name: str, there: bool) -> None:
    world = WORLDS[name]
    model = healthy_cluster(ModelSpec(name="x", seed=1, nodes=world.nodes, shapes=world.model), HARDWARE)
    words = offers(world, HARDWARE, model)
    assert ({"nvlink", "nvlink_fabric", "mig"} <= words) is there
    assert ({"nvlink", "nvlink_fabric", "mig"} & words == set()) is not there


def test_the_clusters_own_software_has_nodes_of_its_own_where_gpu_nodes_are_tainted() -> None:
    world = WORLDS["tainted-gpu-nodes"]
    model = healthy_cluster(ModelSpec(name="x", seed=1, nodes=world.nodes, shapes=world.model), HARDWARE)
    assert all(kubernetes_node(node).taints for node in model.nodes)
    system = system_nodes(model.stack.system_nodes)
    assert [(spec.name, spec.taints) for spec in system] == [("system01", ()), ("system02", ())]
