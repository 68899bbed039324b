# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Parser of `ibdiagnet --routing --r_opt=dump_only --sharp`: number of switches and their routing.

Lines: NVIDIA SHARP's manual, "Testing NVIDIA SHARP Setup"; the line about adaptive routing as operators publish it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from . import ibdiagnet
from .text import plain, unreadable

TOOL = "ibdiagnet --routing --sharp"
_SWITCHES = re.compile(r"^\s*IB Switches\s*:\s*(\d{1,6})\s*$", re.M)
_AGGREGATION = re.compile(r"^\s*IB Aggregation Nodes\s*:\s*(\d{1,6})\s*$", re.M)
_ADAPTIVE = re.compile(r"Adaptive Routing is enabled on (\d{1,6}) switch")


@dataclass(frozen=True, slots=True, kw_only=True)
class FabricSummary:
    """Numbers of the fabric.

    - `adaptive`: switches with adaptive routing, 0 if the tool lists none.
    - `stages`: from the tool's table.
    """

    switches: int
    aggregation_nodes: int
    adaptive: int
    stages: tuple[ibdiagnet.Stage, ...]


def parse(text: str) -> FabricSummary:
    """Return the summary.

    Raises:
        InputError: the tool did not finish, or counts no switches or aggregation nodes.
    """
    diagnosis, clean = ibdiagnet.parse(text), plain(text)
    switches, nodes = _SWITCHES.search(clean), _AGGREGATION.search(clean)
    if switches is None or nodes is None or not int(switches[1]):
        raise unreadable(TOOL, clean.strip()[-80:], "`IB Switches : 4` and `IB Aggregation Nodes : 4`")
    adaptive = _ADAPTIVE.search(clean)
    return FabricSummary(
        switches=int(switches[1]),
        aggregation_nodes=int(nodes[1]),
        adaptive=int(adaptive[1]) if adaptive else 0,
        stages=diagnosis.stages,
    )
