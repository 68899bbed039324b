# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The section `validation` of a resolved recipe, phase by phase."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def section_of(recipe: Mapping[str, Any] | None, phase: str) -> Mapping[str, Any]:
    """Return what `validation.<phase>` of a recipe says, empty where there is no recipe or it says nothing."""
    section: Mapping[str, Any] = ((recipe or {}).get("validation") or {}).get(phase) or {}
    return section
