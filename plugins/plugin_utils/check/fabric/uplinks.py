# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Links between switches that a generated plan does not name: each is held against most of its kind. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from ...probe.iblinkinfo import LinkEnd
from ...site.cabling import LANE_GBPS, End, PlannedLink

# An adapter has one or two ports; what has more is a switch.
_MOST_ADAPTER_PORTS = 2
_ROUNDING = 0.001


def uplinks(ends: Mapping[End, LinkEnd]) -> tuple[PlannedLink, ...]:
    """Return the links between switches that have a signal, rated as most of them run.

    A link that is not there cannot be known without a plan that names it; one that runs slower than its peers can.
    """
    ports = Counter(end.node for end in ends)
    switches = {node for node, count in ports.items() if count > _MOST_ADAPTER_PORTS}
    pairs = {tuple(sorted((end, End(seen.peer.name, seen.peer.port)))) for end, seen in ends.items()
             if seen.up and seen.peer is not None and {end.node, seen.peer.name} <= switches}  # fmt: skip
    rates = Counter(rate for near, far in pairs for end in (near, far) if (rate := _rate(ends.get(end))) is not None)
    if not rates:
        return ()
    # Among equally many the faster one: two cables of which one is slow are not both slow.
    width, speed = max(rates, key=lambda rate: (rates[rate], LANE_GBPS[rate[1]], int(rate[0].removesuffix("x"))))
    return tuple(PlannedLink(near=near, far=far, width=width, speed=speed) for near, far in sorted(pairs))


def _rate(end: LinkEnd | None) -> tuple[str, str] | None:
    if end is None or not end.up or not end.width:
        return None
    speed = next((name for name, lane in LANE_GBPS.items() if abs(lane - end.lane_gbps) <= lane * _ROUNDING), None)
    return (end.width.lower(), speed) if speed else None
