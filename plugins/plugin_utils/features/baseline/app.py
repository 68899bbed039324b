# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Baselines: what a run has to accept, how the figures of a run compare with accepted ones or with another run, and the
effect of new software on them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ...check.comparison.against_baseline import BaselineSettings
from ...check.comparison.against_baseline import place_of as measured_at
from ...check.comparison.specs import BASELINE_CHECKS, baseline_spec
from ...check.spec import JudgeContext
from ...outcome.errors import BringupError, InputError, NotFoundError
from ...outcome.model import Status
from ...outcome.wording import count, first_of
from ...run.decision import run_day
from ...run.digests import changed_files
from ...run.rehearsed import signs_of_rehearsal
from ...run.run import Run, runs_beside
from ...runtime.clock import now_utc
from ...runtime.redaction import redact
from ...store.baselines import AcceptedRun, BaselineStore, Withdrawal, open_baselines
from ...store.database import place_of
from ...store.records import Acceptance
from ...verdict.baseline import AcceptedBaseline, AcceptedFigure, Different, FigureComparison, Matched, compare, match
from ...verdict.before_after import BeforeAfter, ChangeLimits, Effect, before_after
from ...verdict.figures import DRIVER, Figure, FigureRule, figure_rules, figures_of
from ...verdict.gate import GateVerdict

