# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The upper limit of a topology: bus bandwidth of a collective from NICs, GPUs and nodes, with its arithmetic.

`busbw` is what nccl-tests prints, so that for all_reduce the ceilings are (n ranks, N nodes, G GPUs a node): `B_net =
NICs x rate / 8` is what leaves a node per direction, `B_x` the best that one node reaches by itself.

- ring: every ring crosses a node once, so `min(B_net, B_x)`, with the B_x of a ring if NCCL logs that it used one;
- hierarchical (tree, NVLSTree): only `(N-1)/N` of the data leaves a node, so `min(B_net x f, B_x)` with
  `f = ((n-1)/n) / ((N-1)/N)`;
- adapters: one GPU of every node in each communicator (NCCL_TESTS_SPLIT="MOD G"): `B_net / G` whatever the algorithm;
- loop: the GPUs of one node without NVLink and shared memory, so that every hop of the ring leaves through an adapter
  and comes back through one: `B_net / G` as well.

Where nodes differ in size (racks with unequal trays), the smallest sets the pace. The fraction of B_net that is
published for a transport is its efficiency. A published figure of the same hardware on as many nodes is a fact and
takes precedence over the formula (published_reference.py). Of several racks nothing but such a figure is known.

A ring's steps take time that grows with the ranks: `t = S x 2(n-1)/n / B + base + 2(N-1) x net + 2(n-N) x nvlink`, with
NCCL's own latencies of protocol Simple (NVIDIA/nccl, src/graph/tuning.cc). Where a tree is faster NCCL uses that.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from ..hardware.accelerator import PublishedBusbw
from ..hardware.sku import Sku
from ..outcome.errors import InputError
from ..outcome.model import Rating

HIERARCHICAL = ("tree", "nvls", "nvlstree", "pat")
RING = ("ring",)
# Microseconds of a ring's step over NVLink and over the network, and before the first one; see the module.
_STEP_NVLINK_US, _STEP_NET_US, _BASE_US = 3.4, 14.0, 8.4
# The least fraction of the adapters that a tree over many nodes reaches: no sound published figure is lower.
_TREE = 0.9
# From so many GPUs on NVLink switches reduce; published equally for 8 GPUs of HGX B200 and for 72 of a GB200 rack
# (838).
_LEAST_FOR_SWITCHES = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Topology:
    """What takes part in a run. A node is an NVLink domain: for a rack-wide one the rack, with all its GPUs and NICs.

    `gpus` and `nics` are those of the smallest node, `more_gpus` the GPUs that larger nodes have beyond that, all
    together. `intra_gbps` is the best bus bandwidth within a node in GB/s, `intra_ring_gbps` that of a ring; None where
    none is published. `efficiency` is by rule (`ring`, `hierarchical`) the fraction of B_net that a transport carries.
    `published` are figures of this hardware. `racks`: a node is a rack. `size_bytes` is the size that is judged, 0
    where it is unknown.
    """

    nodes: int
    gpus: int
    nics: int
    nic_gbps: float
    intra_gbps: float | None = None
    intra_ring_gbps: float | None = None
    more_gpus: int = 0
    efficiency: Mapping[str, float] = field(default_factory=dict)
    published: tuple[PublishedBusbw, ...] = ()
    racks: bool = False
    size_bytes: int = 0

    def __post_init__(self) -> None:
        if self.nodes < 1 or self.gpus < 1 or self.nics < 0 or self.nic_gbps < 0:
            raise InputError("topology", f"{self} is none: at least one node with one GPU is expected.")

    @property
    def ranks(self) -> int:
        """GPUs of all nodes."""
        return self.nodes * self.gpus + self.more_gpus

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
    """A limit in GB/s, the name of its rule, and its arithmetic."""

    name: str
    gbps: float
    arithmetic: str


@dataclass(frozen=True, slots=True)
class Reference:
    """What a figure is judged against: the ceiling for bad and the one for marginal, the same where the algorithm is
    known.

    A figure that reaches `floor` is not bad: it is an accepted limit, or healthy hosts reach no more with NCCL's
    choice. `certain` is False where it is unknown what such hosts reach: then nothing is bad by it, and a person
    decides.
    """

    bad: Ceiling
    marginal: Ceiling
    floor: Ceiling | None = None
    certain: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class CeilingLimits:
    """Fractions of the ceiling below which a figure is bad or marginal, and the gain above which a figure is not
    settled."""

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


