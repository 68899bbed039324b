# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The upper limit that a topology sets: bus bandwidth of a collective from NICs, GPUs and nodes, with its arithmetic.

`busbw` is what nccl-tests prints, so that for all_reduce the ceilings are (n ranks, N nodes, G GPUs a node):
`B_net = NICs x rate / 8` is what leaves a node per direction, `B_x` the best that one node reaches by itself.

- ring: every ring crosses a node once, so `min(B_net, B_x)`;
- hierarchical (tree, NVLSTree): only `(N-1)/N` of the data leaves a node, so `min(B_net x f, B_x)` with
  `f = ((n-1)/n) / ((N-1)/N)`.
"""

from __future__ import annotations

from dataclasses import dataclass

from ..hardware.sku import Sku
from ..outcome.errors import InputError
from ..outcome.model import Rating

_HIERARCHICAL = ("tree", "nvls", "nvlstree", "pat")
_RING = ("ring",)


@dataclass(frozen=True, slots=True, kw_only=True)
class Topology:
    """What takes part in a run. A node is an NVLink domain: for a rack-wide one the rack, with all its GPUs and NICs.

    `intra_gbps` is the best bus bandwidth within a node in GB/s, None where nobody published one.
    """

    nodes: int
    gpus: int
    nics: int
    nic_gbps: float
    intra_gbps: float | None = None

    def __post_init__(self) -> None:
        if self.nodes < 1 or self.gpus < 1 or self.nics < 0 or self.nic_gbps < 0:
            raise InputError("topology", f"{self} is none: at least one node with one GPU is expected.")

    @property
    def ranks(self) -> int:
        """GPUs of all nodes."""
        return self.nodes * self.gpus

    @property
    def net_gbps(self) -> float:
        """B_net: what leaves a node per direction, GB/s."""
        return self.nics * self.nic_gbps / 8

    @property
    def factor(self) -> float:
        """f(N, G): how much less than a ring a hierarchical algorithm sends over the network."""
        if self.nodes < 2:
            raise InputError("topology", "has one node, and so nothing that leaves it.")
        return ((self.ranks - 1) / self.ranks) / ((self.nodes - 1) / self.nodes)


@dataclass(frozen=True, slots=True)
class Ceiling:
    """A limit in GB/s, the name of its rule, and how it came about."""

    name: str
    gbps: float
    arithmetic: str


@dataclass(frozen=True, slots=True)
class Reference:
    """What a figure is judged against: the one for bad and the one for marginal; the same unless nothing is known."""

    bad: Ceiling
    marginal: Ceiling


@dataclass(frozen=True, slots=True, kw_only=True)
class CeilingLimits:
    """Parts of the ceiling below which a figure is bad or marginal, and the gain that shows that it is not settled."""

    bad: float = 0.75
    marginal: float = 0.85
    plateau_gain: float = 0.05


@dataclass(frozen=True, slots=True)
class Rated:
    """A rating, the ceiling that decided, the ratio to it, and whether the plateau guard softened it."""

    rating: Rating
    ceiling: Ceiling
    ratio: float
    unsaturated: bool = False


def topology_of(sku: Sku, hosts: int, domains: int, nics: int | None = None) -> Topology:
    """Return the topology of equal hosts.

    Args:
        sku: what they are.
        hosts: how many take part.
        domains: over how many NVLink domains they spread; only for a rack-wide domain another number than `hosts`.
        nics: how many NICs of each host are used, if not all.

    Raises:
        InputError: the hosts do not spread evenly.
    """
    if domains < 1 or hosts % domains:
        raise InputError("topology", f"{hosts} hosts do not spread evenly over {domains} NVLink domains.")
    members = hosts // domains
    whole = members * sku.gpus >= sku.nvlink_domain_gpus
    return Topology(
        nodes=domains,
        gpus=members * sku.gpus,
        nics=members * (sku.nics if nics is None else nics),
        nic_gbps=sku.nic_gbps,
        # Published for a whole domain; a part of one can be faster or slower.
        intra_gbps=sku.best_busbw_gbps if whole else None,
    )


def ring(topology: Topology) -> Ceiling:
    """Return the ceiling of a ring over all ranks."""
    if topology.nodes == 1:
        return within(topology)
    return _capped("ring", topology, topology.net_gbps, _net_text(topology))


def hierarchical(topology: Topology) -> Ceiling:
    """Return the ceiling of a tree over nodes."""
    if topology.nodes == 1:
        return within(topology)
    text = f"{_net_text(topology)} x f({topology.nodes}, {topology.gpus}) {topology.factor:.4g}"
    return _capped("hierarchical", topology, topology.net_gbps * topology.factor, text)


def alltoall(topology: Topology) -> Ceiling:
    """Return the ceiling of an all-to-all between nodes, per rank."""
    if topology.nodes == 1:
        return within(topology)
    share = (topology.ranks - 1) / (topology.ranks - topology.gpus)
    text = f"{_net_text(topology)} / {topology.gpus} GPUs x (n-1)/(n-G) {share:.4g}"
    return Ceiling("alltoall per rank", topology.net_gbps / topology.gpus * share, text)


def within(topology: Topology) -> Ceiling:
    """Return the ceiling within a node.

    Raises:
        InputError: nobody published one.
    """
    if topology.intra_gbps is None:
        raise InputError("topology", "no published bandwidth within a node (intra_node_busbw_gbps).")
    return Ceiling("within a node", topology.intra_gbps, f"best published {topology.intra_gbps:g} GB/s")


def reference(topology: Topology, algorithm: str = "") -> Reference:
    """Return what an all_reduce is judged against.

    Args:
        topology: what took part.
        algorithm: what NCCL says it used, lower case; empty if it did not say.

    Beyond two nodes it is the ring whatever was used: the difference is small and the ring's is the careful one. With
    two nodes they are far apart; not knowing which was used, bad is judged against the ring and marginal against the
    hierarchical one, so that a healthy ring is never failed.
    """
    if topology.nodes != 2:
        return Reference(ring(topology), ring(topology))
    if algorithm in _RING:
        return Reference(ring(topology), ring(topology))
    if algorithm in _HIERARCHICAL:
        return Reference(hierarchical(topology), hierarchical(topology))
    return Reference(ring(topology), hierarchical(topology))


def judge(measured_gbps: float, against: Reference, gain: float | None, limits: CeilingLimits | None = None) -> Rated:
    """Return the rating of a measured bus bandwidth.

    Args:
        measured_gbps: at the largest size.
        against: see reference.
        gain: relative gain of the last doubling of the size, None if there was none to see. Above the limit the
            figure is not settled: it says something about the size of the messages, not about the fabric.
        limits: the parts.
    """
    limits = limits or CeilingLimits()
    bad, marginal = (_ratio(measured_gbps, ceiling) for ceiling in (against.bad, against.marginal))
    if bad >= limits.bad and marginal >= limits.marginal:
        return Rated(Rating.GOOD, against.marginal, marginal)
    if gain is not None and gain > limits.plateau_gain:
        return Rated(Rating.MARGINAL, against.marginal, marginal, unsaturated=True)
    if bad < limits.bad:
        return Rated(Rating.BAD, against.bad, bad)
    return Rated(Rating.MARGINAL, against.marginal, marginal)


def _ratio(measured_gbps: float, ceiling: Ceiling) -> float:
    if ceiling.gbps <= 0:
        raise InputError("topology", "has no network between its nodes.", "correct compute_hcas of the SKU")
    return measured_gbps / ceiling.gbps


def _net_text(topology: Topology) -> str:
    return f"{topology.nics} x {topology.nic_gbps:g} Gb/s / 8 = {topology.net_gbps:g} GB/s"


def _capped(name: str, topology: Topology, gbps: float, text: str) -> Ceiling:
    if topology.intra_gbps is None or gbps <= topology.intra_gbps:
        return Ceiling(name, gbps, text)
    return Ceiling(name, topology.intra_gbps, f"min({text}; within a node {topology.intra_gbps:g} GB/s)")
