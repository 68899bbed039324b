# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The machine below the GPUs: disks, drives, mounts, programs, sensors; GPUDirect, ECN of RoCE, IMEX domains."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
from fleet_faults import AnyFleet, said

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.collect.host_evidence import ToolRun
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.model import Outcome, Status

ROW = "Filesystem 1024-blocks Used Available Capacity Mounted on\n/dev/sda2 1000 {} {} 9% {}\n"
LOG = (
    '===== {} =====\n{{"critical_warning": {}, "temperature": 308, "avail_spare": 9, "percent_used": {}, '
    '"spare_thresh": 5, "media_errors": 0}}\n'
)
WAITS = "".join(
    f"===== {n} =====\n  {{pid}} 1 D {{age}} python3\n  311 2 D 99999 kworker/u9:1\nprocesses 9\n" for n in "123"
)
NO_DEVICE = "Could not open device at /dev/ipmi0 or /dev/ipmi/0: No such file or directory"
LSMOD = "Module Size Used by\nnvidia 1 0\n{}"


def run(stdout: str = "", **more: Any) -> ToolRun:
    return ToolRun(argv=("tool",), stdout=stdout, **({"rc": 0} | more))


def judged(
    fleet: AnyFleet, check: str, settings: dict[str, Any] | None = None, **tools: ToolRun
) -> tuple[Outcome, ...]:
    """Judge a fleet of which gpu02 says something else."""
    fleet.settings[check] = settings or {}
    fleet.hosts["gpu02"].tools |= tools
    outcomes: tuple[Outcome, ...] = fleet.judge(only=check)
    return outcomes


def drives(*rows: tuple[str, int, int]) -> ToolRun:
    return run("".join(LOG.format(*row) for row in rows) + "===== end =====\n")


GOOD = {
    "disk-space": {"disk_space": run(ROW.format(900, 100, "/"), rc=1)},
    "stuck-processes": {"waiting_processes": run(WAITS.format(pid=42, age=12))},
    "nvme-health": {"nvme_health": drives(("nvme0", 0, 99), ("nvme1", 0, 3))},
    "network-mounts": {"network_mounts": run("/home autofs rw\n/home/ann nfs4 rw\n/shared nfs4 rw\n")},
    "bmc-sensors": {"ipmi_sensors": run(stderr=NO_DEVICE, rc=1), "virtualisation": run("kvm\n")},
    "gpu-direct": {"module_licence": run("NVIDIA\n"), "lsmod": run(LSMOD.format("nvidia_peermem 1 0\n"))},
}


@pytest.mark.parametrize("check", GOOD)
def test_what_healthy_hosts_may_say_passes(fleet: AnyFleet, check: str) -> None:
    outcomes = judged(fleet, check, **GOOD[check])
    assert [outcome.status for outcome in outcomes] == [Status.PASSED] * 3
    assert all(outcome.evidence for outcome in outcomes)


