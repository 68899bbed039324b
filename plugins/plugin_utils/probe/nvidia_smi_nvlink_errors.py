# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Parser of `nvidia-smi nvlink -e`: error counters of every NVLink.

NVLink up to generation 4 counts `Replay Errors`, `Recovery Errors` and `CRC Errors`; generation 5 has other names,
among them `Rx Errors`, `Link recovery failed events` and `FEC Errors - 0`, and rates such as `Symbol BER: 15e-255`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from typing import TypeVar

from .text import plain, unreadable

T = TypeVar("T")

TOOL = "nvidia-smi nvlink -e"
_GPU = re.compile(r"GPU (\d+): [^(]{1,80}\(UUID: (\S{1,64})\)\s*")
_COUNTER = re.compile(r"\s*Link (\d{1,3}): ([A-Za-z][A-Za-z0-9 /-]{1,60}?): (\d{1,20})\s*")
_RATE = re.compile(r"\s*Link (\d{1,3}): ([A-Za-z][A-Za-z ]{0,30} BER): (\d[\d.]{0,9}(?:[eE][+-]?\d{1,4})?)\s*")


@dataclass(frozen=True, slots=True)
class NvlinkCounters:
    """Counters of one GPU by link number and name, and in the same way its bit error rates (`Symbol BER`).

    `notes` are lines without either.
    """

    index: int
    uuid: str
    counters: dict[tuple[int, str], int]
    rates: dict[tuple[int, str], float] = field(default_factory=dict)
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class NvlinkErrors:
    """All GPUs in the tool's order."""

    gpus: tuple[NvlinkCounters, ...]


def parse(text: str) -> NvlinkErrors:
    """Return the counters and rates of every GPU.

    Raises:
        InputError: no GPU line, a GPU, a counter or a rate twice, or no counter at all.
    """
    gpus: list[NvlinkCounters] = []
    notes: list[list[str]] = []
    for line in plain(text).splitlines():
        if match := _GPU.fullmatch(line):
            gpus.append(NvlinkCounters(int(match.group(1)), match.group(2), {}))
            notes.append([])
        elif not gpus or not line.strip():
            continue
        elif match := _RATE.fullmatch(line):
            _once(gpus[-1].rates, match, float(match.group(3)))
        elif match := _COUNTER.fullmatch(line):
            _once(gpus[-1].counters, match, int(match.group(3)))
        else:
            notes[-1].append(line.strip()[:200])
    if len({gpu.index for gpu in gpus}) < len(gpus):
        raise unreadable(TOOL, "a GPU twice", "every GPU once")
    if not any(gpu.counters for gpu in gpus):
        raise unreadable(TOOL, plain(text)[:80], "lines such as `Link 0: Replay Errors: 0` below a line of the GPU")
    return NvlinkErrors(tuple(replace(gpu, notes=tuple(reported)) for gpu, reported in zip(gpus, notes, strict=True)))


def _once(values: dict[tuple[int, str], T], match: re.Match[str], value: T) -> None:
    key = (int(match.group(1)), match.group(2))
    if key in values:
        raise unreadable(TOOL, f"Link {key[0]}: {key[1]} twice", "every counter once")
    values[key] = value