def topology_of(
    sku: Sku, members: Sequence[int], nics: int | None = None, efficiency: Mapping[str, float] | None = None
) -> Topology:
    """Return the topology of hosts of the same model.

    Args:
        sku: their SKU.
        members: how many of them are in each NVLink domain; ones, unless a domain is a rack.
        nics: how many NICs of each host are used, if not all.
        efficiency: what their transport carries, see Topology.

    Raises:
        InputError: no host at all.
    """
    if not members or min(members) < 1:
        raise InputError("topology", f"{list(members)} hosts by NVLink domain: at least one host in each is expected.")
    least = min(members)
    figures = sku.intra_node_busbw_gbps
    # A part of a domain: a ring is as fast on any number of GPUs, switches reduce from a certain number on.
    whole = least * sku.gpus >= min(sku.nvlink_domain_gpus, _LEAST_FOR_SWITCHES)
    return Topology(
        nodes=len(members),
        gpus=least * sku.gpus,
        nics=least * (sku.nics if nics is None else nics),
        nic_gbps=sku.nic_gbps,
        intra_gbps=sku.best_busbw_gbps if whole else figures.get("ring"),
        intra_ring_gbps=figures.get("ring"),
        more_gpus=(sum(members) - least * len(members)) * sku.gpus,
        efficiency=efficiency or {},
        published=sku.published_busbw if nics is None and _nearly_whole(sku, least) else (),
        racks=sku.nvlink_domain == "rack",
    )


def _nearly_whole(sku: Sku, members: int) -> bool:
    """Return whether so many hosts are a domain, or most of one, as racks of 14 and 16 trays are.

    What a few trays in each of two racks reach differs from what is published for two racks.
    """
    return sku.nvlink_domain == "node" or 4 * members * sku.gpus >= 3 * sku.nvlink_domain_gpus


def ring(topology: Topology, *, known: bool = False) -> Ceiling:
    """Return the ceiling of a ring over all ranks; `known`: NCCL logs a ring, so the NVLink figure is that of a
    ring."""
    if topology.nodes == 1:
        return within(topology, "ring" if known else "")
    gbps, text = _carried(topology, "ring")
    found = _capped("ring", (known and topology.intra_ring_gbps) or topology.intra_gbps, gbps, text)
    return _with_steps(topology, found, known=known)


def _with_steps(topology: Topology, found: Ceiling, *, known: bool) -> Ceiling:
    """Return the ceiling of a ring with the time of its steps; unless it is known to be a ring, at least that of a
    tree."""
    if not topology.size_bytes or found.gbps <= 0:
        return found
    nodes, ranks = topology.nodes, topology.ranks
    steps_us = _BASE_US + 2 * (nodes - 1) * _STEP_NET_US + 2 * (ranks - nodes) * _STEP_NVLINK_US
    sent_us = topology.size_bytes * 2 * (ranks - 1) / ranks / (found.gbps * 1e3)
    gbps = found.gbps * sent_us / (sent_us + steps_us)
    if not known and _TREE * found.gbps > gbps:
        return Ceiling(found.name, _TREE * found.gbps, f"{found.arithmetic} x {_TREE:g} of a tree over {nodes} nodes")
    text = f"{found.arithmetic}, less {steps_us / 1e3:.3g} ms for the steps of {ranks} ranks in {sent_us / 1e3:.3g} ms"
    return Ceiling(found.name, gbps, text)


def hierarchical(topology: Topology) -> Ceiling:
    """Return the ceiling of a tree over nodes."""
    if topology.nodes == 1:
        return within(topology)
    gbps, text = _carried(topology, "hierarchical")
    text = f"{text} x f({topology.nodes}, {topology.gpus}) {topology.factor:.4g}"
    return _capped("hierarchical", topology.intra_gbps, gbps * topology.factor, text)


def adapters(topology: Topology) -> Ceiling:
    """Return the ceiling of communicators with one GPU of each node: its part of the adapters, whatever the algorithm.

    Raises:
        InputError: one node, or no adapters.
    """
    if topology.nodes < 2:
        raise InputError("topology", "has no network between its nodes.", "correct compute_hcas of the SKU")
    return _each_gpu("adapters", topology)


def loop(topology: Topology) -> Ceiling:
    """Return the ceiling of the GPUs of one node that reach each other only through its adapters.

    Raises:
        InputError: no adapters.
    """
    return _each_gpu("loop over adapters", topology)


def _each_gpu(name: str, topology: Topology) -> Ceiling:
    """Return the share of one GPU in the adapters of its node."""
    if topology.net_gbps <= 0:
        raise InputError("topology", "has no network between its nodes.", "correct compute_hcas of the SKU")
    gbps, text = _carried(topology, "ring")
    each, left = divmod(topology.nics, topology.gpus)
    if each and left:
        # The slowest GPU counts, and it has one adapter less than others.
        gbps *= each * topology.gpus / topology.nics
        text = f"{text}, {each} of {topology.nics} for the GPU that has the fewest,"
    return Ceiling(name, gbps / topology.gpus, f"{text} / {topology.gpus} GPUs")


