# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Counts of devices as the API server writes them. Pure."""

from __future__ import annotations

import re

# The server writes 1000 units as `1k` (kubernetes/apimachinery, pkg/api/resource/quantity.go: a canonical form has no
# trailing thousands), so that a shared device plugin with rdmaHcaMax 1000 offers `1k`.
_WHOLE = re.compile(r"(\d+)([kMGTPE]?)")
_THOUSANDS = "kMGTPE"


def whole_number(quantity: str | int) -> int | None:
    """Return a quantity that is a whole number, None if it is none or has a unit of bytes (`Mi`)."""
    match = _WHOLE.fullmatch(str(quantity).strip())
    if match is None:
        return None
    number, suffix = match.groups()
    factor: int = 1000 ** (_THOUSANDS.index(suffix) + 1 if suffix else 0)
    return int(number) * factor
