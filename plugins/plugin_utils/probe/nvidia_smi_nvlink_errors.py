# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Parser of `nvidia-smi nvlink -e`: error counters of every NVLink.

NVLink up to generation 4 counts `Replay Errors`, `Recovery Errors` and `CRC Errors`; generation 5 has other names,
among them `Rx Errors`, `Link recovery failed events` and `FEC Errors - 0`, and rates such as `Symbol BER: 15e-255`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from .text import plain, unreadable

TOOL = "nvidia-smi nvlink -e"
_GPU = re.compile(r"GPU (\d+): [^(]{1,80}\(UUID: (\S{1,64})\)\s*")
_COUNTER = re.compile(r"\s*Link (\d{1,3}): ([A-Za-z][A-Za-z0-9 /-]{1,60}?): (\d{1,20})\s*")
_RATE = re.compile(r"\s*Link \d{1,3}: [A-Za-z][A-Za-z ]{0,30} BER: \S{1,20}\s*")


@dataclass(frozen=True, slots=True)
class NvlinkCounters:
    """The counters of one GPU by number of the link and name; `notes` are lines without a counter in them."""

    index: int
    uuid: str
    counters: dict[tuple[int, str], int]
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class NvlinkErrors:
    """Every GPU that the tool names, in its order."""

    gpus: tuple[NvlinkCounters, ...]


def parse(text: str) -> NvlinkErrors:
    """Return the counters of every GPU; rates (BER) are left out, for a counter tells the same.

    Raises:
        InputError: no GPU line, a GPU or a counter twice, or no counter at all.
    """
    blocks: list[tuple[int, str, dict[tuple[int, str], int], list[str]]] = []
    for line in plain(text).splitlines():
        if match := _GPU.fullmatch(line):
            blocks.append((int(match.group(1)), match.group(2), {}, []))
        elif not blocks or not line.strip() or _RATE.fullmatch(line):
            continue
        elif match := _COUNTER.fullmatch(line):
            key = (int(match.group(1)), match.group(2))
            if key in blocks[-1][2]:
                raise unreadable(TOOL, f"Link {key[0]}: {key[1]} twice", "every counter once")
            blocks[-1][2][key] = int(match.group(3))
        else:
            blocks[-1][3].append(line.strip()[:200])
    if len({index for index, *_rest in blocks}) < len(blocks):
        raise unreadable(TOOL, "a GPU twice", "every GPU once")
    if not any(counters for _index, _uuid, counters, _notes in blocks):
        raise unreadable(TOOL, plain(text)[:80], "lines such as `Link 0: Replay Errors: 0` below a line of the GPU")
    return NvlinkErrors(tuple(NvlinkCounters(i, uuid, found, tuple(notes)) for i, uuid, found, notes in blocks))
