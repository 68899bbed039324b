# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The verdict of a whole run: the eight gates together, in one sentence that a person can or cannot sign."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from ..outcome.errors import BringupError
from ..outcome.gates import GATE_IDS, GATES, gate_spec
from ..outcome.model import Status
from ..outcome.wording import count
from ..site.model import Site
from .gate import GateVerdict

# What a run did that decides no gates: a roll, cycles of tests, a burn-in. Pure.

VERB_BURN_IN, VERB_CYCLES = "burn-in", "continuous validation"


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkRow:
    """One line of the table: a node of a roll, a cycle, a host under load. `good` rows are left out first."""

    cells: tuple[str, ...]
    good: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """What the verb did so far.

    `verb` names it in text (`roll driver-580`). `head` and `rows` are its table. `sentence` says how it ended, and is
    empty before. `passed` is the verdict. `failed`: the run ends with exit code 8; work that was given back to users is
    neither passed nor failed. `page` is the file of the run to read first where that is not the report. `again` is the
    variable to set when it is started again, empty where none is needed, and None where starting it again is no fix.
    `next` says what to do. `counts` are the items by how they ended, for the metrics.
    """

    verb: str
    head: tuple[str, ...] = ()
    rows: tuple[WorkRow, ...] = ()
    sentence: str = ""
    passed: bool = False
    failed: bool = True
    page: str = ""
    again: str | None = ""
    next: str = ""
    counts: dict[str, int] = field(default_factory=dict)

    @property
    def recipe_alone(self) -> bool:
        """Whether gate gpu_stack is in its scope only for the recipe: none of its releases is observed or judged."""
        return self.verb in (VERB_BURN_IN, VERB_CYCLES)


def work_summary(work: Work, *, rehearsal: bool, check_mode: bool) -> str:
    """Return the verdict in one sentence."""
    if check_mode:
        planned = f"; {work.sentence}" if work.sentence else ""
        return f"CHECK MODE: {work.verb}: nothing was changed and no test was run{planned}"
    word = "" if work.passed else "not passed: " if work.failed else "in part: "
    text = f"{'REHEARSAL ' if rehearsal else ''}{work.verb}: {word}{work.sentence or 'it has not come to its end'}"
    return f"{text}; a rehearsal is never an acceptance" if rehearsal and work.passed else text


def shown_rows(work: Work, most: int) -> tuple[tuple[WorkRow, ...], int]:
    """Return the rows to show, in their order, and how many are left out: the good ones are left out first."""
    if len(work.rows) <= most:
        return work.rows, 0
    bad = sum(not row.good for row in work.rows)
    room = {False: most, True: max(0, most - bad)}
    shown: list[WorkRow] = []
    for row in work.rows:
        if room[row.good] > 0:
            room[row.good] -= 1
            shown.append(row)
    return tuple(shown), len(work.rows) - len(shown)


