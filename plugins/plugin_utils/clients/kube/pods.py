# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""What the status of a pod says."""

from __future__ import annotations

from typing import Any


def is_ready(pod: dict[str, Any]) -> bool:
    """Tell whether the pod's condition Ready is True, which is what its readiness probe says."""
    conditions = (pod.get("status") or {}).get("conditions") or []
    return any(entry.get("type") == "Ready" and entry.get("status") == "True" for entry in conditions)
