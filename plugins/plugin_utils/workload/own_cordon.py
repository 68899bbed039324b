# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Our cordon: the marks on a node that say which roll keeps it from work, and the taint of one that is held."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .tolerations import Toleration

MARK, REASON, HELD_TAINT = "gpufleet.io/cordoned-by", "gpufleet.io/held-because", "gpufleet.io/held"
# The control plane puts this taint on a cordoned node, and the scheduler lets pods through that tolerate it.
CORDON_TAINT = {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}
CORDON = Toleration(
    key=CORDON_TAINT["key"], effect=CORDON_TAINT["effect"], sources=("gpufleet.bringup, nodes of a roll",)
)


def marked_by(node: Mapping[str, Any]) -> str:
    """Return the roll that cordoned a node, empty where no roll says so."""
    return str((node["metadata"].get("annotations") or {}).get(MARK) or "")


def out_by(node: Mapping[str, Any], roll: str) -> bool:
    """Tell whether a node is cordoned, and by that roll."""
    return bool(roll) and bool((node.get("spec") or {}).get("unschedulable")) and marked_by(node) == roll
