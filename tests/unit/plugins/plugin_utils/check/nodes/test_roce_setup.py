# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Addresses, MTU and pauses of RoCE ports."""

from __future__ import annotations

from dataclasses import replace

import pytest
from fleet_faults import AnyFleet, said

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.collect.host_evidence import ToolRun
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.model import Outcome, Status

CHECK = "roce-setup"
ALL = "1   1   1   1   1   1   1   1"


@pytest.fixture
def roce(fleet: AnyFleet) -> AnyFleet:
    """Three hosts whose adapters are Ethernet."""
    fleet.sku = replace(fleet.sku, fabric="roce")
    for host in fleet.hosts.values():
        for values in host.hcas.values():
            values["layer"] = "Ethernet"
    return fleet


def judged(fleet: AnyFleet, **changes: str) -> tuple[Outcome, ...]:
    """Judge a fleet of which one adapter says something else."""
    fleet.hosts["gpu02"].hcas["mlx5_2"] |= changes
    outcomes: tuple[Outcome, ...] = fleet.judge(only=CHECK)
    return outcomes


def test_ports_with_address_and_whole_mtu_pass(roce: AnyFleet) -> None:
    outcomes = judged(roce)
    assert {outcome.status for outcome in outcomes} == {Status.PASSED} and len(outcomes) == 3
    assert outcomes[0].summary.endswith("MTU 4096 or more; PFC on 3, trust dscp")


def test_hosts_of_infiniband_beside_those_of_roce_have_nothing_to_show(fleet: AnyFleet) -> None:
    outcomes = judged(fleet)
    assert {outcome.summary for outcome in outcomes} == {"test-h100 has no RoCE adapter for GPU traffic"}


@pytest.mark.parametrize(
    ("settings", "changes", "status", "cause"),
    [
        ({"gid_index": 3}, {"gid": ""}, Status.FAILED, "roce-gid-missing"),
        ({"gid_index": 3}, {"gid": "5"}, Status.FAILED, "roce-gid-missing"),
        ({}, {"gid": ""}, Status.OTHER, "roce-gid-link-local"),
        ({}, {"mtu": "1024 (3)"}, Status.OTHER, "roce-mtu-low"),
        ({"pfc_priorities": [3]}, {"pfc": ALL}, Status.FAILED, "roce-pfc-wrong"),
        ({"pfc_priorities": []}, {"pfc": ALL}, Status.FAILED, "roce-pfc-wrong"),
        ({"trust": "dscp"}, {"trust": "pcp"}, Status.FAILED, "roce-trust-wrong"),
    ],
)
def test_what_is_wrong_with_one_port_is_said_of_it(
    roce: AnyFleet, settings: dict[str, object], changes: dict[str, str], status: Status, cause: str
) -> None:
    if settings.get("pfc_priorities") == []:
        for host in roce.hosts.values():
            for values in host.hcas.values():
                values["pfc"] = "0   0   0   0   0   0   0   0"
    roce.settings[CHECK] = settings
    outcomes = judged(roce, **changes)
    assert said(outcomes, status) == {(CHECK, cause, "gpu02/mlx5_2")}
    assert sum(outcome.status is Status.PASSED for outcome in outcomes) == 2


def test_a_host_that_pauses_other_traffic_than_most_is_for_a_person(roce: AnyFleet) -> None:
    assert said(judged(roce, pfc=ALL), Status.OTHER) == {(CHECK, "roce-pfc-differs", "gpu02/mlx5_2")}


@pytest.mark.parametrize(("index", "status"), [("3", Status.PASSED), ("1", Status.FAILED)])
def test_the_index_that_nccl_is_told_is_the_one_that_counts(roce: AnyFleet, index: str, status: Status) -> None:
    roce.settings["fabric_validation"] = {"env": {"NCCL_IB_GID_INDEX": index}}
    outcomes = judged(roce)
    assert {outcome.status for outcome in outcomes} == {status}
    assert status is Status.PASSED or "it is at 3" in outcomes[0].summary


def test_the_port_that_pauses_otherwise_is_named(roce: AnyFleet) -> None:
    roce.hosts["gpu02"].hcas["mlx5_2"]["pfc"] = "0   0   0   0   0   0   0   0"
    (held,) = [o for o in roce.judge(only=CHECK) if o.status is not Status.PASSED]
    assert [subject.name for subject in held.subjects] == ["gpu02", "gpu02/mlx5_2"]
    assert held.summary.startswith("mlx5_2 (enmlx5_2): PFC on none, trust dscp; most ports: PFC on 3, trust dscp")


