# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""InfiniBand ports of one rail: one subnet manager and one MTU (T111 of findings/faults.md)."""

from __future__ import annotations

import pytest
from fleet_faults import AnyFleet, said

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.collect.host_evidence import ToolRun
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.model import Status

CHECK, OTHER = "hca-state", Status.OTHER


@pytest.mark.parametrize(
    ("field", "value", "cause"),
    [("sm", "7", "subnet-manager-differs"), ("mtu", "2048 (4)", "ib-mtu-differs")],
)
def test_a_port_that_differs_from_its_rail_is_for_a_person(fleet: AnyFleet, field: str, value: str, cause: str) -> None:
    fleet.hosts["gpu02"].hcas["mlx5_2"][field] = value
    outcomes = fleet.judge(only=CHECK)
    assert said(outcomes, OTHER) == {(CHECK, cause, "gpu02/mlx5_2")}
    assert sum(outcome.status is Status.PASSED for outcome in outcomes) == 2
    # A rail of its own subnet.
    for host in fleet.hosts.values():
        host.hcas["mlx5_2"][field] = value
    assert {outcome.status for outcome in fleet.judge(only=CHECK)} == {Status.PASSED}


def test_halves_blame_both(fleet: AnyFleet) -> None:
    del fleet.hosts["gpu03"]
    fleet.hosts["gpu02"].hcas["mlx5_1"]["sm"] = "7"
    found = said(fleet.judge(only=CHECK), OTHER)
    assert found == {(CHECK, "subnet-manager-differs", f"{name}/mlx5_1") for name in ("gpu01", "gpu02")}


def test_a_host_without_the_tool_is_judged_by_what_ibstat_prints(fleet: AnyFleet) -> None:
    fleet.hosts["gpu02"].hcas["mlx5_2"]["mtu"] = "2048 (4)"
    fleet.hosts["gpu02"].tools["ibv_devinfo"] = ToolRun(argv=("ibv_devinfo",), missing=True)
    assert {outcome.status for outcome in fleet.judge(only=CHECK)} == {Status.PASSED}


def test_a_port_that_is_down_has_no_subnet_manager_to_compare(fleet: AnyFleet) -> None:
    fleet.hosts["gpu02"].hcas["mlx5_2"] |= {"state": "Down", "sm": "0"}
    assert {(o.status, o.cause) for o in fleet.judge(only=CHECK) if o.status is not Status.PASSED} == {
        (Status.FAILED, "hca-down")
    }
