# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""What a node is taken for, by its results, its cohorts and its own history, each with its numbers. Pure.

Hard facts decide at once. A node that is slower than its equals is a suspect until repeats confirm it. One that got
slower than it was is drifting. What was not seen is unknown, never healthy: never tested, too old, given back, not
understood, compared with nobody, seen with a part that is in the node no more.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

from ..outcome.model import Rating, Status
from ..store.service_model import NodeClass, NodeResult
from ..verdict.digest_majority import LEAST
from ..verdict.drift import First
from ..verdict.peers import allowed
from ..verdict.repeats import Stand, Standing, standing
from .class_rules import ClassLimits, FigureRules, Word
from .cohorts import FirstKey, blame_lines, blamed, cohorts, drifts, fleet_lines, low_words, with_drift
from .digests import digests
from .events import events, may_repeat
from .figure_findings import figure_findings
from .finding import Context, Finding, newest_in_a_row
from .references import References
from .series import Record, records
from .standing import DAY_S, other_part, parts_now

_ORDER = tuple(Word)
_MOST_REASONS = 12
# What so many nodes of a cohort do, and what is to be done about it.
_FAIL_HARD = "fail hard at once", "look at what they share (driver, image) before any of them"
_LIE_BETWEEN = "lie between good and bad at once", "look at what they share, and at what they are held against"


@dataclass(frozen=True, slots=True, kw_only=True)
class Classified:
    """What a site is taken for: a class for every node, what is said of whole cohorts, tests to repeat as (node, test),
    how many of the newest results in a row of a bad node are bad (0: the newest is good, and it was not cleared yet),
    and the records that it came from, by node and test."""

    classes: tuple[NodeClass, ...]
    cohorts: tuple[str, ...] = ()
    repeats: tuple[tuple[str, str], ...] = ()
    in_a_row: Mapping[str, int] = field(default_factory=dict)
    records: Mapping[tuple[str, str], Record] = field(default_factory=dict)

    def nodes(self, word: Word) -> tuple[str, ...]:
        """Return the nodes of that class."""
        return tuple(entry.node for entry in self.classes if entry.word == word.value)


def classify(
    cycle_id: str,
    nodes: Sequence[str],
    tests: Sequence[str],
    results: Iterable[NodeResult],
    now_s: float,
    rules: FigureRules,
    limits: ClassLimits | None = None,
    racks: Mapping[str, str] | None = None,
    references: References | None = None,
    firsts: Mapping[FirstKey, First] | None = None,
) -> Classified:
    """Return the class of every node.

    Args:
        cycle_id: the cycle that ended.
        nodes: every node of the site, also those that were never tested.
        tests: what each of them has to pass.
        results: theirs, of the whole window, in any order.
        now_s: the time now, seconds since the epoch.
        rules: which way figures are better, which failures are hard.
        limits: of all comparisons.
        racks: of the nodes that have one.
        references: what figures are held against beside their equals, by node, test and figure.
        firsts: what series began with, where that is remembered (Series.first_key).
    """
    limits, site = limits or ClassLimits(), set(nodes)
    wanted = [entry for entry in results if entry.node in site and entry.test in tests]
    found = records(wanted, now_s, rules, limits)
    seen = drifts(found.values(), limits, firsts)
    compared = with_drift(cohorts(found, limits), seen, limits)
    hard = blamed(found, lambda record: _is_hard(record.known[-1], rules), _FAIL_HARD, limits)
    marginal = blamed(found, lambda record: record.known[-1].rating is Rating.MARGINAL, _LIE_BETWEEN, limits)
    computed = digests(found, limits.peers)
    context = Context(
        now_s=now_s, rules=rules, limits=limits, cohorts=compared, hard=hard, marginal=marginal, drifts=seen,
        digests=computed, figures=_usual_figures(found), parts=parts_now(wanted, now_s), references=references or {},
    )  # fmt: skip
    spared = {key: record.not_owed for key, record in found.items() if record.not_owed}
    owed = ((node, test) for node in nodes for test in tests if (node, test) not in spared)
    said, crowds = _without_crowds({key: findings_of(found.get(key), key[1], context) for key in owed}, found, limits)
    repeats = [key for key, of_test in said.items() if any(map(_wants_repeat, of_test)) and _may(found[key], context)]
    classes, in_a_row = [], dict[str, int]()
    for node in nodes:
        findings = [finding for test in tests for finding in said.get((node, test), ())]
        findings.sort(key=lambda finding: _ORDER.index(finding.word))
        word = findings[0].word if findings else Word.UNKNOWN
        if word is Word.BAD:
            in_a_row[node] = max(finding.row for finding in findings if finding.word is word)
        texts = tuple(finding.text for finding in findings) or ("no test says anything of it",)
        texts += tuple(f"{test}: skipped: {spared[node, test]}" for test in tests if (node, test) in spared)
        classes.append(NodeClass(cycle_id=cycle_id, node=node, word=word.value, reasons=texts[:_MOST_REASONS]))
    told = (
        *(of_cohort.blame for of_cohort in computed.values() if of_cohort.blame),
        *crowds,
        *blame_lines(compared.values(), hard, marginal),
        *fleet_lines(seen, limits),
        *low_words(compared.values(), racks or {}, nodes),
    )
    return Classified(classes=tuple(classes), cohorts=told, repeats=tuple(repeats), in_a_row=in_a_row, records=found)


