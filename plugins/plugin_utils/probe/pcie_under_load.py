# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Parser of readings of `nvidia-smi --query-gpu=pci.bus_id,utilization.gpu,...` while something loads the GPUs."""

from __future__ import annotations

import re
from dataclasses import dataclass

from ..outcome.errors import InputError
from . import nvidia_smi_query
from .text import plain, unreadable

TOOL = "nvidia-smi --query-gpu=pci.bus_id,utilization.gpu,pcie.link.gen.current"
_HEADER = re.compile(r"pci\.bus_id, ")
_BUSY_PERCENT = 10.0
_COLUMNS = ("utilization.gpu", "pcie.link.gen.current", "pcie.link.gen.max", "pcie.link.width.current")


@dataclass(frozen=True, slots=True)
class LoadedLink:
    """The link of one GPU over all readings in which the GPU was at work (`busy` of them). `generation` and `width` are
    the best that were seen, `least_width` the least; 0 where there was none. `able` is the generation that GPU and
    machine can do together."""

    bus_id: str
    busy: int = 0
    generation: int = 0
    able: int = 0
    width: int = 0
    least_width: int = 0


def parse(text: str) -> tuple[LoadedLink, ...]:
    """Return the GPUs in the order in which they were first listed. What the last reading lacks, which was cut short
    when the load ended, counts for nothing.

    Raises:
        InputError: no whole reading, or one that is not what the tool prints.
    """
    readings: list[list[str]] = []
    for line in plain(text).splitlines():
        if _HEADER.match(line):
            readings.append([line])
        elif readings:
            readings[-1].append(line)
        elif line.strip():
            raise unreadable(TOOL, line, "a header that begins with `pci.bus_id, `")
    links: dict[str, LoadedLink] = {}
    for number, lines in enumerate(readings, 1):
        try:
            gpus = nvidia_smi_query.parse("\n".join(lines))
        except InputError:
            if number == len(readings) > 1:
                break
            raise
        for gpu in gpus:
            links[gpu.bus_id] = _with(links.get(gpu.bus_id, LoadedLink(gpu.bus_id)), gpu)
    if not links:
        raise unreadable(TOOL, text[:80], "at least one whole reading")
    return tuple(links.values())


def _with(link: LoadedLink, gpu: nvidia_smi_query.QueriedGpu) -> LoadedLink:
    values = [_number(gpu.values.get(name)) for name in _COLUMNS]
    if gpu.lost or any(value is None for value in values):
        return link
    used, generation, able, width = (value or 0.0 for value in values)
    if used < _BUSY_PERCENT:
        return link
    return LoadedLink(
        bus_id=link.bus_id,
        busy=link.busy + 1,
        generation=max(link.generation, int(generation)),
        able=max(link.able, int(able)),
        width=max(link.width, int(width)),
        least_width=min(link.least_width or int(width), int(width)),
    )


def _number(word: str | None) -> float | None:
    return float(word) if word is not None and re.fullmatch(r"\d{1,6}(?:\.\d{1,3})?", word) else None
