# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Parser of `nvidia-smi topo -m` (and of `topo -p2p r`, which prints the same kind of matrix)."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from .text import plain, unreadable

TOOL = "nvidia-smi topo -m"
_WORD = re.compile(r"X|SYS|NODE|PHB|PXB|PIX|NV\d+|OK|CNS|GNS|TNS|DR|NS|U|N/A")
_GPU = re.compile(r"GPU\d+")
_TAIL = re.compile(r"(CPU Affinity|NUMA Affinity|GPU NUMA ID).*", re.S)
_NUMBERED = re.compile(r"NIC\d+")
_NIC_LEGEND = re.compile(r"^\s*(NIC\d+):\s*(\S+)\s*$", re.M)


@dataclass(frozen=True, slots=True)
class Topology:
    """Paths between GPUs and NICs: `paths[("GPU0", "mlx5_3")]` is `PIX`. NICs have their device names."""

    gpus: tuple[str, ...]
    nics: tuple[str, ...]
    paths: dict[tuple[str, str], str] = field(default_factory=dict)
    cpu_affinity: dict[str, str] = field(default_factory=dict)
    numa: dict[str, str] = field(default_factory=dict)


def parse(text: str) -> Topology:
    """Return the matrix.

    Raises:
        InputError: no header, a row that does not fit it, a word that is no path, or a NIC without its name.
    """
    clean = plain(text)
    lines = [line for line in clean.splitlines() if line.strip()]
    header_at = next((n for n, line in enumerate(lines) if _is_header(line)), None)
    if header_at is None:
        raise unreadable(TOOL, clean[:80], "a header line that starts with GPU0")
    header, below = lines[header_at], lines[header_at + 1 :]
    while below and not _is_row(below[0]):
        # Terminals and editors wrap the long header of a host with many adapters.
        header, below = f"{header} {below[0].strip()}", below[1:]
    columns = _TAIL.sub("", header).split()
    names = dict(_NIC_LEGEND.findall(clean))
    nameless = [name for name in columns if _NUMBERED.fullmatch(name) and name not in names]
    if nameless:
        raise unreadable(TOOL, f"no name for {', '.join(nameless)}", "every NIC in the legend below the matrix")
    rows = [line.split() for line in below]
    gpu_rows = {row[0]: row[1:] for row in rows if _GPU.fullmatch(row[0]) and len(row) > 1}
    gpus = tuple(name for name in columns if _GPU.fullmatch(name))
    if set(gpus) != set(gpu_rows) or len(gpus) != len(set(gpus)):
        raise unreadable(TOOL, f"rows for {', '.join(gpu_rows) or 'no GPU'}", f"one row each for {', '.join(gpus)}")
    return _matrix(gpus, columns, names, gpu_rows)


def _is_row(line: str) -> bool:
    words = line.split()
    return len(words) > 1 and _GPU.fullmatch(words[0]) is not None and _WORD.fullmatch(words[1]) is not None


def _is_header(line: str) -> bool:
    words = line.split()
    return bool(words) and words[0] == "GPU0" and (len(words) == 1 or not _WORD.fullmatch(words[1]))


def _matrix(gpus: tuple[str, ...], columns: list[str], names: dict[str, str], rows: dict[str, list[str]]) -> Topology:
    nics = tuple(names.get(name, name) for name in columns if not _GPU.fullmatch(name))
    topology = Topology(gpus, nics)
    for gpu in gpus:
        cells = rows[gpu]
        if len(cells) < len(columns):
            raise unreadable(TOOL, f"{len(cells)} cells in the row of {gpu}", f"{len(columns)} cells")
        for column, cell in zip(columns, cells, strict=False):
            if not _WORD.fullmatch(cell) or (cell == "X") != (gpu == column):
                raise unreadable(TOOL, f"{cell} for {gpu} to {column}", "a path such as NV18, PIX or SYS")
            topology.paths[(gpu, names.get(column, column))] = cell
        tail = cells[len(columns) :]
        topology.cpu_affinity[gpu] = tail[0] if tail else ""
        topology.numa[gpu] = tail[1] if len(tail) > 1 else ""
    return topology
