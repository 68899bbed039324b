# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The plan of a roll: canaries first, then waves by rack or by share, the same for the same input. Pure."""

from __future__ import annotations

from collections import Counter, defaultdict, deque
from collections.abc import Iterable, Sequence
from heapq import heapify, heappop, heappush

from ..outcome.errors import InputError
from ..outcome.wording import natural
from .model import Member, Place, Plan, Policy, nodes_of

_NO_RACK = "no rack"
# The first waves after the canaries: a part of the nodes, and at least so many. What one node did not show, ten may.
_RAMP = ((0.01, 8), (0.05, 16))


def make_plan(members: Iterable[Member], policy: Policy) -> Plan:
    """Return which node is changed in which wave, and why there.

    Wave 0 are the canaries. A rack counts by its name without case and blanks around it; nodes without a rack are taken
    for one rack, because nobody knows that they are not. A wave is never larger than what `keep` leaves.

    Args:
        members: all nodes of the site, those that are left out among them.
        policy: how it goes.

    Raises:
        InputError: a node twice, an unknown canary, or no room for a single node to be out of service.
    """
    nodes = sorted(members, key=lambda member: natural(member.name))
    _require_distinct(nodes)
    racks, notes = _racks(nodes)
    taken = [member for member in nodes if not member.left_out]
    serving = sum(member.serving for member in nodes)
    size = _largest(policy, len(taken), serving, len(nodes))
    left_out = {member.name: member.left_out for member in nodes if member.left_out}
    if not taken:
        notes = [*notes, "no node is left to change"]
        return Plan(places=(), left_out=left_out, notes=tuple(notes), site_nodes=len(nodes), serving=serving)
    canaries = _canaries(taken, policy)
    places = [
        Place(
            node=member.name, wave=0, rack=racks[member.name], why=_canary_text(member, policy, number, len(canaries))
        )
        for number, member in enumerate(canaries, 1)
    ]
    if len(canaries) > size:
        raise InputError(
            "gpufleet_wave_canaries",
            f"are {len(canaries)}, but only {size} nodes may be out of service at once.",
            "name fewer canaries, or keep fewer nodes (gpufleet_wave_keep)",
        )
    chosen = {member.name for member in canaries}
    rest = [(member.name, racks[member.name]) for member in taken if member.name not in chosen]
    places += _by_rack(rest, size, policy) if policy.by == "rack" else _by_share(rest, size, policy)
    return Plan(places=tuple(places), left_out=left_out, notes=tuple(notes), site_nodes=len(nodes), serving=serving)


def _require_distinct(nodes: Sequence[Member]) -> None:
    twice = sorted(name for name, count in Counter(member.name for member in nodes).items() if count > 1)
    if twice:
        raise InputError("nodes of the roll", f"{', '.join(twice)}: named more than once.", "name every node once")


def _racks(nodes: Sequence[Member]) -> tuple[dict[str, str], list[str]]:
    """Return the rack of each node under one name, and what a person should know of these names."""
    written: dict[str, list[str]] = defaultdict(list)
    for member in nodes:
        words = " ".join(member.rack.split())
        if words and words not in written[words.casefold()]:
            written[words.casefold()].append(words)
    names = {key: found[0] for key, found in written.items()}
    notes = [
        f"racks {' and '.join(map(repr, found))} are taken for one" for found in written.values() if len(found) > 1
    ]
    without = [member.name for member in nodes if not member.rack.strip() and not member.left_out]
    if without:
        shown = ", ".join(without[:5]) + (f" and {len(without) - 5} more" if len(without) > 5 else "")
        notes.append(f"no rack is stated for {shown}: they are taken for one rack")
    return {member.name: names.get(" ".join(member.rack.split()).casefold(), _NO_RACK) for member in nodes}, notes


