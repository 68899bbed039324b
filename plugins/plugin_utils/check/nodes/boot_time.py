# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""How long after the boot a line of the kernel log was written."""

from __future__ import annotations

from datetime import datetime


def settling(began: str, time: str, settle_s: float) -> bool:
    """Tell whether it was so soon after the boot. A log that does not begin with the boot cannot tell."""
    first, then = _seconds(began), _seconds(time)
    return first is not None and then is not None and 0 <= then - first < settle_s


def _seconds(stamp: str) -> float | None:
    """Return a time stamp of the kernel log as seconds, since whenever its form counts from."""
    try:
        return float(stamp)
    except ValueError:
        pass
    text = stamp.replace(",", ".")
    for form in ("%a %b %d %H:%M:%S %Y", "%Y %b %d %H:%M:%S"):
        try:
            return datetime.strptime(text if form.endswith("%Y") else f"2000 {text}", form).timestamp()
        except ValueError:
            continue
    try:
        return datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp()
    except ValueError:
        return None
