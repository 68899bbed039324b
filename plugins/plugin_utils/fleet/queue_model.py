# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""What the queue of tests on idle nodes is made of: nodes, demands, what is remembered, limits, positions. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, time, timedelta
from enum import IntEnum
from zoneinfo import ZoneInfo

from ..outcome.errors import InputError
from ..store.records import NodeResult

# The hours of a week in which idle nodes may be tested, by the clocks of a time zone. Pure. A window that ends
# earlier than it begins goes over midnight and belongs to the day on which it begins. Hours are those of the wall: on
# the night in which clocks are set, a window is an hour longer or shorter.

DAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
_TEXT = re.compile(r"([01]\d|2[0-3]):([0-5]\d)-([01]\d|2[0-4]):([0-5]\d)")


@dataclass(frozen=True, slots=True)
class TimeWindow:
    """From `opens` to `closes` on each of `days` (0 is Monday), by the clocks of `zone`; both equal is all day."""

    opens: time
    closes: time
    days: frozenset[int]
    zone: str

    def __str__(self) -> str:
        days = "" if len(self.days) == len(DAYS) else f" on {', '.join(DAYS[day] for day in sorted(self.days))}"
        return f"{self.opens:%H:%M}-{self.closes:%H:%M} {self.zone}{days}"

    @property
    def longest_s(self) -> float:
        """How long it is open, on a day without a change of clocks."""
        minutes = _minutes(self.closes) - _minutes(self.opens)
        if len(self.days) == len(DAYS) and not minutes:
            return float("inf")
        return 60.0 * (minutes if minutes > 0 else minutes + 24 * 60)

    def closes_at(self, now_s: float) -> float | None:
        """Return when the window that is open at this time closes; None if none is open."""
        if self.longest_s == float("inf"):
            return float("inf")
        ends = [end for begin, end in self._around(now_s) if begin <= now_s < end]
        return max(ends, default=None)

    def opens_at(self, now_s: float) -> float:
        """Return when the next window opens after this time."""
        return min(begin for begin, end in self._around(now_s) if begin > now_s and end > begin)

    def _around(self, now_s: float) -> list[tuple[float, float]]:
        zone = ZoneInfo(self.zone)
        today = datetime.fromtimestamp(now_s, UTC).astimezone(zone).date()
        found = []
        # A day back for what goes over midnight, eight ahead for what opens once a week.
        for offset in range(-1, 9):
            day = today + timedelta(days=offset)
            if day.weekday() in self.days:
                last = day + timedelta(days=1) if self.closes <= self.opens else day
                begin, end = (datetime.combine(at, hour, zone) for at, hour in ((day, self.opens), (last, self.closes)))
                found.append((begin.timestamp(), end.timestamp()))
        return found


def window_of(hours: str, zone: str, days: Sequence[str] = DAYS) -> TimeWindow | None:
    """Return the window that a site states as `22:00-06:00`; None for no hours, which is any time.

    Raises:
        InputError: no such hours, day or time zone.
    """
    if not hours.strip():
        return None
    match = _TEXT.fullmatch(hours.strip())
    if match is None or (match.group(3) == "24" and match.group(4) != "00"):
        raise InputError("window", f"is {hours!r}, expected hours such as 22:00-06:00.", "window: 22:00-06:00")
    unknown = [day for day in days if day not in DAYS]
    if unknown or not days:
        text = f"{', '.join(unknown)}: no day." if unknown else "there is none."
        raise InputError("window days", text, f"name some of {', '.join(DAYS)}")
    try:
        ZoneInfo(zone)
    except (OSError, ValueError, LookupError):
        text = f"is {zone!r}, which this controller does not know."
        raise InputError(
            "window zone", text, "name one such as Europe/Berlin; python -m zoneinfo needs tzdata"
        ) from None
    opens = time(int(match.group(1)), int(match.group(2)))
    closes = time(int(match.group(3)) % 24, int(match.group(4)))
    return TimeWindow(opens, closes, frozenset(DAYS.index(day) for day in days), zone)


def _minutes(at: time) -> int:
    return at.hour * 60 + at.minute


class Urgency(IntEnum):
    """Who goes first: `NEW` (never tested, or with other parts since), then `RECENT` (failed recently, or untried for
    twice its time), then `DUE` by the time of the last try."""

    NEW = 0
    RECENT = 1
    DUE = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueNode:
    """One node of the site, by its name in results.

    `not_free` says why nothing may run on it now, empty if it is free. `rail` names the leaf switches that its adapters
    hang on, the same for all nodes at the same ones. `parts` is by slot (`gpu0`) what is in the node now, as in
    NodeResult; empty if that is not known.
    """

    name: str
    rack: str = ""
    rail: str = ""
    parts: Mapping[str, str] = field(default_factory=dict)
    not_free: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Demand:
    """A test that every node owes: again when its result is older than `max_age_days`; `longest_s`: what it takes at
    most, from its place in the batch to its end."""

    test: str
    max_age_days: float
    longest_s: float = 3600.0

    def __post_init__(self) -> None:
        """Refuse what means nothing.

        Raises:
            InputError: the field, what it says, and what it may say.
        """
        for name in ("max_age_days", "longest_s"):
            if not 0 < getattr(self, name) < float("inf"):
                raise InputError(f"test {self.test}", f"{name} is {getattr(self, name)}, expected more than 0.")


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """What is remembered of one test on one node.

    `known` is the newest result that measured something (standing.is_measured); `tries` counts what ended in nothing
    since (`other`, `skipped`), the newest at `tried_s`; `given_back` what was given back to users since then, the
    newest at `given_back_s`. `misdated` counts results that lie in the future and say nothing.
    """

    known: NodeResult | None = None
    tries: int = 0
    tried_s: float = 0.0
    given_back: int = 0
    given_back_s: float = 0.0
    misdated: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchLimits:
    """How many nodes are tested at once, and when something is tried again.

    `size`: nodes under test; `per_rack`, `per_rail`: of one rack, of one group of leaf switches (0: no limit); open
    leases of other cycles count as well. `failed_again_h`: hours until a failed test is repeated, `other_again_h` until
    one that said nothing is, doubled each time up to a day.
    """

    size: int = 8
    per_rack: int = 0
    per_rail: int = 0
    window: TimeWindow | None = None
    failed_again_h: float = 6.0
    other_again_h: float = 1.0

    def __post_init__(self) -> None:
        """Refuse what means nothing.

        Raises:
            InputError: the field, what it says, and what it may say.
        """
        for name, least in (("size", 1), ("per_rack", 0), ("per_rail", 0)):
            if getattr(self, name) < least:
                raise InputError(f"batch {name}", f"is {getattr(self, name)}, expected {least} or more.")
        for name in ("failed_again_h", "other_again_h"):
            if not 0 < getattr(self, name) < float("inf"):
                raise InputError(f"batch {name}", f"is {getattr(self, name)}, expected hours, more than 0.")


@dataclass(frozen=True, slots=True, kw_only=True)
class DueTest:
    """A test that is due on a node, and why, as words that follow its name; `longest_s` as in Demand."""

    test: str
    urgency: Urgency
    why: str
    longest_s: float


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
        """Return the position for people."""
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
        """Return the plan for people: a line for each position, then who is not due, who is not free, and notes."""
        found = [position.line() for position in self.positions]
        found += [f"not due: {node}: {why}" for node, why in self.not_due.items()]
        found += [f"not free: {node}: {why}" for node, why in self.not_free.items()]
        return [*found, *self.notes]
