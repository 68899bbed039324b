# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The page of an RMA pack: which part, what is wrong with it, since when, and why the part and not what is around it.

What NVIDIA asks for (https://docs.nvidia.com/deploy/rma-process/): serial number and place of the part, the bug report
of the moment of the fault, the result of the field diagnostic, and that causes in the system were looked at. Pure.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ..outcome.model import Outcome
from .markdown import plain
from .words import number


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """What is sent back. `facts` are its identity as its tools print it (serial number, UUID, firmware, address), with
    names for people; `seen_in` is the run in which it was last listed, empty for the run of the pack."""

    name: str
    node: str
    kind: str
    rack: str = ""
    facts: Mapping[str, str]
    seen_in: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class PastResult:
    """One earlier result about the part or its node: when (UTC), of which run and check, and what it said."""

    when: str
    run_id: str
    check: str
    subject: str
    status: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PackFacts:
    """Everything that the page tells.

    `against` are the results that accuse the part, `cleared` sentences about what was looked at and is not to blame,
    `files` by name the SHA-256 of what is in the archive, `missing` what a vendor will ask for and is not there.
    """

    case: str
    contact: str
    run_id: str
    started: str
    rehearsal: bool
    part: Part
    against: tuple[Outcome, ...]
    cleared: tuple[str, ...]
    past: tuple[PastResult, ...]
    files: Mapping[str, str]
    missing: tuple[str, ...]


def render_page(facts: PackFacts) -> str:
    """Return the page in Markdown."""
    part = facts.part
    lines = [f"# Return of {plain(part.kind)} {plain(part.name)}", ""]
    if facts.rehearsal:
        lines += ["**REHEARSAL: the hardware is simulated. There is nothing to return.**", ""]
    head = {"Case": facts.case, "Contact": facts.contact, "Node": part.node, "Rack": part.rack}
    head |= {"Observed": f"{facts.started} (run {facts.run_id})", **part.facts}
    if part.seen_in:
        head["Identity from"] = f"run {part.seen_in}, the last that saw the part; it is not listed any more"
    lines += ["| | |", "| --- | --- |"]
    lines += [f"| {plain(name)} | {plain(value)} |" for name, value in head.items() if value]
    lines += ["", "## What is wrong", ""]
    for outcome in facts.against:
        lines += [f"- **{plain(outcome.cause)}** ({plain(outcome.check)}): {plain(outcome.summary, 600)}"]
        lines += [f"  - expected {plain(_expected(outcome))}"] if outcome.expected else []
        lines += [f"  - seen by {plain(source)}" for source in dict.fromkeys(e.source for e in outcome.evidence)]
    lines += _section("What was looked at and is not to blame", facts.cleared)
    lines += _section("Still to be added", facts.missing)
    lines += ["", "## History", ""]
    lines += [
        f"- {plain(past.when)}: {plain(past.check)} on {plain(past.subject)}: {past.status}: {plain(past.text)}"
        for past in facts.past
    ] or ["- no earlier failure of it is on record"]
    lines += ["", "## Files", "", "| file | SHA-256 |", "| --- | --- |"]
    lines += [f"| {plain(name)} | `{digest}` |" for name, digest in facts.files.items()]
    return "\n".join(lines) + "\n"


def _section(title: str, sentences: tuple[str, ...]) -> list[str]:
    return ["", f"## {title}", "", *(f"- {plain(text, 600)}" for text in sentences)] if sentences else []


# Markdown would escape the signs of a program, and a page is read as text, too.
_SIGNS = {">=": "at least", "<=": "at most", ">": "more than", "<": "less than"}


def _expected(outcome: Outcome) -> str:
    return "; ".join(
        f"{entry.name} {_SIGNS.get(entry.relation, entry.relation)} {number(entry.value)} {entry.unit}".rstrip()
        for entry in outcome.expected[:4]
    )
