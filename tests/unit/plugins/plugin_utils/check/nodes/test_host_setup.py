# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Limits of the units that start GPU jobs, governors of processors, control groups: alike on all hosts, as stated."""

from __future__ import annotations

from typing import Any

import pytest
from fleet_faults import AnyFleet, said

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.collect.host_evidence import ToolRun
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.model import Outcome, Status

LIMITS, GOVERNOR, CGROUP = "unit-limits", "cpu-governor", "cgroup-uniform"
PERFORMANCE, POWERSAVE = "    192 performance\n", "    192 powersave\n"


def units(memlock: str = "infinity", nofile: str = "1048576", state: str = "active") -> str:
    limits = "".join(f"{name}={text}\n" for name, text in (("LimitMEMLOCK", memlock), ("LimitNOFILE", nofile)) if text)
    started = f"Id=containerd.service\nLoadState=loaded\nActiveState={state}\n{limits}"
    # A unit that starts nothing has the limits that systemd gives by default.
    return f"Id=kubelet.service\nLoadState=loaded\nActiveState=active\nLimitMEMLOCK=8388608\n\n{started}"


def judged(fleet: AnyFleet, check: str, tool: str, usual: str, *odd: str) -> tuple[Outcome, ...]:
    """Judge a fleet of which the last hosts say something else."""
    names = list(fleet.hosts)
    texts = dict.fromkeys(names, usual) | dict(zip(names[-len(odd) :] if odd else (), odd, strict=True))
    for name, host in fleet.hosts.items():
        host.tools[tool] = ToolRun(argv=(tool,), rc=0, stdout=texts[name])
    outcomes: tuple[Outcome, ...] = fleet.judge(only=check)
    return outcomes


def limits(fleet: AnyFleet, *odd: str, usual: str = "") -> tuple[Outcome, ...]:
    return judged(fleet, LIMITS, "systemctl_show", usual or units(), *odd)


def statuses(outcomes: tuple[Outcome, ...]) -> list[str]:
    return [outcome.status.value for outcome in outcomes]


@pytest.mark.parametrize("memlock", ["infinity", "8388608", "18446744073709551615"])
def test_units_with_the_same_limits_pass_whatever_they_are(fleet: AnyFleet, memlock: str) -> None:
    assert statuses(limits(fleet, usual=units(memlock))) == ["passed"] * 3


@pytest.mark.parametrize(
    ("odd", "says"),
    [
        (units("8388608"), "containerd.service LimitMEMLOCK: limit 8388608, expected infinity"),
        (units(nofile="1024"), "containerd.service LimitNOFILE: limit 1024, expected 1048576"),
    ],
)
def test_one_host_with_another_limit_is_for_a_person(fleet: AnyFleet, odd: str, says: str) -> None:
    outcomes = limits(fleet, odd)
    assert said(outcomes, Status.OTHER) == {(LIMITS, "unit-limits-mismatch", "gpu03")}
    assert says in next(outcome.summary for outcome in outcomes if outcome.cause)


def test_two_ways_to_print_no_limit_are_the_same(fleet: AnyFleet) -> None:
    assert statuses(limits(fleet, units("18446744073709551615"))) == ["passed"] * 3


def test_of_two_halves_no_host_is_the_odd_one(make_fleet: Any) -> None:
    (held,) = limits(make_fleet(4), units("8388608"), units("8388608"))
    assert (held.status, held.cause) == (Status.OTHER, "unit-limits-split")


@pytest.mark.parametrize(
    ("settings", "odd", "cause"),
    [
        ({"memlock_gib": 16}, units("8388608"), "memlock-limit-low"),
        ({"nofile": 65536}, units(nofile="1024"), "nofile-limit-low"),
        ({"memlock_gib": 16, "nofile": 65536}, units(nofile="1024"), "nofile-limit-low"),
    ],
)
def test_less_than_the_site_states_fails(fleet: AnyFleet, settings: dict[str, Any], odd: str, cause: str) -> None:
    fleet.settings[LIMITS] = settings
    outcomes = limits(fleet, odd)
    assert said(outcomes, Status.FAILED) == {(LIMITS, cause, "gpu03")}
    assert statuses(outcomes).count("passed") == 2


