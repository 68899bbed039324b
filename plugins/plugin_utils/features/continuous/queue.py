# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""What the queue of tests on idle nodes is made of: nodes, demands, known results, limits, positions. Pure."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from ...check.node_tests.settings import ContinuousSettings
from ...check.node_tests.spec import NodeTest
from ...outcome.errors import InputError
from ...outcome.wording import count, natural
from ...store.records import Lease
from .node_history import (
    DAY_S,
    BatchLimits,
    Demand,
    DueTest,
    Key,
    TestHistory,
    Urgency,
    day_text,
    due_of,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueNode:
    """One node of the site, by its name in results.

    `not_free` says why no test may run on it now, empty if it is free. `rail` names the leaf switches of its adapters,
    the same text for all nodes at the same switches. `parts` is by slot (`gpu0`) what is in the node now, as in
    NodeResult; empty if unknown.
    """

    name: str
    rack: str = ""
    rail: str = ""
    parts: Mapping[str, str] = field(default_factory=dict)
    not_free: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Position:
    """One free node that owes tests: `number` from 1, its tests in the order to run them, one after the other.

    `waits` says why the node is not in this batch, empty if it is; one in the batch has only tests that end before the
    window closes.
    """

    number: int
    node: str
    rack: str
    tests: tuple[DueTest, ...]
    waits: str = ""

    def line(self) -> str:
        """Return the position as one line of text."""
        tests = "; ".join(f"{due.test} {due.why}" for due in self.tests)
        return f"{self.number}. {self.node}: {tests}{f' (waits: {self.waits})' if self.waits else ''}"


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchPlan:
    """All free nodes that owe tests, in their order; `not_due` and `not_free` say by node why nothing is done there.

    `next_due_s` is when the first of `not_due` falls due, None if nothing will.
    """

    positions: tuple[Position, ...]
    not_due: Mapping[str, str] = field(default_factory=dict)
    not_free: Mapping[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    next_due_s: float | None = None

    @property
    def batch(self) -> tuple[Position, ...]:
        """The nodes to test now."""
        return tuple(position for position in self.positions if not position.waits)

    def lines(self) -> list[str]:
        """Return the plan as text: a line for each position, then the nodes that are not due or not free, and notes."""
        found = [position.line() for position in self.positions]
        found += [f"not due: {node}: {why}" for node, why in self.not_due.items()]
        found += [f"not free: {node}: {why}" for node, why in self.not_free.items()]
        return [*found, *self.notes]


# The tests that every node has to pass, by their settings. Pure.


def demands_of(tests: Iterable[NodeTest], settings: ContinuousSettings) -> tuple[Demand, ...]:
    """Return the demand of each test: its age, and how long it takes at most with the wait for its node and image."""
    return tuple(
        Demand(
            test=test.id,
            max_age_days=test.common.days,
            longest_s=settings.schedule_s + test.common.pull_s + test.common.timeout_s,
        )
        for test in tests
    )


_NO_PLACE = "not stated"
# See due_of.
_Answer = tuple[DueTest | None, float, float]


@dataclass(slots=True)
class _Entry:
    """A free node that owes tests. Its place follows its most urgent one."""

    node: QueueNode
    rack: str
    rail: str
    tests: tuple[DueTest, ...]
    urgency: Urgency
    since: float
    name: tuple[tuple[int, int | str], ...]
    turns: tuple[int, int] = (0, 0)


@dataclass(slots=True)
class Room:
    """How much of the limits of a batch is taken, by what is under test already and by what the batch adds."""

    limits: BatchLimits
    nodes: int = 0
    racks: Counter[str] = field(default_factory=Counter)
    rails: Counter[str] = field(default_factory=Counter)

    def take(self, node: QueueNode) -> None:
        """Count a node."""
        self.nodes += 1
        self.racks[_place(node.rack)] += 1
        self.rails[_place(node.rail)] += 1

    def full(self, *nodes: QueueNode) -> str:
        """Return why there is no room for these nodes together; empty if there is."""
        limits, racks, rails = self.limits, list[str](), list[str]()
        for node in nodes:
            rack, rail = _place(node.rack), _place(node.rail)
            if self.nodes + len(racks) >= limits.size:
                return f"{count(limits.size, 'node')} at once, others go first"
            if limits.per_rack and self.racks[rack] + racks.count(rack) >= limits.per_rack:
                return f"{count(limits.per_rack, 'node')} of rack {node.rack or _NO_PLACE} at once, others go first"
            if limits.per_rail and self.rails[rail] + rails.count(rail) >= limits.per_rail:
                return f"{count(limits.per_rail, 'node')} of rail {node.rail or _NO_PLACE} at once, others go first"
            racks.append(rack)
            rails.append(rail)
        return ""


def plan_batch(
    nodes: Iterable[QueueNode],
    demands: Sequence[Demand],
    known: Mapping[Key, TestHistory],
    leases: Iterable[Lease],
    limits: BatchLimits,
    now_s: float,
    again: Collection[Key] = (),
) -> BatchPlan:
    """Return which free nodes are tested next, by which tests and why, and why the others are not.

    Args:
        nodes: all nodes of the site, also those that are not free.
        demands: the tests.
        known: what is known, by node and test (node_history.histories_by_test).
        leases: the leases of all cycles; expired ones do not count.
        limits: how many at once, and when.
        now_s: the time now, seconds since the epoch.
        again: tests, by node and test, to repeat however recent they are (those of suspects).

    Raises:
        InputError: a node or a test twice, or a test that is longer than the window.
    """
    every = sorted(nodes, key=lambda node: natural(node.name))
    _require_distinct(every, demands, limits)
    leased = _leased(leases, now_s)
    not_free = {node.name: leased.get(node.name) or node.not_free for node in every}
    entries, not_due, first_s = list[_Entry](), dict[str, str](), math.inf
    repeated = frozenset(again)

    def ask(node: QueueNode, demand: Demand) -> _Answer:
        key = (node.name, demand.test)
        return due_of(demand, known.get(key), node.parts, limits, now_s, again=key in repeated)

    for node in every:
        if not not_free[node.name]:
            entry, due_s, what = _entry(node, demands, ask)
            first_s = min(first_s, due_s)
            if entry is not None:
                entries.append(entry)
            else:
                not_due[node.name] = f"{what} not due until {day_text(due_s)}" if what else "no test is asked for"
    return BatchPlan(
        positions=tuple(_positions(_ordered(entries, now_s), _room(every, leased, limits), limits, now_s)),
        not_due=not_due,
        not_free={name: why for name, why in not_free.items() if why},
        notes=_notes(entries, limits),
        next_due_s=first_s if math.isfinite(first_s) else None,
    )


def room_beside(nodes: Iterable[QueueNode], leases: Iterable[Lease], limits: BatchLimits, now_s: float) -> Room:
    """Return what leases leave of the limits of a batch; the arguments are those of plan_batch."""
    return _room(nodes, _leased(leases, now_s), limits)


def _room(nodes: Iterable[QueueNode], leased: Mapping[str, str], limits: BatchLimits) -> Room:
    room = Room(limits)
    for node in nodes:
        if node.name in leased:
            room.take(node)
    return room


def _require_distinct(nodes: Sequence[QueueNode], demands: Sequence[Demand], limits: BatchLimits) -> None:
    for title, names in (("nodes", [node.name for node in nodes]), ("tests", [entry.test for entry in demands])):
        twice = sorted(name for name, count in Counter(names).items() if count > 1)
        if twice:
            raise InputError(f"{title} of the queue", f"{', '.join(twice)}: named more than once.", "name each once")
    for entry in demands:
        if limits.window is not None and entry.longest_s > limits.window.longest_s:
            text = f"may take {entry.longest_s:.0f} s and the window {limits.window} is shorter: it would never run."
            raise InputError(f"test {entry.test}", text, "make the window longer, or give the test less time")


def _leased(leases: Iterable[Lease], now_s: float) -> dict[str, str]:
    """Return by node the cycle that tests it now. Of several the last to end."""
    # A time that is no number never ends: rather not tested than twice.
    found = sorted(
        (lease for lease in leases if not lease.until_s <= now_s),
        key=lambda lease: (not math.isnan(lease.until_s), lease.until_s, lease.cycle_id, lease.test),
    )
    return {
        lease.node: f"{lease.test} of cycle {lease.cycle_id} runs there, at most until {day_text(lease.until_s)}"
        for lease in found
    }


def _entry(
    node: QueueNode, demands: Sequence[Demand], ask: Callable[[QueueNode, Demand], _Answer]
) -> tuple[_Entry | None, float, str]:
    """Return the node if it owes a test, else which test falls due first and when (inf where one is due)."""
    due: list[tuple[Urgency, float, str, DueTest]] = []
    first_s, first = math.inf, ""
    for demand in demands:
        test, since, at = ask(node, demand)
        if test is not None:
            due.append((test.urgency, since, test.test, test))
        elif (at, demand.test) < (first_s, first) or not first:
            first_s, first = at, demand.test
    if not due:
        return None, first_s, first
    due.sort(key=lambda entry: entry[:3])
    urgency, since = due[0][:2]
    tests = tuple(entry[3] for entry in due)
    rack, rail = _place(node.rack), _place(node.rail)
    return _Entry(node, rack, rail, tests, urgency, since, natural(node.name)), math.inf, ""


def _place(text: str) -> str:
    """Return a rack or rail without case and blanks. All that are not configured count as one."""
    return " ".join(text.split()).casefold() or _NO_PLACE


def _ordered(entries: list[_Entry], now_s: float) -> list[_Entry]:
    """Return the entries by urgency, then age in days. Among equal ones racks and rails take turns."""

    def days(entry: _Entry) -> float:
        return math.floor((now_s - entry.since) / DAY_S) if math.isfinite(entry.since) else math.inf

    by_age = sorted(entries, key=lambda entry: (entry.urgency, entry.since, entry.name))
    racks, rails = Counter[tuple[Urgency, float, str]](), Counter[tuple[Urgency, float, str]]()
    for entry in by_age:
        day = days(entry)
        rack, rail = (entry.urgency, day, entry.rack), (entry.urgency, day, entry.rail)
        entry.turns = racks[rack], rails[rail]
        racks[rack] += 1
        rails[rail] += 1
    return sorted(by_age, key=lambda entry: (entry.urgency, -days(entry), *entry.turns, entry.since, entry.name))


def _positions(entries: Iterable[_Entry], room: Room, limits: BatchLimits, now_s: float) -> Iterable[Position]:
    closes_s = limits.window.closes_at(now_s) if limits.window is not None else math.inf
    for number, entry in enumerate(entries, 1):
        fitting = entry.tests if closes_s == math.inf else _fitting(entry.tests, (closes_s or now_s) - now_s)
        waits = room.full(entry.node) if fitting else _out_of_hours(entry, limits, closes_s, now_s)
        if not waits:
            room.take(entry.node)
        tests = entry.tests if waits else fitting
        yield Position(number=number, node=entry.node.name, rack=entry.node.rack, tests=tests, waits=waits)


def _fitting(tests: Iterable[DueTest], left_s: float) -> tuple[DueTest, ...]:
    """Return the tests that end within this time, one after the other."""
    found = []
    for test in tests:
        if test.longest_s <= left_s:
            found.append(test)
            left_s -= test.longest_s
    return tuple(found)


def _out_of_hours(entry: _Entry, limits: BatchLimits, closes_s: float | None, now_s: float) -> str:
    window = limits.window
    if window is None or closes_s is None:
        return f"outside {window}" + (f", which opens on {day_text(window.opens_at(now_s))}" if window else "")
    longest_s, left_s = min(test.longest_s for test in entry.tests), closes_s - now_s
    return f"takes up to {longest_s / 60:.0f} min, and {window} closes in {left_s / 60:.0f} min"


def _notes(entries: Iterable[_Entry], limits: BatchLimits) -> tuple[str, ...]:
    """Return notes about nodes whose rack or rail is not configured."""
    found = list(entries)
    notes = []
    for title, limit, places in (
        ("rack", limits.per_rack, [entry.rack for entry in found]),
        ("rail", limits.per_rail, [entry.rail for entry in found]),
    ):
        without = places.count(_NO_PLACE)
        if limit and without:
            notes.append(f"no {title} is stated for {count(without, 'node')}: taken for one, {limit} at once")
    return tuple(notes)
