# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Parser of `nvidia-smi -q -d PAGE_RETIREMENT`: pages of GPU memory that are used no more (generations before Ampere,
and Ampere's drivers that still print them)."""

from __future__ import annotations

import re
from dataclasses import dataclass

from .text import pci_address, plain, unreadable

TOOL = "nvidia-smi -q -d PAGE_RETIREMENT"
_ATTACHED = re.compile(r"Attached GPUs\s{1,60}: (\d{1,4})")
_GPU = re.compile(r"GPU ([0-9A-Fa-f]{8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.[0-7])")
_FIELD = re.compile(r"\s+(Single Bit ECC|Double Bit ECC|Pending Page Blacklist)\s{1,60}: (\S{1,20})")
_NONE = "N/A"


@dataclass(frozen=True, slots=True)
class RetiredPages:
    """One GPU; None where the driver has no such counter. `pending`: pages wait for the driver to be loaded anew."""

    bus_id: str
    single_bit: int | None
    double_bit: int | None
    pending: bool | None


def parse(text: str) -> tuple[RetiredPages, ...]:
    """Return the GPUs in the tool's order.

    Raises:
        InputError: no GPU, another number than the driver counts, one twice, or one that lacks a field.
    """
    attached: int | None = None
    blocks: list[tuple[str, dict[str, str]]] = []
    for line in plain(text).splitlines():
        if match := _ATTACHED.fullmatch(line.rstrip()):
            attached = int(match.group(1))
        elif match := _GPU.fullmatch(line.rstrip()):
            blocks.append((pci_address(match.group(1)), {}))
        elif (match := _FIELD.fullmatch(line.rstrip())) and blocks:
            if match.group(1) in blocks[-1][1]:
                raise unreadable(TOOL, f"{match.group(1)} twice", "every field of a GPU once")
            blocks[-1][1][match.group(1)] = match.group(2)
    if not blocks or attached != len(blocks):
        raise unreadable(TOOL, f"{len(blocks)} GPUs, attached: {attached}", "the GPUs that the driver counts")
    if len({bus_id for bus_id, _fields in blocks}) < len(blocks):
        raise unreadable(TOOL, "a GPU twice", "every GPU once")
    return tuple(_gpu(bus_id, fields) for bus_id, fields in blocks)


def _gpu(bus_id: str, fields: dict[str, str]) -> RetiredPages:
    def count(name: str) -> int | None:
        word = fields.get(name, "")
        if word == _NONE:
            return None
        if not (word.isascii() and word.isdigit()):
            raise unreadable(TOOL, f"{name} of {bus_id}: {word!r}", "a number or N/A")
        return int(word)

    pending = fields.get("Pending Page Blacklist", "")
    if pending not in ("Yes", "No", _NONE):
        raise unreadable(TOOL, f"Pending Page Blacklist of {bus_id}: {pending!r}", "Yes, No or N/A")
    waits = None if pending == _NONE else pending == "Yes"
    return RetiredPages(bus_id, count("Single Bit ECC"), count("Double Bit ECC"), waits)
