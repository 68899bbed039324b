# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Compare figures with accepted ones: what one host lost, what all lost, what cannot be compared. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from ...outcome.errors import InputError
from ...outcome.model import (
    Basis,
    Evidence,
    Expectation,
    Measure,
    Outcome,
    Rating,
    Status,
    Subject,
    answered_by,
    node_subject,
)
from ...outcome.wording import first_of
from ...runtime.strict import nearest_hint
from ...verdict.baseline import AcceptedFigure, Change, FigureComparison, LossLimits, Matched, compare, match
from ...verdict.figures import Place, figure_rules, figures_of, rules_of
from ..kit.answer import Answer
from ..kit.settings import defaults_of, setting, with_default
from ..spec import CheckSpec, JudgeContext
from .model import Compared

# Limit of the tolerance of a figure that is better when higher: such a figure can lose all of its value at most, and a
# loss beyond `bad` (twice the tolerance) must remain possible.
_MOST = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class BaselineSettings:
    """How figures are compared with accepted ones."""

    tolerance: dict[str, float] = setting(
        "Part of the accepted value by which a figure may be worse, by kind of figure; of times it may be more than "
        "all of it (1: twice as long), of the others less than half.",
        above=0,
        below=10,
    )
    bad: float = setting(
        "A figure that is worse by more than so many times the tolerance is bad, not marginal.", default=2, above=1
    )
    spreads: float = setting(
        "Where the changes of equal hosts differ among each other, one may lose this many standard deviations of them, "
        "but never more than what is bad.",
        default=3,
        minimum=0,
    )

    def __post_init__(self) -> None:
        _require_figures(self.tolerance, "tolerance")
        rules = figure_rules()
        for name, part in self.tolerance.items():
            if rules[name].better == "higher" and part >= _MOST:
                text = f"has {part:g} for {name}, expected less than {_MOST:g}: more is better of this figure."
                raise InputError("tolerance", text, "correct the value")

    @property
    def limits(self) -> LossLimits:
        """The limits for the comparison.

        Figures that the saved run's release did not have take the tolerance of this release.
        """
        return LossLimits(tolerance=_shipped_tolerance() | self.tolerance, bad=self.bad, spreads=self.spreads)


