# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Parser of `nvme smart-log <drive> -o json` of every drive, each below a line with its name (nvme-cli 1 and 2)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ..outcome.errors import InputError
from .blocks import blocks
from .json_output import amount, an_object, read_json
from .text import unreadable

TOOL = "nvme smart-log"
END = "end"
_KELVIN = 273
# 2 ** 128 has 39.
_DIGITS = 40
_ENDURANCE = "endurance_grp_critical_warning_summary"


@dataclass(frozen=True, slots=True)
class NvmeDrive:
    """One drive. `warning` are the bits of its critical warning (NVM Express Base Specification, SMART log): 1 spare
    too low, 2 temperature, 4 not reliable, 8 read only, 16 backup of its memory failed, 32 memory region. `complaint`
    is what the tool said in place of a log; then nothing else is known. `media_errors` counts reads and writes that the
    drive could not repair, `endurance_warning` are the bits of its endurance groups, where the tool prints them."""

    name: str
    warning: int = 0
    used_percent: float = 0.0
    spare_percent: float = 0.0
    temperature_c: float = 0.0
    spare_threshold_percent: float = 0.0
    media_errors: int = 0
    endurance_warning: int = 0
    complaint: str = ""


def parse(text: str) -> tuple[NvmeDrive, ...]:
    """Return the drives in the tool's order; none on a host without.

    Raises:
        InputError: the end is missing, so drives may be, too.
    """
    parts = blocks(text, TOOL)
    if END not in parts or any(line.strip() for line in parts[END]):
        raise unreadable(TOOL, text[-80:], f"`===== {END} =====` after the last drive")
    return tuple(_drive(name, "\n".join(lines)) for name, lines in parts.items() if name != END)


def _drive(name: str, said: str) -> NvmeDrive:
    start = said.find("{")
    try:
        entry = an_object(read_json(said[start:], TOOL) if start >= 0 else None, TOOL, name)
        return NvmeDrive(
            name=name,
            warning=int(_warning(entry)),
            used_percent=amount(entry, "percent_used", TOOL),
            spare_percent=amount(entry, "avail_spare", TOOL),
            temperature_c=amount(entry, "temperature", TOOL) - _KELVIN,
            spare_threshold_percent=amount(entry, "spare_thresh", TOOL),
            media_errors=_large(entry, "media_errors"),
            endurance_warning=_large({_ENDURANCE: 0} | entry, _ENDURANCE),
        )
    except InputError:
        return NvmeDrive(name=name, complaint=" ".join(said.split())[:200] or "nothing")


def _warning(entry: dict[str, Any]) -> float:
    """Return the bits: a number, or with `-v` of version 2 an object that has it as `value`."""
    if isinstance(entry.get("critical_warning"), dict):
        return amount(entry["critical_warning"], "value", TOOL)
    return amount(entry, "critical_warning", TOOL)


def _large(entry: dict[str, Any], name: str) -> int:
    """Return a counter of 128 bits: a number, or in some releases of version 2 a text of digits."""
    value = entry.get(name)
    if isinstance(value, str) and value.isdecimal() and len(value) < _DIGITS:
        return int(value)
    return int(amount(entry, name, TOOL))
