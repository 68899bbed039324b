# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Settings of the kernel that one host has and the others of its SKU have not."""

from __future__ import annotations

import pytest
from fleet_faults import AnyFleet, said

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.collect.host_evidence import ToolRun
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.model import Outcome, Status
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.runtime.host_tools import load_host_tools

CHECK = "kernel-settings-uniform"
SYSCTLS = "/proc/sys/kernel/numa_balancing:{}\n/proc/sys/vm/nr_hugepages:{}\n/proc/sys/vm/zone_reclaim_mode:0\n"


def judged(fleet: AnyFleet, **texts: str) -> tuple[Outcome, ...]:
    """Judge a fleet of which one host's tools say something else."""
    for tool in ("sysctl", "kernel_cmdline"):
        for host in fleet.hosts.values():
            text = SYSCTLS.format(0, 0) if tool == "sysctl" else "BOOT_IMAGE=/vmlinuz ro iommu=pt\n"
            mine = texts.get(tool, text) if host.name == "gpu02" else text
            host.tools[tool] = ToolRun(argv=(tool,), rc=0, stdout=mine)
    outcomes: tuple[Outcome, ...] = fleet.judge(only=CHECK)
    return outcomes


def test_hosts_that_are_set_alike_pass(fleet: AnyFleet) -> None:
    assert {outcome.status for outcome in judged(fleet)} == {Status.PASSED}


@pytest.mark.parametrize(
    ("texts", "says"),
    [
        ({"sysctl": SYSCTLS.format(1, 0)}, "kernel.numa_balancing: kernel setting 1, expected 0"),
        ({"sysctl": SYSCTLS.format(0, 51200)}, "vm.nr_hugepages: kernel setting 51200, expected 0"),
        ({"kernel_cmdline": "BOOT_IMAGE=/vmlinuz ro\n"}, "boot parameter iommu: kernel setting not set, expected pt"),
        (
            {"kernel_cmdline": "ro iommu=pt pci=realloc=off\n"},
            "boot parameter pci: kernel setting realloc=off, expected not set",
        ),
    ],
)
def test_the_odd_one_out_is_for_a_person(fleet: AnyFleet, texts: dict[str, str], says: str) -> None:
    outcomes = judged(fleet, **texts)
    assert said(outcomes, Status.OTHER) == {(CHECK, "kernel-settings-mismatch", "gpu02")}
    assert says in next(outcome.summary for outcome in outcomes if outcome.cause)


MORE = (
    "/proc/sys/net/core/rmem_max:{}\n/proc/sys/kernel/nmi_watchdog:{}\n/proc/sys/fs/file-nr:{} 0 9223372036854775807\n"
    "/proc/sys/kernel/random/boot_id:{}\n"
)


@pytest.mark.parametrize(
    ("odd", "says"),
    [
        ({"sysctl": SYSCTLS.format(0, 0) + MORE.format(65536, 0, 9, "x")}, "net.core.rmem_max: kernel setting 65536"),
        ({"sysctl": SYSCTLS.format(0, 0) + MORE.format(212992, 1, 9, "x")}, "kernel.nmi_watchdog: kernel setting 1"),
        (
            {"kernel_cmdline": "ro iommu=pt intel_idle.max_cstate=9\n"},
            "intel_idle.max_cstate: kernel setting 9, expected 1",
        ),
        ({"kernel_cmdline": "ro iommu=pt\n"}, "intel_idle.max_cstate: kernel setting not set, expected 1"),
        ({"sysctl": SYSCTLS.format(0, 0) + MORE.format(212992, 0, 5000, "y")}, ""),
        ({"sysctl": SYSCTLS.format(0, 0) + MORE.format(212992, 0, 9, "x") + "/proc/sys/fs/xfs/rotorstep:1\n"}, ""),
        ({"kernel_cmdline": "BOOT_IMAGE=/b root=UUID=2 resume=UUID=3 ro iommu=pt intel_idle.max_cstate=1\n"}, ""),
    ],
)
def test_all_that_most_hosts_have_alike_is_compared_less_what_varies(
    fleet: AnyFleet, odd: dict[str, str], says: str
) -> None:
    usual = {
        "sysctl": SYSCTLS.format(0, 0) + MORE.format(212992, 0, 8224, "b"),
        "kernel_cmdline": "BOOT_IMAGE=/a root=UUID=1 ro iommu=pt intel_idle.max_cstate=1\n",
    }
    for name, host in fleet.hosts.items():
        for tool, text in (usual | (odd if name == "gpu02" else {})).items():
            host.tools[tool] = ToolRun(argv=(tool,), rc=0, stdout=text)
    outcomes = fleet.judge(only=CHECK)
    assert said(outcomes, Status.OTHER) == ({(CHECK, "kernel-settings-mismatch", "gpu02")} if says else set())
    assert any(says in outcome.summary for outcome in outcomes)