@dataclass(frozen=True, slots=True, kw_only=True)
class FabricBaselineSettings(BaselineSettings):
    """Settings of check fabric-baseline."""

    tolerance: dict[str, float] = with_default(
        BaselineSettings,
        "tolerance",
        {
            "intra-node-busbw": 0.05,
            "all-nodes-busbw": 0.05,
            "gemm-bf16": 0.05,
            "gemm-fp32": 0.05,
            "gemm-fp8": 0.05,
            "memory-copy": 0.05,
        },
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingBaselineSettings(BaselineSettings):
    """Settings of check training-baseline."""

    # What users do on a shared volume spreads its figures (a healthy NFS by 15 %): as wide as hosts may differ from
    # their peers.
    tolerance: dict[str, float] = with_default(
        BaselineSettings,
        "tolerance",
        {
            "mfu": 0.05,
            "step-time": 0.05,
            "sequential-write": 0.4,
            "sequential-read": 0.4,
            "random-read": 0.4,
            "random-write": 0.4,
            "sequential-write-p99": 1.0,
            "sequential-read-p99": 1.0,
            "random-read-p99": 1.0,
            "random-write-p99": 1.0,
        },
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class InferenceBaselineSettings(BaselineSettings):
    """Settings of check inference-baseline."""

    tolerance: dict[str, float] = with_default(
        BaselineSettings, "tolerance", {"throughput": 0.05, "ttft": 0.05, "tpot": 0.05}
    )


BASELINE_SETTINGS: dict[str, type[BaselineSettings]] = {
    "fabric": FabricBaselineSettings,
    "training": TrainingBaselineSettings,
    "inference": InferenceBaselineSettings,
}
"""The settings of the comparison with a baseline, by the word that stands before `-baseline` in its check's id."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ContractSettings:
    """What an acceptance contract requires."""

    reference: str = setting("Which contract, for the report: its name, number and clause.", default="")
    bounds: dict[str, float] = setting(
        "By kind of figure what every subject must reach: at least where more is better, at most for times. "
        "{all-nodes-busbw: 380, mfu: 40, ttft: 500}; the kinds and their units: docs/history.md.",
        default={},
        above=0,
    )
    at: dict[str, dict[str, str]] = setting(
        "By kind of figure the conditions that the contract states, as text: {all-nodes-busbw: {size: '8589934592'}}; "
        "measured under others, the bound is not known to be kept.",
        default={},
    )

    def __post_init__(self) -> None:
        _require_figures((*self.bounds, *self.at), "bounds")
        for name, conditions in self.at.items():
            known = figure_rules()[name].conditions
            wrong = next((word for word in conditions if word not in known), "")
            if wrong:
                raise InputError(f"at.{name}.{wrong}", "is no condition of that figure.", nearest_hint(wrong, known))


@cache
def _shipped_tolerance() -> dict[str, float]:
    """Return the tolerance of every kind of figure as this release ships it."""
    tolerances = (defaults_of(kind)["tolerance"] for kind in BASELINE_SETTINGS.values())
    return {name: float(part) for tolerance in tolerances for name, part in tolerance.items()}


def _require_figures(names: Iterable[str], where: str) -> None:
    """Refuse an unknown kind of figure: it would never be compared."""
    rules = figure_rules()
    for name in names:
        if name not in rules:
            raise InputError(f"{where}.{name}", "is no kind of figure.", nearest_hint(name, rules))


_SHOWN = 5
_ACCEPT = "accept the run if that is meant: ansible-playbook gpufleet.bringup.baseline -e gpufleet_run=DIRECTORY"
_ALIKE = (
    "what all lost alike is no fault of a host: compare software, settings and firmware with then "
    f"(ansible-playbook gpufleet.bringup.drift); {_ACCEPT}"
)
_ALONE = f"look at clocks, power, links and what else runs on this host, and compare it with its peers; {_ACCEPT}"


def judge(spec: CheckSpec, outcomes: tuple[Outcome, ...], context: JudgeContext) -> Compared:
    """Return how the figures of the gate compare with the accepted ones, or why they are not compared."""
    baseline = context.baseline
    accepted = baseline.of_gate(context.gate) if baseline is not None else ()
    if not accepted:
        absent = baseline.absent if baseline is not None else "this run keeps none"
        return Compared(reason=f"needs an accepted baseline: {absent or 'no figure of this gate was accepted'}")
    checks = {rule.check for rule in rules_of(context.gate).values()}
    requested = [outcome for outcome in outcomes if outcome.check in checks]
    matched = match(figures_of(context.gate, _usable(requested), place_of(context)), accepted)
    on_hold = [*_blocked(spec, context, requested, matched), *_missing(spec, context, requested, matched)]
    on_hold += _unknown_conditions(spec, context, matched)
    apart = _not_compared(context, matched)
    if not matched.same and not on_hold:
        return Compared(reason=f"nothing can be compared: {'; '.join(apart)}")
    settings = context.settings_of(spec.id, spec.settings or BaselineSettings)
    compared = compare(matched.same, settings.limits)
    bad = [*_together(spec, context, compared, settings), *_alone(spec, context, compared, settings)]
    if bad or on_hold:
        return Compared(outcomes=(*bad, *on_hold))
    return Compared(outcomes=(_kept(spec, context, compared, apart),))


def nodes(names: Iterable[str]) -> tuple[Subject, ...]:
    """Return the hosts as subjects, each once. An empty name (a figure of all hosts together) is left out."""
    return tuple(node_subject(name) for name in dict.fromkeys(names) if name)


def place_of(context: JudgeContext) -> Place:
    """Return where the figures of a run were measured: site, hardware and the driver version of each host."""
    drivers = {host: facts["driver"] for host, facts in context.shared.items() if "driver" in facts}
    return Place(site=context.site, hardware=context.hardware, drivers=drivers)


def _usable(outcomes: Iterable[Outcome]) -> tuple[Outcome, ...]:
    """Return the outcomes whose figures are compared. Failed ones are left out, so that nothing is reported twice."""
    return tuple(o for o in outcomes if o.status is Status.PASSED or o.rating is Rating.MARGINAL)


def _blocked(spec: CheckSpec, context: JudgeContext, requested: Sequence[Outcome], matched: Matched) -> list[Outcome]:
    """Return one `blocked` outcome for each check whose own outcomes explain why accepted figures are missing."""
    found = []
    for check in dict.fromkeys(outcome.check for outcome in requested):
        because = _told_by(context, requested, matched.missing, check)
        if because:
            answer = Answer.about_cluster(spec, context)
            names = first_of([entry.figure.subject for entry in because], _SHOWN)
            found.append(
                answer.blocked(by=check, because=f"no figure that passed of {names}", more_subjects=_hosts(because))
            )
    return found


def _told_by(
    context: JudgeContext, requested: Sequence[Outcome], missing: Sequence[AcceptedFigure], check: str
) -> list[AcceptedFigure]:
    rules = rules_of(context.gate)
    troubled = [outcome for outcome in requested if outcome.check == check and outcome.status is not Status.PASSED]
    names = {name for outcome in troubled for name in answered_by(outcome, context.site.name)}
    mine = [entry for entry in missing if rules[entry.figure.figure].check == check]
    return [entry for entry in mine if entry.figure.subject in names and _expected(context, entry)]


def _expected(context: JudgeContext, entry: AcceptedFigure) -> bool:
    """Return whether an accepted figure must be measured again: not if its host is out of scope."""
    site = context.site
    return not entry.figure.node or entry.figure.node in {host.name for host in site.in_scope}


def _missing(spec: CheckSpec, context: JudgeContext, requested: Sequence[Outcome], matched: Matched) -> list[Outcome]:
    reported = {
        id(entry)
        for check in {outcome.check for outcome in requested}
        for entry in _told_by(context, requested, matched.missing, check)
    }
    left = [entry for entry in matched.missing if id(entry) not in reported and _expected(context, entry)]
    if not left:
        return []
    text = f"{len(left)} accepted figures were not measured now: {first_of([_named(entry) for entry in left], _SHOWN)}"
    hint = "read what the checks of these figures say, and run the gate again"
    return [Answer.about_cluster(spec, context).unknown("figure-missing", text, hint, more_subjects=_hosts(left))]


def _unknown_conditions(spec: CheckSpec, context: JudgeContext, matched: Matched) -> list[Outcome]:
    unknown = [entry for entry in matched.different if entry.unknown]
    if not unknown:
        return []
    fields = sorted({name for entry in unknown for name in entry.unknown})
    subjects = first_of([entry.now.subject for entry in unknown], _SHOWN)
    text = f"not known under which {', '.join(fields)} {subjects} was measured"
    hint = "run gate nodes in the same run: it reads driver and adapters; the rest the benchmark's log says"
    more = nodes(entry.now.node for entry in unknown)
    return [Answer.about_cluster(spec, context).unknown("conditions-unknown", text, hint, more_subjects=more)]


def _not_compared(context: JudgeContext, matched: Matched) -> list[str]:
    """Return one sentence for each group of figures that is left out of the comparison, with the reason."""
    fields: dict[tuple[tuple[str, str, str], ...], list[str]] = {}
    for entry in matched.different:
        if not entry.unknown:
            fields.setdefault(entry.fields, []).append(f"{entry.now.figure} of {entry.now.subject}")
    lines = []
    for differing, names in fields.items():
        words = ", ".join(f"{name} was {then or 'not stated'}, is {now}" for name, then, now in differing)
        lines.append(f"{first_of(names, _SHOWN)} not comparable: {words}")
    if matched.new:
        names = [f"{entry.figure} of {entry.subject}" for entry in matched.new]
        lines.append(f"nothing was accepted of {first_of(names, _SHOWN)}")
    gone = [entry for entry in matched.missing if not _expected(context, entry)]
    if gone:
        lines.append(f"not in this run: {first_of(sorted({entry.figure.subject for entry in gone}), _SHOWN)}")
    return lines


def _together(
    spec: CheckSpec, context: JudgeContext, compared: Sequence[FigureComparison], settings: BaselineSettings
) -> list[Outcome]:
    """Return at most one outcome: about all figures that most hosts, or the cluster as a whole, lost."""
    lost = [entry for entry in compared if entry.together]
    alone = [(entry, change) for entry in compared for change in entry.lost if not change.now.node]
    if not lost and not alone:
        return []
    bad = any(entry.certain or -entry.middle > settings.bad * entry.line for entry in lost)
    bad = bad or any(-change.change > settings.bad * entry.line for entry, change in alone)
    words = [
        f"{entry.rule.title}: {len(entry.together)} of {len(entry.changes)} lost together, median {entry.middle:+.1%}"
        for entry in lost
    ]
    words += [f"{entry.rule.title}: {_change_words(change)}" for entry, change in alone]
    changes = [*(change for entry in lost for change in entry.together), *(change for _entry, change in alone)]
    details = _details([*lost, *(entry for entry, _change in alone)], changes)
    details["more_subjects"] = nodes(change.now.node for change in changes)
    answer, text = Answer.about_cluster(spec, context), "; ".join(words)
    if bad:
        return [answer.failed("regression", text, _ALIKE, **details)]
    return [answer.marginal("below-baseline", text, _ALIKE, **details)]


def _alone(
    spec: CheckSpec, context: JudgeContext, compared: Sequence[FigureComparison], settings: BaselineSettings
) -> list[Outcome]:
    """Return one outcome for every host that lost where the others did not."""
    by_host: dict[str, list[tuple[FigureComparison, Change]]] = {}
    for entry in compared:
        for change in entry.lost:
            if change.now.node:
                by_host.setdefault(change.now.node, []).append((entry, change))
    found = []
    for host, losses in by_host.items():
        text = "; ".join(f"{entry.rule.title}: {_change_words(change)}" for entry, change in losses)
        details = _details([entry for entry, _change in losses], [change for _entry, change in losses])
        answer = Answer.about_host(spec, context, host)
        if any(-change.change > settings.bad * entry.line for entry, change in losses):
            found.append(answer.failed("slower-than-baseline", text, _ALONE, **details))
        else:
            found.append(answer.marginal("below-baseline", text, _ALONE, **details))
    return found


def _kept(
    spec: CheckSpec, context: JudgeContext, compared: Sequence[FigureComparison], apart: Sequence[str]
) -> Outcome:
    words = []
    for entry in compared:
        worst = min(entry.changes, key=lambda change: change.change)
        words.append(f"{entry.rule.title}: {len(entry.changes)} compared, worst {worst.change:+.1%}")
    text = "; ".join([*words, *apart])
    return Answer.about_cluster(spec, context).passed(text, **_details(compared, ()))


def _details(compared: Sequence[FigureComparison], changes: Sequence[Change]) -> dict[str, Any]:
    entries = {entry.figure: entry for entry in compared}.values()
    measured = [Measure(f"{entry.figure} change of the median", round(100 * entry.middle, 2), "%") for entry in entries]
    for change in changes[:_SHOWN]:
        name = f"{change.now.figure} of {change.now.subject}"
        measured += [
            Measure(name, change.now.value, change.now.unit),
            Measure(f"{name} accepted", change.accepted.figure.value, change.now.unit),
        ]
    expected = tuple(
        Expectation(f"{entry.figure} change", ">=", round(-100 * entry.line, 2), Basis.BASELINE, "%", entry.arithmetic)
        for entry in entries
    )
    sources = {c.accepted.run_id: c.accepted for entry in entries for c in entry.changes}
    evidence = tuple(
        Evidence(f"run {entry.run_id}", excerpt=f"accepted by {entry.who} on {entry.accepted[:10]}")
        for entry in list(sources.values())[:_SHOWN]
    )
    return {"measured": tuple(measured), "expected": expected, "evidence": evidence}


def _change_words(change: Change) -> str:
    now, then = change.now, change.accepted
    return f"{now.value:g} {now.unit}, accepted were {then.figure.value:g} (run {then.run_id}): {change.change:+.1%}"


def _named(entry: AcceptedFigure) -> str:
    return f"{entry.figure.figure} of {entry.figure.subject}"


def _hosts(entries: Iterable[AcceptedFigure]) -> tuple[Subject, ...]:
    return nodes(entry.figure.node for entry in entries)
