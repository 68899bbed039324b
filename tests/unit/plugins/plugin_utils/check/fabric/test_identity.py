# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Devices are told apart by GUID, whatever they call themselves.

Descriptions as published: unmanaged Quantum switches all alike, blanks at the ends, aggregation nodes (treydock/
infiniband_exporter fixtures), `host HCA-1` and hosts whose adapters are all called alike (rdma-core rdma-ndd), several
chips under one name (NVIDIA/topograph pkg/ib).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.errors import InputError
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.model import Status
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.probe.text import guid_text
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.site.cabling import End, read_node_names, with_guids

LEAVES = ("leaf0", "leaf1", "leaf2", "leaf3")
ALIKE = "Quantum Mellanox Technologies"
HOST_LINK = (End("gpu03 mlx5_2", 1), End("leaf2", 3))
UPLINK = (End("leaf1", 33), End("spine1", 2))


def alike(fabric: Any) -> None:
    fabric.descriptions |= dict.fromkeys(LEAVES, ALIKE) | {"spine1": "MF0;spine1:MQM8700/U1"}


def ask_hosts(fabric: Any) -> None:
    fabric.plan = with_guids(fabric.plan, fabric.host_guids())


@pytest.mark.parametrize("planned", [True, False])
def test_unmanaged_switches_that_are_all_called_alike_are_healthy(fabric: Any, planned: bool) -> None:
    if not planned:
        fabric.forget_the_plan()
    alike(fabric)
    assert not fabric.held()
    assert {o.status for o in fabric.judge()} == {Status.PASSED}


def test_a_fault_among_switches_that_are_called_alike_is_named_as_the_plan_does(fabric: Any) -> None:
    alike(fabric)
    del fabric.cables[HOST_LINK]
    found = fabric.one()
    assert (found.check, found.cause) == ("link-present", "link-missing")
    assert "gpu03 mlx5_2:1 - leaf2:3" in {subject.name for subject in found.subjects}


def test_a_dead_switch_among_those_called_alike_is_one_finding(fabric: Any) -> None:
    alike(fabric)
    for cable in [cable for cable in fabric.cables if "leaf2" in (cable[0].node, cable[1].node)]:
        del fabric.cables[cable]
    found = fabric.one()
    assert (found.cause, found.subjects[0].name) == ("switch-dead", "leaf2")


def test_swapped_cables_are_found_among_switches_that_are_called_alike(fabric: Any) -> None:
    alike(fabric)
    first, second = (End("gpu03 mlx5_0", 1), End("leaf0", 3)), (End("gpu03 mlx5_1", 1), End("leaf1", 3))
    del fabric.cables[first], fabric.cables[second]
    fabric.cables |= {(first[0], second[1]): {}, (second[0], first[1]): {}}
    found = fabric.one()
    assert (found.check, found.cause) == ("cabling", "miswired")
    assert "gpu03 mlx5_0:1 is on leaf1:3, planned leaf0:3" in found.summary


@pytest.mark.parametrize("named", ["{host} HCA-{number}", "{host}", "node with blanks "])
@pytest.mark.parametrize("planned", [True, False])
def test_adapters_are_found_by_guid_whatever_the_host_calls_them(fabric: Any, named: str, planned: bool) -> None:
    if not planned:
        fabric.forget_the_plan()
    ask_hosts(fabric)
    for link in fabric.plan.links:
        if link.host:
            fabric.descriptions[link.near.node] = named.format(host=link.host, number=link.rail + 1)
    assert not fabric.held()
    fabric.cables[HOST_LINK] = {"width": "1X"}
    found = fabric.one()
    assert (found.check, found.cause) == ("link-rate", "degraded-width")
    assert "gpu03/mlx5_2" in {subject.name for subject in found.subjects}


@pytest.mark.parametrize("named", ["gpu02 HCA-{number}", "gpu02", "node with blanks {number}"])
def test_a_host_that_was_not_asked_is_in_the_fabric_whatever_its_adapters_are_called(fabric: Any, named: str) -> None:
    ask_hosts(fabric)
    forget_names(fabric, named)
    found = fabric.one()
    assert (found.check, found.cause, found.status) == ("cabling", "adapters-not-told-apart", Status.OTHER)
    assert "gpu02" in {subject.name for subject in found.subjects}


@pytest.mark.parametrize("named", ["gpu02", "gpu02 mlx5_bond_{number}"])
def test_without_a_plan_of_ports_its_name_tells_that_the_host_is_there(fabric: Any, named: str) -> None:
    fabric.forget_the_plan()
    ask_hosts(fabric)
    forget_names(fabric, named)
    assert {(o.check, o.cause) for o in fabric.held()} == {("cabling", "adapters-not-told-apart")}
    del fabric.cables[End("gpu02 mlx5_2", 1), End("leaf2", 2)]
    assert ("link-present", "link-missing") in {(o.check, o.cause) for o in fabric.held()}


