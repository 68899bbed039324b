# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The options with which preflight is asked when a playbook states nothing."""

from __future__ import annotations

from typing import Any

UNSTATED: dict[str, Any] = {
    "group": "gpu_nodes",
    "gates": [],
    "from_gate": "",
    "criteria": {},
    "default_criteria": {},
    "notes": [],
    "settings": {},
    "set": [],
    "forced_settings": {},
    "recipe_data": [],
    "check_dirs": [],
    "overrides": {},
}
