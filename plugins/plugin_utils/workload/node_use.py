# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""What is on a node at one moment, whichever scheduler places it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class Use(str, Enum):
    """How a node is used.

    Attributes:
        FREE: nothing is on it and it takes work.
        BUSY: user work is on it, so only passive checks run there.
        OURS: nothing is on it, but we keep work from it ourselves.
        CLOSED: everything else, also every state that is not understood.
    """

    FREE = "free"
    BUSY = "busy"
    OURS = "ours"
    CLOSED = "closed"


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeUse:
    """One node. `why` is what keeps it from being free, empty if it is."""

    name: str
    use: Use
    why: str = ""

    @property
    def free(self) -> bool:
        """Whether a test may have the whole node."""
        return self.use is Use.FREE


def absent(name: str, place: str) -> NodeUse:
    """Return the use of a node that does not exist."""
    return NodeUse(name=name, use=Use.CLOSED, why=f"it is not in {place}")
