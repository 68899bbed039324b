# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Parser of perftest (`ib_write_bw`, `ib_read_bw`, `ib_send_bw`): what it measured, in Gbit/s whatever unit it prints.

MB/sec of perftest are 2^20 bytes (linux-rdma/perftest, BW_FACTOR).
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from .text import plain, unreadable

TOOL = "perftest"
_TITLE = re.compile(
    r"\s*#bytes\s+#iterations\s+BW peak\[(Gb|MB|MiB)/sec\]\s+BW average\[(Gb|MB|MiB)/sec\]\s+MsgRate\[Mpps\]\s*"
)
_ROW = re.compile(r"\s*(\d{1,12})\s+(\d{1,12})\s+(\d{1,9}\.\d{1,9})\s+(\d{1,9}\.\d{1,9})\s+(\d{1,9}\.\d{1,9})\s*")
_FIELD = re.compile(r"(Device|Link type|Transport type|GID index|Mtu)\s{0,40}: (\S{1,40})")
_FAILED = re.compile(r"Couldn't|Unable to|Failed|failed to|Completion with error", re.I)
_MIB_TO_GBIT = 8 * 2**20 / 1e9


@dataclass(frozen=True, slots=True)
class PerftestRow:
    """One size of message. `peak_gbps` is None where the run did not measure it (by duration)."""

    size_bytes: int
    iterations: int
    peak_gbps: float | None
    average_gbps: float
    messages_mpps: float


@dataclass(frozen=True, slots=True)
class PerftestReport:
    """One run: of client and server together every row stands twice. `gid_index` is None on InfiniBand; words are empty
    where the head of the output is cut."""

    rows: tuple[PerftestRow, ...]
    device: str = ""
    link_type: str = ""
    gid_index: int | None = None
    bidirectional: bool = False

    @property
    def best_gbps(self) -> float:
        """The largest average of all sizes."""
        return max(row.average_gbps for row in self.rows)


def parse(text: str) -> PerftestReport:
    """Return what was measured.

    Raises:
        InputError: no table, a table without rows, two units in one table, or a message that the test failed.
    """
    rows: list[PerftestRow] = []
    fields: dict[str, str] = {}
    unit, lines = "", plain(text).splitlines()
    for line in lines:
        if title := _TITLE.fullmatch(line):
            if title.group(1) != title.group(2):
                raise unreadable(TOOL, line, "one unit")
            unit = title.group(1)
        elif (row := _ROW.fullmatch(line)) and unit:
            rows.append(_row(row, unit))
        elif _FAILED.search(line) and not rows:
            raise unreadable(TOOL, line.strip(), "a test that ran")
        for name, value in _FIELD.findall(line):
            fields.setdefault(name, value)
    if not rows:
        raise unreadable(TOOL, "no row" if unit else text[:80], "a table with columns #bytes to MsgRate[Mpps]")
    index = fields.get("GID index", "")
    return PerftestReport(
        rows=tuple(rows),
        device=fields.get("Device", ""),
        link_type=fields.get("Link type", ""),
        gid_index=int(index) if index.isascii() and index.isdigit() else None,
        bidirectional=any("Bidirectional BW Test" in line for line in lines),
    )


def _row(match: re.Match[str], unit: str) -> PerftestRow:
    factor = 1.0 if unit == "Gb" else _MIB_TO_GBIT
    peak, average, rate = (float(match.group(n)) for n in (3, 4, 5))
    # Measured by duration there is no peak, and it prints 0.00.
    return PerftestRow(
        int(match.group(1)), int(match.group(2)), peak * factor if peak > 0 else None, average * factor, rate
    )
