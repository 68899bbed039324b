# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The plan of a roll: its members, its policy, and the wave of each node. Canaries go first, then waves by rack or by
share. The same input gives the same plan. Pure."""

from __future__ import annotations

import math
from collections import Counter, defaultdict, deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from enum import Enum
from heapq import heapify, heappop, heappush

from ...outcome.errors import InputError
from ...outcome.wording import natural


class Stage(str, Enum):
    """The stage of one node of a roll. The last three are ends.

    `changing` and `rebooting`: begun, end not confirmed; after an interruption it may have happened or not. `spared`:
    nothing was changed and the node is back in service. `held`: it stays out of service with a reason.
    """

    PENDING = "pending"
    CORDONED = "cordoned"
    DRAINED = "drained"
    CHANGING = "changing"
    CHANGED = "changed"
    REBOOTING = "rebooting"
    REBOOTED = "rebooted"
    VERIFIED = "verified"
    RETURNED = "returned"
    SPARED = "spared"
    HELD = "held"

    @property
    def ended(self) -> bool:
        """Whether the roll is done with the node."""
        return self in ENDS

    @property
    def out(self) -> bool:
        """Whether the roll keeps the node out of service."""
        return self not in (Stage.PENDING, Stage.RETURNED, Stage.SPARED)


ENDS = frozenset({Stage.RETURNED, Stage.SPARED, Stage.HELD})
# The allowed transitions. A node that ended is begun again only at the request of a person.
FOLLOWS: dict[Stage, frozenset[Stage]] = {
    Stage.PENDING: frozenset({Stage.CORDONED, Stage.SPARED}),
    Stage.CORDONED: frozenset({Stage.DRAINED, Stage.SPARED, Stage.HELD}),
    Stage.DRAINED: frozenset({Stage.CHANGING, Stage.SPARED, Stage.HELD}),
    Stage.CHANGING: frozenset({Stage.CHANGING, Stage.CHANGED, Stage.HELD}),
    Stage.CHANGED: frozenset({Stage.REBOOTING, Stage.VERIFIED, Stage.HELD}),
    Stage.REBOOTING: frozenset({Stage.REBOOTED, Stage.HELD}),
    Stage.REBOOTED: frozenset({Stage.VERIFIED, Stage.HELD}),
    Stage.VERIFIED: frozenset({Stage.RETURNED, Stage.HELD}),
    Stage.RETURNED: frozenset(),
    Stage.SPARED: frozenset({Stage.PENDING}),
    Stage.HELD: frozenset({Stage.PENDING}),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class RollMember:
    """One node that the roll may include; `left_out` says why it does not, `serving` whether it can take work now."""

    name: str
    rack: str = ""
    sku: str = ""
    left_out: str = ""
    serving: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class RollPolicy:
    """The policy of a roll.

    `size`, `keep` and `budget` are a number of nodes or a share of them (`25%`).

    `by`: `rack` makes a wave of a rack, `share` takes nodes of all racks in turn. `size`: most nodes in a wave.
    `per_rack`: most nodes of a rack in a wave (0: no limit). `keep`: nodes of the site that stay in service. `budget`:
    how many nodes of the roll may end on hold (one more stops it). `canaries`: how many nodes go first, `canary_nodes`:
    which. `soak_h`: how many hours the canaries, and the nodes of each of the two waves after them, are in service
    before the next wave.
    """

    by: str = "share"
    size: str = "25%"
    per_rack: int = 0
    keep: str = "50%"
    budget: str = "5%"
    canaries: int = 1
    canary_nodes: tuple[str, ...] = ()
    soak_h: float = 0.0

    def __post_init__(self) -> None:
        """Refuse values that have no meaning.

        Raises:
            InputError: the field, its value, and its allowed values.
        """
        if self.by not in ("rack", "share"):
            raise InputError("gpufleet_wave_by", f"is {self.by!r}, expected rack or share.", "gpufleet_wave_by: share")
        for name in ("size", "keep", "budget"):
            nodes_of(str(getattr(self, name)), 1, name)
        for name in ("per_rack", "canaries", "soak_h"):
            if getattr(self, name) < 0:
                raise InputError(
                    f"gpufleet_wave_{name}",
                    f"is {getattr(self, name)}, expected 0 or more.",
                    f"gpufleet_wave_{name}: 1",
                )


def nodes_of(amount: str, total: int, name: str, *, up: bool = False) -> int:
    """Return how many nodes `3` or `25%` of `total` are; a share is rounded down, with `up` rounded up.

    Raises:
        InputError: the text is neither a number nor a share.
    """
    text = amount.strip()
    digits = text[:-1].strip() if text.endswith("%") else text
    if not (digits.isascii() and digits.isdigit() and len(digits) < 8) or (text.endswith("%") and int(digits) > 100):
        raise InputError(
            f"gpufleet_wave_{name}", f"is {amount!r}, expected nodes or a share.", f"gpufleet_wave_{name}: 4, or 25%"
        )
    if not text.endswith("%"):
        return int(digits)
    return math.ceil(total * int(digits) / 100) if up else total * int(digits) // 100


@dataclass(frozen=True, slots=True, kw_only=True)
class RollPlace:
    """The place of one node in a wave. `wave` counts from 0, the canaries; `why` explains the place."""

    node: str
    wave: int
    rack: str
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RollPlan:
    """The nodes of a roll in their order.

    `left_out`: why a node of the site is in no wave. `site_nodes`: how many nodes the site has. `serving`: how many of
    them could take work when the plan was made.
    """

    places: tuple[RollPlace, ...]
    left_out: dict[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    site_nodes: int = 0
    serving: int = 0

    @property
    def waves(self) -> tuple[tuple[str, ...], ...]:
        """The nodes of each wave, canaries first."""
        found: dict[int, list[str]] = {}
        for place in self.places:
            found.setdefault(place.wave, []).append(place.node)
        return tuple(tuple(found[number]) for number in sorted(found))

    def lines(self) -> list[str]:
        """Return the plan as text: a line for each node in its order, then the nodes left out and why."""
        found = [f"wave {place.wave}: {place.node}: {place.why}" for place in self.places]
        found += [f"left out: {node}: {why}" for node, why in sorted(self.left_out.items())]
        return [*found, *self.notes]


@dataclass(frozen=True, slots=True, kw_only=True)
class RollEvent:
    """One step of one node, as recorded in the journal.

    `reboot`: with `changed`, whether the change needs one. `boot_id`: with `rebooting`, that of the system that goes
    down. `kernel`: with `rebooting`, the one that has to run afterwards, empty where any may. `boots`: explained boot
    ids, first what the orchestrator reported when the change began. `at`: UTC. `run_id`: the run that did it.
    """

    node: str
    stage: Stage
    reason: str = ""
    reboot: bool = False
    boot_id: str = ""
    kernel: str = ""
    boots: tuple[str, ...] = ()
    at: str = ""
    run_id: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeState:
    """The state of a node from its last event, and since when."""

    stage: Stage = Stage.PENDING
    at: str = ""
    reason: str = ""
    reboot: bool = False
    boot_id: str = ""
    kernel: str = ""
    boots: tuple[str, ...] = ()


_NO_RACK = "no rack"
# The first waves after the canaries: a share of the nodes, and at least so many. What one node did not show, ten may.
_RAMP = ((0.01, 8), (0.05, 16))


def make_plan(members: Iterable[RollMember], policy: RollPolicy) -> RollPlan:
    """Return which node is changed in which wave, and why there.

    Wave 0 are the canaries. A rack counts by its name, ignoring case and surrounding blanks. Nodes without a rack count
    as one rack, because they may be in the same one. A wave is never larger than what `keep` leaves.

    Args:
        members: all nodes of the site, also those that are left out.
        policy: the policy of the roll.

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
        return RollPlan(places=(), left_out=left_out, notes=tuple(notes), site_nodes=len(nodes), serving=serving)
    canaries = _canaries(taken, policy)
    places = [
        RollPlace(
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
    return RollPlan(places=tuple(places), left_out=left_out, notes=tuple(notes), site_nodes=len(nodes), serving=serving)


def _require_distinct(nodes: Sequence[RollMember]) -> None:
    twice = sorted(name for name, count in Counter(member.name for member in nodes).items() if count > 1)
    if twice:
        raise InputError("nodes of the roll", f"{', '.join(twice)}: named more than once.", "name every node once")


def _racks(nodes: Sequence[RollMember]) -> tuple[dict[str, str], list[str]]:
    """Return the rack of each node under one spelling, and notes about spellings that differ."""
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


def _largest(policy: RollPolicy, taken: int, serving: int, site_nodes: int) -> int:
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


def _canaries(taken: Sequence[RollMember], policy: RollPolicy) -> list[RollMember]:
    if policy.canary_nodes:
        by_name = {member.name: member for member in taken}
        unknown = [name for name in policy.canary_nodes if name not in by_name]
        if unknown or len(set(policy.canary_nodes)) != len(policy.canary_nodes):
            found = f"{', '.join(unknown)}: not among the nodes of the roll" if unknown else "one is named twice"
            raise InputError("waves canary_nodes", f"{found}.", f"name some of {', '.join(list(by_name)[:8])}")
        return [by_name[name] for name in policy.canary_nodes]
    # One of each SKU before a second of any: a change on one kind of host proves little about another.
    observed: Counter[str] = Counter()
    order = []
    for position, member in enumerate(taken):
        order.append((observed[member.sku], position, member))
        observed[member.sku] += 1
    return [member for _turn, _position, member in sorted(order, key=lambda entry: entry[:2])[: policy.canaries]]


def _canary_text(member: RollMember, policy: RollPolicy, number: int, count: int) -> str:
    how = "named" if policy.canary_nodes else f"first by name of SKU {member.sku}" if member.sku else "first by name"
    return f"canary {number} of {count}, {how}"


def _by_rack(rest: Sequence[tuple[str, str]], size: int, policy: RollPolicy) -> list[RollPlace]:
    racks: dict[str, list[str]] = defaultdict(list)
    for node, rack in rest:
        racks[rack].append(node)
    most = min(size, policy.per_rack or size)
    places, wave = list[RollPlace](), 0
    for rack in sorted(racks, key=lambda name: (name == _NO_RACK, natural(name))):
        nodes = racks[rack]
        parts = [nodes[at : at + most] for at in range(0, len(nodes), most)]
        for number, part in enumerate(parts, 1):
            wave += 1
            title = f"rack {rack}" if rack != _NO_RACK else "nodes without a rack"
            of = f", part {number} of {len(parts)} (at most {most} at once)" if len(parts) > 1 else ""
            places += [RollPlace(node=node, wave=wave, rack=rack, why=f"{title}{of}") for node in part]
    return places


def _by_share(rest: Sequence[tuple[str, str]], size: int, policy: RollPolicy) -> list[RollPlace]:
    """Fill each wave from all racks in turn, the fullest first, so that as few nodes as possible of one rack are out at
    once."""
    left: dict[str, deque[str]] = defaultdict(deque)
    for node, rack in rest:
        left[rack].append(node)
    order = {rack: natural(rack) for rack in left}
    places, wave = list[RollPlace](), 0
    most = policy.per_rack or size
    cap = f", at most {policy.per_rack} of a rack" if policy.per_rack else ""
    while left:
        wave += 1
        limit = _of_wave(wave, size, len(rest))
        # Next is the rack with the fewest nodes in this wave so far; among those the fullest.
        turns = [(0, -len(nodes), order[rack], rack) for rack, nodes in left.items()]
        heapify(turns)
        for _turn in range(limit):
            if not turns:
                break
            used, _full, name, rack = heappop(turns)
            why = f"number {used + 1} of rack {rack} in this wave of at most {limit}{cap}"
            places.append(RollPlace(node=left[rack].popleft(), wave=wave, rack=rack, why=why))
            if left[rack] and used + 1 < most:
                heappush(turns, (used + 1, -len(left[rack]), name, rack))
        left = {rack: nodes for rack, nodes in left.items() if nodes}
    return places


def _of_wave(wave: int, size: int, nodes: int) -> int:
    """Return the largest size of a wave; the first ones are smaller than those that follow."""
    if wave > len(_RAMP):
        return size
    part, least = _RAMP[wave - 1]
    return min(size, max(least, int(part * nodes)))
