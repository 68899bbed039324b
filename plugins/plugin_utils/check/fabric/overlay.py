# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The plan laid over the observation: where the ends of every planned cable in scope are. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from ...outcome.model import Subject, SubjectKind
from ...probe.iblinkinfo import LinkEnd
from ...site.cabling import LANE_GBPS, CablingPlan, End, PlannedLink
from ...site.model import Site
from ...verdict.majority import more_than_half
from .fabric_facts import FabricFacts
from .view import FabricView, PortId, fabric_view, port_id

# Links between switches that a generated plan does not name: each is compared with most of its kind. Pure.

_ROUNDING = 0.001


def uplinks(view: FabricView) -> tuple[PlannedLink, ...]:
    """Return the links between switches that have a signal, with the rate of most of them as the planned one.

    Without a plan that names it, a missing link cannot be found; one that runs slower than its peers can.
    """
    pairs = {}
    for observed in view.ends.values():
        other, far = view.peer(observed), view.peer_end(observed)
        if far is not None and other is not None and view.is_switch(observed) and view.is_switch(other):
            pairs[tuple(sorted((view.end(observed), far)))] = (observed, other)
    rates = Counter(rate for ends in pairs.values() for end in ends if (rate := _rate(end)) is not None)
    if not rates:
        return ()
    # Where two rates are equally frequent the faster one is expected: if one of two cables is slow, it is the faulty
    # one.
    width, speed = max(rates, key=lambda rate: (rates[rate], LANE_GBPS[rate[1]], int(rate[0].removesuffix("x"))))
    return tuple(PlannedLink(near=near, far=far, width=width, speed=speed) for near, far in sorted(pairs))


def _rate(end: LinkEnd) -> tuple[str, str] | None:
    if not end.up or not end.width:
        return None
    speed = next((name for name, lane in LANE_GBPS.items() if abs(lane - end.lane_gbps) <= lane * _ROUNDING), None)
    return (end.width.lower(), speed) if speed else None


@dataclass(frozen=True, slots=True)
class CableState:
    """One planned cable, and where its ends were observed.

    Attributes:
        link: the planned link.
        near: the observed near end.
        far: the observed port at which the far end is planned.
        actual: the port that the near end is really connected to, None for none.
        other: what that port reports.
        one_sided: one end reports that it is connected, and the other end does not.
        unnamed: the near end is an adapter of the host, but it is not known whether it is the planned one.
    """

    link: PlannedLink
    near: LinkEnd | None
    far: LinkEnd | None
    actual: End | None
    other: LinkEnd | None
    one_sided: bool = False
    unnamed: bool = False

    @property
    def running(self) -> tuple[LinkEnd, ...]:
        """The ends of the cable that have a signal, wherever they are plugged in."""
        ends = (self.near, self.other) if self.connected else (self.far,) if self.silent else ()
        return tuple(end for end in ends if end is not None and end.up)

    @property
    def connected(self) -> bool:
        """Whether the near end has a signal, wherever the cable goes."""
        return self.near is not None and self.near.up

    @property
    def silent(self) -> bool:
        """Whether the switch reports a signal on the cable's port but nothing responds behind it."""
        return not self.connected and self.far is not None and self.far.up and self.far.peer is None

    @property
    def missing(self) -> bool:
        """Whether there is no signal on the cable."""
        return not self.connected and not self.silent


@dataclass(frozen=True, slots=True)
class Overlay:
    """The planned cables in scope, with the dead switches and absent hosts that each explain several missing links."""

    view: FabricView
    cables: tuple[CableState, ...]
    dead_switches: dict[str, tuple[CableState, ...]] = field(default_factory=dict)
    absent_hosts: dict[str, tuple[CableState, ...]] = field(default_factory=dict)

    @property
    def unnamed_hosts(self) -> tuple[str, ...]:
        """Hosts in the fabric whose adapters cannot be told apart."""
        return tuple(dict.fromkeys(observed.link.host for observed in self.cables if observed.unnamed))

    @property
    def explained(self) -> frozenset[str]:
        """Names of the links whose absence a dead switch or an absent host explains."""
        groups = (*self.dead_switches.values(), *self.absent_hosts.values())
        return frozenset(observed.link.name for group in groups for observed in group)


def lay_over(facts: FabricFacts, site: Site) -> Overlay:
    """Lay the plan over the second reading; cables of quarantined hosts are left out."""
    view = fabric_view(facts)
    planned = [link for link in facts.plan.links if link.host not in site.quarantined]
    found = uplinks(view) if facts.plan.generated else ()
    observed = _with_unnamed(tuple(_observed(link, view) for link in (*planned, *found)), view)
    dead = _dead_switches(facts.plan, observed, {view.end(end).node for end in view.ends.values()})
    gone = {entry.link.name for group in dead.values() for entry in group}
    return Overlay(view, observed, dead, _absent_hosts(entry for entry in observed if entry.link.name not in gone))


