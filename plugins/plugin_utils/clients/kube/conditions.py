# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The conditions that an object's controller reports in its status."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def condition(item: Mapping[str, Any] | None, kind: str) -> dict[str, Any]:
    """Return the condition of that type (`Ready`, `Established`) as it was served, empty if the object has none."""
    found = ((item or {}).get("status") or {}).get("conditions") or ()
    return next((entry for entry in found if entry.get("type") == kind), {})


def is_true(item: Mapping[str, Any] | None, kind: str) -> bool:
    """Tell whether the condition of that type is there and True."""
    return condition(item, kind).get("status") == "True"