def test_a_place_that_pauses_otherwise_on_all_hosts_is_not_alike(roce: AnyFleet) -> None:
    for host in roce.hosts.values():
        host.hcas["mlx5_2"]["pfc"] = "0   0   0   0   0   0   0   0"
    assert said(roce.judge(only=CHECK), Status.OTHER) == {
        (CHECK, "roce-pfc-differs", f"gpu{n:02d}/mlx5_2") for n in (1, 2, 3)
    }


def test_halves_are_both_for_a_person(roce: AnyFleet) -> None:
    """Hosts that pause and hosts that drop cannot both be right."""
    del roce.hosts["gpu03"]
    for values in roce.hosts["gpu02"].hcas.values():
        values["pfc"] = "0   0   0   0   0   0   0   0"
    outcomes = roce.judge(only=CHECK)
    assert said(outcomes, Status.OTHER) == {(CHECK, "roce-pfc-differs", name) for name in ("gpu01", "gpu02")}
    assert all(outcome.summary.endswith("as many ports have another setting") for outcome in outcomes)


def test_without_mlnx_qos_only_a_site_that_states_its_pauses_is_held(roce: AnyFleet) -> None:
    roce.hosts["gpu02"].tools["mlnx_qos"] = ToolRun(argv=("sh", "-c", "..."), rc=127)
    assert {outcome.status for outcome in judged(roce)} == {Status.PASSED}
    roce.settings[CHECK] = {"pfc_priorities": [3]}
    assert said(judged(roce), Status.OTHER) == {(CHECK, "mlnx-qos-missing", "gpu02")}


def test_pauses_that_are_stated_and_not_told_of_every_port_are_open(roce: AnyFleet) -> None:
    roce.settings[CHECK] = {"pfc_priorities": [3]}
    text = "===== enmlx5_0 =====\nPriority trust state: dscp\n\tenabled 0 0 0 1 0 0 0 0\n"
    roce.hosts["gpu02"].tools["mlnx_qos"] = ToolRun(argv=("sh",), rc=0, stdout=text)
    assert said(judged(roce), Status.OTHER) == {(CHECK, "roce-pfc-not-reported", "gpu02")}


@pytest.mark.parametrize("tool", ["rdma_link", "show_gids", "ibv_devinfo"])
def test_a_tool_that_says_nothing_leaves_the_ports_open(roce: AnyFleet, tool: str) -> None:
    roce.hosts["gpu02"].tools[tool] = ToolRun(argv=(tool,), missing=True)
    assert said(judged(roce), Status.OTHER) == {(CHECK, f"{tool.replace('_', '-')}-missing", "gpu02")}


def test_a_port_that_ibv_devinfo_does_not_list_is_open(roce: AnyFleet) -> None:
    listed = (
        "hca_id:\tmlx5_0\n\t\tport:\t1\n\t\t\tstate:\tPORT_ACTIVE (4)\n\t\t\tmax_mtu:\t4096 (5)\n"
        "\t\t\tactive_mtu:\t4096 (5)\n"
    )
    roce.hosts["gpu02"].tools["ibv_devinfo"] = ToolRun(argv=("ibv_devinfo",), rc=0, stdout=listed)
    assert said(judged(roce), Status.OTHER) == {(CHECK, "roce-port-not-listed", "gpu02")}


def test_ports_that_are_down_are_left_to_the_state_of_the_adapters(roce: AnyFleet) -> None:
    (held,) = [o for o in judged(roce, state="Down", physical="Polling") if o.status is not Status.PASSED]
    assert held.blocked_by == "hca-state"


def test_packets_that_a_load_made_a_port_discard_are_for_a_person(roce: AnyFleet) -> None:
    """Those of before the load are not."""
    lines = [
        f"===== mlx5_{n} =====\nNIC statistics:\n     rx_discards_phy: {9 if n == 2 else 7}\n     tx_discards_phy: 0\n"
        for n in range(4)
    ]
    assert {outcome.status for outcome in roce.judge(only="host-state-after-diag")} == {Status.PASSED}
    roce.hosts["gpu02"].after["ethtool_stats"] = ToolRun(argv=("sh",), rc=0, stdout="".join(lines))
    (held,) = [o for o in roce.judge(only="host-state-after-diag") if o.status is not Status.PASSED]
    assert (held.status, held.cause) == (Status.OTHER, "port-errors-under-load")
    assert "gpu02/mlx5_2" in {subject.name for subject in held.subjects}
    assert "rx_discards_phy" in held.summary and "mlnx_qos" in held.hint


def test_an_infiniband_host_is_not_asked_for_discards(fleet: AnyFleet) -> None:
    fleet.hosts["gpu02"].after["ethtool_stats"] = ToolRun(
        argv=("sh",), rc=0, stdout="===== mlx5_0 =====\nNIC statistics:\n     rx_discards_phy: 900\n"
    )
    assert {outcome.status for outcome in fleet.judge(only="host-state-after-diag")} == {Status.PASSED}
