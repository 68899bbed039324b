# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The daily report of a cluster in service in Markdown, short enough for a chat. Pure."""

from __future__ import annotations

from ..fleet.class_rules import Word
from ..runtime.redaction import redact
from ..runtime.visible import visible
from .markdown import plain
from .service_facts import ServiceFacts, age_text

_MOST_NODES = 40
_MOST_TOLD = 20


def render_service_markdown(facts: ServiceFacts) -> str:
    """Return the report."""
    label = ("CHECK MODE: " if facts.check_mode else "") + ("REHEARSAL: " if facts.rehearsal else "")
    counts = ", ".join(f"{facts.words[word]} {word.value}" for word in Word)
    lines = [f"## {label}daily report of {plain(facts.site)}", ""]
    if facts.rehearsal:
        lines += ["**REHEARSAL: the hardware is simulated.**", ""]
    lines += [
        f"{len(facts.lines)} nodes: {counts}. {facts.out} out of service by us. Cycle {plain(facts.cycle_id)}.",
        "",
    ]
    if facts.stopped:
        lines += [f"**Breaker:** {plain(redact(facts.stopped), 600)}", ""]
    lines += [f"- {plain(redact(text), 600)}" for text in (*facts.problems, *facts.told)[:_MOST_TOLD]]
    lines += ["", *_coverage(facts), *_nodes(facts), *_lemons(facts)]
    return visible("\n".join(lines).rstrip() + "\n")


def _coverage(facts: ServiceFacts) -> list[str]:
    rows = [
        "| test | fresh for | nodes with a fresh result | never tested | oldest |",
        "| --- | ---: | ---: | ---: | --- |",
    ]
    for entry in facts.coverage:
        oldest = f"{age_text(entry.oldest_s)} ({plain(entry.oldest_node)})" if entry.oldest_s is not None else "none"
        fresh = f"{entry.fresh} of {entry.nodes} ({entry.share:.1%})"
        rows.append(f"| {plain(entry.test)} | {entry.days:g} d | {fresh} | {entry.never} | {oldest} |")
    return [*rows, ""]


def _nodes(facts: ServiceFacts) -> list[str]:
    if not facts.noted:
        return []
    rows = ["| node | class | why | done |", "| --- | --- | --- | --- |"]
    for line in facts.noted[:_MOST_NODES]:
        why = plain(redact(line.reasons[0]), 300) if line.reasons else ""
        rows.append(f"| {plain(line.node)} | {line.word.value} | {why} | {plain(redact(line.action), 160)} |")
    more = len(facts.noted) - _MOST_NODES
    return [*rows, "", *([f"And {more} more, in the page.", ""] if more > 0 else [])]


def _lemons(facts: ServiceFacts) -> list[str]:
    lines = [
        f"- last {days} days: {plain(lemon.text)}" for days, entries in facts.lemons.items() for lemon in entries[:5]
    ]
    return ["Lemons:", "", *lines, ""] if lines else []