def _wants_repeat(finding: Finding) -> bool:
    return finding.word in (Word.BAD, Word.SUSPECT) and finding.repeat


def _may(record: Record, context: Context) -> bool:
    """Whether one more result would tell more: another event, or a better sample of what all share."""
    return record.test in context.rules.shared or may_repeat(record.known, record.event_h, context.now_s)


def _without_crowds(
    said: Mapping[tuple[str, str], list[Finding]], found: Mapping[tuple[str, str], Record], limits: ClassLimits
) -> tuple[dict[tuple[str, str], list[Finding]], list[str]]:
    """Return the findings, nobody of a cohort bad where too many would be, and what is said of such cohorts.

    What hit a whole cohort is over at once for all its nodes, and each of them needs some good results to be cleared.
    """
    members: dict[tuple[str, str], list[tuple[str, str]]] = {}
    for key, record in found.items():
        if record.known:
            members.setdefault((record.test, record.known[-1].cohort), []).append(key)
    made, told = dict(said), list[str]()
    for (test, cohort), keys in members.items():
        bad = [key for key in keys if any(finding.word is Word.BAD for finding in said[key])]
        if len(bad) <= allowed(len(keys), limits.peers):
            continue
        text = (
            f"{len(bad)} of {len(keys)} nodes of cohort {cohort or 'without a name'} would be bad at once, more than "
        )
        text += f"{limits.peers.share:.0%}: look at what they share"
        told.append(f"{test}: {text}")
        for key in bad:
            made[key] = [
                Finding(Word.SUSPECT, f"{finding.text}; {text}") if finding.word is Word.BAD else finding
                for finding in said[key]
            ]
    return made, told


def findings_of(record: Record | None, test: str, context: Context) -> list[Finding]:
    """Return what one test says of one node: never nothing."""
    days = context.limits.history_days
    if record is None or record.newest is None:
        return [Finding(Word.UNKNOWN, f"{test}: no result within {days:g} days")]
    found = [*_failures(record, context), *_digests(record, context)]
    found += [*figure_findings(record, context), *_unknowns(record, context)]
    swapped = other_part(record.known[-1].parts, context.parts.get(record.node, {})) if record.known else ""
    if swapped:
        before = f"; before that {found[0].text}" if found else ""
        return [Finding(Word.UNKNOWN, f"{test}: {swapped} since its last result{before}")]
    if found:
        return found
    newest = record.known[-1]
    said = f"{test}: passed {context.age(newest)} ago"
    if record.series:
        said += f", its {len(record.series)} compared figures not below those of its cohort or its own history"
    return [Finding(Word.HEALTHY, said)]


def _failures(record: Record, context: Context) -> list[Finding]:
    """Return what results say that failed by themselves, or passed by a hair.

    Failures are confirmed by repeats. What lies between good and bad waits for a person, however often it is seen.
    """
    if not record.known:
        return []
    seen = events(record.known, record.event_h)
    stands = partial(standing, repeats=context.limits.repeats, needed=context.needed(record.test))
    hard = [event.any(partial(_is_hard, rules=context.rules)) for event in seen]
    low = [event.all(_is_low) or is_hard for event, is_hard in zip(seen, hard, strict=True)]
    failed = [event.all(_is_failed) or is_hard for event, is_hard in zip(seen, hard, strict=True)]
    between, found = stands(low), stands(failed, hard=hard)
    newest_is_low = _is_low(record.known[-1])
    if between.stand is Stand.CLEAR and found.stand is Stand.CLEAR and not newest_is_low:
        return []
    last = next(result for result in reversed(record.known) if _is_low(result))
    said = f"{record.test}: {last.cause or last.rating.value} {context.age(last)} ago ({last.summary or 'no summary'})"
    key = (record.test, record.known[-1].cohort)
    if found.stand is Stand.CONFIRMED:
        kind, blame = f"a hard fact{_back(found)}" if any(hard) else found.text, context.hard.get(key, "")
        row = newest_in_a_row(failed)
        return [Finding(Word.SUSPECT, f"{said}; {blame}") if blame else Finding(Word.BAD, f"{said}; {kind}", row)]
    if found.stand is Stand.CLEAR:
        blame = "" if _is_failed(record.known[-1]) else context.marginal.get(key, "")
        if blame and _is_like_its_equals(record, context):
            return []
        if newest_is_low and not low[-1]:
            # The better one is the event; it does not undo that the node was low when it was tested last.
            better = f"a better result within {record.event_h:g} hours of it is the same event, and is what counts"
            return [Finding(Word.SUSPECT, f"{said}; {better}; its repeat decides{f'; {blame}' if blame else ''}")]
        text = f"{said}; {between.text}; between good and bad a person decides{f'; {blame}' if blame else ''}"
        return [Finding(Word.SUSPECT, text, repeat=between.stand is not Stand.CONFIRMED and not blame)]
    return [Finding(Word.SUSPECT, f"{said}; {found.text}")]