def test_a_host_that_was_not_asked_and_is_not_there_is_absent(fabric: Any) -> None:
    ask_hosts(fabric)
    forget_names(fabric, "gpu02 HCA-{number}")
    for cable in [cable for cable in fabric.cables if cable[0].node.startswith("gpu02 ")]:
        del fabric.cables[cable]
    assert {(o.check, o.cause) for o in fabric.held()} == {("link-present", "host-absent")}


def forget_names(fabric: Any, named: str) -> None:
    """Host gpu02 does not say its GUIDs, and its adapters are called otherwise than planned."""
    links = [replace(link, near_guid=0) if link.host == "gpu02" else link for link in fabric.plan.links]
    fabric.plan = replace(fabric.plan, links=tuple(links))
    for link in links:
        if link.host == "gpu02":
            fabric.descriptions[link.near.node] = named.format(number=link.rail + 1)


def test_switches_are_found_by_their_own_names_within_a_description(fabric: Any) -> None:
    fabric.descriptions |= {leaf: f"MF0;{leaf}:MQM9700/U1" for leaf in LEAVES}
    fabric.descriptions |= {"spine1": " spine1 "}
    assert not fabric.held()


def test_several_chips_of_one_chassis_are_several_switches(fabric: Any) -> None:
    fabric.descriptions |= {leaf: f"MF0;xdr01:Q3400_RA/U{n}" for n, leaf in enumerate(LEAVES, 1)}
    assert not fabric.held()


def test_two_switches_of_one_name_are_shown_with_their_guids(fabric: Any) -> None:
    fabric.forget_the_plan()
    alike(fabric)
    fabric.cables[UPLINK] = {"lane_gbps": 53.125}
    text = fabric.one().summary
    assert f"{ALIKE} ({guid_text(fabric.guid('leaf1'))}):33" in text


def test_a_node_name_map_names_switches(fabric: Any, tmp_path: Path) -> None:
    alike(fabric)
    path = tmp_path / "node-name-map"
    lines = [f'0x{fabric.guid(leaf):x} " {leaf}  "' for leaf in LEAVES]
    path.write_text("\n".join(["# names of the switches", "", *lines]) + "\n", encoding="utf-8")
    names = read_node_names(path)
    assert names[guid_text(fabric.guid("leaf3"))] == "leaf3"
    fabric.plan = replace(fabric.plan, node_names=names)
    assert not fabric.held()
    path.write_text("0x12 leaf without quotes\n", encoding="utf-8")
    with pytest.raises(InputError, match="line 1 is"):
        read_node_names(path)
    with pytest.raises(InputError, match="cannot be read"):
        read_node_names(tmp_path / "none")


def test_aggregation_nodes_and_storage_beside_the_plan_are_no_finding(fabric: Any) -> None:
    for port, leaf in enumerate(LEAVES, 60):
        fabric.cables[End(f"sharp{leaf}", 1), End(leaf, port)] = {}
        fabric.descriptions[f"sharp{leaf}"] = "Mellanox Technologies Aggregation Node"
    fabric.cables[End("storage01 HCA-1", 1), End("leaf1", 50)] = {"lane_gbps": 25.78125, "could_be_gbps": 53.125}
    assert not fabric.held()


def test_hosts_whose_adapters_nobody_knows_let_no_check_of_links_pass(fabric: Any) -> None:
    fabric.forget_the_plan()
    links = tuple(link for link in fabric.plan.links if link.host != "gpu04")
    fabric.plan = replace(fabric.plan, links=links, unknown=("gpu04",))
    outcomes = fabric.judge()
    held = {o.check: (o.cause, o.blocked_by) for o in outcomes if o.status is not Status.PASSED}
    assert held.pop("link-present") == ("adapters-not-known", "")
    assert {by for _cause, by in held.values()} == {"link-present"} and {"link-rate", "link-errors"} <= held.keys()
    assert "gpufleet_hcas" in next(o.hint for o in outcomes if o.cause == "adapters-not-known")


def test_no_link_that_is_up_is_no_rate_that_is_right(fabric: Any) -> None:
    for cable in fabric.cables:
        fabric.cables[cable] = {"state": "Down", "physical": "Polling", "width": "", "lane_gbps": 0.0, "peer": None}
    assert not any(o.check == "link-rate" and o.status is Status.PASSED for o in fabric.judge())


def test_a_link_without_a_printed_width_is_not_known(fabric: Any) -> None:
    fabric.cables[UPLINK] = {"width": "", "lane_gbps": 0.0}
    found = fabric.one()
    assert (found.check, found.cause) == ("link-rate", "rate-not-printed")
    assert "leaf1:33 - spine1:2" in found.summary


@pytest.mark.parametrize("cable", [HOST_LINK, UPLINK])
def test_the_subjects_of_a_finding_are_its_links(make_fabric: Callable[[], Any], cable: tuple[End, End]) -> None:
    fabric = make_fabric()
    fabric.cables[cable] = {"width": "1X"}
    found = fabric.one()
    assert "test" not in {subject.name for subject in found.subjects}
    assert f"{cable[0]} - {cable[1]}" in {subject.name for subject in found.subjects}
