# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Parser of the kernel log: journalctl -k, dmesg in its formats, syslog and /dev/kmsg records."""

from __future__ import annotations

import re
from dataclasses import dataclass

from ..outcome.errors import InputError
from .driver_start import StartFailure, start_failures
from .kernel_hardware import HardwareEvent, hardware_event
from .kernel_repeats import Repeated, repeated_events
from .text import pci_address, plain, unreadable

TOOL = "journalctl -k"
# Seconds since boot, wall clock in brackets, ISO (journal, dmesg), syslog, /dev/kmsg; optionally after a priority
# (`dmesg -r`) or a facility (`dmesg -x`).
_STAMP = re.compile(
    r"(?:<\d{1,3}>)?(?:[a-z]+\s*:[a-z]+\s*: )?"
    r"(\[\s*\d+\.\d+\]|\[\w{3} \w{3}\s+\d+ [\d:]+ \d{4}\]|\d{4}-\d\d-\d\dT[\d:,.]+(?:Z|[+-][\d:]{4,6})?"
    r"|[A-Z][a-z]{2}\s+\d+ [\d:]{8}|\d+,\d+,\d+,[^;]*;)\s?(.*)"
)
# NVIDIA's own example, of an older driver, has the address without `PCI:`.
_XID = re.compile(r"NVRM: Xid \((?:PCI:)?([0-9a-fA-F:.]+)\): (\d+)(?:,\s*(.*))?")
_SXID = re.compile(r"nvidia-nvswitch\d*: SXid \((?:PCI:)?([0-9a-fA-F:.]+)\): (\d+)(?:,\s*(.*))?")
# Printed once whenever the module is loaded.
_DRIVER_LOADED = re.compile(r"NVRM: loading NVIDIA UNIX ")
_ACTION = re.compile(r"recovery action changed from 0x[0-9a-f]+ \((.*?)\) to 0x[0-9a-f]+ \((.*?)\)", re.I)
# A network interface (`mlx5_core 0000:53:00.0 enp83s0f0np0: Link down`), since Linux 6.14 the adapter itself, too
# (`mlx5_core 0000:08:00.0 mlx5_0: Port: 1 Link DOWN`); "lost carrier" is systemd-networkd's in a syslog.
_FLAP = re.compile(r"(?:^|\s)(\S{1,64}): (?:Port: \d+ )?(?:lost carrier|link down)\b", re.I)
# For an InfiniBand port without a network interface this is the only log line about a lost link.
_UNPLUGGED = re.compile(r"\bmlx5_core (\S{1,16}?): Port module event: module \d{1,3}, Cable unplugged")
# To a program it looks as if libfabric hangs or has no memory (aws/aws-ofi-nccl#22).
_EFA_REFUSED = re.compile(r"\b(efa_\d{1,3}|rdmap\w{1,20}): Failed to process command (\w{1,40})")
_BOOT = "Linux version "
_LIMITED = re.compile(
    r"(mlx5_core|nvidia) (\S+?):? ([\d.]+) Gb/s available PCIe bandwidth, "
    r"limited by (.+?) link at (\S+) \(capable of ([\d.]+) Gb/s"
)
_OFF_BUS = re.compile(r"NVRM: (?:The NVIDIA )?GPU ([0-9a-fA-F:.]+)\b(?=.*fallen off the bus)")
# Driver 590 names the cause on a channel that is torn down (NVIDIA/open-gpu-kernel-modules#1150).
_QUOTED = re.compile(r"\bcaused by previous Xid (\d{1,4})\b")
# Return codes of the driver's own calls, without an XID (NVIDIA/open-gpu-kernel-modules#688,
# dra-driver-nvidia-gpu#982).
_REFUSED = re.compile(r"NVRM: .*\b(NV_ERR_RESET_REQUIRED|NV_ERR_GPU_IS_LOST|GPU in fullchip reset)\b")
# Severity 1 of an SXid is fatal (NVIDIA/open-gpu-kernel-modules#942).
_SEVERITY, _FATAL_SEVERITY = re.compile(r"Severity (\d)\b"), "1"
_OFF_BUS_START = re.compile(r"NVRM: The NVIDIA GPU ([0-9a-fA-F:.]+)\s*$")
_SEGFAULT = re.compile(r"([^\s\[]{1,64})\[(\d{1,10})\]: segfault at .* in ([^\s\[]{1,256})\[")
_CONTINUATION_LINES = 4
# Lines of a boot loader may come before the kernel's first one.
_FIRST_LINES = 20