def _is_like_its_equals(record: Record, context: Context) -> bool:
    """Whether all figures were compared with those of enough equals: where so many are marginal alike, it is what they
    share or what they are held against, and told of the cohort; who is slower than they are is told by its figures."""
    compared = [context.cohorts[series.group] for series in record.series]
    return bool(compared) and all(cohort.evaluated and not cohort.blame for cohort in compared)


def _digests(record: Record, context: Context) -> list[Finding]:
    """Return what the comparison of computed bits with those of equals says."""
    if not record.known or not record.known[-1].digests:
        return []
    newest, test = record.known[-1], record.test
    if not newest.cohort:
        return [Finding(Word.UNKNOWN, f"{test}: digests of no stated hardware and software, compared with nobody")]
    of_cohort = context.digests[test, newest.cohort]
    if of_cohort.found.split or of_cohort.found.total < LEAST:
        few = f"{test}: {of_cohort.found.total} digests of cohort {newest.cohort}, {LEAST} are needed to compare"
        return [Finding(Word.UNKNOWN, of_cohort.blame or few)]
    own = events([result for result in record.known if result.cohort == newest.cohort], record.event_h)
    wrong = [event.any(lambda result: bool(of_cohort.wrong(result))) for event in own]
    seen = standing(wrong, context.limits.repeats, hard=wrong)
    if seen.stand is Stand.CLEAR:
        return []
    last = next(result for event in reversed(own) for result in reversed(event.results) if of_cohort.wrong(result))
    said = f"{test}: {', '.join(of_cohort.wrong(last))} computed other bits {context.age(last)} ago than"
    said += f" {of_cohort.found.agreeing} of {of_cohort.found.total} GPUs of cohort {newest.cohort}"
    if of_cohort.blame:
        return [Finding(Word.SUSPECT, f"{said}; {of_cohort.blame}")]
    return [Finding(Word.BAD, f"{said}; a hard fact{_back(seen)}", newest_in_a_row(wrong))]


def _unknowns(record: Record, context: Context) -> list[Finding]:
    """Return why what is known of the node is not enough to call it healthy."""
    newest, test = record.newest, record.test
    if newest is None or not record.known:
        said = f"{newest.status.value}: {newest.cause} ({newest.summary})" if newest else ""
        return [Finding(Word.UNKNOWN, f"{test}: never passed or failed; {said}")]
    found = []
    if newest is not record.known[-1]:
        # Not only users put a test off: it may have found no partner, or its cycle was ended.
        what = "still to do" if newest.status is Status.PENDING else "tried and not known"
        why = f": {newest.cause} ({newest.summary})" if newest.cause else ""
        found.append(Finding(Word.UNKNOWN, f"{test}: {what} {context.age(newest)} ago{why}"))
    last = record.known[-1]
    days = context.limits.fresh_days(test)
    if context.now_s - last.started_s > days * DAY_S:
        said = f"{test}: last result {context.age(last)} ago, older than {days:g} days"
        found.append(Finding(Word.UNKNOWN, said))
    missing = sorted(context.figures[test, last.cohort].keys() - {figure.name for figure in last.figures})
    if missing and last.status is Status.PASSED:
        said = f"{test}: its result lacks {', '.join(missing)}, which most of its cohort have"
        found.append(Finding(Word.UNKNOWN, said))
    return found


def _usual_figures(found: Mapping[tuple[str, str], Record]) -> dict[tuple[str, str], dict[str, float]]:
    """Return by test and cohort the figures that most of its nodes have, with the share that does."""
    counts: dict[tuple[str, str], dict[str, int]] = {}
    nodes: dict[tuple[str, str], int] = {}
    for record in found.values():
        if record.known:
            key = (record.test, record.known[-1].cohort)
            nodes[key] = nodes.get(key, 0) + 1
            for name in {figure.name for figure in record.known[-1].figures}:
                of_cohort = counts.setdefault(key, {})
                of_cohort[name] = of_cohort.get(name, 0) + 1
    return {
        key: {name: many / nodes[key] for name, many in counts.get(key, {}).items() if 2 * many > nodes[key]}
        for key in nodes
    }


def _is_failed(result: NodeResult) -> bool:
    return result.status is Status.FAILED or result.rating is Rating.BAD


def _is_low(result: NodeResult) -> bool:
    return result.status is Status.FAILED or result.rating in (Rating.MARGINAL, Rating.BAD)


def _is_hard(result: NodeResult, rules: FigureRules) -> bool:
    return result.status is Status.FAILED and result.cause in rules.hard_causes


def _back(seen: Standing) -> str:
    return f"; {seen.seen} of {seen.repeats} good ones in a row since" if seen.seen else ""
