# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Parser of `dmidecode`: what the firmware says of the machine, one record for each of its parts."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from .text import plain, unreadable

TOOL = "dmidecode"
BIOS, SYSTEM, BOARD, PROCESSOR, MEMORY = 0, 1, 2, 4, 17
_VERSION = re.compile(r"SMBIOS (\d+\.\d+(?:\.\d+)?) present\.")
_HANDLE = re.compile(r"Handle (0x[0-9A-Fa-f]{4,8}), DMI type (\d{1,3}), \d{1,5} bytes")
_FIELD = re.compile(r"\s+([^:\s][^:]{0,60}):(?: (.*))?")
_DENIED = "Permission denied"
_UNSET = ("Not Specified", "To Be Filled By O.E.M.", "Default string", "None", "")


@dataclass(frozen=True, slots=True)
class DmiRecord:
    """One record: its fields by name; lists below a field are joined by commas."""

    handle: str
    kind: int
    title: str
    fields: dict[str, str] = field(default_factory=dict)

    def value(self, name: str) -> str:
        """Return a field, empty where the maker left it unset."""
        text = self.fields.get(name, "")
        return "" if text in _UNSET else text


@dataclass(frozen=True, slots=True)
class DmiTable:
    """All records, in the tool's order."""

    smbios: str
    records: tuple[DmiRecord, ...]

    def of_kind(self, kind: int) -> tuple[DmiRecord, ...]:
        """Return the records of one kind: BIOS, SYSTEM, BOARD, PROCESSOR, MEMORY."""
        return tuple(record for record in self.records if record.kind == kind)


def parse(text: str) -> DmiTable:
    """Return the records.

    Raises:
        InputError: no SMBIOS version, no record, a handle or a field twice, or the tables were not to be read.
    """
    lines = plain(text).splitlines()
    versions = [match.group(1) for line in lines if (match := _VERSION.match(line.strip()))]
    if not versions or any(_DENIED in line for line in lines):
        raise unreadable(TOOL, text[:80], "`SMBIOS 3.3.0 present.`; only administrators may read it")
    blocks: list[tuple[re.Match[str], list[str]]] = []
    for line in lines:
        if match := _HANDLE.fullmatch(line.strip()):
            blocks.append((match, []))
        elif line.strip() and blocks:
            blocks[-1][1].append(line.rstrip())
    if not blocks:
        raise unreadable(TOOL, text[:80], "at least one record")
    if len({match.group(1) for match, _lines in blocks}) < len(blocks):
        raise unreadable(TOOL, "a handle twice", "every handle once")
    return DmiTable(versions[0], tuple(_record(match, found) for match, found in blocks))


def _record(match: re.Match[str], lines: list[str]) -> DmiRecord:
    handle, kind = match.group(1), int(match.group(2))
    if not lines or lines[0][0].isspace():
        raise unreadable(TOOL, f"handle {handle} without a title", "the title of the record")
    fields: dict[str, str] = {}
    last = ""
    for line in lines[1:]:
        found = _FIELD.fullmatch(line)
        if found is None:
            # An entry of a list stands below its field.
            if last:
                fields[last] = f"{fields[last]}, {line.strip()}".removeprefix(", ")
            continue
        last = found.group(1)
        if last in fields:
            raise unreadable(TOOL, f"{last} twice in {handle}", "every field once")
        fields[last] = (found.group(2) or "").strip()
    return DmiRecord(handle, kind, lines[0].strip(), fields)
