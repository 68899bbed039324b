# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Taints of nodes as text, the way kubectl prints them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def taint_text(taint: Mapping[str, Any]) -> str:
    """Return a taint as kubectl prints it, `key=value:effect`."""
    value = f"={taint['value']}" if taint.get("value") else ""
    return f"{taint.get('key')}{value}:{taint.get('effect')}"


def taint_of(text: str) -> dict[str, str]:
    """Return the taint that a text of taint_text says."""
    rest, _colon, effect = text.rpartition(":")
    key, _equals, value = rest.partition("=")
    return {"key": key, "value": value, "effect": effect}
