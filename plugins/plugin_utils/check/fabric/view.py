# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The observed ports, each by the GUID of its device; node descriptions are only for people. Pure.

Descriptions do not identify devices: all unmanaged switches of a model have the same one, two GUIDs may have one name
in a node-name map, and all adapters of a host may have the host's name (rdma-core: infiniband-diags, rdma-ndd).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property

from ...collect.tool_reading import ProbeFailure
from ...probe.iblinkinfo import LinkEnd
from ...probe.text import guid_text
from ...site.cabling import CablingPlan, End, PlannedLink
from ...verdict.majority import more_than_half
from .fabric_facts import FabricFacts

PortId = tuple[int, str, int]
"""GUID, or the node description where the tool printed no GUID; and port number."""
# An adapter has one or two ports; a device with more is a switch.
_MOST_ADAPTER_PORTS = 2
# `MF0;leaf01:MQM9700/U1`: a managed switch has its own name in it; one with several chips numbers them.
_MANAGED = re.compile(r"MF0;([^:]+):[^/]+/(U\d+)")


@dataclass(frozen=True)
class FabricView:
    """All ports of one sweep. `names` are the names of devices for people, by GUID.

    A name is that of the plan, else that of the node-name map, else the description. The GUID follows where another
    switch has the same name.
    """

    ends: Mapping[PortId, LinkEnd]
    names: Mapping[int, str]
    switches: frozenset[int]

    def end(self, observed: LinkEnd) -> End:
        """Return a port by its name for people."""
        return End(self.names.get(observed.guid, observed.name), observed.port)

    def peer(self, observed: LinkEnd) -> LinkEnd | None:
        """Return the port at the other end of the cable; None if there is none, or it was not observed itself."""
        place = self.peer_id(observed)
        return self.ends.get(place) if place is not None else None

    def peer_id(self, observed: LinkEnd) -> PortId | None:
        """Return the port that this one reports as its peer."""
        if not observed.up or observed.peer is None:
            return None
        if observed.peer.guid:
            return (observed.peer.guid, "", observed.peer.port)
        named = self._by_description.get(End(observed.peer.name, observed.peer.port), [])
        return port_id(named[0]) if len(named) == 1 else (0, observed.peer.name, observed.peer.port)

    def peer_end(self, observed: LinkEnd) -> End | None:
        """Return the other end of the cable by its name for people, also where it was not observed itself."""
        place = self.peer_id(observed)
        if place is None or observed.peer is None:
            return None
        other = self.ends.get(place)
        return self.end(other) if other is not None else End(self.names.get(place[0], observed.peer.name), place[2])

    def find(self, planned: End, guid: int = 0) -> LinkEnd | None:
        """Return a planned port: by its GUID, else by its name if only one device has it."""
        by_guid = self.ends.get((guid, "", planned.port)) if guid else None
        if by_guid is not None:
            return by_guid
        named = self._by_end.get(planned) or self._by_description.get(planned, [])
        return named[0] if len(named) == 1 else None

    @cached_property
    def _by_end(self) -> dict[End, list[LinkEnd]]:
        found: dict[End, list[LinkEnd]] = {}
        for end in self.ends.values():
            found.setdefault(self.end(end), []).append(end)
        return found

    @cached_property
    def _by_description(self) -> dict[End, list[LinkEnd]]:
        found: dict[End, list[LinkEnd]] = {}
        for end in self.ends.values():
            found.setdefault(End(end.name, end.port), []).append(end)
        return found

    def is_switch(self, observed: LinkEnd) -> bool:
        return observed.guid in self.switches


def port_id(observed: LinkEnd) -> PortId:
    """Return the identity of a port."""
    return (observed.guid, "" if observed.guid else observed.name, observed.port)


def fabric_view(facts: FabricFacts, *, before: bool = False) -> FabricView:
    """Return the view of the second sweep, or of the first one."""
    sweeps = [subnet.links_before if before else subnet.links for subnet in facts.subnets]
    ends = {port_id(end): end for sweep in sweeps if not isinstance(sweep, ProbeFailure) for end in sweep}
    ports = Counter(end.guid for end in ends.values() if end.guid)
    switches = {end.guid for end in ends.values() if end.switch and end.guid}
    switches |= {guid for guid, count in ports.items() if count > _MOST_ADAPTER_PORTS}
    mapped = {int(guid, 16): name for guid, name in facts.plan.node_names.items()}
    called = {end.guid: mapped.get(end.guid, end.name) for end in ends.values() if end.guid}
    times = Counter(called[guid] for guid in switches)
    names = {
        guid: f"{name} ({guid_text(guid)})" if guid in switches and times[name] > 1 else name
        for guid, name in called.items()
    }
    plain = FabricView(ends, names, frozenset(switches))
    return FabricView(ends, names | _as_planned(facts.plan, plain, called), plain.switches)


def _as_planned(plan: CablingPlan, view: FabricView, called: Mapping[int, str]) -> dict[int, str]:
    """Return the plan's names of switches, by GUID.

    A name that only one device has is taken. For the others, it is the device at which most cables end that the plan
    has on that switch.
    """
    known: dict[str, set[int]] = {}
    for end in view.ends.values():
        if end.guid in view.switches:
            for name in (called[end.guid], end.name, *_own_names(end.name)):
                known.setdefault(name, set()).add(end.guid)
    found = {next(iter(known[name])): name for name in plan.switches if len(known.get(name, ())) == 1}
    while True:
        more = _by_cables(plan, view, found)
        if not more:
            return found
        found |= more


def _own_names(description: str) -> tuple[str, ...]:
    match = _MANAGED.fullmatch(description)
    return (match[1], f"{match[1]}/{match[2]}") if match else ()


def _by_cables(plan: CablingPlan, view: FabricView, found: Mapping[int, str]) -> dict[int, str]:
    missing = set(plan.switches) - set(found.values())
    guids = {name: guid for guid, name in found.items()}
    votes: dict[str, Counter[int]] = {}
    for link in plan.links:
        for name, other in _open_ends(link, missing):
            near = _seen_end(view, link, other, guids)
            peer = view.peer_id(near) if near is not None else None
            if peer is not None:
                votes.setdefault(name, Counter())[peer[0]] += 1
    more: dict[int, str] = {}
    for name, counts in votes.items():
        guid = more_than_half(counts)
        if guid is not None and guid in view.switches and guid not in found and guid not in more:
            more[guid] = name
    return more


def _open_ends(link: PlannedLink, missing: Iterable[str]) -> list[tuple[str, End]]:
    """Return the ends of a cable at switches that are not identified yet, each with the opposite end."""
    if link.far is None:
        return []
    ends = ((link.near.node, link.far), (link.far.node, link.near))
    return [(name, other) for name, other in ends if name in missing]


def _seen_end(view: FabricView, link: PlannedLink, end: End, guids: Mapping[str, int]) -> LinkEnd | None:
    if end == link.near and link.host:
        return view.find(end, link.near_guid)
    return view.ends.get((guids[end.node], "", end.port)) if end.node in guids else None
