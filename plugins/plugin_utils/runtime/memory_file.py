# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""A file in memory for a program that wants one: where both are killed, nothing stays behind on a disk."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def memory_file(content: bytes) -> Iterator[str]:
    """Give a path at which the programs that this process starts read these bytes, until the end of the block."""
    file = lasting_memory_file(content)
    try:
        yield f"/proc/{os.getpid()}/fd/{file}"
    finally:
        os.close(file)


def lasting_memory_file(content: bytes) -> int:
    """Return the descriptor of a file in memory with these bytes, which ends with this process or when it is closed."""
    file = os.memfd_create("gpufleet", os.MFD_CLOEXEC)
    with open(file, "wb", closefd=False) as stream:
        stream.write(content)
    return file
