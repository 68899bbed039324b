# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Removing what may not outlive a rehearsal: keys, databases, its inventory, and all that its simulators wrote.

Logs stay, and what the next rehearsal in the directory goes by: its state, the day of the room's record.
"""

from __future__ import annotations

import os
import shutil
from contextlib import suppress
from pathlib import Path

# What the simulators of a rehearsal write into its directory, by name. The start of the next one writes it anew.
WRITTEN = (
    "bmcs", "cabling.yaml", "charts", "exec", "fabric", "facility", "hosts", "model.seen", "model.yaml",
    "resident.sock", "serving", "shared", "telemetry", "workloads",
)  # fmt: skip
# Left of an overlay by the kernel, in a mode in which only root may enter them.
_CLOSED = frozenset({"work", "index"})


def remove_volatile(path: Path) -> None:
    """Remove a file or a directory, as far as it can be."""
    if path.is_dir() and not path.is_symlink():
        for directory, names, _files in os.walk(path):
            for name in _CLOSED.intersection(names):
                with suppress(OSError):
                    os.chmod(os.path.join(directory, name), 0o700)
        shutil.rmtree(path, ignore_errors=True)
    else:
        with suppress(OSError):
            path.unlink()


def remove_written(directory: Path) -> bool:
    """Remove what the simulators wrote into the directory of a rehearsal, as far as it can be; return whether there was
    any. Nothing may be mounted below it any more: what is behind a mount is not of the rehearsal."""
    found = [directory / name for name in WRITTEN if os.path.lexists(directory / name)]
    for path in found:
        remove_volatile(path)
    return bool(found)