def _observed(link: PlannedLink, view: FabricView) -> CableState:
    near = view.find(link.near, link.near_guid)
    if near is None and link.far is None:
        # Where the host reported no GUIDs: its agent may name adapters mlx5_0 or HCA-1.
        near = view.find(End(f"{link.host} HCA-{link.rail + 1}", link.near.port))
    far = view.find(link.far) if link.far is not None else None
    actual, other = (view.peer_end(near), view.peer(near)) if near is not None else (None, None)
    one_sided = actual is not None and near is not None and (other is None or view.peer_id(other) != port_id(near))
    return CableState(link, near, far, actual, other, one_sided)


def _with_unnamed(observed: tuple[CableState, ...], view: FabricView) -> tuple[CableState, ...]:
    """Give cables of a host without reported GUIDs the adapters that they can only be.

    This is for hosts whose adapters have names that are not in the plan. The adapters are those behind the planned
    ports; without planned ports, those whose description begins with the name of the host.
    """
    found_hosts = {entry.link.host for entry in observed if entry.near is not None}
    claimed = {port_id(entry.near) for entry in observed if entry.near is not None}
    # The first word of an adapter's description is the host's name.
    named: dict[str, list[LinkEnd]] = {}
    for place, end in view.ends.items():
        if place not in claimed and end.up and not view.is_switch(end):
            named.setdefault(end.name.partition(" ")[0], []).append(end)
    result = []
    for entry in observed:
        near = None
        if entry.link.host and entry.link.host not in found_hosts:
            own = named.get(entry.link.host)
            near = _behind(entry, view, claimed) if entry.link.far else own.pop(0) if own else None
        result.append(entry if near is None else _placed(entry, near, view))
    return tuple(result)


def _behind(entry: CableState, view: FabricView, claimed: set[PortId]) -> LinkEnd | None:
    peer = view.peer(entry.far) if entry.far is not None else None
    return peer if peer is not None and port_id(peer) not in claimed and not view.is_switch(peer) else None


def _placed(entry: CableState, near: LinkEnd, view: FabricView) -> CableState:
    return replace(entry, near=near, actual=view.peer_end(near), other=view.peer(near), unnamed=True)


def _dead_switches(
    plan: CablingPlan, observed: tuple[CableState, ...], there: set[str]
) -> dict[str, tuple[CableState, ...]]:
    absent = [name for name in plan.switches if name not in there]
    found = {}
    for name in absent:
        cables = tuple(s for s in observed if name in (s.link.near.node, s.link.far.node if s.link.far else ""))
        if cables and all(entry.missing or entry.actual is None for entry in cables):
            found[name] = cables
    return found


def _absent_hosts(observed: Iterable[CableState]) -> dict[str, tuple[CableState, ...]]:
    by_host: dict[str, list[CableState]] = {}
    for entry in observed:
        if entry.link.host:
            by_host.setdefault(entry.link.host, []).append(entry)
    return {
        host: tuple(entries)
        for host, entries in by_host.items()
        if len(entries) > 1 and all(entry.missing for entry in entries)
    }


def link_subjects(link: PlannedLink) -> tuple[Subject, ...]:
    """Return the subjects of a link: itself, and the adapter of its host or its lower end.

    A waiver that names one of them covers the link (outcome/decisions.py).
    """
    own = Subject(SubjectKind.LINK, link.name, link.host)
    if not link.host:
        return (own, Subject(SubjectKind.LINK, str(link.near)))
    return (own, Subject(SubjectKind.HCA, f"{link.host}/{link.hca}", link.host))


def misplaced(overlay: Overlay, plan: CablingPlan) -> list[tuple[CableState, ...]]:
    """Return the cables in the place of others; those that were swapped with each other are one group."""
    places = _rail_places(overlay.cables) if plan.generated else _port_places(overlay.cables)
    wrong = {entry.link.name: (entry, planned, actual) for entry, planned, actual in places if planned != actual}
    by_planned = {planned: name for name, (_entry, planned, _actual) in wrong.items()}
    groups: list[tuple[CableState, ...]] = []
    done: set[str] = set()
    for name in wrong:
        group: list[CableState] = []
        following: str | None = name
        while following is not None and following not in done:
            done.add(following)
            group.append(wrong[following][0])
            following = by_planned.get(wrong[following][2])
        if group:
            groups.append(tuple(group))
    return groups


_Place = tuple[object, ...]


def _port_places(observed: tuple[CableState, ...]) -> list[tuple[CableState, _Place, _Place]]:
    return [
        (entry, (entry.link.far,), (entry.actual,))
        for entry in observed
        if entry.connected and entry.actual is not None
    ]


def _rail_places(observed: tuple[CableState, ...]) -> list[tuple[CableState, _Place, _Place]]:
    """Return planned and actual rails where no ports are planned.

    The rail of a switch is that of most adapters on it. A switch of several rails proves none.
    """
    carried: dict[str, Counter[int]] = {}
    adapters = [entry for entry in observed if entry.link.host and not entry.unnamed]
    for entry in adapters:
        if entry.actual is not None:
            carried.setdefault(entry.actual.node, Counter())[entry.link.rail] += 1
    rails = {switch: rail for switch, counts in carried.items() if (rail := more_than_half(counts)) is not None}
    return [
        (entry, (entry.link.host, entry.link.rail), (entry.link.host, rails[entry.actual.node]))
        for entry in adapters
        if entry.actual is not None and entry.actual.node in rails
    ]
