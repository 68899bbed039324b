# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Finds and removes mounts that a rehearsal made, by their mount points."""

from __future__ import annotations

import ctypes
import re
from pathlib import Path

_MNT_DETACH = 2
_OCTAL = re.compile(r"\\([0-7]{3})")


def mounts_below(directory: Path, mountinfo: str) -> list[str]:
    """Return the mount points below a directory, deepest first.

    Args:
        mountinfo: text of /proc/self/mountinfo.
    """
    prefix = str(directory) + "/"
    points = [line.split()[4] for line in mountinfo.splitlines() if len(line.split()) > 4]
    # The kernel writes blanks and backslashes of a path in octal.
    plain = [_OCTAL.sub(lambda match: chr(int(match.group(1), 8)), point) for point in points]
    return sorted((point for point in plain if point.startswith(prefix)), key=len, reverse=True)


def unmount_below(directory: Path) -> list[str]:
    """Detach every mount below a directory. Return those that are still there."""
    own = Path("/proc/self/mountinfo")
    libc = ctypes.CDLL(None, use_errno=True)
    for point in mounts_below(directory, own.read_text()):
        libc.umount2(point.encode(), _MNT_DETACH)
    return mounts_below(directory, own.read_text())