@dataclass(frozen=True, slots=True)
class Xid:
    """One XID of a GPU or SXid of an NVSwitch.

    - `action`, `before`: new and previous recovery action of a 154, else empty.
    - `line`: its line in the log.
    """

    time: str
    address: str
    number: int
    text: str
    action: str = ""
    before: str = ""
    line: int = 0


@dataclass(frozen=True, slots=True)
class PcieLimit:
    """A device that trained below its capability."""

    driver: str
    address: str
    available_gbps: float
    capable_gbps: float
    at: str


@dataclass(frozen=True, slots=True)
class KernelLog:
    """Relevant events of the log.

    - `flaps`: (device, time).
    - `off_bus`: addresses of GPUs that stopped responding.
    - `began`: time of the first line if that is the kernel's first one; empty if the log begins later.
    - `segfaults`: (program, library).
    - `driver_loaded`: line numbers at which the GPU driver was loaded.
    - `quoted`: XIDs that a line names as its cause.
    - `refused`: messages of the driver that a GPU needs a reset, with line numbers.
    - `starts`: reasons why the driver did not start a GPU.
    - `repeated`: events that were corrected or did no damage, counted by part.
    - `unplugged`: (address, time) of adapters whose cable was unplugged.
    - `efa_refused`: (device, command) that an EFA device failed to process.
    """

    lines: int
    xids: tuple[Xid, ...] = ()
    sxids: tuple[Xid, ...] = ()
    off_bus: tuple[str, ...] = ()
    flaps: tuple[tuple[str, str], ...] = ()
    began: str = ""
    pcie_limits: tuple[PcieLimit, ...] = ()
    segfaults: tuple[tuple[str, str], ...] = ()
    hardware: tuple[HardwareEvent, ...] = ()
    driver_loaded: tuple[int, ...] = ()
    quoted: tuple[Xid, ...] = ()
    refused: tuple[tuple[str, int], ...] = ()
    repeated: tuple[Repeated, ...] = ()
    starts: tuple[StartFailure, ...] = ()
    unplugged: tuple[tuple[str, str], ...] = ()
    efa_refused: tuple[tuple[str, str], ...] = ()


def parse(text: str) -> KernelLog:
    """Return the relevant events of the log.

    Raises:
        InputError: no line has a time stamp, so it is no kernel log.
    """
    lines = plain(text).splitlines()
    entries = _entries(lines)
    if not any(time for time, _message in entries):
        raise unreadable(TOOL, plain(text)[:80], "lines with a time stamp")
    return KernelLog(
        lines=len(lines),
        xids=tuple(xid for n, entry in enumerate(entries) if (xid := _xid(n, *entry)) is not None),
        sxids=_sxids(entries),
        off_bus=_off_bus([message for _time, message in entries]),
        flaps=tuple((match.group(1), time) for time, message in entries if (match := _FLAP.search(message))),
        began=next((time for time, message in entries[:_FIRST_LINES] if _BOOT in message), ""),
        pcie_limits=tuple(limit for _time, message in entries if (limit := _limit(message)) is not None),
        segfaults=tuple(
            (m.group(1), m.group(3))
            for _time, message in entries
            if ": segfault at " in message and (m := _SEGFAULT.search(message))
        ),
        hardware=tuple(event for _time, message in entries if (event := hardware_event(message)) is not None),
        quoted=tuple(xid for n, entry in enumerate(entries) if (xid := _quoted(n, *entry)) is not None),
        refused=tuple((m[1], n) for n, (_time, message) in enumerate(entries) if (m := _REFUSED.search(message))),
        repeated=repeated_events(entries),
        efa_refused=tuple((m[1], m[2]) for _time, message in entries if (m := _EFA_REFUSED.search(message))),
        unplugged=tuple((_address(m[1]), time) for time, message in entries if (m := _UNPLUGGED.search(message))),
        starts=start_failures([message for _time, message in entries]),
        driver_loaded=tuple(n for n, (_time, message) in enumerate(entries) if _DRIVER_LOADED.search(message)),
    )


