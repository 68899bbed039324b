# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Numbers of things in sentences."""

from __future__ import annotations


def count(number: int, thing: str) -> str:
    """Return `1 GPU`, `2 GPUs`."""
    return f"{number} {thing}" if number == 1 else f"{number} {thing}s"
