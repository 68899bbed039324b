# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Links between switches that a generated plan does not name: each is held against most of its kind. Pure."""

from __future__ import annotations

from collections import Counter

from ...probe.iblinkinfo import LinkEnd
from ...site.cabling import LANE_GBPS, PlannedLink
from .view import FabricView

_ROUNDING = 0.001


def uplinks(view: FabricView) -> tuple[PlannedLink, ...]:
    """Return the links between switches that have a signal, rated as most of them run.

    A link that is not there cannot be known without a plan that names it; one that runs slower than its peers can.
    """
    pairs = {}
    for seen in view.ends.values():
        other, far = view.peer(seen), view.peer_end(seen)
        if far is not None and other is not None and view.is_switch(seen) and view.is_switch(other):
            pairs[tuple(sorted((view.end(seen), far)))] = (seen, other)
    rates = Counter(rate for ends in pairs.values() for end in ends if (rate := _rate(end)) is not None)
    if not rates:
        return ()
    # Among equally many the faster one: two cables of which one is slow are not both slow.
    width, speed = max(rates, key=lambda rate: (rates[rate], LANE_GBPS[rate[1]], int(rate[0].removesuffix("x"))))
    return tuple(PlannedLink(near=near, far=far, width=width, speed=speed) for near, far in sorted(pairs))


def _rate(end: LinkEnd) -> tuple[str, str] | None:
    if not end.up or not end.width:
        return None
    speed = next((name for name, lane in LANE_GBPS.items() if abs(lane - end.lane_gbps) <= lane * _ROUNDING), None)
    return (end.width.lower(), speed) if speed else None