# Conditions that a roll changes, and what follows from them. A change of any other makes it another measurement.
SOFTWARE = frozenset({DRIVER, "nccl", "algorithm", "torch", "cublas", "server", "fio"})
_SHOWN = 5
_WORDS = {
    Effect.LOSS: "a regression of the software and no fault of a host",
    Effect.PART: "a part of the fleet lost: compare what these hosts share",
    Effect.GAIN: "better",
    Effect.UNCHANGED: "as good",
    Effect.UNKNOWN: "not known: too few, or chance may do as much",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class SoftwareChange:
    """The change of one kind of figure with that software: `fields` are (name, then, now)."""

    figure: str
    rule: FigureRule
    fields: tuple[tuple[str, str, str], ...]
    found: BeforeAfter

    @property
    def line(self) -> str:
        """The change as one line."""
        software = ", ".join(f"{name} {then or 'unknown'} -> {now or 'unknown'}" for name, then, now in self.fields)
        text = f"{self.figure} with {software}: {_WORDS[self.found.effect]}; {self.found.arithmetic}"
        own = first_of(self.found.suspects, _SHOWN)
        return f"{text}; more than the others lost {own}" if own else text


def software_changes(
    different: Iterable[Different], tolerance: Mapping[str, float]
) -> tuple[SoftwareChange, ...]:  # fmt: skip
    """Return the effect of each change of software on each kind of figure, in the order of the rules.

    Args:
        different: figures whose conditions are not those of the accepted ones.
        tolerance: the least relative change of the median that counts, by kind of figure.
    """
    groups: dict[tuple[str, tuple[tuple[str, str, str], ...]], list[Different]] = {}
    for entry in different:
        if not entry.unknown and {name for name, _then, _now in entry.fields} <= SOFTWARE:
            groups.setdefault((entry.now.figure, entry.fields), []).append(entry)
    rules = figure_rules()
    order = sorted(groups, key=lambda key: (list(rules).index(key[0]), key[1]))
    return tuple(
        SoftwareChange(
            figure=figure,
            rule=rules[figure],
            fields=fields,
            found=before_after(
                {entry.now.subject: entry.accepted.figure.value for entry in groups[figure, fields]},
                {entry.now.subject: entry.now.value for entry in groups[figure, fields]},
                more_is_better=rules[figure].better == "higher",
                comparisons=len(groups),
                limits=ChangeLimits(least_change=tolerance[figure]),
            ),
        )
        for figure, fields in order
    )


_LOOKED_BACK = 30


@dataclass(frozen=True, slots=True, kw_only=True)
class RunComparison:
    """The comparison of a run's figures with others: comparable figures, and the rest with its reason.

    `rolled` is the effect of other software on the figures that are not compared because of it.
    """

    compared: tuple[FigureComparison, ...]
    matched: Matched
    rolled: tuple[SoftwareChange, ...] = ()

    @property
    def worse(self) -> tuple[FigureComparison, ...]:
        """The figures with a loss."""
        return tuple(entry for entry in self.compared if entry.lost or entry.together)


def keep_baseline(run: Run, store: str | None) -> AcceptedBaseline:
    """Write into the run what is currently accepted for its site, so that it is judged by that, and return it.

    Raises:
        BringupError: the history cannot be read.
    """
    record, absent, figures = run.record, "", tuple[AcceptedFigure, ...]()
    place = place_of(store) if store else None
    if place is None:
        absent = "without a history (gpufleet_store) nothing that was accepted is known"
    elif record.check_mode:
        absent = "check mode reads no history"
    elif isinstance(place, Path) and not place.is_file():
        absent = f"history {place} is new"
    else:
        figures = open_baselines(place).accepted_figures(record.site, rehearsal=record.rehearsal)
        absent = "" if figures else f"nobody accepted a run of site {record.site}"
    kept = AcceptedBaseline(site=record.site, rehearsal=record.rehearsal, figures=figures, absent=absent)
    run.save_baseline(kept)
    return kept


def acceptable_figures(run: Run, gates: Sequence[str]) -> dict[str, tuple[Figure, ...]]:
    """Return by gate the figures of a run that can be accepted.

    Args:
        run: the run.
        gates: the gates; if none are named, all in scope that have figures.

    Raises:
        InputError: the run or one of its gates cannot be a baseline, and why.
    """
    record = run.record
    if record.what_if or record.check_mode:
        raise InputError(
            str(run.path), "is a what-if or a run in check mode, nothing that was measured.", "name a run that was made"
        )
    changed = changed_files(run.path, record)
    if changed:
        hint = "accept a run whose files are as it wrote them; playbook judge names all that differ"
        raise InputError(str(run.path), f"is not as the run left it: {changed[0]}.", hint)
    with_figures = _gates_with_figures()
    wanted = list(gates) or [gate for gate in with_figures if gate in record.scope]
    without = [gate for gate in wanted if gate not in with_figures]
    if without or not wanted:
        what = f"gate {without[0]}" if without else f"run {record.run_id}"
        raise InputError(what, "has no figures for a baseline.", f"gates with figures: {', '.join(with_figures)}")
    return {gate: _figures_of_gate(run, gate) for gate in wanted}


def _figures_of_gate(run: Run, gate: str) -> tuple[Figure, ...]:
    verdict = run.record.gate(gate)
    problem, hint = _not_a_baseline(verdict)
    if problem:
        raise InputError(f"gate {gate} of run {run.record.run_id}", problem, hint)
    outcomes = [outcome for outcome in run.own_outcomes(gate) if outcome.status is Status.PASSED]
    figures = figures_of(gate, outcomes, measured_at(_judging(run, gate)))
    if not figures:
        hint = "run the gate again with this release"
        raise InputError(f"gate {gate} of run {run.record.run_id}", "measured no figure.", hint)
    unknown = [figure for figure in figures if figure.unknown]
    if unknown:
        fields = sorted({name for figure in unknown for name in figure.unknown})
        subjects = first_of([f"{figure.figure} of {figure.subject}" for figure in unknown], _SHOWN)
        text = f"cannot be compared with later runs: {', '.join(fields)} not known of {subjects}."
        hint = "run it again with gate nodes, which reads the driver" if DRIVER in fields else ""
        raise InputError(
            f"gate {gate} of run {run.record.run_id}", text, hint or "run it again with this release, which records it"
        )
    return figures


def _not_a_baseline(verdict: GateVerdict) -> tuple[str, str]:
    """Return why a gate is no baseline, and what to do.

    Its comparison with the last baseline does not count, because a deliberate loss is accepted this way.
    """
    if verdict.taken_over is not None:
        return f"was not run: it was taken over from {verdict.taken_over.origin}.", "accept that run"
    blocking = [entry for entry in verdict.blocking if entry.check not in BASELINE_CHECKS]
    waived = [entry for entry in verdict.waived if entry.check not in BASELINE_CHECKS]
    compared = bool(verdict.blocking) and not blocking
    if verdict.status is not Status.PASSED and not compared:
        reported = f": {blocking[0].check} on {blocking[0].shown}: {blocking[0].cause}" if blocking else ""
        return f"is {verdict.status.value}{reported}.", "only a gate that passed is a baseline; fix it and run it again"
    if waived:
        text = f"passed by a waiver: {waived[0].check} on {waived[0].subject} ({waived[0].cause}), {waived[0].who}."
        return text, "only what is good is a baseline; fix it and run the gate again"
    return "", ""


def _naming_another(error: InputError, run: Run, gates: Sequence[str]) -> InputError:
    """Return the error with the newest acceptable run beside this one.

    `latest` may be a roll or a burn-in, which decide no gate with figures.
    """
    for path in runs_beside(run.path)[:_LOOKED_BACK]:
        try:
            other = Run(path)
            acceptable_figures(other, gates)
        except BringupError:
            continue
        if (other.record.site, other.record.rehearsal) == (run.record.site, run.record.rehearsal):
            hint = f"{error.hint}; the newest run beside it that can be accepted: -e gpufleet_run={path}"
            return InputError(error.subject, error.reason, hint)
    return error


def nothing_accepted(site: str, elsewhere: int, *, rehearsal: bool) -> str:
    """Return that no run of a site is accepted, and where its acceptances are if there are some.

    Args:
        site: the name of the site.
        elsewhere: acceptances of that site among rehearsals, or, where these are looked at, among real runs.
        rehearsal: whether rehearsals were looked at.
    """
    if not elsewhere:
        return f"nothing is accepted for site {site}"
    kinds, other = ("rehearsals", "real runs") if rehearsal else ("real runs", "rehearsals")
    way = "leave gpufleet_baseline_rehearsal out" if rehearsal else "-e gpufleet_baseline_rehearsal=true"
    return f"nothing is accepted for site {site} of {kinds}; of {other} there are {elsewhere}, shown by: {way}"


def accept_run(
    run: Run, store: BaselineStore, gates: Sequence[str], who: str, why: str, *, check_mode: bool
) -> tuple[AcceptedRun, bool]:
    """Accept the figures of a run as the baseline of its site, and return the acceptance and whether it is new.

    In check mode nothing is written, and its number is 0.

    Raises:
        BringupError: the run or a gate cannot be a baseline, the name or the reason is missing, or the history cannot
            be written.
    """
    try:
        figures = acceptable_figures(run, gates)
    except InputError as error:
        raise _naming_another(error, run, gates) from None
    record = run.record
    if not who.strip() or not why.strip():
        raise InputError("acceptance of a baseline", "lacks who or why.", "say who accepts it and why")
    rehearsal = record.rehearsal or bool(signs_of_rehearsal(run.path, record))
    acceptance = Acceptance(
        site=record.site, rehearsal=rehearsal, run_id=record.run_id, who=redact(who), accepted=now_utc(),
        why=redact(why), what=", ".join(figures),
    )  # fmt: skip
    before = store.accepted_runs(record.site, rehearsal=rehearsal)
    # Accepted again, it changes nothing; after another acceptance it becomes the newest one.
    holding = [entry for entry in before if entry.withdrawal is None]
    mine = (record.run_id, tuple(figure for own in figures.values() for figure in own))
    for entry in holding[-1:]:
        if (entry.acceptance.run_id, tuple(kept.figure for kept in entry.figures)) == mine:
            return entry, False
    number = 0 if check_mode else store.accept(acceptance, figures)
    entries = tuple(
        AcceptedFigure(figure=figure, gate=gate, run_id=record.run_id, who=acceptance.who, accepted=acceptance.accepted)
        for gate, own in figures.items()
        for figure in own
    )
    return AcceptedRun(number=number, acceptance=acceptance, figures=entries), True


def accepted_text(entry: AcceptedRun, *, new: bool, check_mode: bool) -> str:
    """Return as text what was accepted, or would be.

    Args:
        entry: the acceptance.
        new: whether it was not accepted before.
        check_mode: nothing was written.
    """
    hosts = len({kept.figure.node for kept in entry.figures if kept.figure.node})
    gates = ", ".join(dict.fromkeys(kept.gate for kept in entry.figures))
    # Figures of all hosts together name none.
    of = f" of {count(hosts, 'host')}" if hosts else ""
    what = f"{count(len(entry.figures), 'figure')}{of} ({gates}), by {entry.acceptance.who}"
    done = "is accepted already" if not new else "would be accepted" if check_mode else "accepted"
    return f"run {entry.acceptance.run_id} {done}: {what}" + ("; nothing was written" if check_mode else "")


def compare_run(run: Run, accepted: Sequence[AcceptedFigure]) -> RunComparison:
    """Return how the figures of a run compare with accepted ones, by its own limits.

    Raises:
        BringupError: results of the run cannot be read.
    """
    compared: list[FigureComparison] = []
    rolled: list[SoftwareChange] = []
    parts: list[Matched] = []
    for gate in _looked_at(run):
        found = match(_measured(run, gate), [entry for entry in accepted if entry.gate == gate])
        parts.append(found)
        spec = baseline_spec(gate)
        settings = _judging(run, gate).settings_of(spec.id, spec.settings or BaselineSettings)
        compared += compare(found.same, settings.limits)
        rolled += software_changes(found.different, settings.limits.tolerance)
    whole = Matched(
        same=tuple(entry for part in parts for entry in part.same),
        different=tuple(entry for part in parts for entry in part.different),
        new=tuple(entry for part in parts for entry in part.new),
        missing=tuple(entry for part in parts for entry in part.missing),
    )
    return RunComparison(compared=tuple(compared), matched=whole, rolled=tuple(rolled))


def figures_of_run(run: Run) -> tuple[AcceptedFigure, ...]:
    """Return the figures of a run in the form of accepted ones, to compare another run with.

    Raises:
        BringupError: results of the run cannot be read, or it has no figure.
    """
    run_id, started = run.record.run_id, run.record.started
    found = tuple(
        AcceptedFigure(figure=figure, gate=gate, run_id=run_id, who="nobody", accepted=started)
        for gate in _looked_at(run)
        for figure in _measured(run, gate)
    )
    if not found:
        raise NotFoundError(f"run {run_id}", "has no figure of gates 6 to 8.", "name another run")
    return found


def _gates_with_figures() -> list[str]:
    return list(dict.fromkeys(rule.gate for rule in figure_rules().values()))


def _looked_at(run: Run) -> list[str]:
    record = run.record
    return [gate for gate in _gates_with_figures() if record.gate(gate).status is not Status.PENDING]


def _judging(run: Run, gate: str) -> JudgeContext:
    return run.judge_context(gate, run_day(run.record))


def _measured(run: Run, gate: str) -> tuple[Figure, ...]:
    return figures_of(gate, run.own_outcomes(gate), measured_at(_judging(run, gate)))


def comparison_lines(found: RunComparison) -> list[str]:
    """Return a comparison as text: a line for each kind of figure, then what was not compared, and why."""
    lines = []
    for entry in found.compared:
        worst = min(entry.changes, key=lambda change: change.change)
        state = "worse" if entry.lost or entry.together else "as good"
        where = f"worst {worst.now.subject} {worst.change:+.1%}"
        values = f"{worst.accepted.figure.value:g} -> {worst.now.value:g} {worst.now.unit}"
        lines.append(f"{entry.figure}: {state}; {len(entry.changes)} compared, {where} ({values})")
    fields: dict[str, list[str]] = {}
    for different in found.matched.different:
        words = ", ".join(f"{name} {then or 'unknown'} -> {now or 'unknown'}" for name, then, now in different.fields)
        fields.setdefault(words, []).append(f"{different.now.figure} of {different.now.subject}")
    lines += [f"before and after: {entry.line}" for entry in found.rolled]
    lines += [f"not comparable: {first_of(names, _SHOWN)}: {words}" for words, names in fields.items()]
    new = [f"{figure.figure} of {figure.subject}" for figure in found.matched.new]
    lines += [f"nothing to compare with: {first_of(new, _SHOWN)}"] if new else []
    gone = [f"{entry.figure.figure} of {entry.figure.subject}" for entry in found.matched.missing]
    lines += [f"not measured now: {first_of(gone, _SHOWN)}"] if gone else []
    return lines


def acceptance_lines(runs: Sequence[AcceptedRun]) -> list[str]:
    """Return acceptances as text, one a line."""
    return [
        f"{run.number}: run {run.acceptance.run_id}, {run.acceptance.what}: {len(run.figures)} figures, accepted by "
        f"{run.acceptance.who} on {run.acceptance.accepted[:10]}: {run.acceptance.why}"
        + (f"; taken back by {back.who} on {back.withdrawn[:10]}: {back.why}" if (back := run.withdrawal) else "")
        for run in runs
    ]


def existing_baselines(store: str | None) -> BaselineStore:
    """Return the baselines of an existing history.

    Raises:
        BringupError: none is named, there is no such file, or it cannot be read.
    """
    hint = "set gpufleet_store to the history of the runs (by default history.sqlite beside them)"
    if not store:
        raise InputError("gpufleet_store", "is empty; baselines are kept in the history.", hint)
    place = place_of(store)
    if isinstance(place, Path) and not place.is_file():
        raise NotFoundError(f"history {place}", "no such file.", hint)
    return open_baselines(place)


def take_back(store: BaselineStore, number: int, who: str, why: str, *, check_mode: bool) -> str:
    """Withdraw an acceptance, and return as text what was done.

    Raises:
        BringupError: there is none of that number, it was withdrawn before, or the name or the reason is missing.
    """
    withdrawal = Withdrawal(who=redact(who), withdrawn=now_utc(), why=redact(why))
    if check_mode:
        store.require_holding(number)
        return f"acceptance {number} would be taken back by {withdrawal.who}; nothing was written"
    store.withdraw(number, withdrawal)
    return f"acceptance {number} is taken back; runs that start from now on are compared with what was accepted before"


def plain_acceptance(entry: AcceptedRun) -> dict[str, Any]:
    """Return an acceptance as the result of a module."""
    reported = entry.acceptance
    return {
        "number": entry.number,
        "run_id": reported.run_id,
        "gates": reported.what,
        "who": reported.who,
        "accepted": reported.accepted,
        "why": reported.why,
        "figures": len(entry.figures),
        "withdrawn": entry.withdrawal.withdrawn if entry.withdrawal else "",
    }


def plain_software_changes(found: RunComparison) -> list[dict[str, Any]]:
    """Return the effect of other software on figures as the result of a module."""
    return [
        {
            "figure": entry.figure,
            "software": [{"name": name, "before": then, "now": now} for name, then, now in entry.fields],
            "effect": entry.found.effect.value,
            "change": round(entry.found.change, 6),
            "chance": entry.found.probability,
            "subjects": entry.found.pairs,
            "lost_more": list(entry.found.suspects),
        }
        for entry in found.rolled
    ]


def plain_changes(found: RunComparison) -> list[dict[str, Any]]:
    """Return every compared figure as the result of a module."""
    return [
        {
            "figure": entry.figure,
            "subject": change.now.subject,
            "before": change.accepted.figure.value,
            "now": change.now.value,
            "unit": change.now.unit,
            "change": round(change.change, 6),
        }
        for entry in found.compared
        for change in entry.changes
    ]
