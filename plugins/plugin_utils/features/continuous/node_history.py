# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""From results to what is known about each test on each node, whether and why it is due, and which nodes cause most of
the trouble. Pure but for `saved_state`, which reads the part of the history that the queue needs.

A result dated in the future was written by a wrong clock. It does not count, so that a node cannot hide behind it.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, time, timedelta
from enum import IntEnum
from zoneinfo import ZoneInfo

from ...outcome.errors import InputError
from ...outcome.model import Rating, Status
from ...outcome.wording import count, natural
from ...store.records import NodeResult, OurCordon
from ...store.service import ServiceStore

# The hours of a week in which idle nodes may be tested, in local time of a time zone. Pure. A window that ends earlier
# than it begins goes over midnight and belongs to the day on which it begins. In the night of a change to or from
# summer time a window is an hour longer or shorter.

DAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
_TEXT = re.compile(r"([01]\d|2[0-3]):([0-5]\d)-([01]\d|2[0-4]):([0-5]\d)")


@dataclass(frozen=True, slots=True)
class TimeWindow:
    """From `opens` to `closes` on each of `days` (0 is Monday), in local time of `zone`; both equal is all day."""

    opens: time
    closes: time
    days: frozenset[int]
    zone: str

    def __str__(self) -> str:
        days = "" if len(self.days) == len(DAYS) else f" on {', '.join(DAYS[day] for day in sorted(self.days))}"
        return f"{self.opens:%H:%M}-{self.closes:%H:%M} {self.zone}{days}"

    @property
    def longest_s(self) -> float:
        """Seconds that it is open, on a day without a change of clocks."""
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
    """Return the window that a site configures as `22:00-06:00`. Without hours it is None, which means any time.

    Raises:
        InputError: no valid hours, day or time zone.
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
    """Who goes first.

    `NEW`: never tested, or with other parts since. `RECENT`: failed recently, or not tried for twice its interval.
    `DUE`: by the time of the last try.
    """

    NEW = 0
    RECENT = 1
    DUE = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Demand:
    """A test that every node owes again when its result is older than `max_age_days`.

    `longest_s`: the most time that it takes, from its place in the batch to its end.
    """

    test: str
    max_age_days: float
    longest_s: float = 3600.0

    def __post_init__(self) -> None:
        """Refuse values that have no meaning.

        Raises:
            InputError: the field, its value, and its allowed values.
        """
        for name in ("max_age_days", "longest_s"):
            if not 0 < getattr(self, name) < float("inf"):
                raise InputError(f"test {self.test}", f"{name} is {getattr(self, name)}, expected more than 0.")


@dataclass(frozen=True, slots=True, kw_only=True)
class TestHistory:
    """What the history has about one test on one node.

    `known` is the newest result that measured something (node_history.is_measured). `tries` counts tries without a
    result since then (`other`, `skipped`), the newest at `tried_s`. `given_back` counts those given back to users since
    then, the newest at `given_back_s`. `misdated` counts results dated in the future, which do not count.
    """

    known: NodeResult | None = None
    tries: int = 0
    tried_s: float = 0.0
    given_back: int = 0
    given_back_s: float = 0.0
    misdated: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchLimits:
    """How many nodes are tested at once, and when a test is tried again.

    `size`: nodes under test. `per_rack`, `per_rail`: of one rack, of one group of leaf switches (0: no limit). Open
    leases of other cycles count as well. `failed_again_h`: hours until a failed test is repeated. `other_again_h`:
    hours until a test without a result is repeated, doubled each time up to a day.
    """

    size: int = 8
    per_rack: int = 0
    per_rail: int = 0
    window: TimeWindow | None = None
    failed_again_h: float = 6.0
    other_again_h: float = 1.0

    def __post_init__(self) -> None:
        """Refuse values that have no meaning.

        Raises:
            InputError: the field, its value, and its allowed values.
        """
        for name, least in (("size", 1), ("per_rack", 0), ("per_rail", 0)):
            if getattr(self, name) < least:
                raise InputError(f"batch {name}", f"is {getattr(self, name)}, expected {least} or more.")
        for name in ("failed_again_h", "other_again_h"):
            if not 0 < getattr(self, name) < float("inf"):
                raise InputError(f"batch {name}", f"is {getattr(self, name)}, expected hours, more than 0.")


@dataclass(frozen=True, slots=True, kw_only=True)
class DueTest:
    """A test that is due on a node, and why, as text that follows its name; `longest_s` as in Demand."""

    test: str
    urgency: Urgency
    why: str
    longest_s: float


Key = tuple[str, str]
DAY_S, _HOUR_S = 86400.0, 3600.0
# The most by which the clocks of two controllers may differ.
SKEW_S = 300.0
# A node that users take back so often in a row has to let others go first.
_OFTEN = 2
_NEVER = TestHistory()


def is_measured(result: NodeResult) -> bool:
    """Whether a result measured the node: it passed, failed, or is marginal, where a person decides.

    After any other try the node is unknown.
    """
    return result.status in (Status.PASSED, Status.FAILED) or (
        result.status is Status.OTHER and result.rating is Rating.MARGINAL
    )


def histories_by_test(results: Iterable[NodeResult], now_s: float) -> dict[Key, TestHistory]:
    """Return the history of each node and test.

    Args:
        results: of each node and test at least those since the last one that measured something, in any order.
        now_s: the time now, seconds since the epoch.
    """
    by_key: dict[Key, list[NodeResult]] = {}
    for result in results:
        by_key.setdefault((result.node, result.test), []).append(result)
    return {key: _history_of(found, now_s) for key, found in by_key.items()}


def _history_of(results: list[NodeResult], now_s: float) -> TestHistory:
    dated = [result for result in results if math.isfinite(result.started_s) and result.started_s <= now_s + SKEW_S]
    dated.sort(key=lambda result: (result.started_s, result.status.value, result.cycle_id))
    known: NodeResult | None = None
    tries, given_back, tried_s, given_back_s = 0, 0, 0.0, 0.0
    for result in dated:
        if is_measured(result):
            known, tries, given_back = result, 0, 0
        elif result.status is Status.PENDING:
            given_back, given_back_s = given_back + 1, result.started_s
        else:
            tries, tried_s, given_back = tries + 1, result.started_s, 0
    return TestHistory(
        known=known, tries=tries, tried_s=tried_s, given_back=given_back, given_back_s=given_back_s,
        misdated=len(results) - len(dated),
    )  # fmt: skip


def is_dated(result: NodeResult, now_s: float) -> bool:
    """Whether a result is dated in the past, apart from clock skew."""
    return math.isfinite(result.started_s) and result.started_s <= now_s + SKEW_S


def parts_now(results: Iterable[NodeResult], now_s: float) -> dict[str, dict[str, str]]:
    """Return by node and slot the part that was observed there last, by any test.

    For each kind of slot the newest result that names it counts.
    """
    newest: dict[tuple[str, str], NodeResult] = {}
    kinds_of: dict[tuple[str, ...], frozenset[str]] = {}
    for result in results:
        if result.parts and result.status is not Status.PENDING and is_dated(result, now_s):
            slots = tuple(result.parts)
            if slots not in kinds_of:
                kinds_of[slots] = frozenset(map(_kind, slots))
            for kind in kinds_of[slots]:
                observed = newest.get((result.node, kind))
                if observed is None or (observed.started_s, observed.test) < (result.started_s, result.test):
                    newest[result.node, kind] = result
    found: dict[str, dict[str, str]] = {}
    for (node, kind), result in newest.items():
        there = result.parts
        if len(kinds_of[tuple(there)]) > 1:
            there = {slot: part for slot, part in there.items() if _kind(slot) == kind}
        found.setdefault(node, {}).update(there)
    return found


def due_of(
    demand: Demand,
    standing: TestHistory | None,
    parts: Mapping[str, str],
    limits: BatchLimits,
    now_s: float,
    *,
    again: bool = False,
) -> tuple[DueTest | None, float, float]:
    """Return the test if it is due (else None), when it was last tried (-inf for never), and when it falls due.

    Args:
        demand: the test and its maximum age.
        standing: the history of the test on this node.
        parts: what is in the node now, by slot.
        limits: when it is tried again.
        now_s: the time now, seconds since the epoch.
        again: whether it is to be repeated now, however recent the result is.
    """
    reported = standing or _NEVER
    urgency, since, at, why = _reason(demand, reported, parts, limits, now_s)
    if at > now_s and again:
        urgency, at, why = Urgency.RECENT, now_s, f"to be repeated, tested on {day_text(since)}"
    if at > now_s:
        return None, since, at
    if reported.given_back:
        why += (
            f", pending {count(reported.given_back, 'time')} since (a user's workload, no partner, the end of a cycle)"
        )
        if reported.given_back >= _OFTEN:
            urgency, since = Urgency.DUE, max(since, reported.given_back_s)
    if reported.misdated:
        future = count(reported.misdated, "result")
        why += f" ({future} of the future counted for nothing: see the clock of its controller)"
    if urgency is Urgency.DUE and now_s - since > 2 * demand.max_age_days * DAY_S:
        urgency = Urgency.RECENT
    return DueTest(test=demand.test, urgency=urgency, why=why, longest_s=demand.longest_s), since, at


def _reason(
    demand: Demand, reported: TestHistory, parts: Mapping[str, str], limits: BatchLimits, now_s: float
) -> tuple[Urgency, float, float, str]:
    """Return how urgent a test is, when it was last tried, when it falls due, and why. Before it is due there is no
    reason."""
    known, age_s = reported.known, demand.max_age_days * DAY_S
    if reported.tries:
        again_s = min(limits.other_again_h * _HOUR_S * 2.0 ** min(reported.tries - 1, 60), DAY_S, age_s)
        urgency = Urgency.RECENT if known is not None and known.status is Status.FAILED else Urgency.DUE
        why = f"tried {count(reported.tries, 'time')} without an answer, last on {day_text(reported.tried_s)}"
        return urgency, reported.tried_s, reported.tried_s + again_s, why
    if known is None:
        return Urgency.NEW, -math.inf, -math.inf, "never tested"
    since = known.started_s
    again = since + min(limits.failed_again_h * _HOUR_S, age_s)
    swapped = other_part(known.parts, parts)
    if swapped:
        return Urgency.NEW, since, again, f"tested on {day_text(since)}, {swapped} since"
    if known.status is Status.FAILED:
        return Urgency.RECENT, since, again, f"failed on {day_text(since)}{f' ({known.cause})' if known.cause else ''}"
    if since + age_s > now_s:
        return Urgency.DUE, since, since + age_s, ""
    over = (now_s - since - age_s) / DAY_S
    why = f"older than {demand.max_age_days:g} days by {over:.1f} days (tested on {day_text(since)})"
    return Urgency.DUE, since, since + age_s, why


def other_part(then: Mapping[str, str], now: Mapping[str, str]) -> str:
    """Return as text which slot has another part now than then; empty if none has, or if one side is unknown.

    Only kinds of slots that both name are compared: one test may look at GPUs and another at adapters. An empty part is
    one whose identity was not read.
    """
    if not then or not now or then == now:
        return ""
    kinds = {_kind(slot) for slot in then} & {_kind(slot) for slot in now}
    for slot in sorted({*then, *now}, key=natural):
        if _kind(slot) in kinds and then.get(slot) != now.get(slot) and "" not in (then.get(slot), now.get(slot)):
            return f"{slot} is {now[slot]} in place of {then.get(slot, 'none')}" if slot in now else f"{slot} is gone"
    return ""


def _kind(slot: str) -> str:
    return slot.rstrip("0123456789")


def day_text(at_s: float) -> str:
    """Return a time as text, in UTC to the minute."""
    try:
        return datetime.fromtimestamp(at_s, UTC).strftime("%Y-%m-%d %H:%M UTC")
    except (OverflowError, ValueError, OSError):
        return f"second {at_s:g}"


_TRIES_S, _GIVEN_BACK_S = 30 * DAY_S, DAY_S
# The most names in one query.
_NAMES = 500


def saved_state(store: ServiceStore, site: str, *, rehearsal: bool, now_s: float) -> list[NodeResult]:
    """Return the results that `histories_by_test` and `parts_now` need, each once, without figures and digests.

    Args:
        store: the history.
        site: the site whose results are read.
        rehearsal: whether results of rehearsals are read.
        now_s: the time now, seconds since the epoch.

    Raises:
        BringupError: the history cannot be read.
    """
    latest = store.latest(site, rehearsal=rehearsal, whole=False)
    unclear = sorted({result.node for result in latest.values() if not _says(result, now_s)})
    given_back = store.results(
        site, rehearsal=rehearsal, since_s=now_s - _GIVEN_BACK_S, statuses={Status.PENDING}, whole=False
    )
    found = {_identity(result): result for result in (*latest.values(), *given_back)}
    for start in range(0, len(unclear), _NAMES):
        some = unclear[start : start + _NAMES]
        tried = store.results(site, rehearsal=rehearsal, since_s=now_s - _TRIES_S, nodes=some, whole=False)
        found |= {_identity(result): result for result in tried}
        for kind in ("passed", "failed"):
            last = store.last(site, kind, rehearsal=rehearsal, nodes=some, whole=False).values()
            found |= {_identity(result): result for result in last}
    return list(found.values())


def _says(result: NodeResult, now_s: float) -> bool:
    return is_measured(result) and is_dated(result, now_s)


def _identity(result: NodeResult) -> tuple[str, str, str, float, str]:
    return result.cycle_id, result.node, result.test, result.started_s, result.status.value


@dataclass(frozen=True, slots=True, kw_only=True)
class RepeatOffender:
    """One node within a window: how often it failed and was cordoned by us, and its share of all such events."""

    node: str
    failed: int
    excluded: int
    share: float

    @property
    def text(self) -> str:
        """The counts in words."""
        return f"{self.node}: taken out {self.excluded} times, failed {self.failed} tests, {self.share:.0%} of all"


def repeat_offenders(
    results: Iterable[NodeResult], cordons: Iterable[OurCordon], since_s: float, since: str, most: int = 10
) -> tuple[RepeatOffender, ...]:
    """Return the nodes with the most cordons and failed tests since then, worst first.

    A node is listed from two events on, because a single failure is common.

    Args:
        results: the results of the site.
        cordons: our cordons, also those that were lifted.
        since_s: the begin of the window, seconds since the epoch.
        since: the same as UTC in the form of the cordons.
        most: how many are listed.
    """
    failed = Counter(
        result.node for result in results if result.status is Status.FAILED and result.started_s >= since_s
    )
    excluded = Counter(cordon.node for cordon in cordons if cordon.since >= since)
    counts: Mapping[str, int] = failed + excluded
    total = sum(counts.values())
    order = sorted(counts, key=lambda node: (-excluded[node], -failed[node], node))
    return tuple(
        RepeatOffender(node=node, failed=failed[node], excluded=excluded[node], share=counts[node] / total)
        for node in order
        if counts[node] > 1
    )[:most]
