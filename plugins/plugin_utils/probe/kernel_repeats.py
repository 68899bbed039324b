# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Counts kernel log lines about events that were corrected or did no damage, by part and by hour.

One of them is normal on a healthy host; hundreds within an hour mean that a part is failing. Sources: linux
drivers/edac/edac_mc.c (`EDAC MC0: 1 CE memory read error on CPU_SrcID#0_MC#0_Chan#0_DIMM#0 (channel:0 slot:0 ...)`),
arch/x86/kernel/cpu/mce/core.c (`Machine Check: <global status> Bank n: <status>` without bit 61, UC),
drivers/edac/mce_amd.c (`Corrected error, no action required.`), drivers/firmware/efi/cper.c (`event severity:
corrected`), drivers/pci/pcie/aer.c (`PCIe Bus Error: severity=Corrected`, from 6.9 on `Correctable`),
drivers/thermal/intel/therm_throt.c (`CPU12: Core temperature is above threshold, cpu clock is throttled (total events =
1)`, `above threshold, cpu clock throttled` before 5.7; at most one line in five minutes for each processor, so its
number of events counts), kernel/hung_task.c (`INFO: task nv_queue:811 blocked for more than 120 seconds.`, ten times by
default, so its seconds count), drivers/net/ethernet/mellanox/mlx5/core/events.c (`High temperature on sensors with bit
set`), drivers/nvme/host/pci.c (`I/O tag 12 (100c) QID 4 timeout, aborting`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from ..runtime.clock import moment_of

RepeatKind = Literal[
    "memory-corrected",
    "machine-check-corrected",
    "pcie-corrected",
    "processor-throttled",
    "driver-task-blocked",
    "adapter-warm",
    "drive-timeout",
]
HOUR_S = 3600.0
_CE = re.compile(r"EDAC ([\w-]{1,32}): (\d{1,9}) CE\b(?:.{0,80}? on (?!unknown)([^\s(]{1,80}))?")
_BANK = re.compile(r"CPU (\d{1,5}): Machine Check(?: Exception)?: [0-9a-f]+ Bank (\d{1,3}): ([0-9a-f]{1,16})\b", re.I)
_UNCORRECTED_BIT = 1 << 61
_FIRMWARE = re.compile(r"\[Hardware Error\]:\s+event severity: corrected\b")
_AMD = re.compile(r"\[Hardware Error\]: Corrected error, no action required")
_AER = re.compile(
    r"\b([0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]): .{0,20}PCIe Bus Error: severity=Correct(?:ed|able)\b", re.I
)
_HEAT = re.compile(
    r"CPU ?(\d{1,5}): (Core|Package) temperature (?:is )?above threshold, cpu clock (?:is )?throttled"
    r" \(total events = (\d{1,12})\)"
)
_BLOCKED = re.compile(r"INFO: task (.{1,64}?):\d{1,10} blocked for more than (\d{1,7}) seconds")
_BLOCKED_UNIT_S = 120
# Tasks of the drivers of GPUs and adapters, and tasks that wait inside one: their call trace names the module.
_DRIVER_TASK = re.compile(r"(?:nv|uvm|mlx5|dcgm)", re.I)
_DRIVER_FRAME = re.compile(r"\[(nvidia\w{0,16}|mlx5_\w{1,8}|gdrdrv)\b")
_TRACE_LINES = 40
_WARM = re.compile(r"mlx5_core (\S{1,16}?): .{0,80}High temperature on sensors")
_DRIVE = re.compile(r"\bnvme (nvme\d{1,4}): I/O .{0,40}\btimeout, (?:aborting|completion polled|reset controller)")


@dataclass(frozen=True, slots=True)
class Repeated:
    """Repeated events of one part: `times` in all, `worst_hour` within the worst hour, `text` of the last line."""

    kind: RepeatKind
    part: str
    times: int
    worst_hour: int
    text: str


@dataclass(frozen=True, slots=True)
class _Event:
    kind: RepeatKind
    part: str
    number: int
    text: str


def repeated_events(entries: Sequence[tuple[str, str]]) -> tuple[Repeated, ...]:
    """Return the repeated events of the log, by kind and part in the order of their first lines.

    Args:
        entries: time and message of every line, the time as in the log.
    """
    totals: dict[str, int] = {}
    found: dict[tuple[RepeatKind, str], list[tuple[float | None, int]]] = {}
    last: dict[tuple[RepeatKind, str], str] = {}
    for place, (time, message) in enumerate(entries):
        event = _event(message, entries, place)
        if event is None:
            continue
        key = (event.kind, event.part)
        number = event.number
        if event.kind == "processor-throttled":
            # The kernel prints the total since boot.
            number -= totals.get(event.part, 0) if number >= totals.get(event.part, 0) else 0
            totals[event.part] = event.number
        found.setdefault(key, []).append((seconds(time), number))
        last[key] = event.text
    return tuple(
        Repeated(kind, part, sum(number for _time, number in moments), worst_hour(moments), last[(kind, part)])
        for (kind, part), moments in found.items()
    )


def worst_hour(moments: Iterable[tuple[float | None, int]]) -> int:
    """Return the largest number within an hour. If one time is unknown, all of them count as one hour.

    Args:
        moments: seconds on one clock, and the number of events at that time.
    """
    given = list(moments)
    timed = sorted((time, number) for time, number in given if time is not None)
    if len(timed) < len(given):
        return sum(number for _time, number in given)
    most = within = first = 0
    for time, number in timed:
        within += number
        while time - timed[first][0] > HOUR_S:
            within -= timed[first][1]
            first += 1
        most = max(most, within)
    return most


def seconds(time: str) -> float | None:
    """Return a time of the log in seconds, since boot or since 1970; None for a form without a year."""
    try:
        return float(time)
    except ValueError:
        pass
    try:
        return moment_of(time.replace(",", ".")).timestamp()
    except ValueError:
        pass
    try:
        return datetime.strptime(f"{time} +0000", "%a %b %d %H:%M:%S %Y %z").timestamp()
    except ValueError:
        return None


def _event(message: str, entries: Sequence[tuple[str, str]], place: int) -> _Event | None:
    text = message.strip()[:300]
    if "blocked for more" in message:
        return _blocked(message, text, entries[place + 1 : place + 1 + _TRACE_LINES])
    return next(
        (event for word, read in _READERS.items() if word in message and (event := read(message, text)) is not None),
        None,
    )


def _memory(message: str, text: str) -> _Event | None:
    match = _CE.search(message)
    return _Event("memory-corrected", f"{match[1]} {match[3] or ''}".strip(), int(match[2]), text) if match else None


def _bank(message: str, text: str) -> _Event | None:
    match = _BANK.search(message)
    if match is None or int(match[3], 16) & _UNCORRECTED_BIT:
        return None
    return _Event("machine-check-corrected", f"CPU {match[1]} bank {match[2]}", 1, text)


def _machine(message: str, text: str) -> _Event | None:
    found = _FIRMWARE.search(message) or _AMD.search(message)
    return _Event("machine-check-corrected", "a part that the lines after it name", 1, text) if found else None


def _pcie(message: str, text: str) -> _Event | None:
    match = _AER.search(message)
    return _Event("pcie-corrected", match[1].lower(), 1, text) if match else None


def _heat(message: str, text: str) -> _Event | None:
    match = _HEAT.search(message)
    return _Event("processor-throttled", f"CPU {match[1]} ({match[2].lower()})", int(match[3]), text) if match else None


def _adapter(message: str, text: str) -> _Event | None:
    match = _WARM.search(message)
    return _Event("adapter-warm", match[1].lower(), 1, text) if match else None


def _drive(message: str, text: str) -> _Event | None:
    match = _DRIVE.search(message)
    return _Event("drive-timeout", match[1], 1, text) if match else None


_READERS: Mapping[str, Callable[[str, str], _Event | None]] = {
    "EDAC": _memory,
    "Machine Check": _bank,
    "[Hardware Error]": _machine,
    "severity=Correct": _pcie,
    "above threshold": _heat,
    "High temperature": _adapter,
    "timeout, ": _drive,
}


def _blocked(message: str, text: str, trace: Sequence[tuple[str, str]]) -> _Event | None:
    match = _BLOCKED.search(message)
    name = _driver_of(match[1], trace) if match else ""
    return (
        _Event("driver-task-blocked", name, max(1, int(match[2]) // _BLOCKED_UNIT_S), text) if match and name else None
    )


def _driver_of(task: str, trace: Sequence[tuple[str, str]]) -> str:
    """Return the task if it belongs to a driver or waits inside one, else an empty text."""
    if _DRIVER_TASK.match(task):
        return task
    for _time, message in trace:
        if _BLOCKED.search(message):
            break
        if frame := _DRIVER_FRAME.search(message):
            return f"{task} in {frame[1]}"
    return ""
