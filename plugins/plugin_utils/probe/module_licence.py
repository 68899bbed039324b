# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Parser of `modinfo -F license nvidia`: kind of the driver's kernel modules.

NVIDIA's open kernel modules have `Dual MIT/GPL` (NVIDIA/open-gpu-kernel-modules, nv-frontend.c), the others `NVIDIA`.
"""

from __future__ import annotations

from typing import Literal

from .text import plain, unreadable

TOOL = "modinfo -F license nvidia"
Kind = Literal["open", "proprietary"]
_KINDS: dict[str, Kind] = {"Dual MIT/GPL": "open", "NVIDIA": "proprietary"}


def parse(text: str) -> Kind:
    """Return the kind.

    Raises:
        InputError: another licence.
    """
    said = plain(text).strip()
    if said not in _KINDS:
        raise unreadable(TOOL, said, " or ".join(f"`{word}`" for word in _KINDS))
    return _KINDS[said]
