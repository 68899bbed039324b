# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""What people decided, and the effect of the decisions in this run: waivers, acceptances, quarantined nodes. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date

from ..outcome.decisions import Waiver
from ..runtime.redaction import redact
from ..verdict.gate import AppliedDecision
from .facts import RunFacts
from .words import compressed


@dataclass(frozen=True, slots=True, kw_only=True)
class DecisionLine:
    """A waiver or an acceptance, with its effect."""

    kind: str
    check: str
    subject: str
    who: str
    until: str
    reason: str
    effect: str


@dataclass(frozen=True, slots=True, kw_only=True)
class QuarantineLine:
    """A node set aside."""

    node: str
    who: str
    ticket: str
    reason: str


def decision_lines(facts: RunFacts) -> tuple[DecisionLine, ...]:
    """Return every waiver and acceptance of the inventory, and those in the record that were removed from it."""
    waived = [entry for gate in facts.record.gates for entry in gate.waived]
    accepted = [entry for gate in facts.record.gates for entry in gate.accepted]
    expired = [entry for gate in facts.record.gates for entry in gate.expired]
    if facts.site is None:
        return ()
    day = date.fromisoformat(facts.record.started[:10])
    return (
        *(_line("waiver", entry, waived, expired, day) for entry in facts.site.waivers),
        *(_line("acceptance", entry, accepted, expired, day) for entry in facts.site.acceptances),
    )


def _line(
    kind: str, entry: Waiver, used: list[AppliedDecision], expired: list[AppliedDecision], day: date
) -> DecisionLine:
    return DecisionLine(
        kind=kind,
        check=entry.check,
        subject=entry.subject,
        who=entry.who,
        until=entry.until,
        reason=redact(entry.reason),
        effect=_effect(kind, [d for d in used if _same(d, entry)], [d for d in expired if _same(d, entry)])
        or ("nothing to cover in this run" if entry.active_on(day) else "expired, and nothing to cover in this run"),
    )


def _same(decided: AppliedDecision, entry: Waiver) -> bool:
    mine = (entry.check, entry.who, entry.reason, entry.until)
    return (decided.check, decided.who, decided.reason, decided.until) == mine


def _effect(kind: str, used: list[AppliedDecision], expired: list[AppliedDecision]) -> str:
    if used:
        word = "waived" if kind == "waiver" else "accepted"
        causes = sorted({entry.cause for entry in used})
        return f"{word} {len(used)}: {', '.join(causes)} on {compressed((entry.subject for entry in used), 6)}"
    if expired:
        return f"expired, so it covers nothing: {compressed((entry.subject for entry in expired), 6)}"
    return ""


def quarantine_lines(facts: RunFacts) -> tuple[QuarantineLine, ...]:
    """Return the nodes that were set aside."""
    entries = facts.site.quarantine if facts.site else ()
    return tuple(
        QuarantineLine(node=entry.node, who=entry.who, ticket=entry.ticket, reason=redact(entry.reason))
        for entry in entries
    )
