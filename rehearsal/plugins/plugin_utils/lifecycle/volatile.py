# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Removes what may not outlive a rehearsal: keys, databases, its inventory, and all files of its simulators.

Logs stay, and so do the inputs of the next rehearsal in the directory: its state, the date of the facility record.
"""

from __future__ import annotations

import os
import shutil
from contextlib import suppress
from pathlib import Path

# Files of the simulators in the directory of a rehearsal, by name. The next start writes them anew.
WRITTEN = (
    "bmcs", "cabling.yaml", "charts", "exec", "fabric", "facility", "hosts", "model.seen", "model.yaml",
    "resident.sock", "serving", "shared", "telemetry", "workloads",
)  # fmt: skip
# Left behind by the kernel's overlayfs, in a mode in which only root can enter them.
_CLOSED = frozenset({"work", "index"})


def remove_volatile(path: Path) -> None:
    """Remove a file or a directory as far as possible."""
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
    """Remove the simulators' files from the directory of a rehearsal as far as possible. Return whether there were any.

    Nothing may be mounted below it any more, since files behind a mount are not part of the rehearsal.
    """
    found = [directory / name for name in WRITTEN if os.path.lexists(directory / name)]
    for path in found:
        remove_volatile(path)
    return bool(found)
