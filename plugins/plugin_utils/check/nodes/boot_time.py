# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""How long after the boot a line of the kernel log was written."""

from __future__ import annotations

from datetime import datetime

from ...probe.kernel_repeats import seconds


def settling(began: str, time: str, settle_s: float) -> bool:
    """Tell whether it was so soon after the boot. A log that does not begin with the boot cannot tell."""
    first, then = _seconds(began), _seconds(time)
    return first is not None and then is not None and 0 <= then - first < settle_s


def _seconds(stamp: str) -> float | None:
    """Return a time stamp of the kernel log as seconds, since whenever its form counts from; one without a year too."""
    known = seconds(stamp)
    if known is not None:
        return known
    try:
        return datetime.strptime(f"2000 {stamp}", "%Y %b %d %H:%M:%S").timestamp()
    except ValueError:
        return None
