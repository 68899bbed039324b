# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Clocks that chrony does not keep by a network server: PHC of a hypervisor, systemd-timesyncd, PTP."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from fleet_faults import AnyFleet, said

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.nodes import clock_sync
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.collect.host_evidence import ToolRun, clock_off_s
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.model import Status

LOCKED = "phc2sys[359.907]: CLOCK_REALTIME phc offset       -20 s2 freq  +10469 delay     37\n"
SERVICE = "Timezone=Etc/UTC\nNTP={}\nNTPSynchronized={}\n"
# As published by NTP's users, for instance VMware guests with ntpd 4.2.8p4; the offset is in ms.
NTPD = """associd=0 status=0615 leap_none, sync_ntp, 1 event, clock_sync,
version="ntpd 4.2.8p4@1.3265-o Tue Aug  2 08:19:53 UTC 2016 (1)",
processor="x86_64", system="Linux/4.4.0-36-generic", leap=00, stratum=2,
precision=-24, rootdelay=9.008, rootdisp=40.902, refid=192.0.2.1,
reftime=db7f4a0b.1c2d3e4f  Sat, Sep 10 2016 21:23:07.750, peer=23273,
tc=10, mintc=3, offset=-0.075166, frequency=-10.953, sys_jitter=0.113289
"""
NO_SOURCE = NTPD.replace("0615 leap_none, sync_ntp", "c011 sync_alarm, sync_unspec").replace(
    "=00, stratum=2,", "=11, stratum=16,"
)
STOPPED = ToolRun(argv=("chronyc", "tracking"), rc=1, stdout="506 Cannot talk to daemon\n")
NONE = ToolRun(argv=("chronyc", "tracking"), missing=True)


def _print(fleet: AnyFleet, name: str, text: str) -> None:
    fleet.hosts["gpu02"].tools[name] = ToolRun(argv=(name,), rc=0, stdout=text)


@pytest.mark.parametrize("chrony", [STOPPED, NONE])
@pytest.mark.parametrize(
    ("name", "text"), [("phc2sys", LOCKED), ("ntpq", NTPD), ("timedatectl", SERVICE.format("yes", "yes"))]
)
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
        ("ntpq", NO_SOURCE, "clock-not-synchronised"),
        ("ntpq", NTPD.replace("stratum=2,", "stratum=16,"), "clock-not-synchronised"),
        ("ntpq", NTPD.replace("offset=-0.075", "offset=-70.75"), "clock-offset"),
        ("timedatectl", SERVICE.format("yes", "no"), "clock-not-synchronised"),
        ("timedatectl", SERVICE.format("no", "yes"), "clock-daemon-down"),
    ],
)
def test_a_clock_that_nobody_keeps_fails(fleet: AnyFleet, name: str, text: str, cause: str) -> None:
    """A kernel that was synchronised once says so for hours after its service is gone."""
    fleet.hosts["gpu02"].tools["chronyc"] = STOPPED
    _print(fleet, name, text)
    assert said(fleet.judge(), Status.FAILED) == {("clock-sync", cause, "gpu02")}


@pytest.mark.parametrize("lost", ["offset=-0.075166, ", "leap=00, ", "stratum=2,", "sync_ntp, "])
def test_ntpd_that_does_not_say_all_is_no_answer(fleet: AnyFleet, lost: str) -> None:
    fleet.hosts["gpu02"].tools["chronyc"] = NONE
    _print(fleet, "ntpq", NTPD.replace(lost, ""))
    assert said(fleet.judge(), Status.OTHER) == {("clock-sync", "chronyc-missing", "gpu02")}


def test_chrony_that_answers_nonsense_is_not_replaced(fleet: AnyFleet) -> None:
    _print(fleet, "chronyc", "nonsense")
    _print(fleet, "timedatectl", SERVICE.format("yes", "yes"))
    assert said(fleet.judge(), Status.OTHER) == {("clock-sync", "chronyc-garbage", "gpu02")}


def test_clock_of_the_hypervisor_is_a_source(fleet: AnyFleet) -> None:
    """Azure: a refclock PHC and no network server."""
    text = fleet.hosts["gpu02"].evidence().tools["chronyc"].stdout.replace("83E17991 (ntp)", "50484330 (PHC0)")
    _print(fleet, "chronyc", text)
    assert {o.status for o in fleet.judge(only="clock-sync")} == {Status.PASSED}


FAILS = "findings/captures-fails"


@pytest.mark.parametrize(
    ("edit", "status", "cause"),
    [
        # chronyc(1): 127.127.1.1 is the local mode, in which each host drifts by itself.
        ({}, Status.FAILED, "clock-not-synchronised"),
        ({"7F7F0101 ()": "C0000201 (192.0.2.1)", ": 10": ": 3"}, Status.PASSED, ""),
        # A server in its own local mode: the other hosts are at stratum 3.
        ({"7F7F0101 ()": "C0000201 (192.0.2.1)"}, Status.OTHER, "clock-stratum-far"),
        ({"7F7F0101 ()": "C0000201 (192.0.2.1)", ": 10": ": 16"}, Status.FAILED, "clock-not-synchronised"),
        # Its sources answered four days ago for the last time.
        (
            {"7F7F0101 ()": "C0000201 (192.0.2.1)", "Root dispersion : 0.000000001": "Root dispersion : 2.300000000"},
            Status.OTHER, "clock-stale",
        ),
        (
            {"7F7F0101 ()": "C0000201 (192.0.2.1)", "Root delay      : 0.000000001": "Root delay      : 1.200000000"},
            Status.OTHER, "clock-stale",
        ),
    ],
)  # fmt: skip
def test_a_clock_that_follows_no_source_is_not_synchronised(
    fleet: AnyFleet, shared: Path, edit: dict[str, str], status: Status, cause: str
) -> None:
    text = (shared / FAILS / "P126-chrony-local-reference.txt").read_text(encoding="utf-8")
    for old, new in edit.items():
        assert old in text
        text = text.replace(old, new)
    fleet.hosts["gpu02"].tools["chronyc"] = ToolRun(argv=("chronyc",), rc=0, stdout=text)
    (outcome,) = (o for o in fleet.judge(only="clock-sync") if o.subjects[0].name == "gpu02")
    assert (outcome.status, outcome.cause) == (status, cause)