# What is in the id of a run that proves a wave, after the id of its parent run.
PROOF_OF_WAVE = "-wave-"
# The limits that are named in the sentence itself: at a lower level of DCGM's diagnostic most of it was not run.
_TOLD_BY_NAME = ("dcgm-diag.level ", "profile ")


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRecord:
    """A run: its site and hosts, its scope, and the verdict of each of the eight gates in order.

    `problem` says why nothing was started. `updated` is when the record was last written (RFC 3339). `versions` names
    the software that made the run. `from_gate` is the requested start, `resumed` the result of the gates before it, one
    line each. `command` is how the run was started (empty: unknown), without `from_gate`. `kept_command` goes on with
    the rehearsal that it was made on, where that stays up. `history`: its gates are recorded for later runs. `notes`
    are what people should know of it.

    `phases` are those of a validation, in the form of a gate's verdict; a run that only validates has no gate in its
    scope. `check_mode`: nothing was changed, tested or decided, and its gates stay pending. `what_if` names the
    settings that a saved run was judged by instead of its own: such a record is no verdict about anything.
    `driver_only`: of gate gpu_stack it has only the checks that need the driver, for a wave's proof. `wave` are the
    nodes of a roll that it proves, and no others. `work` is what a verb without gates did (a roll, cycles, a burn-in):
    it is the verdict of such a run, whatever its gates have.

    `interrupted` is where a run was that the user ended before its end (`gate nodes`), else empty.

    `ctrf_dest` is where one CTRF report of the whole run is written, beside that in its directory. `digests` is that of
    digests.json, written with every verdict. `unconfirmed` counts the differences that a later judgement found: with
    any, no verdict of the record is valid. `own_limits` are the settings that gates are judged by and that differ from
    the release's, each with both values.
    """

    run_id: str
    site: str
    started: str
    scope: tuple[str, ...]
    gates: tuple[GateVerdict, ...]
    rehearsal: bool = False
    nodes: int = 0
    quarantined: int = 0
    problem: str = ""
    updated: str = ""
    versions: dict[str, str] = field(default_factory=dict)
    from_gate: str = ""
    resumed: tuple[str, ...] = ()
    command: str = ""
    kept_command: str = ""
    history: bool = False
    check_mode: bool = False
    what_if: str = ""
    notes: tuple[str, ...] = ()
    phases: tuple[GateVerdict, ...] = ()
    driver_only: bool = False
    wave: tuple[str, ...] = ()
    digests: str = ""
    unconfirmed: int = 0
    own_limits: tuple[str, ...] = ()
    work: Work | None = None
    ctrf_dest: str = ""
    interrupted: str = ""
    schema_version: int = 2

    @property
    def validates(self) -> bool:
        """Whether it has only phases, and decides no gate."""
        return bool(self.phases) and not self.scope and self.work is None

    def gate(self, gate_id: str) -> GateVerdict:
        """Return that gate's verdict."""
        return next(verdict for verdict in self.gates if verdict.gate == gate_spec(gate_id).id)

    def with_gate(self, verdict: GateVerdict) -> RunRecord:
        """Return the record with that gate's verdict in place."""
        return replace(self, gates=tuple(verdict if old.gate == verdict.gate else old for old in self.gates))

    def phase(self, phase: str) -> GateVerdict | None:
        """Return that phase's verdict, None if this run has no such phase."""
        return next((verdict for verdict in self.phases if verdict.gate == phase), None)

    def with_phase(self, verdict: GateVerdict) -> RunRecord:
        """Return the record with that phase's verdict in place, or after the others."""
        if self.phase(verdict.gate) is None:
            return replace(self, phases=(*self.phases, verdict))
        return replace(self, phases=tuple(verdict if old.gate == verdict.gate else old for old in self.phases))


def new_run(run_id: str, site: str, started: str, scope: tuple[str, ...], *, rehearsal: bool) -> RunRecord:
    """Return a run in which all eight gates are pending."""
    gates = tuple(
        GateVerdict(
            gate=gate.id,
            status=Status.PENDING,
            message="not reached" if gate.id in scope else "outside the scope of this run",
        )
        for gate in GATES
    )
    return RunRecord(
        run_id=run_id, site=site, started=started, scope=scope, gates=gates, rehearsal=rehearsal, updated=started
    )


def with_phases(record: RunRecord, phases: Iterable[str]) -> RunRecord:
    """Return the record of a run that validates: these phases are pending, and no gate is in its scope."""
    pending = tuple(GateVerdict(gate=p, status=Status.PENDING, message=f"phase {p}: not reached") for p in phases)
    outside = new_run(record.run_id, record.site, record.started, (), rehearsal=record.rehearsal)
    return replace(record, scope=(), gates=outside.gates, phases=pending)


def with_verb(record: RunRecord, verb: str) -> RunRecord:
    """Return the record of a run whose verb has no gates."""
    return replace(record, work=Work(verb=verb))


def with_site(record: RunRecord, site: Site) -> RunRecord:
    """Return the record with the data of the checked inventory."""
    return replace(record, site=site.name, nodes=len(site.hosts), quarantined=len(site.hosts) - len(site.in_scope))


def require_open(record: RunRecord, gate_id: str) -> None:
    """Raise unless the gate may run: in scope, and what it depends on within the scope has passed.

    Raises:
        BringupError: the gate is out of scope or the one before it did not pass.
    """
    if gate_id not in record.scope:
        raise BringupError(f"gate {gate_id}", "is outside the scope of this run.", "add it to gpufleet_gates")
    before = depends_on(record, gate_id)
    if before and not record.gate(before).opens_next:
        found = record.gate(before).status.value
        raise BringupError(f"gate {gate_id}", f"stays closed: gate {before} is {found}.", f"pass gate {before} first")


def can_open(record: RunRecord, gate_id: str) -> bool:
    """Return whether that gate can still run: what it depends on within the scope opened, or can itself still run."""
    before = depends_on(record, gate_id)
    if not before:
        return True
    if record.gate(before).status is Status.PENDING:
        return can_open(record, before)
    return record.gate(before).opens_next