def alltoall(topology: Topology) -> Ceiling:
    """Return the ceiling of an all-to-all between nodes, per rank."""
    if topology.nodes == 1:
        return within(topology)
    share = (topology.ranks - 1) / (topology.ranks - topology.gpus)
    text = f"{_net_text(topology)} / {topology.gpus} GPUs x (n-1)/(n-G) {share:.4g}"
    return Ceiling("alltoall per rank", topology.net_gbps / topology.gpus * share, text)


def within(topology: Topology, algorithm: str = "") -> Ceiling:
    """Return the ceiling within a node, by the algorithm that NCCL used there.

    Raises:
        InputError: none is published.
    """
    if topology.intra_gbps is None:
        raise InputError("topology", "no published bandwidth within a node (intra_node_busbw_gbps).")
    if algorithm in RING and topology.intra_ring_gbps is not None:
        best = topology.intra_ring_gbps
        return Ceiling("ring within a node", best, f"best published with a ring {best:g} GB/s")
    return Ceiling("within a node", topology.intra_gbps, f"best published {topology.intra_gbps:g} GB/s")


def reference(topology: Topology, algorithm: str = "") -> Reference:
    """Return what an all_reduce is judged against.

    Args:
        topology: what took part.
        algorithm: the algorithm in NCCL's log, lower case; empty if it is not logged.

    Beyond two nodes it is the ring whatever was used: the difference shrinks with the number of nodes, the ring's is
    the lower one, and trees over four hosts are published at no more (388 of 400 GB/s on B200). Of several racks
    nothing is certain: one rack's adapters and NVLinks carry far more than several racks are published to reach. With
    two nodes, and within one, ring and tree are far apart. Where the algorithm is unknown, bad is judged against the
    ring and marginal against the other one, so that a healthy ring is never failed.
    """
    by_ring = ring(topology, known=algorithm in RING)
    if topology.racks and topology.nodes > 1:
        return Reference(by_ring, by_ring, certain=False)
    if topology.nodes > 2 or algorithm in RING:
        return Reference(by_ring, by_ring)
    if topology.nodes == 1:
        best = within(topology)
        return Reference(best if algorithm else within(topology, "ring"), best)
    if algorithm in HIERARCHICAL:
        return Reference(hierarchical(topology), hierarchical(topology))
    return Reference(by_ring, hierarchical(topology))


def judge(measured_gbps: float, against: Reference, gain: float | None, limits: CeilingLimits | None = None) -> Rated:
    """Return the rating of a measured bus bandwidth.

    Args:
        measured_gbps: at the largest size.
        against: see reference.
        gain: relative gain of the last doubling of the size, None if it was not measured. Above the limit the figure is
            not settled: it depends on the size of the messages, not on the fabric.
        limits: the fractions.
    """
    limits = limits or CeilingLimits()
    bad, marginal = (_ratio(measured_gbps, ceiling) for ceiling in (against.bad, against.marginal))
    if bad >= limits.bad and marginal >= limits.marginal:
        return Rated(Rating.GOOD, against.marginal, marginal)
    if gain is not None and gain > limits.plateau_gain:
        return Rated(Rating.MARGINAL, against.marginal, marginal, unsaturated=True)
    floor = against.floor.gbps if against.floor else math.inf
    if bad < limits.bad and against.certain and measured_gbps < floor:
        return Rated(Rating.BAD, against.bad, bad)
    return Rated(Rating.MARGINAL, against.marginal, marginal)


def _ratio(measured_gbps: float, ceiling: Ceiling) -> float:
    if ceiling.gbps <= 0:
        raise InputError("topology", "has no network between its nodes.", "correct compute_hcas of the SKU")
    return measured_gbps / ceiling.gbps


def _net_text(topology: Topology) -> str:
    return f"{topology.nics} x {topology.nic_gbps:g} Gb/s / 8 = {topology.net_gbps:g} GB/s"


def _carried(topology: Topology, rule: str) -> tuple[float, str]:
    """Return what the transport carries out of a node in GB/s, and its arithmetic."""
    part = topology.efficiency.get(rule, 1.0)
    text = _net_text(topology)
    return topology.net_gbps * part, text if part == 1.0 else f"{text} x {part:g} that its transport is published for"


def _capped(name: str, best: float | None, gbps: float, text: str) -> Ceiling:
    if best is None or gbps <= best:
        return Ceiling(name, gbps, text)
    return Ceiling(name, best, f"min({text}; within a node {best:g} GB/s)")
