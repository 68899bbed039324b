# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""What cycles of tests did, as the verdict of their run: each cycle, what it tested, and the classes after it. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import replace

from ..check.kit.counting import count
from ..fleet.class_rules import Word
from ..fleet.cycle_model import CycleLog
from ..outcome.model import Status
from ..outcome.wording import first_of
from ..runtime.clock import elapsed_text
from ..store.service_model import NodeClass
from ..verdict.gate import GateVerdict
from ..verdict.run import RunRecord
from ..verdict.work import Work, WorkRow

VERB = "continuous validation"
_HEAD = ("cycle", "end", "tested", "took", "classes")
_TOLD = (Status.PASSED, Status.FAILED, Status.OTHER, Status.PENDING)
_SHOWN = 3


def with_cycle(
    record: RunRecord, verdict: GateVerdict, log: CycleLog, classes: Iterable[NodeClass] = (), page: str = ""
) -> RunRecord:
    """Return the record with a cycle that it has as a phase; said once more with what is known later, it replaces it.

    Args:
        record: that of the run.
        verdict: of the cycle.
        log: its results.
        classes: what the nodes are taken for after it.
        page: the daily report, by its name in the run directory.
    """
    before = record.work or Work(verb=VERB)
    took = elapsed_text(verdict.duration_s)
    cells = (verdict.gate, verdict.status.value, _tested(log), took, _classes(classes) or "-")
    row = WorkRow(cells=cells, good=verdict.opens_next)
    rows = (*(old for old in before.rows if old.cells[0] != verdict.gate), row)
    counts = Counter({status.value: 0 for status in _TOLD})
    for phase in record.phases:
        counts.update(phase.counts)
    failed = bool(counts["failed"] or counts["other"])
    return replace(record, work=Work(
        verb=VERB, head=_HEAD, rows=rows, sentence=_sentence(counts, log, classes, len(rows)),
        passed=bool(counts["passed"]) and not failed and not counts["pending"], failed=failed, page=page or before.page,
        again=None, counts={word: number for word, number in counts.items() if number},
    ))  # fmt: skip


def _sentence(counts: Mapping[str, int], log: CycleLog, classes: Iterable[NodeClass], cycles: int) -> str:
    total = sum(counts[status.value] for status in _TOLD)
    parts = [f"{count(cycles, 'cycle')}, {counts['passed']} of {count(total, 'test')} passed"]
    parts += [f"{counts[status.value]} {status.value}" for status in _TOLD[1:] if counts[status.value]]
    text = ", ".join(parts) if total else f"nothing to test: {log.idle_text}"
    bad = {
        f"{result.node}: {result.test} {result.cause or result.status.value}": None
        for result in log.results.values()
        if result.status in (Status.FAILED, Status.OTHER)
    }
    found = [text, *([first_of(list(bad), _SHOWN)] if bad else []), _classes(classes)]
    return "; ".join(filter(None, found))


def _tested(log: CycleLog) -> str:
    tests = Counter(result.test for result in log.results.values() if result.status is not Status.SKIPPED)
    return ", ".join(f"{test} on {count(nodes, 'node')}" for test, nodes in sorted(tests.items())) or "nothing"


def _classes(classes: Iterable[NodeClass]) -> str:
    """Return how many nodes have which class, the worst first and by name."""
    found: dict[str, list[str]] = {word.value: [] for word in Word}
    for entry in classes:
        found[entry.word].append(entry.node)
    told = []
    for word, nodes in found.items():
        named = f" ({first_of(nodes, _SHOWN)})" if word not in (Word.HEALTHY.value, Word.UNKNOWN.value) else ""
        told += [f"{len(nodes)} {word}{named}"] if nodes else []
    return ", ".join(told)
