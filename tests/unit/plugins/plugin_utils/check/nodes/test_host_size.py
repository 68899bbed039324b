# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Processors, main memory and the kernel's clock are those of most hosts of the SKU."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from fleet_faults import AnyFleet, said

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.collect.host_evidence import ToolRun
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.model import Status

SIZE, CLOCK = "host-size-uniform", "clock-source"
GIB = 1 << 30


def lscpu(online: str = "0-191", model: str = "Intel(R) Xeon(R) Platinum 8468", threads: int = 2) -> str:
    return (
        f"Architecture:  x86_64\nCPU(s):  192\nOn-line CPU(s) list:  {online}\nModel name:  {model}\n"
        f"Thread(s) per core:  {threads}\nSocket(s):  2\nNUMA node(s):  2\n"
    )


def free(total: float) -> str:
    return f"       total   used   free\nMem:   {int(total)} 100 100 0 0 100\nSwap:  0 0 0\n"


def put(fleet: AnyFleet, tool: str, usual: str, *odd: str) -> None:
    """Give every host what most print, the last ones something else."""
    names = list(fleet.hosts)
    for name, text in zip(names, [usual] * (len(names) - len(odd)) + list(odd), strict=True):
        fleet.hosts[name].tools[tool] = ToolRun(argv=(tool,), rc=0, stdout=text)


@pytest.mark.parametrize(
    "odd", [lscpu("0-95"), lscpu("0-63,96-191"), lscpu(model="Intel(R) Xeon(R) Platinum 8480+"), lscpu(threads=1)]
)
def test_host_with_other_processors_is_for_a_person(fleet: AnyFleet, odd: str) -> None:
    put(fleet, "lscpu", lscpu(), odd)
    assert said(fleet.judge(only=SIZE), Status.OTHER) == {(SIZE, "host-size-mismatch", "gpu03")}


@pytest.mark.parametrize(("part", "odd"), [(0.5, True), (0.96875, True), (0.9995, False), (1.0, False), (1.03, True)])
def test_host_with_less_memory_is_for_a_person_and_what_firmware_keeps_is_nothing(
    fleet: AnyFleet, part: float, odd: bool
) -> None:
    put(fleet, "lscpu", lscpu())
    put(fleet, "free", free(2015 * GIB), free(2015 * GIB * part))
    found = said(fleet.judge(only=SIZE), Status.OTHER)
    assert found == ({(SIZE, "host-size-mismatch", "gpu03")} if odd else set())


def test_hosts_of_another_sku_may_be_larger(make_fleet: Callable[[int], AnyFleet]) -> None:
    fleet = make_fleet(5)
    fleet.others = {"gpu04": "h200", "gpu05": "h200"}
    put(fleet, "lscpu", lscpu(), *[lscpu(model="AMD EPYC 9654")] * 2)
    put(fleet, "free", free(1000 * GIB), *[free(2000 * GIB)] * 2)
    assert {outcome.status for outcome in fleet.judge(only=SIZE)} == {Status.PASSED}


def test_two_halves_are_one_question(make_fleet: Callable[[int], AnyFleet]) -> None:
    fleet = make_fleet(2)
    put(fleet, "lscpu", lscpu())
    put(fleet, "free", free(1000 * GIB), free(2000 * GIB))
    assert [outcome.cause for outcome in fleet.judge(only=SIZE)] == ["host-size-split"]


@pytest.mark.parametrize("tool", ["lscpu", "free"])
def test_a_host_whose_size_is_not_known_is_not_passed(fleet: AnyFleet, tool: str) -> None:
    put(fleet, "lscpu", lscpu())
    put(fleet, "free", free(1000 * GIB))
    fleet.hosts["gpu02"].tools[tool] = ToolRun(argv=(tool,), rc=0, stdout="?\n")
    outcomes = fleet.judge(only=SIZE)
    assert [o.subjects[0].name for o in outcomes if o.status is Status.OTHER] == ["gpu02"]


@pytest.mark.parametrize(
    ("usual", "odd", "cause"),
    [
        ("tsc", "tsc", ""),
        ("kvm-clock", "kvm-clock", ""),
        ("arch_sys_counter", "arch_sys_counter", ""),
        ("tsc", "hpet", "clock-source-slow"),
        ("tsc", "acpi_pm", "clock-source-slow"),
        ("tsc", "kvm-clock", "clock-source-mismatch"),
    ],
)
def test_clock_of_the_kernel(fleet: AnyFleet, usual: str, odd: str, cause: str) -> None:
    put(fleet, "clock_source", f"{usual}\n", f"{odd}\n")
    found = said(fleet.judge(only=CLOCK), Status.OTHER)
    assert found == ({(CLOCK, cause, "gpu03")} if cause else set())


def test_a_slow_clock_on_all_hosts_is_no_passed_fleet(fleet: AnyFleet) -> None:
    put(fleet, "clock_source", "hpet\n")
    assert {outcome.cause for outcome in fleet.judge(only=CLOCK)} == {"clock-source-slow"}