BAD: dict[str, tuple[str, dict[str, Any], dict[str, ToolRun], Status, str]] = {
    "full": ("disk-space", {}, {"disk_space": run(ROW.format(970, 30, "/"))}, Status.FAILED, "disk-full"),
    "negative room": ("disk-space", {}, {"disk_space": run(ROW.format(1000, -5, "/"))}, Status.FAILED, "disk-full"),
    "stated room": (
        "disk-space", {"free_percent": 20}, {"disk_space": run(ROW.format(900, 100, "/"))}, Status.FAILED, "disk-full"
    ),
    "no root": (
        "disk-space", {}, {"disk_space": run(ROW.format(1, 9, "/var"))}, Status.OTHER, "disk-space-not-reported"
    ),
    "df hangs": ("disk-space", {}, {"disk_space": run(timed_out=True, rc=None)}, Status.OTHER, "disk-space-timeout"),
    "stuck": (
        "stuck-processes", {}, {"waiting_processes": run(WAITS.format(pid=42, age=7200))}, Status.OTHER,
        "processes-stuck",
    ),
    "cut": (
        "stuck-processes", {}, {"waiting_processes": run("===== 1 =====\nprocesses 9\n")}, Status.OTHER,
        "waiting-processes-garbage",
    ),
    "failing drive": ("nvme-health", {}, {"nvme_health": drives(("nvme0", 4, 3), ("nvme1", 0, 3))}, Status.FAILED,
                      "nvme-failing"),
    "hot drive": ("nvme-health", {}, {"nvme_health": drives(("nvme0", 2, 3), ("nvme1", 0, 3))}, Status.OTHER,
                  "nvme-hot"),
    "worn drive": ("nvme-health", {}, {"nvme_health": drives(("nvme0", 0, 100), ("nvme1", 0, 3))}, Status.OTHER,
                   "nvme-worn"),
    "missing drive": ("nvme-health", {}, {"nvme_health": drives(("nvme0", 0, 3))}, Status.OTHER, "nvme-missing"),
    "silent drive": (
        "nvme-health", {},
        {"nvme_health": run("===== nvme0 =====\nPermission denied\n===== nvme1 =====\n===== end =====\n")},
        Status.OTHER, "nvme-not-reported",
    ),
    "no nvme-cli": ("nvme-health", {}, {"nvme_health": run(rc=127, missing=True)}, Status.OTHER, "nvme-cli-missing"),
    "mount gone": ("network-mounts", {}, {"network_mounts": run("no network file systems\n")}, Status.OTHER,
                   "mount-differs"),
    "stated mount gone": (
        "network-mounts", {"paths": ["/shared"]}, {"network_mounts": run("no network file systems\n")}, Status.FAILED,
        "mount-missing",
    ),
    "read only": ("network-mounts", {}, {"network_mounts": run("/shared nfs4 ro,hard\n")}, Status.OTHER,
                  "mount-read-only"),
    "findmnt missing": ("network-mounts", {}, {"network_mounts": run(rc=127, missing=True)}, Status.OTHER,
                        "findmnt-missing"),
    "critical": ("bmc-sensors", {}, {"ipmi_sensors": run("P12V | 10.6 Volts | lcr\nFan1 | 8000 RPM | ok\n")},
                 Status.FAILED, "bmc-sensor-critical"),
    "warning": ("bmc-sensors", {}, {"ipmi_sensors": run("P12V | 10.6 Volts | nc\nFan1 | 8000 RPM | ok\n")},
                Status.OTHER, "bmc-sensor-warning"),
    "nothing read": ("bmc-sensors", {}, {"ipmi_sensors": run("Fan1 | no reading | ns\n")}, Status.OTHER,
                     "bmc-sensors-not-read"),
    "no controller": ("bmc-sensors", {}, {"ipmi_sensors": run(stderr=NO_DEVICE, rc=1)}, Status.OTHER,
                      "ipmitool-failed"),
    "no ipmitool": ("bmc-sensors", {}, {"ipmi_sensors": run(rc=127, missing=True)}, Status.OTHER, "ipmitool-missing"),
    "controller hangs": ("bmc-sensors", {}, {"ipmi_sensors": run(timed_out=True, rc=None)}, Status.OTHER,
                         "ipmitool-timeout"),
    "no peermem": ("gpu-direct", {}, {"module_licence": run("NVIDIA\n")}, Status.OTHER, "gpudirect-module-missing"),
    "another licence": ("gpu-direct", {}, {"module_licence": run("GPL\n")}, Status.OTHER, "modinfo-garbage"),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD)
def test_what_is_wrong_with_one_host_is_said_of_it(fleet: AnyFleet, name: str) -> None:
    check, settings, tools, status, cause = BAD[name]
    outcomes = judged(fleet, check, settings, **tools)
    assert said(outcomes, status) == {(check, cause, "gpu02")}
    assert sum(outcome.status is Status.PASSED for outcome in outcomes) == 2
    assert all(outcome.hint for outcome in outcomes if outcome.cause)


@pytest.mark.parametrize(
    ("check", "tool"), [("nvme-health", {"nvme_health": run(rc=127, missing=True)}),
                        ("bmc-sensors", {"ipmi_sensors": run(stderr=NO_DEVICE, rc=1)})],
)  # fmt: skip
def test_what_the_site_does_without_is_not_held_and_the_pass_says_that_nothing_was_read(
    fleet: AnyFleet, check: str, tool: dict[str, ToolRun]
) -> None:
    (told,) = (o for o in judged(fleet, check, {"required": False}, **tool) if o.subjects[0].name == "gpu02")
    assert told.status is Status.PASSED and " read" in told.summary


def test_a_sensor_that_the_site_does_not_want_judged_is_not(fleet: AnyFleet) -> None:
    tools = {"ipmi_sensors": run("Fan 7 | 0 RPM | cr\nFan1 | 8000 RPM | ok\n")}
    outcomes = judged(fleet, "bmc-sensors", {"ignore": ["Fan 7"]}, **tools)
    assert {outcome.status for outcome in outcomes} == {Status.PASSED}


@pytest.fixture
def roce(fleet: AnyFleet) -> AnyFleet:
    """Three hosts whose adapters are Ethernet."""
    fleet.sku = replace(fleet.sku, fabric="roce")
    for host in fleet.hosts.values():
        for values in host.hcas.values():
            values["layer"] = "Ethernet"
    return fleet


