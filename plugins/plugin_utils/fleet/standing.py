# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""From results to what is remembered of each test on each node, and from that to whether and why it is due. Pure.

A result that lies in the future was written by a clock that was wrong: it is no result, so that a node cannot hide
behind it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime

from ..outcome.model import Rating, Status
from ..outcome.wording import count, natural
from ..store.records import NodeResult
from .queue_model import BatchLimits, Demand, DueTest, Standing, Urgency

Key = tuple[str, str]
DAY_S, _HOUR_S = 86400.0, 3600.0
# Clocks of two controllers may differ by so much.
SKEW_S = 300.0
# A node that users take back so often in a row has to let others go first.
_OFTEN = 2
_NEVER = Standing()


def is_measured(result: NodeResult) -> bool:
    """Whether a result says what the node is: it passed, failed, or lies between both (marginal), where a person
    decides. Whatever else was tried is not known."""
    return result.status in (Status.PASSED, Status.FAILED) or (
        result.status is Status.OTHER and result.rating is Rating.MARGINAL
    )


def standings(results: Iterable[NodeResult], now_s: float) -> dict[Key, Standing]:
    """Return by node and test what its results say, in whatever order they come.

    Args:
        results: those of each node and test since the last one that measured something, or more.
        now_s: the time now, seconds since the epoch.
    """
    by_key: dict[Key, list[NodeResult]] = {}
    for result in results:
        by_key.setdefault((result.node, result.test), []).append(result)
    return {key: _standing(found, now_s) for key, found in by_key.items()}


def _standing(results: list[NodeResult], now_s: float) -> Standing:
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
    return Standing(
        known=known, tries=tries, tried_s=tried_s, given_back=given_back, given_back_s=given_back_s,
        misdated=len(results) - len(dated),
    )  # fmt: skip


def is_dated(result: NodeResult, now_s: float) -> bool:
    """Whether a result has a time that was there already."""
    return math.isfinite(result.started_s) and result.started_s <= now_s + SKEW_S


def parts_now(results: Iterable[NodeResult], now_s: float) -> dict[str, dict[str, str]]:
    """Return by node and slot what was seen there last, by whichever test: of each kind of slot what the newest result
    says that names it."""
    newest: dict[tuple[str, str], NodeResult] = {}
    kinds_of: dict[tuple[str, ...], frozenset[str]] = {}
    for result in results:
        if result.parts and result.status is not Status.PENDING and is_dated(result, now_s):
            slots = tuple(result.parts)
            if slots not in kinds_of:
                kinds_of[slots] = frozenset(map(_kind, slots))
            for kind in kinds_of[slots]:
                seen = newest.get((result.node, kind))
                if seen is None or (seen.started_s, seen.test) < (result.started_s, result.test):
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
    standing: Standing | None,
    parts: Mapping[str, str],
    limits: BatchLimits,
    now_s: float,
    *,
    again: bool = False,
) -> tuple[DueTest | None, float, float]:
    """Return the test if it is due (None if not), when it was last tried (-inf for never), and when it falls due.

    Args:
        demand: the test and its maximum age.
        standing: what is remembered of it on this node.
        parts: what is in the node now, by slot.
        limits: when it is tried again.
        now_s: the time now, seconds since the epoch.
        again: whether somebody wants it repeated now, however old it is.
    """
    told = standing or _NEVER
    urgency, since, at, why = _reason(demand, told, parts, limits, now_s)
    if at > now_s and again:
        urgency, at, why = Urgency.RECENT, now_s, f"to be repeated, tested on {day_text(since)}"
    if at > now_s:
        return None, since, at
    if told.given_back:
        why += f", pending {count(told.given_back, 'time')} since (a user's workload, no partner, the end of a cycle)"
        if told.given_back >= _OFTEN:
            urgency, since = Urgency.DUE, max(since, told.given_back_s)
    if told.misdated:
        why += f" ({count(told.misdated, 'result')} of the future counted for nothing: see the clock of its controller)"
    if urgency is Urgency.DUE and now_s - since > 2 * demand.max_age_days * DAY_S:
        urgency = Urgency.RECENT
    return DueTest(test=demand.test, urgency=urgency, why=why, longest_s=demand.longest_s), since, at


def _reason(
    demand: Demand, told: Standing, parts: Mapping[str, str], limits: BatchLimits, now_s: float
) -> tuple[Urgency, float, float, str]:
    """Return how urgent a test is, when it was last tried, when it falls due, and why; no reason before it is due."""
    known, age_s = told.known, demand.max_age_days * DAY_S
    if told.tries:
        again_s = min(limits.other_again_h * _HOUR_S * 2.0 ** min(told.tries - 1, 60), DAY_S, age_s)
        urgency = Urgency.RECENT if known is not None and known.status is Status.FAILED else Urgency.DUE
        why = f"tried {count(told.tries, 'time')} without an answer, last on {day_text(told.tried_s)}"
        return urgency, told.tried_s, told.tried_s + again_s, why
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
    """Return which slot has another part now than then, as words; empty if none has, or one of them is not known.

    Only kinds of slots that both name are compared: one test may look at GPUs and another at adapters. An empty part is
    one whose identity was not seen.
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
    """Return a time for people, in UTC to the minute."""
    try:
        return datetime.fromtimestamp(at_s, UTC).strftime("%Y-%m-%d %H:%M UTC")
    except (OverflowError, ValueError, OSError):
        return f"second {at_s:g}"
