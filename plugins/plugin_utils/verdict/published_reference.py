# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Published figures of hosts of a kind, by the number of NVLink domains and the size of messages. Pure.

Between published numbers of domains, and between published sizes, a figure follows a power law: from one scale to the
next there is no jump. Beyond the last number of domains nothing is known.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import replace
from itertools import pairwise

from ..hardware.accelerator import PublishedBusbw
from .ceiling import HIERARCHICAL, RING, Ceiling, CeilingLimits, Reference, Topology, reference, ring

_Point = tuple[float, float]


def reference_for(topology: Topology, algorithm: str = "") -> Reference:
    """Return what an all_reduce is judged against: the published figure, else the limit from adapters and NVLink.

    Args:
        topology: what took part, and at which size it is judged.
        algorithm: the algorithm in NCCL's log, lower case; empty if it is not logged.

    Raises:
        InputError: nothing is published, and facts are missing.
    """
    found = published_reference(topology, algorithm) or reference(topology, algorithm)
    return with_floor(found, topology, algorithm)


def published_reference(topology: Topology, algorithm: str = "") -> Reference | None:
    """Return the published figure of this hardware on as many nodes; None where there is none.

    A figure with a published algorithm counts for runs with that one. Where NCCL did not log its algorithm, a
    hierarchical figure decides what is marginal, a ring figure what is bad.
    """
    rule = "ring" if algorithm in RING else "hierarchical"
    fitting = _of(topology, ("plateau",), ("", rule))
    gbps = _at(topology, fitting)
    if gbps is None:
        return None
    text = f"published {gbps:.4g} GB/s on {topology.nodes} nodes, from {_rows(fitting)}"
    found = Ceiling(f"published for {topology.nodes} nodes", gbps, text)
    if algorithm or topology.nodes == 1 or topology.racks:
        return Reference(found, found)
    return Reference(min(ring(topology), found, key=lambda ceiling: ceiling.gbps), found)


def with_floor(found: Reference, topology: Topology, algorithm: str = "", phase: str = "all") -> Reference:
    """Return the reference with an accepted limit, or with what healthy hosts reach with a slow choice of NCCL's.

    The second is known to be low. So a figure is bad only below the fraction of it that is the marginal limit
    elsewhere.
    """
    rule = "hierarchical" if algorithm in HIERARCHICAL else "ring"
    gates = _of(topology, ("gate",), ("", rule), phase)
    untuned = _of(topology, ("untuned",), ("", rule), phase)
    gate, slow = _at(topology, gates), _at(topology, untuned)
    if gate is not None:
        text = f"accepted from {gate:.4g} GB/s on: {_rows(gates)}"
        return replace(found, floor=Ceiling("accepted elsewhere", gate, text))
    if slow is not None:
        least = CeilingLimits().marginal * slow
        text = f"hosts that are well reach {slow:.4g} GB/s with NCCL's own choice: {_rows(untuned)}"
        return replace(found, floor=Ceiling("not tuned", least, text))
    return found


def with_share_of_gate(found: Reference, topology: Topology) -> Reference:
    """Return the reference of communicators with one GPU of each node, with its share of the accepted limit of a ring.

    The busbw of a ring over all GPUs is what all adapters of a node carry together.
    """
    gates = _of(topology, ("gate",), ("", "ring"))
    whole = _at(topology, gates)
    if whole is None:
        return found
    each = whole / topology.gpus
    text = f"{each:.4g} GB/s of each of {topology.gpus} GPUs: accepted from {whole:.4g} GB/s on: {_rows(gates)}"
    return replace(found, floor=Ceiling("accepted elsewhere", each, text))


def _of(
    topology: Topology, kinds: tuple[str, ...], algorithms: tuple[str, ...], phase: str = "all"
) -> list[PublishedBusbw]:
    rows = (row for row in topology.published if row.kind in kinds and row.phase == phase)
    return [row for row in rows if row.algorithm in algorithms]


def _at(topology: Topology, rows: Iterable[PublishedBusbw]) -> float | None:
    """Return the figure for that many nodes at that size, None where it is not published or beyond the published
    range."""
    by_nodes: dict[int, list[_Point]] = {}
    for row in rows:
        by_nodes.setdefault(row.domains, []).append((float(row.size_bytes), row.gbps))
    points = [(float(nodes), _at_size(topology.size_bytes, of)) for nodes, of in by_nodes.items()]
    known = sorted((nodes, gbps) for nodes, gbps in points if gbps is not None)
    if not known or not known[0][0] <= topology.nodes <= known[-1][0]:
        return None
    return _between(float(topology.nodes), known)


def _at_size(size_bytes: int, points: list[_Point]) -> float | None:
    """Return the figure at a size.

    Above the largest published size it is that of the largest; below the smallest there is none. A single published
    size counts from half of it on: that is the difference within a settled curve.
    """
    known = sorted(points)
    if not size_bytes:
        return known[-1][1]
    if len(known) == 1 and 2 * size_bytes >= known[0][0]:
        return known[0][1]
    if size_bytes < known[0][0]:
        return None
    return _between(min(float(size_bytes), known[-1][0]), known)


def _between(place: float, known: list[_Point]) -> float:
    """Return the value of a power law through the two points around a place."""
    for (first, low), (last, high) in pairwise(known):
        if first <= place <= last:
            part = math.log(place / first) / math.log(last / first)
            return low * math.pow(high / low, part)
    return known[0][1] if place <= known[0][0] else known[-1][1]


def _rows(rows: Iterable[PublishedBusbw]) -> str:
    found = list(rows)
    nodes = ", ".join(str(number) for number in sorted({row.domains for row in found}))
    return f"{nodes} ({'; '.join(sorted({row.source for row in found}))})"