def depends_on(record: RunRecord, gate_id: str) -> str:
    """Return the nearest gate in scope that must have opened before that one, empty if none."""
    before = gate_spec(gate_id).depends_on
    while before and before not in record.scope:
        before = gate_spec(before).depends_on
    return before


def all_passed(record: RunRecord) -> bool:
    """Return whether every gate in scope opened and one of them proved something, or all phases of a validation
    passed."""
    if record.work is not None:
        passed = record.work.passed and not record.problem
        return passed and not record.check_mode and not record.unconfirmed
    if record.validates:
        passed = all(verdict.status is Status.PASSED for verdict in record.phases)
        return passed and not record.check_mode and not record.unconfirmed
    opened = all(record.gate(gate).opens_next for gate in record.scope)
    return opened and not record.check_mode and not record.unconfirmed and not proves_nothing(record)


def proves_nothing(record: RunRecord) -> bool:
    """Return whether nothing was proven: no gate in scope passed, here or in the run that it is taken over from.

    For a validation: no check passed. A cycle of tests in service that found no idle node proves nothing.
    """
    if record.validates:
        return not any(verdict.counts.get(Status.PASSED.value) for verdict in record.phases)
    gates = [record.gate(gate) for gate in record.scope]
    return not any(gate.status is Status.PASSED or gate.taken_over is not None for gate in gates)


def nothing_holds(record: RunRecord) -> bool:
    """Return whether a run may end with exit code 0.

    It passed, or it is a validation in which checks were left out by name and nothing else is open.
    """
    if record.work is not None:
        on_hold = record.work.failed or record.check_mode or record.problem or record.unconfirmed
        return not on_hold
    if not record.validates:
        return all_passed(record)
    opened = all(verdict.opens_next for verdict in record.phases)
    return opened and not record.check_mode and not record.unconfirmed and not proves_nothing(record)


def is_decided(record: RunRecord) -> bool:
    """Return whether a gate, or a phase of a validation, has a verdict."""
    return any(verdict.status is not Status.PENDING for verdict in (*record.gates, *record.phases))


def undecided_gates(record: RunRecord) -> tuple[str, ...]:
    """Return the gates in scope without a verdict."""
    return tuple(gate for gate in record.scope if record.gate(gate).status is Status.PENDING)


def not_ended_well(record: RunRecord) -> tuple[str, ...]:
    """Return why a run that came to its end may not end with exit code 0, as sentences; empty where it may."""
    on_hold = tuple(v.message for v in record.gates if v.status is not Status.PENDING and not v.opens_next)
    # A gate behind one that did not pass has no other reason.
    undecided = tuple(gate for gate in undecided_gates(record) if can_open(record, gate))
    if record.problem:
        return (f"the run was not started: {record.problem}",)
    if not record.scope and not record.phases:
        return ("no gate is in scope, so nothing is proven",)
    if record.check_mode:
        return ("check mode: no gate was decided, so nothing is passed",)
    if not record.scope:
        on_hold = tuple(verdict.message for verdict in record.phases if not verdict.opens_next)
    if not undecided:
        return on_hold or (_nothing(record) if proves_nothing(record) else ())
    text = (
        f"{len(undecided)} of {len(record.scope)} gates in scope were not decided: {', '.join(undecided)}; run without "
        "--tags, --skip-tags and --start-at-task, and state gpufleet_gates to leave gates out of the scope"
    )
    return (*on_hold, text)


def _nothing(record: RunRecord) -> tuple[str, ...]:
    if record.validates:
        requested = ", ".join(verdict.gate for verdict in record.phases)
        return (
            f"nothing was proven: every check of {requested} was skipped; leave fewer out, or validate with a cluster",
        )
    text = f"nothing was proven: this site declares no check of {', '.join(record.scope)}"
    return (f"{text}; state gates in gpufleet_gates that it declares (site.yml --tags plan shows them)",)


def unproven_before(scope: Iterable[str]) -> tuple[str, ...]:
    """Return the gates outside the scope on which gates in it depend: a fault there shows only further up."""
    missing: set[str] = set()
    for gate in scope:
        before = gate_spec(gate).depends_on
        while before:
            missing.add(before)
            before = gate_spec(before).depends_on
    return tuple(gate for gate in GATE_IDS if gate in missing.difference(scope))


