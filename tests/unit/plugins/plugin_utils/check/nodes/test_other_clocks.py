# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Clocks that chrony does not keep by a network server: PHC of a hypervisor, systemd-timesyncd, PTP."""

from __future__ import annotations

import pytest
from fleet_faults import AnyFleet, said

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.collect.host_evidence import ToolRun
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.model import Status

LOCKED = "phc2sys[359.907]: CLOCK_REALTIME phc offset       -20 s2 freq  +10469 delay     37\n"
SERVICE = "Timezone=Etc/UTC\nNTP={}\nNTPSynchronized={}\n"
STOPPED = ToolRun(argv=("chronyc", "tracking"), rc=1, stdout="506 Cannot talk to daemon\n")
NONE = ToolRun(argv=("chronyc", "tracking"), missing=True)


def _print(fleet: AnyFleet, name: str, text: str) -> None:
    fleet.hosts["gpu02"].tools[name] = ToolRun(argv=(name,), rc=0, stdout=text)


@pytest.mark.parametrize("chrony", [STOPPED, NONE])
@pytest.mark.parametrize(("name", "text"), [("phc2sys", LOCKED), ("timedatectl", SERVICE.format("yes", "yes"))])
def test_another_service_that_keeps_the_clock_is_as_good(
    fleet: AnyFleet, chrony: ToolRun, name: str, text: str
) -> None:
    fleet.hosts["gpu02"].tools["chronyc"] = chrony
    _print(fleet, name, text)
    assert {o.status for o in fleet.judge()} == {Status.PASSED}


@pytest.mark.parametrize(
    ("name", "text", "cause"),
    [
        ("phc2sys", LOCKED.replace("s2", "s0"), "clock-not-synchronised"),
        ("phc2sys", LOCKED.replace("-20", "7000000"), "clock-offset"),
        ("phc2sys", LOCKED + LOCKED.replace("s2", "s1"), "clock-not-synchronised"),
        ("timedatectl", SERVICE.format("yes", "no"), "clock-not-synchronised"),
        ("timedatectl", SERVICE.format("no", "yes"), "clock-daemon-down"),
    ],
)
def test_a_clock_that_nobody_keeps_fails(fleet: AnyFleet, name: str, text: str, cause: str) -> None:
    """A kernel that was synchronised once says so for hours after its service is gone."""
    fleet.hosts["gpu02"].tools["chronyc"] = STOPPED
    _print(fleet, name, text)
    assert said(fleet.judge(), Status.FAILED) == {("clock-sync", cause, "gpu02")}


def test_chrony_that_answers_nonsense_is_not_replaced(fleet: AnyFleet) -> None:
    _print(fleet, "chronyc", "nonsense")
    _print(fleet, "timedatectl", SERVICE.format("yes", "yes"))
    assert said(fleet.judge(), Status.OTHER) == {("clock-sync", "chronyc-garbage", "gpu02")}


def test_clock_of_the_hypervisor_is_a_source(fleet: AnyFleet) -> None:
    """Azure: a refclock PHC and no network server."""
    text = fleet.hosts["gpu02"].evidence().tools["chronyc"].stdout.replace("83E17991 (ntp)", "50484330 (PHC0)")
    _print(fleet, "chronyc", text)
    assert {o.status for o in fleet.judge(only="clock-sync")} == {Status.PASSED}
