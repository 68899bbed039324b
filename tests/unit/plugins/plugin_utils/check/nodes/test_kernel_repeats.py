# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the kernel corrected, or what ended without damage: once is ordinary, often within an hour is a failing part.

The lines are those of Linux: drivers/edac/edac_mc.c, drivers/pci/pcie/aer.c, arch/x86/kernel/cpu/mce/core.c,
drivers/edac/mce_amd.c, drivers/firmware/efi/cper.c, drivers/thermal/intel/therm_throt.c, kernel/hung_task.c,
mlx5/core/events.c, drivers/nvme/host/pci.c; SXids are those of NVIDIA's user guide of the fabric manager.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from fleet_faults import AnyFleet, said

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.collect.host_evidence import ToolRun
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.model import Status
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.probe import kernel_log

START = datetime(2026, 11, 20, 8, tzinfo=UTC)
CE = "EDAC MC0: {} CE memory read error on CPU_SrcID#0_MC#0_Chan#0_DIMM#0 (channel:0 slot:0 page:0x4a2d1 offset:0x0)"
SXID = "nvidia-nvswitch1: SXid (PCI:0000:06:00.0): 12028, Non-fatal, Link {} egress non-posted PRIV error (First)"
OFTEN = {
    "memory": (CE.format(1), "kernel-hardware", "memory-corrected-often"),
    "memory, no label": ("EDAC MC1: 1 CE on unknown memory (channel:1)", "kernel-hardware", "memory-corrected-often"),
    "machine check": (
        "mce: [Hardware Error]: CPU 12: Machine Check: 0 Bank 7: 8c00004000010090",
        "kernel-hardware",
        "machine-check-corrected-often",
    ),
    "amd": (
        "[Hardware Error]: Corrected error, no action required.",
        "kernel-hardware",
        "machine-check-corrected-often",
    ),
    "firmware": ("{3}[Hardware Error]: event severity: corrected", "kernel-hardware", "machine-check-corrected-often"),
    "pcie": (
        "pcieport 0000:98:01.0: PCIe Bus Error: severity=Corrected, type=Physical Layer, (Receiver ID)",
        "kernel-hardware",
        "pcie-corrected-often",
    ),
    "pcie since 6.9": (
        "mlx5_core 0000:99:00.0: PCIe Bus Error: severity=Correctable, type=Data Link Layer, (Transmitter ID)",
        "kernel-hardware",
        "pcie-corrected-often",
    ),
    "adapter": (
        "mlx5_core 0000:5c:00.0: temp_warn:178:(pid 0): High temperature on sensors with bit set 0 1",
        "kernel-hardware",
        "adapter-hot-often",
    ),
    "drive": ("nvme nvme3: I/O tag 12 (100c) QID 4 timeout, aborting", "kernel-hardware", "drive-timeout-often"),
    "older drive": ("nvme nvme3: I/O 12 QID 4 timeout, aborting", "kernel-hardware", "drive-timeout-often"),
    "nvswitch": (SXID.format(48), "kernel-xid", "sxid-often"),
}


def put(fleet: AnyFleet, *lines: tuple[float, str]) -> None:
    """Give gpu02 a kernel log of these lines, each so many seconds after its start."""
    text = "".join(
        f"{(START + timedelta(seconds=at_s)).isoformat(timespec='seconds')} gpu02 kernel: {line}\n"
        for at_s, line in [(0.0, "Linux version 6.8.0-79-generic"), *lines]
    )
    fleet.hosts["gpu02"].tools["kernel_log"] = ToolRun(argv=("journalctl",), rc=0, stdout=text)


def held(fleet: AnyFleet) -> set[tuple[str, str, str]]:
    outcomes = (*fleet.judge(only="kernel-hardware"), *fleet.judge(only="kernel-xid"))
    return said(outcomes, Status.FAILED) | said(outcomes, Status.OTHER)