def asked_verdicts(record: RunRecord) -> tuple[GateVerdict, ...]:
    """Return the verdicts of the gates in scope, and of the phases of a validation."""
    return (*(record.gate(gate) for gate in record.scope), *record.phases)


def running_since(record: RunRecord) -> str:
    """Return since when a run is at work, and where it is: `since 2026-11-03 10:00 UTC (gate nodes)`."""
    return f"since {record.started[:10]} {record.started[11:16]} UTC ({place_of_work(record)})"


def place_of_work(record: RunRecord) -> str:
    """Return where a run is that has not ended: `gate nodes`, `phase deployment`, or its verb."""
    if record.work is not None:
        return record.work.verb
    undecided = _first_undecided(record)
    return f"{'gate' if record.scope else 'phase'} {undecided.gate if undecided else ''}"


def _first_undecided(record: RunRecord) -> GateVerdict | None:
    return next((verdict for verdict in asked_verdicts(record) if verdict.status is Status.PENDING), None)


def as_interrupted(record: RunRecord) -> RunRecord:
    """Return the record of a run that the user ended now; unchanged where nothing of it was to come.

    A verb that has a sentence already, a cycle before the next one for instance, says what it did.
    """
    if has_ended(record) or (record.work is not None and record.work.sentence):
        return record
    ended = replace(record, interrupted=place_of_work(record))
    undecided = _first_undecided(record)
    if record.work is not None or undecided is None:
        return ended
    shown = replace(undecided, message="interrupted")
    return ended.with_gate(shown) if record.scope else ended.with_phase(shown)


def has_ended(record: RunRecord) -> bool:
    """Tell whether nothing is to come of a run whose playbook is at work; a verb goes on until that ends."""
    if record.problem or record.check_mode:
        return True
    if record.work is not None:
        return False
    verdicts = asked_verdicts(record)
    bad = any(verdict.status is not Status.PENDING and not verdict.opens_next for verdict in verdicts)
    return bad or all(verdict.status is not Status.PENDING for verdict in verdicts)


def run_summary(record: RunRecord) -> str:
    """Return the run's verdict in one sentence.

    Only a run over all eight gates on real hardware has the word `accepted`. What was not proven in this run is named
    too.
    """
    if record.what_if:
        return f"WHAT IF {record.what_if}: {_what_if(record)}; this is no verdict of the run"
    if record.problem:
        begun = record.work is not None and record.work.rows and not record.check_mode
        word = f"{record.work.verb}: stopped" if record.work is not None and begun else "not started"
        return f"{'CHECK MODE, ' if record.check_mode else ''}{word}: {record.problem}"
    if record.work is not None and not (record.unconfirmed or record.interrupted):
        return work_summary(record.work, rehearsal=record.rehearsal, check_mode=record.check_mode)
    if record.check_mode:
        head = "CHECK MODE: nothing was changed, no test was run and no gate was decided"
        return f"{head} (in scope: {', '.join(record.scope) or 'none'})"
    if record.unconfirmed or record.interrupted:
        return _not_confirmed(record) if record.unconfirmed else _interrupted(record)
    if record.validates:
        return _validated(record)
    stuck = [gate for gate in record.scope if not record.gate(gate).opens_next]
    if stuck:
        return "; ".join((_not_passed(record, stuck), *_not_proven(record)))
    if not record.scope:
        return "nothing was proven: no gate is in scope"
    proven = ", ".join(gate for gate in record.scope if record.gate(gate).status is Status.PASSED) or "no gate"
    if proves_nothing(record):
        head = f"{'REHEARSAL ' if record.rehearsal else ''}nothing was proven"
    elif record.rehearsal:
        head = f"REHEARSAL passed for {proven}"
    elif set(record.scope) == set(GATE_IDS):
        head = _accepted(record)
    else:
        head = f"passed for {proven}"
    never = ["a rehearsal is never an acceptance"] if record.rehearsal else []
    return "; ".join((f"{head}{_with_decisions(record)}", *_not_proven(record), *never))


def _interrupted(record: RunRecord) -> str:
    """Return the verdict of a run that the user ended: where it was, and what had passed."""
    passed = [verdict.gate for verdict in asked_verdicts(record) if verdict.status is Status.PASSED]
    before = f"; passed before that: {', '.join(passed)}" if passed and record.work is None else ""
    return f"{'REHEARSAL ' if record.rehearsal else ''}not passed: interrupted in {record.interrupted}{before}"


