# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""What a cycle over idle nodes works with and finds, and what it writes to its run directory: logs, a CTRF suite, its
record, and a verdict."""

from __future__ import annotations

import gzip
import re
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path

from ...check.benchmark.plan import BenchmarkHost
from ...check.node_tests.settings import ContinuousSettings
from ...check.node_tests.spec import NodeTest
from ...outcome.codec import dumps, from_plain, load_json, to_plain
from ...outcome.model import Evidence, Measure, Outcome, Rating, Status, node_subject
from ...outcome.wording import count, first_of
from ...report.facts import ctrf_path
from ...run.decision import run_day
from ...run.run import Run
from ...runtime.clock import Deadline, elapsed_text, now_utc, seconds_since
from ...runtime.files import write_atomic, write_atomic_bytes
from ...runtime.progress import Emit, Progress, silent
from ...store.records import Cycle, Lease, NodeClass, NodeResult
from ...store.service import ServiceStore
from ...verdict.gate import GateVerdict, decide
from ...verdict.run import VERB_CYCLES, RunRecord, Work, WorkRow
from ...workload.job import JobResult, JobSpec
from .figures import Word
from .node_history import BatchLimits
from .queue import BatchPlan, QueueNode

_UNFIT = re.compile(r"[^A-Za-z0-9._-]")


@dataclass(frozen=True, slots=True)
class NodeLogs:
    """The directory of all logs; a log is named by its path below it."""

    directory: Path

    def keep(self, test: str, node: str, epoch_s: float, text: str) -> str:
        """Write the log of a test and return its path below the directory. A blank log is not written.

        Raises:
            UnavailableError: it cannot be written.
        """
        if not text.strip():
            return ""
        name = _UNFIT.sub("_", node)
        path = f"{test}/{name}/{test}_{name}_{int(epoch_s)}.log.gz"
        write_atomic_bytes(self.directory / path, gzip.compress(text.encode("utf-8"), mtime=0))
        return path

    def read(self, path: str) -> str:
        """Return the text of a log."""
        return gzip.decompress((self.directory / path).read_bytes()).decode("utf-8", errors="replace")


# Runs jobs, each alone on its node, and passes on each result as it arrives. What is not done at the deadline is
# `aborted`.
RunJobs = Callable[[Sequence[JobSpec], Progress, Deadline, Callable[[JobResult], None]], object]


@dataclass(frozen=True, slots=True)
class Stock:
    """All nodes of the site as they are now, and by name the hosts in the form that benchmarks use to place pods."""

    nodes: tuple[QueueNode, ...]
    hosts: Mapping[str, BenchmarkHost]


@dataclass(frozen=True, slots=True, kw_only=True)
class CycleWork:
    """What a cycle works with.

    `stock` looks at the cluster anew each time. `limits` are those of a batch. `again` are tests, by node and test, to
    repeat however recent their result is. `now` is the time in seconds since the epoch. `lease_now` is the time by
    which leases expire, None for the same.
    """

    cycle: Cycle
    store: ServiceStore
    tests: Mapping[str, NodeTest]
    settings: ContinuousSettings
    limits: BatchLimits
    stock: Callable[[], Stock]
    logs: NodeLogs
    again: frozenset[tuple[str, str]] = frozenset()
    emit: Emit = silent
    now: Callable[[], float] = time.time
    lease_now: Callable[[], float] | None = None


@dataclass(frozen=True, slots=True)
class Seat:
    """A node that takes part in a test, with its lease. `helps`: it already has its result in this cycle."""

    host: BenchmarkHost
    lease: Lease
    helps: bool = False


@dataclass(frozen=True, slots=True)
class Begun:
    """A running test: its one or two nodes, its job, and when it began (seconds since the epoch)."""

    seats: tuple[Seat, ...]
    test: NodeTest
    spec: JobSpec
    started_s: float

    @property
    def hosts(self) -> tuple[BenchmarkHost, ...]:
        """The hosts that it runs on."""
        return tuple(seat.host for seat in self.seats)

    @property
    def name(self) -> str:
        """The name as text."""
        return f"{' with '.join(host.name for host in self.hosts)} ({self.test.id})"


@dataclass(frozen=True, slots=True)
class Choice:
    """A test that a batch begins on these nodes."""

    test: str
    nodes: tuple[str, ...]


@dataclass(slots=True)
class CycleLog:
    """What a cycle did: the last result of each node and test, notes for people, the last queue."""

    results: dict[tuple[str, str], NodeResult] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    batches: int = 0
    plan: BatchPlan | None = None

    @property
    def idle_text(self) -> str:
        """Why nothing is left to do, from the queue."""
        plan = self.plan
        if plan is None:
            return "nobody looked"
        first = next((f" ({node}: {why})" for node, why in plan.not_free.items()), "")
        waits = next((f", {len(plan.positions)} wait ({p.node}: {p.waits})" for p in plan.positions if p.waits), "")
        return f"{len(plan.not_due)} nodes not due, {len(plan.not_free)} not free{first}{waits}"


# What cycles of tests did, as the verdict of their run: each cycle, what it tested, and the classes after it. Pure.

VERB = VERB_CYCLES
_HEAD = ("cycle", "end", "tested", "took", "classes")
_TOLD = (Status.PASSED, Status.FAILED, Status.OTHER, Status.PENDING)
_SHOWN = 3


def with_cycle(
    record: RunRecord, verdict: GateVerdict, log: CycleLog, classes: Iterable[NodeClass] = (), page: str = ""
) -> RunRecord:
    """Return the record with the cycle as a phase. A second call, with what is known later, replaces the phase.

    Args:
        record: the record of the run.
        verdict: the verdict of the cycle.
        log: its results.
        classes: the classes of the nodes after it.
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
    """Return how many nodes have which class, worst class first."""
    found: dict[str, list[str]] = {word.value: [] for word in Word}
    for entry in classes:
        found[entry.word].append(entry.node)
    reported = []
    for word, nodes in found.items():
        named = f" ({first_of(nodes, _SHOWN)})" if word not in (Word.HEALTHY.value, Word.UNKNOWN.value) else ""
        reported += [f"{len(nodes)} {word}{named}"] if nodes else []
    return ", ".join(reported)