@pytest.mark.parametrize(
    ("settings", "ecn", "status", "found"),
    [
        ({}, "", Status.OTHER, ("roce-ecn", "roce-ecn-differs", "gpu02/mlx5_2")),
        ({"priorities": [3]}, "0124567", Status.FAILED, ("roce-ecn", "roce-ecn-off", "gpu02/mlx5_2")),
        ({"priorities": [3]}, "3", Status.PASSED, None),
    ],
)
def test_congestion_is_marked_as_on_other_hosts_or_as_stated(
    roce: AnyFleet, settings: dict[str, Any], ecn: str, status: Status, found: tuple[str, str, str] | None
) -> None:
    roce.hosts["gpu02"].hcas["mlx5_2"]["ecn"] = ecn
    outcomes = judged(roce, "roce-ecn", settings)
    assert said(outcomes, Status.FAILED) | said(outcomes, Status.OTHER) == ({found} if found else set())
    assert status in {outcome.status for outcome in outcomes}


def test_of_halves_with_other_marks_of_congestion_both_are_for_a_person(roce: AnyFleet) -> None:
    del roce.hosts["gpu03"]
    for values in roce.hosts["gpu02"].hcas.values():
        values["ecn"] = ""
    found = said(judged(roce, "roce-ecn"), Status.OTHER)
    assert found == {("roce-ecn", "roce-ecn-differs", name) for name in ("gpu01", "gpu02")}


def test_ecn_that_no_driver_shows_is_open_only_where_the_site_states_it(roce: AnyFleet) -> None:
    for host in roce.hosts.values():
        host.tools["roce_ecn"] = run("no ECN settings\n")
    assert {outcome.status for outcome in judged(roce, "roce-ecn")} == {Status.PASSED}
    outcomes = judged(roce, "roce-ecn", {"priorities": [3]})
    assert {outcome.cause for outcome in outcomes} == {"roce-ecn-not-reported"}


def unit(state: str, load: str = "loaded") -> ToolRun:
    return run(f"Id=nvidia-imex.service\nLoadState={load}\nActiveState={state}\n")


def domain(status: str, **states: str) -> ToolRun:
    nodes = {str(n): {"status": s, "host": f"10.0.0.{n}", "hostName": h} for n, (h, s) in enumerate(states.items())}
    return run(json.dumps({"nodes": nodes, "status": status}))


READY = {"gpu01": "READY", "gpu02": "READY", "gpu03": "READY"}


@pytest.fixture
def rack(fleet: AnyFleet) -> AnyFleet:
    """Three hosts of one NVLink domain whose IMEX service runs."""
    fleet.sku = replace(fleet.sku, nvlink_domain="rack")
    for host in fleet.hosts.values():
        host.tools |= {"systemctl_show": unit("active"), "imex_domain": domain("UP", **READY)}
    return fleet


def test_a_domain_that_is_up_passes_and_so_do_hosts_without_the_service(rack: AnyFleet) -> None:
    assert {outcome.status for outcome in judged(rack, "imex-domain")} == {Status.PASSED}
    for host in rack.hosts.values():
        host.tools |= {"systemctl_show": unit("inactive", "not-found"), "imex_domain": run(missing=True, rc=None)}
    assert {outcome.status for outcome in judged(rack, "imex-domain")} == {Status.PASSED}


@pytest.mark.parametrize("state", ["failed", "inactive"])
def test_a_host_without_the_service_of_its_rack_is_the_one_that_is_named(rack: AnyFleet, state: str) -> None:
    seen = domain("DEGRADED", **READY | {"gpu02": "UNAVAILABLE"})
    for host in rack.hosts.values():
        host.tools["imex_domain"] = seen
    outcomes = judged(rack, "imex-domain", systemctl_show=unit(state))
    assert said(outcomes, Status.FAILED) == {("imex-domain", "imex-not-running", "gpu02")}
    assert {outcome.blocked_by for outcome in outcomes if not outcome.cause.startswith("imex")} == {"imex-domain"}


@pytest.mark.parametrize(("status", "away"), [("DEGRADED", "gpu02"), ("DOWN", "gpu02"), ("UP", "gpu02")])
def test_a_domain_that_is_not_up_is_one_result_of_its_rack(rack: AnyFleet, status: str, away: str) -> None:
    for host in rack.hosts.values():
        host.tools["imex_domain"] = domain(status, **READY | {away: "UNAVAILABLE"})
    (outcome,) = judged(rack, "imex-domain")
    assert (outcome.status, outcome.cause) == (Status.FAILED, "imex-domain-not-up")
    assert [subject.name for subject in outcome.subjects] == ["gpu02", "gpu01", "gpu03"]