def _entries(lines: list[str]) -> list[tuple[str, str]]:
    """Return (time, message) of every line. A line without a time stamp continues the one before it."""
    entries: list[tuple[str, str]] = []
    for line in lines:
        match = _STAMP.match(line)
        entries.append((match.group(1).strip("[] ;"), match.group(2)) if match else ("", line.strip()))
    return entries


def _address(text: str) -> str:
    """Return the address. Text that is no address is kept, so that the event is not lost."""
    try:
        return pci_address(text.rstrip(".:"))
    except InputError:
        return text.lower()


def _xid(line: int, time: str, message: str) -> Xid | None:
    match = _XID.search(message)
    if match is None:
        return None
    text = match.group(3) or ""
    action = _ACTION.search(text)
    before, after = action.groups() if action else ("", "")
    return Xid(time, _address(match.group(1)), int(match.group(2)), text, after, before, line)


def _quoted(line: int, time: str, message: str) -> Xid | None:
    match, cause = _XID.search(message), _QUOTED.search(message)
    if match is None or cause is None:
        return None
    return Xid(time, _address(match.group(1)), int(cause.group(1)), match.group(3) or "", line=line)


def _sxids(entries: list[tuple[str, str]]) -> tuple[Xid, ...]:
    """Return the SXids, including those of which the log has only the line with a fatal severity."""
    found = [xid for n, entry in enumerate(entries) if (xid := _sxid(n, *entry)) is not None]
    own = {(xid.address, xid.number) for xid in found}
    for n, (time, message) in enumerate(entries):
        match = _SXID.search(message)
        severity = _SEVERITY.match(match.group(3) or "") if match else None
        if match and severity and severity[1] == _FATAL_SEVERITY:
            address, number = _address(match.group(1)), int(match.group(2))
            if (address, number) not in own:
                found.append(Xid(time, address, number, "severity 1, its first line is not in the log", line=n))
                own.add((address, number))
    return tuple(found)


def _sxid(line: int, time: str, message: str) -> Xid | None:
    match = _SXID.search(message)
    text = (match.group(3) or "") if match else ""
    # Lines "Severity ..." and "Data {...}" have the details of the SXid before them.
    if match is None or text.startswith(("Severity", "Data {")):
        return None
    return Xid(time, _address(match.group(1)), int(match.group(2)), text, line=line)


def _off_bus(messages: list[str]) -> tuple[str, ...]:
    found: dict[str, None] = {}
    for n, message in enumerate(messages):
        match = _OFF_BUS.search(message)
        start = _OFF_BUS_START.search(message)
        if match:
            found[_address(match.group(1))] = None
        elif start and any("fallen off the bus" in later for later in messages[n + 1 : n + _CONTINUATION_LINES]):
            found[_address(start.group(1))] = None
    return tuple(found)


def _limit(message: str) -> PcieLimit | None:
    match = _LIMITED.search(message)
    if match is None:
        return None
    try:
        available, capable = float(match.group(3)), float(match.group(6))
    except ValueError:
        return None
    return PcieLimit(match.group(1), _address(match.group(2)), available, capable, match.group(5))