def test_what_every_host_has_differently_names_no_host(fleet: AnyFleet) -> None:
    for number, host in enumerate(fleet.hosts.values()):
        text = SYSCTLS.format(0, 0) + f"/proc/sys/kernel/not_listed:{number}\n"
        host.tools["sysctl"] = ToolRun(argv=("sysctl",), rc=0, stdout=text)
    assert {outcome.status for outcome in fleet.judge(only=CHECK)} == {Status.PASSED}


def test_other_parameters_of_the_boot_may_differ(fleet: AnyFleet) -> None:
    outcomes = judged(fleet, kernel_cmdline="BOOT_IMAGE=/vmlinuz-6.8 ro iommu=pt quiet splash\n")
    assert {outcome.status for outcome in outcomes} == {Status.PASSED}


@pytest.mark.parametrize("tool", ["sysctl", "kernel_cmdline"])
def test_what_could_not_be_read_is_open(fleet: AnyFleet, tool: str) -> None:
    (held,) = [outcome for outcome in judged(fleet, **{tool: ""}) if outcome.status is not Status.PASSED]
    assert held.status is Status.OTHER and held.subjects[0].name == "gpu02"
    assert held.cause in ("sysctl-empty", "kernel-settings-not-reported")


TCP = (
    "/proc/sys/net/ipv4/tcp_congestion_control:{}\n/proc/sys/net/ipv4/tcp_rmem:4096 131072 {}\n"
    "/proc/sys/net/ipv4/tcp_mem:{} 1 2\n/proc/sys/net/ipv4/tcp_available_congestion_control:reno {}\n"
)


@pytest.mark.parametrize(
    ("odd", "says"),
    [
        (("bbr", "6291456", "100", "cubic"), "net.ipv4.tcp_congestion_control: kernel setting bbr"),
        (("cubic", "212992", "100", "cubic"), "net.ipv4.tcp_rmem: kernel setting 4096 131072 212992"),
        (("cubic", "6291456", "101", "cubic bbr"), ""),
    ],
)
def test_tcp_is_set_alike_less_what_follows_from_memory_and_modules(
    fleet: AnyFleet, odd: tuple[str, ...], says: str
) -> None:
    """Which storage and sockets use; settings of single interfaces are not read (findings T104)."""
    command = next(list(tool.commands[0]) for tool in load_host_tools().used_by("host_probe") if tool.name == "sysctl")
    assert "/proc/sys/net/ipv4" in command and {"--exclude-dir=conf", "--exclude-dir=neigh"} <= set(command)
    usual = SYSCTLS.format(0, 0) + TCP.format("cubic", "6291456", "100", "cubic")
    judged(fleet, sysctl=SYSCTLS.format(0, 0) + TCP.format(*odd))
    for name, host in fleet.hosts.items():
        if name != "gpu02":
            host.tools["sysctl"] = ToolRun(argv=("sysctl",), rc=0, stdout=usual)
    outcomes = fleet.judge(only=CHECK)
    assert said(outcomes, Status.OTHER) == ({(CHECK, "kernel-settings-mismatch", "gpu02")} if says else set())
    assert any(says in outcome.summary for outcome in outcomes)