@pytest.mark.parametrize(
    ("settings", "tools", "status", "cause"),
    [
        ({"service": "off"}, {}, Status.FAILED, "imex-running"),
        ({}, {"imex_domain": domain("UP", gpu01="READY")}, Status.OTHER, "imex-domain-small"),
        ({}, {"imex_domain": run('{"status": "UP"}')}, Status.OTHER, "imex-ctl-garbage"),
        ({}, {"imex_domain": run(missing=True, rc=None)}, Status.OTHER, "imex-ctl-missing"),
        ({}, {"systemctl_show": run(missing=True, rc=None)}, Status.OTHER, "blocked-by-unit-limits"),
    ],
)
def test_what_imex_says_of_one_host(
    rack: AnyFleet, settings: dict[str, Any], tools: Mapping[str, ToolRun], status: Status, cause: str
) -> None:
    outcomes = judged(rack, "imex-domain", settings, **tools)
    assert (status, cause) in {(o.status, o.cause) for o in outcomes if o.subjects[0].name == "gpu02"}


def test_imex_must_run_where_the_site_says_so(rack: AnyFleet) -> None:
    for host in rack.hosts.values():
        host.tools["systemctl_show"] = unit("inactive", "not-found")
    outcomes = judged(rack, "imex-domain", {"service": "running"})
    assert {outcome.cause for outcome in outcomes} == {"imex-not-running"}


LINK = "pci.bus_id, utilization.gpu [%], pcie.link.gen.current, pcie.link.gen.max, pcie.link.width.current\n"


def links(*readings: tuple[int, int, int]) -> ToolRun:
    """Readings of four GPUs, of which the third has this utilization, generation and width."""
    buses = [f"0000{0x10 + 0x11 * k:02x}" for k in range(4)]
    text = ""
    for used, generation, width in readings:
        rows = [f"00000000:{bus[4:]}:00.0, 97 %, 5, 5, 16" for bus in buses]
        rows[2] = f"00000000:{buses[2][4:]}:00.0, {used} %, {generation}, 5, {width}"
        text += LINK + "".join(f"{row}\n" for row in rows)
    return run(text)


@pytest.mark.parametrize(
    ("readings", "status", "found"),
    [
        # An idle link is slow, and one that was seen at its best once is able to it.
        ([(0, 1, 16), (98, 5, 16)], Status.PASSED, None),
        ([(98, 4, 16), (98, 5, 16)], Status.PASSED, None),
        ([(98, 1, 16), (98, 4, 16)], Status.FAILED, ("pcie-generation-reduced", "gpu02/gpu2")),
        ([(98, 5, 16), (98, 5, 8)], Status.FAILED, ("pcie-width-drops", "gpu02/gpu2")),
        ([(98, 5, 8)], Status.FAILED, ("pcie-width-drops", "gpu02/gpu2")),
        ([(0, 1, 16), (3, 1, 16)], Status.OTHER, ("pcie-not-seen-under-load", "gpu02")),
    ],
)
def test_links_are_judged_by_what_they_show_under_load(
    fleet: AnyFleet, readings: list[tuple[int, int, int]], status: Status, found: tuple[str, str] | None
) -> None:
    outcomes = judged(fleet, "gpu-pcie-load", pcie_under_load=links(*readings))
    failed = said(outcomes, Status.FAILED) | said(outcomes, Status.OTHER)
    assert failed == ({("gpu-pcie-load", *found)} if found else set())
    assert sum(outcome.status is status for outcome in outcomes) == (1 if found else 3)


def test_a_reading_that_was_cut_short_does_not_count(fleet: AnyFleet) -> None:
    whole = links((98, 5, 16))
    cut = ToolRun(argv=whole.argv, rc=0, stdout=whole.stdout + whole.stdout[:-40])
    assert {o.status for o in judged(fleet, "gpu-pcie-load", pcie_under_load=cut)} == {Status.PASSED}


@pytest.mark.parametrize(
    ("tools", "cause"),
    [
        ({"pcie_under_load": run("")}, "pcie-under-load-empty"),
        ({"pcie_under_load": run("No devices were found\n")}, "pcie-under-load-garbage"),
        ({"dcgmi_diag": run(missing=True, rc=None)}, "blocked-by-dcgm-diag"),
    ],
)
def test_links_that_nobody_read_under_load_are_open(fleet: AnyFleet, tools: dict[str, ToolRun], cause: str) -> None:
    outcomes = judged(fleet, "gpu-pcie-load", **tools)
    assert [outcome.cause for outcome in outcomes if outcome.cause] == [cause]
