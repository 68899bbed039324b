# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Parser of `nvidia-smi nvlink -s` and `nvidia-smi c2c -s`."""

from __future__ import annotations

import re
from dataclasses import dataclass

from .text import plain, unreadable

TOOL = "nvidia-smi nvlink -s"
_GPU = re.compile(r"GPU (\d+): (.*?) \(UUID: (\S+)\)\s*")
_LINK = re.compile(r"\s*(C2C )?Link (\d+):\s*(?:([\d.]+) GB/s|<?(inactive)>?)\s*")


@dataclass(frozen=True, slots=True)
class NvlinkGpu:
    """Links of one GPU: GB/s by link number, 0.0 for an inactive one.

    - `mig`: the driver refuses the query in MIG mode.
    - `notes`: lines without a link.
    """

    index: int
    product: str
    uuid: str
    links: tuple[tuple[int, float], ...] = ()
    c2c: tuple[tuple[int, float], ...] = ()
    mig: bool = False
    notes: tuple[str, ...] = ()

    @property
    def active(self) -> int:
        """Number of active links."""
        return sum(1 for _number, speed in self.links if speed > 0)


@dataclass(frozen=True, slots=True)
class NvlinkStatus:
    """All GPUs in the tool's order."""

    gpus: tuple[NvlinkGpu, ...]


def parse(text: str) -> NvlinkStatus:
    """Return the links of every GPU.

    Raises:
        InputError: no GPU line, a link or a GPU is listed twice, or not a speed.
    """
    blocks: list[tuple[re.Match[str], list[str]]] = []
    for line in plain(text).splitlines():
        match = _GPU.fullmatch(line)
        if match:
            blocks.append((match, []))
        elif line.strip() and blocks:
            blocks[-1][1].append(line)
    if not blocks:
        raise unreadable(TOOL, plain(text)[:80], "a line such as `GPU 0: NVIDIA H200 (UUID: GPU-...)`")
    indices = [match.group(1) for match, _lines in blocks]
    if len(set(indices)) < len(indices):
        raise unreadable(TOOL, f"GPUs {', '.join(indices)}", "every GPU once")
    return NvlinkStatus(tuple(_gpu(match, lines) for match, lines in blocks))


def _gpu(match: re.Match[str], lines: list[str]) -> NvlinkGpu:
    links: dict[bool, list[tuple[int, float]]] = {False: [], True: []}
    notes: list[str] = []
    for line in lines:
        link = _LINK.fullmatch(line)
        if link is None:
            notes.append(line.strip())
            continue
        kind, number = links[bool(link.group(1))], int(link.group(2))
        if any(number == other for other, _speed_gbps in kind):
            raise unreadable(TOOL, f"Link {number} of GPU {match.group(1)} twice", "every link once")
        kind.append((number, _speed(link.group(3))))
    return NvlinkGpu(
        index=int(match.group(1)),
        product=match.group(2),
        uuid=match.group(3),
        links=tuple(links[False]),
        c2c=tuple(links[True]),
        mig=any("MIG mode" in note for note in notes),
        notes=tuple(notes),
    )


def _speed(text: str | None) -> float:
    try:
        return float(text or "0")
    except ValueError:
        raise unreadable(TOOL, str(text), "a speed in GB/s") from None
