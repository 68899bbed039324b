# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Leaks and coolant of liquid-cooled hosts, as their BMCs say.

Bodies after DMTF DSP0268 (LeakDetector, Sensor) and the GB300 tray in spyroot/redfish_ctl, tests.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from bmc_fleet import HARDWARE, fleet

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.collect.redfish import COOLANT, read_bmc
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.errors import InputError
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.model import Status
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.probe.redfish_coolant import (
    parse_coolant,
    parse_detector,
    tells_of_coolant,
)
from ansible_collections.gpufleet.rehearsal.plugins.plugin_utils.bmc.payloads import tree_of
from ansible_collections.gpufleet.rehearsal.plugins.plugin_utils.model.bmc import Bmc, bmc_of

TRAY, DGX = HARDWARE["gb300-nvl72"], HARDWARE["dgx-h100"]
SENSORS = "/redfish/v1/Chassis/Chassis_0/Sensors"


def tray(*leaks: str) -> Bmc:
    return replace(bmc_of(TRAY, 0), leaks=leaks or ("OK",) * 4)


@pytest.mark.parametrize(
    ("state", "status", "cause"),
    [
        ("Critical", "failed", "coolant-leak"),
        ("Warning", "other", "coolant-leak-warning"),
        ("Unavailable", "other", "leak-detector-silent"),
        ("", "other", "leak-detector-silent"),
    ],
)
def test_a_detector_that_is_not_dry_is_reported(tmp_path: Path, state: str, status: str, cause: str) -> None:
    with fleet(tmp_path, a=tray(), b=tray("OK", state, "OK", "OK")) as hosts:
        assert hosts.held() == [("coolant", "b", status, cause)]


def test_hosts_without_coolant_and_trays_without_detectors_say_so_and_pass(tmp_path: Path) -> None:
    with fleet(tmp_path, a=bmc_of(DGX, 0), b=bmc_of(DGX, 0), c=replace(tray(), leaks=()), d=tray()) as hosts:
        told = {o.subjects[0].name: o.summary for o in hosts.told("coolant") if o.status is Status.PASSED}
    assert told["a"] == "no coolant in this host" and "no sensor of coolant or leaks" in told["c"]
    assert told["d"].startswith("4 leak detectors dry") and len(told) == 4


def sensor(units: str, value: Any, **more: Any) -> dict[str, Any]:
    limits = {"LowerCritical": {"Reading": 20}, "UpperCritical": {"Reading": 50}}
    status = {"State": "Enabled", "Health": "OK"}
    return {"Name": "Coolant", "ReadingUnits": units, "Reading": value, "Status": status, "Thresholds": limits, **more}


def tree_with(body: dict[str, Any]) -> dict[str, Any]:
    tree = tree_of(tray(), "S-1")
    path = f"{SENSORS}/Chassis_0_Coolant_Supply_0"
    members = [*tree[SENSORS]["Members"], {"@odata.id": path}]
    return {
        **tree,
        path: {"@odata.id": path, **body},
        SENSORS: {**tree[SENSORS], "Members": members, "Members@odata.count": len(members)},
    }


@pytest.mark.parametrize(
    ("units", "value", "shown"), [("Cel", 33.5, "C"), ("L/min", 41, "l/min"), ("kPa", 45, "kPa"), ("%", 40, None)]
)
def test_sensors_of_the_liquid_are_read_by_their_unit(units: str, value: float, shown: str | None) -> None:
    tree = tree_with(sensor(units, value))
    facts = read_bmc(tree["/redfish/v1"], lambda path: tree[path.rstrip("/")])
    assert facts.problems == {} and [entry.units for entry in facts.coolant] == ([shown] if shown else [])


def test_what_cannot_be_read_of_the_coolant_is_a_problem_and_no_empty_part() -> None:
    tree = tree_with(sensor("Cel", "warm"))
    facts = read_bmc(tree["/redfish/v1"], lambda path: tree[path.rstrip("/")])
    assert list(facts.problems) == [COOLANT]


@pytest.mark.parametrize(
    ("value", "health", "held"),
    [
        (33.5, "OK", []),
        (51.0, "OK", ["coolant-out-of-limits"]),
        (19.0, "OK", ["coolant-out-of-limits"]),
        (33.5, "Critical", ["coolant-out-of-limits"]),
        (33.5, "Warning", ["coolant-warning"]),
        (None, "OK", []),
    ],
)
def test_coolant_beyond_the_limits_of_the_bmc_is_reported(value: Any, health: str, held: list[str]) -> None:
    from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.facility.coolant import _of_sensors

    found = parse_coolant(sensor("Cel", value, Status={"State": "Enabled", "Health": health}))
    assert found is not None
    assert [finding.cause for finding in _of_sensors([found])] == held


def test_a_detector_of_real_firmware_without_enabled_is_read_and_another_type_is_refused() -> None:
    body = {"Id": "LD0", "Name": "LD 0", "DetectorState": "OK", "Status": {"State": "Enabled", "Health": "OK"}}
    assert parse_detector(body).enabled and not parse_detector({**body, "Enabled": False}).enabled
    assert parse_detector({"Id": "LD0", "Status": {"Health": "Critical"}}).state == "Critical"
    with pytest.raises(InputError, match="Enabled"):
        parse_detector({**body, "Enabled": "yes"})


def test_only_sensors_of_the_liquid_are_asked() -> None:
    assert tells_of_coolant(f"{SENSORS}/Chassis_0_Liquid_Flow_0")
    assert not tells_of_coolant(f"{SENSORS}/Chassis_0_FAN_1_FRONT")
