# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""What the loader of the system says of a program: where each of its libraries comes from, and which it misses."""

from __future__ import annotations

import os
import struct
from collections.abc import Mapping
from pathlib import Path

from ...runtime.command import run_command

_LIMIT_S = 20.0
_PT_INTERP = 3
_PLACES = ("usr/lib/*-linux-*", "lib/*-linux-*", "usr/lib64", "lib64", "usr/lib", "lib")


def library_path(root: Path) -> str:
    """Return the directories of libraries below a root directory as the loader takes them."""
    return os.pathsep.join(str(place) for pattern in _PLACES for place in sorted(root.glob(pattern)))


def missing_libraries(program: str, environ: Mapping[str, str]) -> list[str]:
    """Return what the loader says is missing (libraries, versions of symbols) when a program starts so.

    Args:
        program: path; one that needs no loader misses nothing.
        environ: the environment that it starts in.
    """
    loader = loader_of(Path(program))
    if not loader:
        return []
    # Asked of the loader itself: a program that has none would simply run.
    done = run_command([loader, "--list", program], _LIMIT_S, env={**environ, "LC_ALL": "C"})
    lines = [*done.stdout.splitlines(), *done.stderr.splitlines()]
    missing = [line.strip() for line in lines if "not found" in line or "cannot" in line]
    return missing or ([] if done.rc == 0 else [f"{loader} ended with {done.rc}"])


def loader_of(program: Path) -> str:
    """Return the loader that an ELF file of 64 bits asks for, nothing for any other file."""
    with program.open("rb") as handle:
        start = handle.read(4096)
    if start[:5] != b"\x7fELF\x02":
        return ""
    order = "<" if start[5] == 1 else ">"
    (table,) = struct.unpack_from(f"{order}Q", start, 0x20)
    size, count = struct.unpack_from(f"{order}HH", start, 0x36)
    for place in range(table, table + size * count, size):
        (kind,) = struct.unpack_from(f"{order}I", start, place)
        if kind == _PT_INTERP:
            (offset,) = struct.unpack_from(f"{order}Q", start, place + 8)
            return start[offset : start.index(b"\0", offset)].decode()
    return ""
