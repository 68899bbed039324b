# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The net file of a simulated fabric: what the model says, and nothing that ibsim would refuse."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest
from known_hardware import HARDWARE

from ansible_collections.gpufleet.rehearsal.plugins.plugin_utils.fabric.net import (
    Net,
    build_net,
    cabling_document,
    console_growth,
    console_start,
    net_text,
)
from ansible_collections.gpufleet.rehearsal.plugins.plugin_utils.faults.catalogue import (
    choose_faults,
    load_catalogue,
)
from ansible_collections.gpufleet.rehearsal.plugins.plugin_utils.model.patch import build_model
from ansible_collections.gpufleet.rehearsal.plugins.plugin_utils.model.spec import ModelSpec, numbered_nodes
from ansible_collections.gpufleet.rehearsal.plugins.plugin_utils.model.wiring import wire

ROOT = Path(__file__).resolve().parents[6]
CATALOGUE = load_catalogue()
END = re.compile(r'\[(\d+)\]\t"([HS]-[0-9a-f]{16})"\[(\d+)\]')
MANAGERS = 2


def net_of(nodes: int = 40, faults: str = "", sku: str = "h100") -> Net:
    planned = ModelSpec(name="test", seed=7, nodes=numbered_nodes(nodes, sku))
    chosen = choose_faults(faults, build_model(planned, HARDWARE), CATALOGUE, 1)
    return build_net(build_model(ModelSpec(name="test", seed=7, nodes=planned.nodes, faults=chosen), HARDWARE))


def ends(net: Net) -> Counter[frozenset[tuple[str, int]]]:
    """Every line of a port in the file, as the cable that it belongs to."""
    found: Counter[frozenset[tuple[str, int]]] = Counter()
    owner = ""
    for line in net_text(net).splitlines():
        if match := re.search(r'^(?:Switch|Ca)\t\d+ "([HS]-\w+)"', line):
            owner = match[1]
        elif match := END.match(line):
            found[frozenset(((owner, int(match[1])), (match[2], int(match[3]))))] += 1
    return found


@pytest.mark.parametrize("nodes", [1, 2, 33, 64, 600])
def test_every_cable_is_in_the_file_from_both_its_ends(nodes: int) -> None:
    net = net_of(nodes)
    assert set(ends(net).values()) == {2}, "one-sided cables end the simulator"
    used = [end for cable in ends(net) for end in cable]
    assert len(used) == len(set(used)), "a port has one cable"
    assert len({node.guid for node in net.nodes}) == len(net.nodes)
    assert len(net.links) == nodes * 8 + MANAGERS + len(wire_uplinks(nodes))
    assert max(node.ports for node in net.nodes) <= 254


def wire_uplinks(nodes: int) -> tuple[object, ...]:
    return wire(build_model(ModelSpec(name="t", seed=7, nodes=numbered_nodes(nodes, "h100")), HARDWARE).nodes).uplinks


@pytest.mark.parametrize(
    ("fault", "gone"),
    [
        ("cable-unplugged@gpu03/mlx5_4", 1),
        ("hca-missing@gpu03/mlx5_4", 1),
        ("hca-down@gpu03/mlx5_4", 1),
        ("uplink-down@leaf-g1-rail0:33", 1),
        ("switch-dead@leaf-g1-rail4", 32 + 4),
        ("switch-dead@spine1", 16),
        ("cables-swapped", 0),
    ],
)
def test_what_a_fault_takes_away(fault: str, gone: int) -> None:
    net = net_of(faults=fault)
    assert len(net_of().links) - len(net.links) == gone
    assert set(ends(net).values()) == {2}


@pytest.mark.parametrize("dead", [(1,), (2,), (1, 2), (2, 3, 4), (1, 2, 3, 4)])
def test_dead_spines_take_no_subnet_manager_away_while_one_lives(dead: tuple[int, ...]) -> None:
    net = net_of(4, ",".join(f"switch-dead@spine{number}" for number in dead))
    managed = [link for link in net.links if link.node.title.startswith("sm0")]
    assert len(managed) == (MANAGERS if len(dead) < 4 else 0)
    assert len({link.switch.ident for link in managed}) == min(MANAGERS, 4 - len(dead))
    # With the spines gone the leaves are islands that no subnet manager reaches.
    assert net.active_ends == (2 * len(net.links) if managed else 0)
    assert set(ends(net).values()) == {2}


def test_a_leaf_without_uplinks_is_out_of_reach() -> None:
    cut = net_of(4, ",".join(f"uplink-down@leaf-g1-rail3:{port}" for port in range(33, 37)))
    assert len(net_of(4).links) - len(cut.links) == 4
    assert net_of(4).active_ends - cut.active_ends == 2 * (4 + 4)


def test_swapped_cables_change_places_and_no_others_do() -> None:
    healthy, swapped = ends(net_of()), ends(net_of(faults="cables-swapped@gpu05/mlx5_11"))
    moved = set(healthy) ^ set(swapped)
    assert len(moved) == 4
    adapters = {end[0] for cable in moved for end in cable if end[0].startswith("H-")}
    titles = {node.title for node in net_of().nodes if node.ident in adapters}
    assert titles == {"gpu05 mlx5_11", "gpu05 mlx5_0"}


def test_rates_stand_behind_the_link_and_counters_go_to_the_console() -> None:
    assert net_text(net_of(faults="cable-narrow@gpu02/mlx5_3")).count("1xHDR") == 2
    assert net_text(net_of(faults="hca-slow@gpu02/mlx5_3")).count("4xEDR") == 2
    (old,) = console_start(net_of(faults="cable-old-errors@gpu02/mlx5_3"))
    assert old.endswith("PortCounters.SymbolErrorCounter=500") and "[2]" in old
    (grown,) = console_growth(net_of(faults="cable-errors@gpu02/mlx5_3"))
    assert (grown.start, grown.per_s) == (0, 20)
    silent = net_of(faults="hca-initializing@gpu02/mlx5_3")
    assert console_start(silent) == [f'Error "{link.node.ident}"[1] 100' for link in silent.links if link.silent]
    assert net_of().active_ends - silent.active_ends == 2


def test_hosts_without_infiniband_have_no_fabric() -> None:
    model = build_model(ModelSpec(name="t", seed=7, nodes=numbered_nodes(2, "p5-48xlarge")), HARDWARE)
    assert model.infiniband.switches == ()


def test_the_plan_of_the_site_knows_no_fault() -> None:
    planned = ModelSpec(name="t", seed=7, nodes=numbered_nodes(5, "h100"))
    document = cabling_document(build_model(planned, HARDWARE).nodes)
    assert document["hosts"]["gpu05"]["mlx5_11"] == "leaf-g1-rail7:5"
    assert len(document["trunks"]) == 8 * 4
    taken = [port for host in document["hosts"].values() for port in host.values()]
    assert len(taken) == len(set(taken)) == 40
