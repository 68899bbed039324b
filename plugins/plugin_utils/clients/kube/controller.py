# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Which object made another one and makes it again: its owner that is its controller."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def controller_of(item: Mapping[str, Any]) -> dict[str, Any]:
    """Return the owner reference of an object's controller as it was served, empty if the object has none."""
    owners = item["metadata"].get("ownerReferences") or ()
    return next((dict(owner) for owner in owners if owner.get("controller")), {})
