# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""One outcome per cause where no host passed, with all hosts as subjects. Pure.

A scheduler that is gone or a device plugin that offers nothing anywhere is one fault to repair, so it is reported once.
While any host passes, the others differ from it, and each has an outcome of its own.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from ...outcome.decisions import Waiver
from ...outcome.model import Outcome, Status

_LONGEST_SUMMARY = 600
_EVIDENCE_KEPT = 4


def told_once(outcomes: Sequence[Outcome], decisions: Iterable[Waiver] = ()) -> tuple[Outcome, ...]:
    """Return the outcomes of one check about hosts; where none passed, those that share status and cause are merged.

    Args:
        outcomes: one or more for every host; their first subject is the host.
        decisions: waivers and acceptances. One that covers a single outcome was made host by host, so nothing is
            merged.
    """
    hosts = {outcome.subjects[0] for outcome in outcomes}
    if len(hosts) < 2 or any(outcome.status is Status.PASSED for outcome in outcomes):
        return tuple(outcomes)
    if any(decision.covers(outcome) for decision in decisions for outcome in outcomes):
        return tuple(outcomes)
    groups: dict[tuple[object, ...], list[Outcome]] = {}
    for outcome in outcomes:
        key = outcome.status, outcome.rating, outcome.cause, outcome.blocked_by
        groups.setdefault(key, []).append(outcome)
    return tuple(_one(group, len(hosts)) for group in groups.values())


def _one(group: Sequence[Outcome], hosts: int) -> Outcome:
    first = group[0]
    if len(group) == 1:
        return first
    subjects = tuple(dict.fromkeys(subject for outcome in group for subject in outcome.subjects))
    facts = {(outcome.measured, outcome.expected) for outcome in group}
    measured, expected = facts.pop() if len(facts) == 1 else ((), ())
    return replace(
        first,
        subjects=subjects,
        summary=_summary(group, hosts),
        measured=measured,
        expected=expected,
        evidence=tuple(entry for outcome in group[:_EVIDENCE_KEPT] for entry in outcome.evidence),
        series=(),
    )


def _summary(group: Sequence[Outcome], hosts: int) -> str:
    """Return one text for all hosts where their summaries differ only in the host's name, else the texts of all."""
    names = list(dict.fromkeys(outcome.subjects[0].name for outcome in group))
    whole = f"all {hosts} hosts" if len(names) == hosts else f"{len(names)} of {hosts} hosts, none of which passes"
    alike = {outcome.summary.replace(outcome.subjects[0].name, "<host>") for outcome in group}
    if len(alike) == 1:
        return f"{whole}: {group[0].summary if '<host>' not in next(iter(alike)) else next(iter(alike))}"
    return f"{whole}: {'; '.join(f'{o.subjects[0].name}: {o.summary}' for o in group)}"[:_LONGEST_SUMMARY]