def _not_confirmed(record: RunRecord) -> str:
    """Return the verdict of a run whose later judgement differs from its records: no word of it can be signed."""
    of_phases = record.validates or record.work is not None
    decided = record.phases if of_phases else tuple(record.gate(gate) for gate in record.scope)
    words = ", ".join(f"{verdict.gate} {verdict.status.value}" for verdict in decided)
    head = f"{'REHEARSAL ' if record.rehearsal else ''}NOT CONFIRMED: {count(record.unconfirmed, 'difference')}"
    none = "nothing of it" if record.work is not None else "no gate is in scope"
    return f"{head} to what was recorded; computed now: {words or none}"


def _validated(record: RunRecord) -> str:
    """Return the verdict of a run that validates: the result of each phase; it decides no gate."""
    words = "; ".join(f"{verdict.gate} {verdict.status.value}" for verdict in record.phases)
    head = "validated" if all_passed(record) else "not validated" if not nothing_holds(record) else "validated in part"
    on_hold = [verdict.message for verdict in record.phases if verdict.status not in (Status.PASSED, Status.SKIPPED)]
    left_out = [verdict for verdict in record.phases if verdict.status is Status.SKIPPED]
    skipped = sum(verdict.counts.get(Status.SKIPPED.value, 0) for verdict in left_out)
    if skipped:
        on_hold.append(f"{count(skipped, 'check')} skipped, each with its reason in the report")
    return "; ".join((f"{'REHEARSAL ' if record.rehearsal else ''}{head}: {words}", *on_hold, "no gate was decided"))


def _what_if(record: RunRecord) -> str:
    stuck = [gate for gate in record.scope if not record.gate(gate).opens_next]
    if stuck:
        return _not_passed(record, stuck)
    if proves_nothing(record):
        return "nothing would be proven"
    proven = ", ".join(gate for gate in record.scope if record.gate(gate).status is Status.PASSED) or "no gate"
    whole = proven == ", ".join(record.scope)
    head = f"every gate in scope would pass ({proven})" if whole else f"would pass for {proven}"
    return "; ".join((head, *_not_proven(record)))


def _not_proven(record: RunRecord) -> list[str]:
    """Return what the sentence must include about gates that this run did not prove itself."""
    skipped = [record.gate(gate) for gate in record.scope if record.gate(gate).status is Status.SKIPPED]
    taken: dict[str, list[str]] = {}
    for verdict in skipped:
        if verdict.taken_over is not None:
            taken.setdefault(verdict.taken_over.origin, []).append(verdict.gate)
    parts = [f"{', '.join(gates)} taken over from {origin}" for origin, gates in taken.items()]
    undeclared = [verdict.gate for verdict in skipped if verdict.taken_over is None]
    parts += [f"not declared here: {', '.join(undeclared)}"] if undeclared else []
    missing = unproven_before(record.scope)
    return parts + ([f"not proven before: {', '.join(missing)}"] if missing else [])


def _accepted(record: RunRecord) -> str:
    text = f"accepted {record.nodes - record.quarantined} of {record.nodes} nodes"
    return f"{text}, {record.quarantined} quarantined" if record.quarantined else text


def _with_decisions(record: RunRecord) -> str:
    """Return what people let through and by which own limits: the sentence of a clean run has none of it."""
    waived = [entry for gate in record.gates for entry in gate.waived]
    marginal = [entry for gate in record.gates for entry in gate.accepted]
    people = len({entry.who for entry in marginal})
    own = len(record.own_limits)
    text = f", {count(len(waived), 'result')} waived" if waived else ""
    if marginal:
        # Not "accepted", which is the word of a run over all gates.
        by = f"{people} {'person' if people == 1 else 'people'}"
        text += f", {count(len(marginal), 'marginal result')} let through by {by}"
    if own:
        text += f", with {count(own, 'limit')} other than the release's"
    named = [line for line in record.own_limits if line.startswith(_TOLD_BY_NAME)]
    return f"{text} ({'; '.join(named)})" if named else text


def _not_passed(record: RunRecord, stuck: list[str]) -> str:
    judged = [record.gate(gate) for gate in stuck if record.gate(gate).status is not Status.PENDING]
    prefix = "REHEARSAL not passed" if record.rehearsal else "not passed"
    if judged:
        return f"{prefix}: {'; '.join(verdict.message for verdict in judged)}"
    return f"{prefix}: gate {stuck[0]} is not decided"