@pytest.mark.parametrize(("line", "check", "cause"), OFTEN.values(), ids=list(OFTEN))
def test_hundreds_an_hour_wait_for_a_person(fleet: AnyFleet, line: str, check: str, cause: str) -> None:
    put(fleet, *((n * 12.0, line) for n in range(300)))
    assert held(fleet) == {(check, cause, "gpu02")}


@pytest.mark.parametrize(("line", "check", "cause"), OFTEN.values(), ids=list(OFTEN))
def test_a_few_a_day_are_ordinary(fleet: AnyFleet, line: str, check: str, cause: str) -> None:
    put(fleet, *((n * 20000.0, line) for n in range(4)))
    assert held(fleet) == set(), (check, cause)


def test_many_parts_with_one_line_each_are_ordinary(fleet: AnyFleet) -> None:
    put(fleet, *((n * 1.0, SXID.format(n)) for n in range(60)))
    assert held(fleet) == set()


def test_one_line_may_report_many_errors(fleet: AnyFleet) -> None:
    put(fleet, (5.0, CE.format(3811)))
    assert held(fleet) == {("kernel-hardware", "memory-corrected-often", "gpu02")}


@pytest.mark.parametrize("form", ["is above threshold, cpu clock is throttled", "above threshold, cpu clock throttled"])
def test_heat_of_a_processor_counts_its_events(fleet: AnyFleet, form: str) -> None:
    put(fleet, (5.0, f"mce: CPU44: Core temperature {form} (total events = 18211)"))
    assert held(fleet) == {("kernel-hardware", "processor-throttled", "gpu02")}
    # Every thread of a package reports one event of the package.
    put(fleet, *((5.0, f"CPU{n}: Package temperature {form} (total events = 1)") for n in range(192)))
    assert held(fleet) == set()
    # As many events, one each two hours.
    put(fleet, *((n * 7200.0, f"CPU4: Core temperature {form} (total events = {n + 1})") for n in range(40)))
    assert held(fleet) == set()


@pytest.mark.parametrize(
    ("lines", "found"),
    [
        ((("nv_queue:811", 120),), False),
        ((("nv_queue:811", 241),), True),
        ((("nvidia-modeset/:902", 120), ("nvidia-modeset/:902", 241)), True),
        ((("python3:5511", 120), ("python3:5511", 241)), False),
    ],
)
def test_a_task_of_the_driver_that_waits_for_minutes(
    fleet: AnyFleet, lines: tuple[tuple[str, int], ...], found: bool
) -> None:
    put(
        fleet,
        *((n * 121.0, f"INFO: task {name} blocked for more than {s} seconds.") for n, (name, s) in enumerate(lines)),
    )
    assert held(fleet) == ({("kernel-hardware", "driver-task-blocked", "gpu02")} if found else set())


def test_a_program_that_waits_in_the_driver_is_known_by_its_trace(fleet: AnyFleet) -> None:
    trace = ("Call Trace:", " schedule+0x2c/0xc0", " os_acquire_rwlock_write+0x3a/0x60 [nvidia]")
    lines = [(n * 121.0, "INFO: task python3:5511 blocked for more than 241 seconds.") for n in range(1)]
    put(fleet, *lines, *((125.0, line) for line in trace))
    assert held(fleet) == {("kernel-hardware", "driver-task-blocked", "gpu02")}


def test_times_of_every_form_are_read_and_without_one_all_lines_count_as_an_hour() -> None:
    spread = [(f"2026-11-{day:02d}T08:00:00+00:00", f"[Sun Nov {day:2d} 08:00:00 2026]", f"[{day * 86400:6d}.0]")
              for day in range(1, 9)]  # fmt: skip
    for form in range(3):
        text = "".join(f"{row[form]} h kernel: {CE.format(1)}\n" for row in spread)
        assert [(entry.times, entry.worst_hour) for entry in kernel_log.parse(text).repeated] == [(8, 1)]
    text = "".join(f"Nov {n + 1:2d} 08:00:00 h kernel: {CE.format(1)}\n" for n in range(8))
    assert [(entry.times, entry.worst_hour) for entry in kernel_log.parse(text).repeated] == [(8, 8)]
