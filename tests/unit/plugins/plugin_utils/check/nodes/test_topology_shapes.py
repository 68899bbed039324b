# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Shapes of healthy hosts that have no NVSwitch or hide their PCIe tree, and what is wrong in them all the same."""

from __future__ import annotations

from dataclasses import replace

from fleet_faults import AnyFleet, said

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.collect.host_evidence import ToolRun
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.model import Status

BRIDGES = {(0, 2): "SYS", (0, 3): "SYS", (1, 2): "SYS", (1, 3): "SYS"}


def _bridged(fleet: AnyFleet) -> None:
    """Four PCIe cards in two pairs, as H200 NVL in two groups of four."""
    fleet.sku = replace(fleet.sku, nvswitches=0, nvlink_domain_gpus=2)
    for one in fleet.hosts.values():
        one.topo_words = dict(BRIDGES)


def test_gpus_that_are_bridged_in_groups_pass(fleet: AnyFleet) -> None:
    _bridged(fleet)
    outcomes = fleet.judge(only="topology")
    assert {o.status for o in outcomes} == {Status.PASSED}
    assert all("groups of 2" in o.summary for o in outcomes)


def test_missing_bridge_names_its_gpus(fleet: AnyFleet) -> None:
    _bridged(fleet)
    fleet.hosts["gpu02"].topo_words |= {(2, 3): "SYS"}
    assert said(fleet.judge(only="topology"), Status.FAILED) == {
        ("topology", "topology-nvlink", "gpu02/gpu2,gpu02/gpu3")
    }


def test_bridge_over_the_wrong_cards_is_found(fleet: AnyFleet) -> None:
    _bridged(fleet)
    fleet.hosts["gpu02"].topo_words = {**BRIDGES, (0, 1): "SYS", (0, 2): "NV18"}
    assert {cause for _check, cause, _subject in said(fleet.judge(only="topology"), Status.FAILED)} == {
        "topology-nvlink"
    }


def _passed_through(fleet: AnyFleet, words: dict[int, str]) -> None:
    mode = "<gpu_virtualization_mode><virtualization_mode>Pass-Through</virtualization_mode></gpu_virtualization_mode>"
    for one in fleet.hosts.values():
        one.nic_words = dict(words)
        run = one.evidence().tools["nvidia_smi_xml"]
        one.tools["nvidia_smi_xml"] = replace(run, stdout=run.stdout.replace("</gpu>", f"{mode}</gpu>"))


def test_virtual_machine_that_hides_its_tree_is_not_judged_by_distance(fleet: AnyFleet) -> None:
    _passed_through(fleet, dict.fromkeys(range(4), "SYS"))
    outcomes = fleet.judge(only="topology")
    assert {o.status for o in outcomes} == {Status.PASSED}
    assert all("hides" in o.summary for o in outcomes)


def test_one_far_gpu_of_a_virtual_machine_with_a_tree_is_found(fleet: AnyFleet) -> None:
    _passed_through(fleet, {3: "SYS"})
    failed = said(fleet.judge(only="topology"), Status.FAILED)
    assert {cause for _check, cause, _subject in failed} == {"topology-nic-far"}


def test_header_that_wraps_to_a_second_line_is_one_header(fleet: AnyFleet) -> None:
    text = fleet.hosts["gpu02"].evidence().tools["nvidia_smi_topo"].stdout.replace("\tmlx5_2", "\n\tmlx5_2", 1)
    fleet.hosts["gpu02"].tools["nvidia_smi_topo"] = ToolRun(argv=("nvidia-smi",), rc=0, stdout=text)
    assert {o.status for o in fleet.judge(only="topology")} == {Status.PASSED}


def test_generation_is_called_lower_only_where_it_is(fleet: AnyFleet) -> None:
    assert not any("idle" in o.summary for o in fleet.judge(only="gpu-pcie-link"))
    for part in fleet.hosts["gpu02"].gpus:
        part.values["gen"] = "1"
    assert any("idle" in o.summary for o in fleet.judge(only="gpu-pcie-link"))
