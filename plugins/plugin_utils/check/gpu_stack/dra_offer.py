# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Whether a recipe offers GPUs by DRA. Apart from the judges, since preflight needs it before any check is loaded."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

DRA_DRIVER = "nvidia-dra-driver-gpu"


def recipe_offers_gpus_by_dra(recipe: Mapping[str, Any]) -> bool:
    """Return whether a resolved recipe offers GPUs by DRA."""
    refs = recipe.get("componentRefs") or []
    component: Any = next((ref for ref in refs if ref.get("name") == DRA_DRIVER), None)
    if component is None:
        return False
    gpus = ((component.get("values") or {}).get("resources") or {}).get("gpus") or {}
    return gpus.get("enabled") is not False
