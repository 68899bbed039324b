# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""How many hosts of a fleet are diagnosed at a time, and what a person is told of how long that takes."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from preflight_options import UNSTATED

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.kit.settings_layers import checked_settings
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.nodes.dcgm_diag_settings import (
    DCGM_DIAG,
    DcgmDiagSettings,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.features.inventory.app import checked_inventory
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.features.inventory.hosts import Inventory
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.features.preflight.app import (
    DiagnosticWaves,
    diagnostic_waves,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.features.preflight.plan import plan_lines, planned

OPTIONS = UNSTATED | {"gates": ["nodes"]}


def inventory(hosts: int, forks: int) -> Inventory:
    names = [f"gpu{number:04d}" for number in range(hosts)]
    stated = {"gpufleet_sku": "h100", "gpufleet_rack": "a1"}
    return Inventory({"gpu_nodes": names}, dict.fromkeys(names, stated), forks=forks)


def waves(hosts: int, forks: int, **options: Any) -> DiagnosticWaves | None:
    return diagnostic_waves(checked_inventory(OPTIONS | options, inventory(hosts, forks)), forks)


@pytest.mark.parametrize(("hosts", "at_once"), [(1, 16), (128, 16), (129, 17), (1000, 125), (5000, 512)])
def test_in_pods_a_wave_grows_with_the_fleet(hosts: int, at_once: int) -> None:
    assert checked_settings(DcgmDiagSettings, DCGM_DIAG, {}).at_once_in_pods(hosts) == at_once


def test_a_site_says_itself_how_many_hosts_are_diagnosed_at_a_time() -> None:
    stated = checked_settings(DcgmDiagSettings, DCGM_DIAG, {"at_once": 4})
    assert stated.at_once_in_pods(1000) == 4
    assert (stated.at_once_by_forks(10), stated.at_once_by_forks(2)) == (4, 2)


def test_a_large_fleet_on_few_forks_is_told_what_it_takes_and_how_it_takes_less() -> None:
    found = waves(1000, 10)
    assert found is not None
    assert found.count == 100
    (line,) = found.lines()
    assert line.startswith("diagnostic: 1000 hosts, 10 at a time (forks = 10): about 25 h 00 min")
    assert line.endswith("; with --forks 125 about 2 h 00 min")


def test_what_the_site_itself_limits_is_not_put_on_the_forks() -> None:
    found = waves(1000, 200, set=[f"{DCGM_DIAG}.at_once=50"])
    assert found is not None
    (line,) = found.lines()
    assert "50 at a time (dcgm-diag.at_once)" in line
    assert "dcgm-diag.at_once=125" in line


def test_a_fleet_of_one_wave_is_told_nothing() -> None:
    found = waves(10, 10)
    assert found is not None
    assert not found.lines()


def test_without_a_diagnostic_that_loads_the_gpus_there_are_no_waves() -> None:
    assert waves(1000, 10, set=[f"{DCGM_DIAG}.level=1"]) is None
    assert waves(1000, 10, gates=["facility"]) is None
    simulated = replace(inventory(1000, 10), simulated=True)
    assert diagnostic_waves(checked_inventory(OPTIONS, simulated), 10) is None


def test_the_plan_says_how_long_the_diagnostic_of_the_fleet_takes() -> None:
    plan = planned(OPTIONS, inventory(40, 10))
    (nodes,) = [entry for entry in plan.gates if entry["gate"] == "nodes"]
    assert nodes["duration_s"] >= 4 * 900
    assert any("diagnostic: 40 hosts, 10 at a time" in line for line in plan_lines(plan))
