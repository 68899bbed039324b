# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""What an API server answered to one request."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Answered:
    """An answer, whatever its status; `unsure`: an earlier try of this request may have been carried out."""

    status: int
    data: bytes
    unsure: bool

    @property
    def ok(self) -> bool:
        """Whether it is a success."""
        return 200 <= self.status < 300
