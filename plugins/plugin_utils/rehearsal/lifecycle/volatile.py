# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Removing what may not outlive a rehearsal: keys, databases, its inventory."""

from __future__ import annotations

import shutil
from contextlib import suppress
from pathlib import Path


def remove_volatile(path: Path) -> None:
    """Remove a file or a directory, as far as it can be."""
    if path.is_dir():
        shutil.rmtree(path, ignore_errors=True)
    else:
        with suppress(OSError):
            path.unlink()
