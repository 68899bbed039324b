# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""What a burn-in did, as the verdict of its run: every host, how long it was under load, and why it ended. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace

from ..check.burn_in.model import Soak
from ..outcome.model import Status
from ..outcome.wording import first_of
from ..verdict.gate import Blocking, GateVerdict
from ..verdict.run import RunRecord
from ..verdict.work import Work, WorkRow

VERB = "burn-in"
_HEAD = ("host", "end", "under load", "tests", "reason")
_SHOWN = 3


def with_burn_in(record: RunRecord, done: Soak, verdict: GateVerdict) -> RunRecord:
    """Return the record with what a burn-in found, by the verdict of its phase."""
    held = _by_host(done, verdict)
    ends = {host: held[host].status if host in held else verdict.status for host in done.hosts}
    if held:
        # Only those that are named are not passed.
        ends |= {host: Status.PASSED for host in done.hosts if host not in held}
    counts = Counter(end.value for end in ends.values())
    return replace(record, work=Work(
        verb=VERB, head=_HEAD, rows=tuple(_row(done, host, ends[host], held) for host in done.hosts),
        sentence=_sentence(done, counts, held, verdict), passed=verdict.opens_next, failed=not verdict.opens_next,
        again=None, counts=dict(counts),
    ))  # fmt: skip


def _by_host(done: Soak, verdict: GateVerdict) -> dict[str, Blocking]:
    """Return the first reason against each host; one that is about no host is against all of them."""
    found: dict[str, Blocking] = {}
    for entry in verdict.blocking:
        named = {subject.node for subject in entry.subjects} & set(done.hosts)
        for host in named or ({entry.subject} & set(done.hosts)) or done.hosts:
            found.setdefault(host, entry)
    return found


def _row(done: Soak, host: str, end: Status, held: Mapping[str, Blocking]) -> WorkRow:
    reason = f"{held[host].check}: {held[host].cause}" if host in held else done.note or "-"
    tests = f"{len(done.of_host(host))} in {done.rounds} rounds"
    hours = f"{done.soaked_s(host) / 3600:.2f} of {done.hours:g} h"
    return WorkRow(cells=(host, end.value, hours, tests, reason), good=end is Status.PASSED)


def _sentence(done: Soak, counts: Counter[str], held: Mapping[str, Blocking], verdict: GateVerdict) -> str:
    text = f"{counts[Status.PASSED.value]} of {len(done.hosts)} hosts passed {done.hours:g} h under load"
    names = [f"{host} ({entry.check}: {entry.cause})" for host, entry in held.items()]
    if names:
        return f"{text}; {first_of(names, _SHOWN)}"
    return text if verdict.opens_next else f"{text}; {verdict.message}"