_RATINGS = {Status.PASSED: Rating.GOOD, Status.FAILED: Rating.BAD}
_HINTS = {
    Status.FAILED: "gate fabric_validation or nodes names the part",
    Status.OTHER: "the next cycle tries it again",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class CycleDone:
    """The outcome of a cycle: results by CTRF's words, whether none is failed or other, the suite and its verdict, the
    actions on nodes, and the daily report."""

    cycle: Cycle
    log: CycleLog
    counts: dict[str, int]
    good: bool
    verdict: GateVerdict
    suite: Path
    actions: tuple[str, ...] = ()
    report: str = ""

    @property
    def failed_nodes(self) -> dict[str, list[str]]:
        """By node the tests that failed or are unknown."""
        found: dict[str, list[str]] = {}
        for result in self.log.results.values():
            if result.status in (Status.FAILED, Status.OTHER):
                found.setdefault(result.node, []).append(f"{result.test} {result.status.value}: {result.cause}")
        return found


def outcomes_of(results: Sequence[NodeResult], gate: str, log_dir: str) -> tuple[Outcome, ...]:
    """Return the results as outcomes of the suite of their cycle; `log_dir` is the directory of their logs."""
    nodes: dict[tuple[str, Status], list[str]] = {}
    for result in results:
        nodes.setdefault((result.test, result.status), []).append(result.node)
    found = []
    for result in results:
        # The same text for all nodes of a test, so that the report groups them.
        named = nodes[result.test, result.status]
        place = Path(log_dir) / result.test / (named[0] if len(named) == 1 else "*")
        found.append(outcome_of(result, gate, str(place)))
    return tuple(found)


def outcome_of(result: NodeResult, gate: str, logs: str) -> Outcome:
    """Return a result as an outcome of the suite of its cycle; `logs` is the directory of the logs of its test."""
    measured = tuple(Measure(f"{f.name} {f.part}".strip(), f.number, f.unit) for f in result.figures)
    evidence = (Evidence(f"log {result.log}", result.node),) if result.log else ()
    rating = _RATINGS.get(result.status, Rating.UNKNOWN)
    if result.status is Status.OTHER and result.rating is Rating.MARGINAL:
        rating = Rating.MARGINAL
    return Outcome(
        check=result.test.replace("_", "-"),
        gate=gate,
        status=result.status,
        rating=rating,
        subjects=(node_subject(result.node),),
        summary=result.summary or f"{result.node}: {result.test}",
        cause=result.cause if result.status is not Status.PASSED else "",
        hint=_hint(result, logs),
        measured=measured,
        evidence=evidence,
        started=datetime.fromtimestamp(result.started_s, UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        duration_s=result.duration_s,
    )


def _hint(result: NodeResult, logs: str) -> str:
    """Return what to do about a result."""
    found = _HINTS.get(result.status, "")
    if not found or not result.log:
        return found
    return f"read the newest log in {logs}; {found}"


def save_cycle(run: Run, cycle: Cycle, log: CycleLog, number: int, log_dir: Path, emit: Emit) -> CycleDone:
    """Write the suite of a cycle, decide from what is read back, and record it in the run.

    Raises:
        BringupError: nothing could be written.
    """
    name = f"cycle-{number:03}"
    results = tuple(log.results.values())
    counts = {status.value: sum(result.status is status for result in results) for status in Status}
    verdict = _verdict(run, name, outcomes_of(results, name, str(log_dir)), log)
    document = {
        "schema_version": 1, "cycle": to_plain(cycle), "counts": counts, "batches": log.batches, "notes": log.notes,
        "results": [to_plain(result) for result in results], "log_dir": str(log_dir),
    }  # fmt: skip
    write_atomic(run.path / "cycles" / f"{name}.json", dumps(document))
    verdict = replace(verdict, started=cycle.started, duration_s=seconds_since(cycle.started))
    record = replace(run.record, scope=(), notes=(*run.record.notes, *log.notes), updated=now_utc())
    run.save_record(with_cycle(record.with_phase(verdict), verdict, log))
    emit(f"{cycle.cycle_id}: {verdict.message}")
    if results:
        emit(f"left: {log.idle_text}")
    good = not counts[Status.FAILED.value] and not counts[Status.OTHER.value]
    return CycleDone(cycle=cycle, log=log, counts=counts, good=good, verdict=verdict, suite=ctrf_path(run.path, name))


def _verdict(run: Run, name: str, outcomes: tuple[Outcome, ...], log: CycleLog) -> GateVerdict:
    idle = "; ".join([f"nothing to test: {log.idle_text}", *log.notes])
    return cycle_verdict(run, name, run.save_phase(name, outcomes, (name,)), idle)


def cycle_verdict(run: Run, name: str, outcomes: tuple[Outcome, ...], idle: str) -> GateVerdict:
    """Return the verdict of a cycle with these results; `idle` says why there was nothing to test, if so."""
    reported = tuple(outcome for outcome in outcomes if outcome.status is not Status.SKIPPED)
    if not reported:
        return GateVerdict(gate=name, status=Status.SKIPPED, message=idle)
    verdict = decide(name, _expected(reported), reported, run.site, run_day(run.record))
    return replace(verdict, message=verdict.message.replace(f"gate {name}", name.replace("-", " "), 1))


def cycle_outcomes(run: Run, name: str) -> tuple[Outcome, ...]:
    """Return the results of a cycle that the run has written, as outcomes of its suite.

    Raises:
        InputError: they cannot be read.
    """
    path = run.path / "cycles" / f"{name}.json"
    document = load_json(path)
    results = document.get("results") if isinstance(document, dict) else None
    log_dir = str(document.get("log_dir") or "") if isinstance(document, dict) else ""
    return outcomes_of(from_plain(tuple[NodeResult, ...], results, str(path)), name, log_dir)


def _expected(outcomes: Iterable[Outcome]) -> dict[str, tuple[str, ...]]:
    found: dict[str, list[str]] = {}
    for outcome in outcomes:
        found.setdefault(outcome.check, []).append(outcome.subjects[0].name)
    return {check: tuple(names) for check, names in found.items()}
