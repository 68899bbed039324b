# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Parser of `nvidia-smi --query-gpu=... --format=csv`: one row per GPU, with or without units."""

from __future__ import annotations

import csv
import re
from dataclasses import dataclass

from ..outcome.errors import InputError
from .text import pci_address, plain, unreadable

TOOL = "nvidia-smi --query-gpu"
_COLUMN = re.compile(r"([\w.]{1,80})(?: \[([^\]]{1,12})\])?")
_ABSENT = ("N/A", "[N/A]", "[Not Supported]", "[Requested functionality has been deprecated]", "[Unknown Error]", "")
_ADDRESS = ("pci.bus_id", "gpu_bus_id")
# Messages of the driver for a GPU that it cannot reach.
_LOST = ("[GPU is lost]", "GPU is lost", "[GPU requires reset]")


@dataclass(frozen=True, slots=True)
class QueriedGpu:
    """One GPU.

    - `values`: by column, without units; None where the driver has no value.
    - `bus_id`: complete PCI address (`0000:1b:00.0`); empty if it was not queried.
    - `lost`: the driver cannot reach the GPU.
    """

    bus_id: str
    values: dict[str, str | None]
    lost: bool = False


def parse(text: str) -> tuple[QueriedGpu, ...]:
    """Return the GPUs in the tool's order. Rows with the same address are kept, so that a count shows them.

    Raises:
        InputError: no header, a column twice, no row, or a row of another width.
    """
    try:
        rows = [row for row in csv.reader(plain(text).splitlines(), skipinitialspace=True) if any(map(str.strip, row))]
    except csv.Error as error:
        raise unreadable(TOOL, f"{text[:60]} ({error})", "rows of CSV") from None
    columns = [_COLUMN.fullmatch(cell.strip()) for cell in (rows[0] if rows else [])]
    heads = [column for column in columns if column is not None]
    if len(heads) < max(len(columns), 2):
        raise unreadable(TOOL, ", ".join(rows[0])[:80] if rows else "", "a header such as `index, name, pci.bus_id`")
    names = [head.group(1) for head in heads]
    units = {head.group(1): head.group(2) or "" for head in heads}
    if len(set(names)) < len(names):
        raise unreadable(TOOL, "a column twice", "every column once")
    if len(rows) < 2:
        raise unreadable(TOOL, "no row", "at least one GPU")
    return tuple(_gpu(names, units, row) for row in rows[1:])


def _gpu(names: list[str], units: dict[str, str], row: list[str]) -> QueriedGpu:
    cells = [cell.strip() for cell in row]
    if len(cells) != len(names):
        raise unreadable(TOOL, f"{len(cells)} cells: {', '.join(cells)}"[:120], f"{len(names)} cells")
    pairs = dict(zip(names, cells, strict=True))
    values = {name: None if cell in (*_ABSENT, *_LOST) else _bare(cell, units[name]) for name, cell in pairs.items()}
    address = next((value for name in _ADDRESS if (value := values.get(name))), "")
    try:
        bus_id = pci_address(address) if address else ""
    except InputError:
        raise unreadable(TOOL, address, "a PCI address") from None
    return QueriedGpu(bus_id, values, any(cell in _LOST for cell in cells))


def _bare(cell: str, unit: str) -> str:
    return cell.removesuffix(f" {unit}") if unit else cell
