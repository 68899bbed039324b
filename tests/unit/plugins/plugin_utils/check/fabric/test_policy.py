# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Redundancy of the subnet manager as the site states it. Under UFM in management or high availability mode every other
subnet manager must be off (NVIDIA UFM SDN Appliance manual, "Changing UFM Running Mode"); others run a standby."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.decisions import Waiver
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.model import Rating, Status
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.probe.sminfo import MASTER, STANDBY, SmInfo
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.site.cabling import End

SM = SmInfo(lid=1, guid=1, activity=20, priority=0, state=MASTER)
OTHER = SmInfo(lid=9, guid=9, activity=5, priority=14, state=STANDBY)
HOST_LINK = (End("gpu03 mlx5_2", 1), End("leaf2", 3))


@pytest.mark.parametrize(
    ("policy", "managers", "cause"),
    [
        ("standby", (SM, OTHER), ""),
        ("standby", (SM,), "no-standby-subnet-manager"),
        ("external", (SM,), ""),
        ("external", (SM, OTHER), "subnet-manager-beside-external"),
        ("external", (SM, replace(OTHER, state=MASTER)), "two-masters"),
        ("external", (), "no-subnet-manager"),
    ],
)
def test_policies(fabric: Any, policy: str, managers: tuple[SmInfo, ...], cause: str) -> None:
    fabric.subnet = {"managers": managers}
    fabric.settings = {"subnet-manager": {"policy": policy}}
    assert [o.cause for o in fabric.held()] == ([cause] if cause else [])


def test_another_manager_beside_an_external_one_waits_for_a_person(fabric: Any) -> None:
    fabric.subnet = {"managers": (SM, OTHER)}
    fabric.settings = {"subnet-manager": {"policy": "external"}}
    found = fabric.one()
    assert (found.status, found.rating) == (Status.OTHER, Rating.MARGINAL)


def test_a_waiver_names_one_cable_and_no_other(fabric: Any) -> None:
    fabric.cables[HOST_LINK] = {"width": "1X"}
    fabric.cables[End("gpu03 mlx5_1", 1), End("leaf1", 3)] = {"width": "1X"}
    first, second = fabric.held()
    by = {"check": "link-rate", "reason": "spare part is ordered", "who": "ops", "until": "2026-12-01"}
    for subject in ("gpu03/mlx5_1", "gpu03 mlx5_1:1 - leaf1:3"):
        assert [Waiver(subject=subject, **by).covers(found) for found in (first, second)] == [True, False]
    assert all(Waiver(subject="gpu03", **by).covers(found) for found in (first, second)), "a host's own cables"
    assert not any(Waiver(subject="gpu03/mlx5_3", **by).covers(found) for found in (first, second))


def test_a_waiver_names_one_uplink_by_either_name(fabric: Any) -> None:
    fabric.cables[End("leaf1", 33), End("spine1", 2)] = {"width": "1X"}
    found = fabric.one()
    by = {"check": "link-rate", "reason": "spare part is ordered", "who": "ops", "until": "2026-12-01"}
    assert Waiver(subject="leaf1:33 - spine1:2", **by).covers(found)
    assert Waiver(subject="leaf1:33", **by).covers(found)
    assert not Waiver(subject="leaf1:3", **by).covers(found)
