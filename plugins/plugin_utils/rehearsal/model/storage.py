# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The shared volume as a node of the cluster model sees it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Storage:
    """The shared volume as the node sees it: the part of the usual speed that it has, how many times as long the
    slowest request of a hundred takes (`tail`), and whether a block comes back other than written (`corrupts`)."""

    speed: float = 1.0
    tail: float = 1.0
    corrupts: bool = False
