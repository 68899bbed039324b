# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Settings of gate fabric: the plan, and how long the gate observes."""

from __future__ import annotations

from dataclasses import dataclass

from ..kit.settings import setting

GATE = "fabric"


@dataclass(frozen=True, slots=True, kw_only=True)
class FabricSettings:
    """Settings of gate fabric."""

    plan: str = setting(
        "Path of the cabling plan (docs/fabric.md); empty: made from racks and rails, without names of switches.",
        default="",
        use="run",
    )
    node_name_map: str = setting(
        "Path of the site's node-name map, names of switches by GUID as opensm and ibnetdiscover read it; empty: their "
        "own descriptions, and where several are called alike the cables of the plan tell which is which.",
        default="",
        use="run",
    )
    ports: tuple[str, ...] = setting(
        "Ports of the looking host, as `adapter:port`, one in each subnet; empty: the tools choose.",
        default=[],
        use="run",
    )
    interval_s: float = setting(
        "Time between the two readings of the counters.", default=10.0, unit="s", above=0, use="run"
    )


SETTINGS = FabricSettings
