# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Renders what `nvidia-imex-ctl -N -j -H` prints on a simulated host, in the form that NVIDIA's IMEX guide gives and
public test data confirm: every configured node with its state and its connections, the state of the domain."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from ..model.values import Node

SERVICE = "nvidia-imex"
_READY, _AWAY = "READY", "UNAVAILABLE"


def domain(node: Node, nodes: Sequence[Node]) -> str:
    """Return the domain of the host's rack as it sees it; empty where its service does not run."""
    if node.services.get(SERVICE) != "active":
        return ""
    members = [other for other in nodes if other.rack == node.rack and SERVICE in other.services]
    states = [other.setup.imex if other.services[SERVICE] == "active" else _AWAY for other in members]
    entries: dict[str, Any] = {}
    for number, (member, state) in enumerate(zip(members, states, strict=True)):
        mutual = [state == _READY and other == _READY for other in states]
        entries[str(number)] = {
            "status": state,
            "host": f"10.9.0.{number + 1}",
            "hostName": member.name,
            "connections": {
                str(n): {"host": f"10.9.0.{n + 1}", "status": "CONNECTED" if there else "INVALID", "changed": True}
                for n, there in enumerate(mutual)
            },
            "changed": True,
            "version": member.driver_version,
        }
    status = "UP" if set(states) == {_READY} else "DEGRADED" if _READY in states else "DOWN"
    return json.dumps({"nodes": entries, "timestamp": "1/5/2026 00:37:39.905", "status": status}, indent=2) + "\n"
