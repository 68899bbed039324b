# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Check system-event-log: the event log of a host's BMC has no recent critical event that is not acknowledged."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from fnmatch import fnmatchcase

from ...collect.redfish import EVENTS
from ...outcome.errors import InputError
from ...outcome.model import Basis, Expectation, Measure, Outcome, SubjectKind
from ...outcome.wording import count
from ...probe.redfish_log import LogEntry
from ..kit.finding import Finding, Report
from ..kit.settings import setting
from ..spec import Bmc, Check, CheckSpec, JudgeContext, needs
from .observe_bmcs import OBSERVER, BmcContext, SeenBmcs, per_bmc

# Which events of a BMC's log have ended (DMTF DSP0268, LogEntry EntryCode). Pure.

_ASSERT, _DEASSERT = "Assert", "Deassert"
# The words in which the messages of an asserted and a deasserted event differ.
_STATE = re.compile(r"\b(?:de-?)?assert(?:ed|ion)?\b")


def without_ended(entries: Sequence[LogEntry]) -> tuple[LogEntry, ...]:
    """Return the entries without those that ended: asserted, later deasserted by the same sensor with the same message.

    Racking, cabling and firmware updates leave such pairs. Where sensor, order or message is not known, an entry stays.
    """
    ends: dict[tuple[str, ...], str] = {}
    for entry in entries:
        if entry.code == _DEASSERT and entry.sensor and entry.created:
            key = _key(entry)
            ends[key] = max(ends.get(key, ""), entry.created)
    return tuple(
        entry
        for entry in entries
        if entry.code != _DEASSERT
        and not (
            entry.code == _ASSERT and entry.sensor and entry.created and entry.created <= ends.get(_key(entry), "")
        )
    )


def _key(entry: LogEntry) -> tuple[str, ...]:
    reported = _STATE.sub("", entry.message.lower())
    return entry.log, entry.sensor, entry.message_id, " ".join(reported.split())


_SHOWN = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class EventLogSettings:
    """Settings of check system-event-log."""

    days: int = setting(
        "Events of so many days before the run count, of these the ones since the facility record was issued: while "
        "racks are cabled and updated, every BMC has critical entries.",
        default=30,
        unit="days",
        minimum=0,
    )
    since: str = setting(
        "Events from this day on count (YYYY-MM-DD), such as the day of acceptance; in place of days and of "
        "the record.",
        default="",
    )
    acknowledged: tuple[str, ...] = setting(
        "Patterns of events that somebody has looked at: of message or MessageId, or `<host>/<id of the entry>`.",
        default=[],
    )


SPEC = CheckSpec(
    id="system-event-log",
    gate="facility",
    title="No critical event in the BMC's log",
    per=SubjectKind.NODE,
    applies=(needs("bmc", "bmc_address"), Bmc()),
    causes=("critical-event",),
    settings=EventLogSettings,
)


def judge(observed: SeenBmcs, context: JudgeContext) -> tuple[Outcome, ...]:
    return per_bmc(SPEC, observed, context, _judge, part=EVENTS, needs_sku=False)


def _judge(host: BmcContext) -> Report | Outcome:
    settings = host.settings(EventLogSettings)
    begin = _begin(settings, host.context.today, host.seen.record_issued)
    lasting = without_ended(host.facts.events)
    ended = len(host.facts.events) - len(lasting)
    open_still = (event for event in lasting if event.severity != "OK" and not event.resolved)
    late = [event for event in open_still if _is_late(event, begin)]
    taken = [event for event in late if _acknowledged(host, event, settings)]
    open_events = [event for event in late if event not in taken]
    critical = [event for event in open_events if event.severity == "Critical"]
    nameless = [event for event in open_events if not event.severity]
    logs = ", ".join(path.rpartition("/")[2] for path in host.facts.logs)
    evidence = host.evidence(
        "\n".join(_line(event) for event in open_events) or f"{host.facts.entries} entries in {logs}"
    )
    warnings = len(open_events) - len(critical) - len(nameless)
    summary = (
        f"entries in {logs}: {host.facts.entries}, none critical since {begin}"
        f" ({count(warnings, 'warning')}, {len(taken)} acknowledged, {ended} of events that ended)"
    )
    findings = []
    if critical:
        findings.append(_finding(host, critical, "critical-event", f"critical since {begin}", marginal=False))
    if nameless:
        text = f"without a severity since {begin}"
        findings.append(_finding(host, nameless, "event-of-unknown-severity", text, marginal=True))
    return Report(
        summary=summary,
        findings=tuple(findings),
        measured=(Measure("critical events", len(critical), "count"),),
        expected=(Expectation("critical events", "==", 0, Basis.RULE, "count", f"since {begin}"),),
        evidence=evidence,
    )


def _begin(settings: EventLogSettings, today: date, issued: str) -> date:
    if not settings.since:
        begin = today - timedelta(days=settings.days)
        day = date.fromisoformat(issued) if issued else begin
        # A record issued in the future hides nothing: check facility-expiry refuses it.
        return max(begin, day) if day <= today else begin
    try:
        return date.fromisoformat(settings.since)
    except ValueError:
        reason = f"is {settings.since!r}, expected a day as YYYY-MM-DD."
        raise InputError("gpufleet_settings.system-event-log.since", reason, "write for example 2026-12-31") from None


def _is_late(event: LogEntry, begin: date) -> bool:
    """Whether an event counts by its day. One without a time may be of any day, so it counts."""
    return not event.created or event.created[:10] >= begin.isoformat()


def _acknowledged(host: BmcContext, event: LogEntry, settings: EventLogSettings) -> bool:
    names = (event.message, event.message_id, f"{host.name}/{event.id}")
    return any(name and fnmatchcase(name, pattern) for pattern in settings.acknowledged for name in names)


def _finding(host: BmcContext, events: list[LogEntry], cause: str, what: str, *, marginal: bool) -> Finding:
    shown = "; ".join(_line(event) for event in events[:_SHOWN])
    more = f" and {len(events) - _SHOWN} more" if events[_SHOWN:] else ""
    hint = (
        "act on it, then clear the log, or take note of it in gpufleet_settings system-event-log.acknowledged "
        f"(such as {_acknowledging(host, events[0])}); `ipmitool sel elist` on the host shows all"
    )
    return Finding(cause=cause, text=f"{len(events)} {what}: {shown}{more}", hint=hint, marginal=marginal)


def _acknowledging(host: BmcContext, event: LogEntry) -> str:
    """Return the pattern with which a site acknowledges the event."""
    return f"{host.name}/{event.id}" if event.id else event.message_id or event.message


def _line(event: LogEntry) -> str:
    """Return the text of an event for people; a long message is cut."""
    return f"{event.created or 'no time'} {event.severity or 'no severity'} {event.id}: {event.message[:160]}"


CHECK = Check(SPEC, OBSERVER, judge)
