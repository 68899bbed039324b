# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Time limits of one HTTP request, from what is left of a deadline."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from urllib3 import Timeout

# urllib3 refuses a limit of 0 s. A request whose time is over is to end like one without response.
_LEAST_S = 0.1


def request_limits(connect_s: float, left_s: float) -> Timeout:
    """Return the limits for urllib3: at most `connect_s` for the connection, and `left_s` for each read."""
    from urllib3 import Timeout

    read_s = max(left_s, _LEAST_S)
    return Timeout(connect=min(connect_s, read_s), read=read_s)