def test_ntpd_that_follows_its_own_clock_follows_no_source(shared: Path) -> None:
    text = (shared / FAILS / "P126-ntpq-local-clock.txt").read_text(encoding="utf-8")
    assert not clock_sync.parse_ntpq(text).synchronised
    followed = clock_sync.parse_ntpq(
        text.replace("sync_local", "sync_ntp").replace("rootdisp=11.430", "rootdisp=3311.0")
    )
    assert followed.synchronised and followed.error_bound_s == pytest.approx(3.311)


TRACKING = (
    "Reference ID    : C0000201 (ntp)\nStratum         : {}\nSystem time     : {:.9f} seconds fast of NTP time\n"
    "Last offset     : +0.000004989 seconds\nRoot delay      : 0.000411626 seconds\n"
    "Root dispersion : 0.018570010 seconds\nLeap status     : Normal\n"
)


@pytest.mark.parametrize(
    ("offset_s", "status", "cause"),
    [
        (0.0009, Status.PASSED, ""),
        (0.003, Status.OTHER, "clock-offset-marginal"),
        (0.04, Status.OTHER, "clock-offset-marginal"),
        (0.06, Status.FAILED, "clock-offset"),
    ],
)
def test_some_milliseconds_are_what_ntp_over_the_internet_reaches(
    fleet: AnyFleet, offset_s: float, status: Status, cause: str
) -> None:
    """chrony's README: "within a few milliseconds"; nothing in gates 4 to 8 needs one."""
    fleet.hosts["gpu02"].tools["chronyc"] = ToolRun(argv=("chronyc",), rc=0, stdout=TRACKING.format(3, offset_s))
    found = {o.subjects[0].name: (o.status, o.cause) for o in fleet.judge(only="clock-sync")}
    assert found["gpu02"] == (status, cause) and found["gpu01"] == (Status.PASSED, "")


@pytest.mark.parametrize(
    ("strata", "odd"), [((3, 3, 11), "gpu03"), ((3, 11, 3), "gpu02"), ((2, 3, 4), ""), ((11, 11, 11), "")]
)
def test_a_stratum_far_from_the_fleet_is_another_kind_of_source(
    fleet: AnyFleet, strata: tuple[int, ...], odd: str
) -> None:
    for host, stratum in zip(fleet.hosts.values(), strata, strict=True):
        host.tools["chronyc"] = ToolRun(argv=("chronyc",), rc=0, stdout=TRACKING.format(stratum, 0.000004))
    outcomes = [o for o in fleet.judge(only="clock-sync") if o.status is not Status.PASSED]
    assert [(o.subjects[0].name, o.cause) for o in outcomes] == ([(odd, "clock-stratum-far")] if odd else [])


@pytest.mark.parametrize(
    ("ahead_s", "found"),
    [
        ((0.0, 0.0, 0.0), []),
        ((0.0, 0.0, 183.0), [("gpu03", "clock-off-fleet")]),
        ((0.0, -7.0, 0.0), [("gpu02", "clock-off-fleet")]),
        ((0.0, 0.0, 1.4), []),
        ((90.0, 90.0, 90.0), [("gpu01", "clock-controller-apart")]),
        ((0.0, 183.0), [("gpu02", "clock-off-fleet")]),
        ((0.0,), []),
        ((44.0,), [("gpu01", "clock-off-fleet")]),
        ((), []),
    ],
)
def test_the_time_of_hosts_is_held_against_the_others_and_the_controller(
    make_fleet: Callable[[int], AnyFleet], ahead_s: tuple[float, ...], found: list[tuple[str, str]]
) -> None:
    """Each clock says of itself that it follows its source; asking a host takes a second here."""
    fleet = make_fleet(len(ahead_s) or 3)
    for host, seconds in zip(fleet.hosts.values(), ahead_s, strict=False):
        host.clock_off_s = (seconds - 0.5, seconds + 0.5)
    outcomes = [o for o in fleet.judge(only="clock-sync") if o.status is not Status.PASSED]
    assert [(o.subjects[0].name, o.cause) for o in outcomes] == found
    assert all(o.status is Status.OTHER for o in outcomes)


def test_what_a_host_says_of_its_clock_bounds_how_far_it_is_off() -> None:
    """A host 10 s ahead that is asked at 100, reads its clock at 101 and 108, answers at 109."""
    assert clock_off_s([111.0, 118.0], 100.0, 109.0) == (9.0, 11.0)
    assert [clock_off_s(clock, 100.0, 109.0) for clock in (None, [], [1.0], ["a", "b"], "ab")] == [()] * 5