def test_less_than_stated_fails_on_all_hosts_and_in_halves(make_fleet: Any) -> None:
    fleet = make_fleet(4)
    fleet.settings[LIMITS] = {"memlock_gib": 16}
    assert statuses(limits(fleet, usual=units("8388608"))) == ["failed"] * 4
    # The other limit, which nobody stated, is split.
    odd = units("8388608", "1024")
    outcomes = limits(fleet, odd, odd)
    assert said(outcomes, Status.FAILED) == {(LIMITS, "memlock-limit-low", name) for name in ("gpu03", "gpu04")}


def test_more_than_the_site_states_passes(fleet: AnyFleet) -> None:
    fleet.settings[LIMITS] = {"memlock_gib": 16}
    assert statuses(limits(fleet, units(str(64 << 30)))) == ["passed"] * 3


@pytest.mark.parametrize(
    ("settings", "odd", "cause"),
    [
        ({}, units(memlock=""), "unit-limits-not-reported"),
        ({"memlock_gib": 16}, units(memlock=""), "unit-limits-not-reported"),
        ({"memlock_gib": 16}, units(state="inactive"), "unit-limits-no-unit"),
        ({}, "", "systemctl-show-empty"),
        ({"memlock_gib": 16}, "no unit at all", "systemctl-show-garbage"),
    ],
)
def test_limits_that_nobody_tells_are_open(fleet: AnyFleet, settings: dict[str, Any], odd: str, cause: str) -> None:
    fleet.settings[LIMITS] = settings
    assert said(limits(fleet, odd), Status.OTHER) == {(LIMITS, cause, "gpu03")}


def test_a_host_whose_containers_are_started_by_nothing_known_has_nothing_to_compare(fleet: AnyFleet) -> None:
    outcomes = limits(fleet, units(state="inactive"))
    assert statuses(outcomes) == ["passed"] * 3
    assert "no limit to compare" in outcomes[2].summary


@pytest.mark.parametrize("usual", [PERFORMANCE, POWERSAVE, "no governor\n", "      2 powersave\n    190 performance\n"])
def test_processors_that_are_clocked_alike_pass(fleet: AnyFleet, usual: str) -> None:
    assert statuses(judged(fleet, GOVERNOR, "cpu_governors", usual)) == ["passed"] * 3


@pytest.mark.parametrize("odd", [POWERSAVE, "no governor\n", "      2 powersave\n    190 performance\n"])
def test_one_host_with_another_governor_is_for_a_person(fleet: AnyFleet, odd: str) -> None:
    outcomes = judged(fleet, GOVERNOR, "cpu_governors", PERFORMANCE, odd)
    assert said(outcomes, Status.OTHER) == {(GOVERNOR, "cpu-governor-mismatch", "gpu03")}
    assert statuses(outcomes).count("passed") == 2


@pytest.mark.parametrize(
    ("odd", "status", "cause"),
    [
        (POWERSAVE, Status.FAILED, "cpu-governor-wrong"),
        ("      2 powersave\n    190 performance\n", Status.FAILED, "cpu-governor-wrong"),
        ("no governor\n", Status.OTHER, "cpu-governor-not-shown"),
        ("", Status.OTHER, "cpu-governors-empty"),
        ("performance\n", Status.OTHER, "cpu-governors-garbage"),
    ],
)
def test_a_governor_that_is_stated_is_demanded(fleet: AnyFleet, odd: str, status: Status, cause: str) -> None:
    fleet.settings[GOVERNOR] = {"governor": "performance"}
    outcomes = judged(fleet, GOVERNOR, "cpu_governors", PERFORMANCE, odd)
    assert said(outcomes, status) == {(GOVERNOR, cause, "gpu03")}
    assert statuses(outcomes).count("passed") == 2


def test_control_groups_are_of_one_version_or_for_a_person(fleet: AnyFleet) -> None:
    assert statuses(judged(fleet, CGROUP, "cgroup_hierarchy", "tmpfs\n")) == ["passed"] * 3
    outcomes = judged(fleet, CGROUP, "cgroup_hierarchy", "cgroup2fs\n", "tmpfs\n")
    assert said(outcomes, Status.OTHER) == {(CGROUP, "cgroup-mismatch", "gpu03")}
    assert said(judged(fleet, CGROUP, "cgroup_hierarchy", "cgroup2fs\n", ""), Status.OTHER) == {
        (CGROUP, "cgroup-hierarchy-empty", "gpu03")
    }