def _largest(policy: Policy, taken: int, serving: int, site_nodes: int) -> int:
    """Return the most nodes that may be out of service in one wave."""
    keep = nodes_of(policy.keep, site_nodes, "keep", up=True)
    room = serving - keep
    if taken and room < 1:
        raise InputError(
            "gpufleet_wave_keep",
            f"is {policy.keep}: {keep} of {site_nodes} nodes, and {serving} are in service: none may be taken out.",
            "keep fewer nodes (gpufleet_wave_keep), or bring nodes back first",
        )
    return max(1, min(nodes_of(policy.size, taken, "size") or 1, room))


def _canaries(taken: Sequence[Member], policy: Policy) -> list[Member]:
    if policy.canary_nodes:
        by_name = {member.name: member for member in taken}
        unknown = [name for name in policy.canary_nodes if name not in by_name]
        if unknown or len(set(policy.canary_nodes)) != len(policy.canary_nodes):
            found = f"{', '.join(unknown)}: not among the nodes of the roll" if unknown else "one is named twice"
            raise InputError("waves canary_nodes", f"{found}.", f"name some of {', '.join(list(by_name)[:8])}")
        return [by_name[name] for name in policy.canary_nodes]
    # One of each SKU before a second of any: what a change does to one kind of host says little about another.
    seen: Counter[str] = Counter()
    order = []
    for position, member in enumerate(taken):
        order.append((seen[member.sku], position, member))
        seen[member.sku] += 1
    return [member for _turn, _position, member in sorted(order, key=lambda entry: entry[:2])[: policy.canaries]]


def _canary_text(member: Member, policy: Policy, number: int, count: int) -> str:
    how = "named" if policy.canary_nodes else f"first by name of SKU {member.sku}" if member.sku else "first by name"
    return f"canary {number} of {count}, {how}"


def _by_rack(rest: Sequence[tuple[str, str]], size: int, policy: Policy) -> list[Place]:
    racks: dict[str, list[str]] = defaultdict(list)
    for node, rack in rest:
        racks[rack].append(node)
    most = min(size, policy.per_rack or size)
    places, wave = list[Place](), 0
    for rack in sorted(racks, key=lambda name: (name == _NO_RACK, natural(name))):
        nodes = racks[rack]
        parts = [nodes[at : at + most] for at in range(0, len(nodes), most)]
        for number, part in enumerate(parts, 1):
            wave += 1
            title = f"rack {rack}" if rack != _NO_RACK else "nodes without a rack"
            of = f", part {number} of {len(parts)} (at most {most} at once)" if len(parts) > 1 else ""
            places += [Place(node=node, wave=wave, rack=rack, why=f"{title}{of}") for node in part]
    return places


def _by_share(rest: Sequence[tuple[str, str]], size: int, policy: Policy) -> list[Place]:
    """Fill each wave from all racks in turn, the fullest first: as few of one rack as can be are out at once."""
    left: dict[str, deque[str]] = defaultdict(deque)
    for node, rack in rest:
        left[rack].append(node)
    order = {rack: natural(rack) for rack in left}
    places, wave = list[Place](), 0
    most = policy.per_rack or size
    cap = f", at most {policy.per_rack} of a rack" if policy.per_rack else ""
    while left:
        wave += 1
        limit = _of_wave(wave, size, len(rest))
        # The rack that gave least to this wave is next, of these the fullest.
        turns = [(0, -len(nodes), order[rack], rack) for rack, nodes in left.items()]
        heapify(turns)
        for _turn in range(limit):
            if not turns:
                break
            used, _full, name, rack = heappop(turns)
            why = f"number {used + 1} of rack {rack} in this wave of at most {limit}{cap}"
            places.append(Place(node=left[rack].popleft(), wave=wave, rack=rack, why=why))
            if left[rack] and used + 1 < most:
                heappush(turns, (used + 1, -len(left[rack]), name, rack))
        left = {rack: nodes for rack, nodes in left.items() if nodes}
    return places


def _of_wave(wave: int, size: int, nodes: int) -> int:
    """Return how many nodes a wave has at most: the first ones fewer than those that follow."""
    if wave > len(_RAMP):
        return size
    part, least = _RAMP[wave - 1]
    return min(size, max(least, int(part * nodes)))
