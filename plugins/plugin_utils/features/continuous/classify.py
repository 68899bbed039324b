# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Whether a suspicion is a fault: the sample that raised it proves nothing, repeats do. Pure.

The suspicious sample does not count, because it was chosen for being low. The fault is confirmed when more than half
(or as many as configured) of any `repeats` samples in a row after it are low as well. The suspicion is dropped only
after `repeats` good samples in a row. A low sample in place of a good one never improves the result: windows only get
more, and fuller.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from functools import partial
from itertools import takewhile
from operator import and_
from statistics import median

from ...outcome.model import Rating, Status
from ...outcome.wording import first_of
from ...store.records import NodeClass, NodeResult
from ...verdict.majority import LEAST, Majority, majority
from ...verdict.peers import PeerLimits, PeerVerdict, allowed, compare
from .cohorts import Cohort, FirstKey, Group, blame_lines, blamed, cohorts, drifts, fleet_lines, low_words, with_drift
from .figures import ClassLimits, FigureRules, NodeRecord, References, Series, Word, records
from .node_history import DAY_S, other_part, parts_now
from .slowdown import Drift, First

REPEATS = 3


class Stand(str, Enum):
    """The state of a series of samples. `flaky`: some of the repeats were low, but fewer than it takes."""

    CLEAR = "clear"
    SUSPECT = "suspect"
    FLAKY = "flaky"
    CONFIRMED = "confirmed"


@dataclass(frozen=True, slots=True)
class RepeatState:
    """The state and the counts behind it.

    `low` of the `seen` newest repeats were low, and `needed` confirm. After a confirmation `seen` counts the good
    samples in a row since then, and `low` is 0.
    """

    stand: Stand = Stand.CLEAR
    low: int = 0
    seen: int = 0
    repeats: int = REPEATS
    needed: int = REPEATS // 2 + 1

    @property
    def text(self) -> str:
        """The state in words."""
        if self.stand is Stand.CONFIRMED:
            back = f"; {self.seen} of {self.repeats} good ones in a row since" if self.seen else ""
            most = "more than half" if self.needed == self.repeats // 2 + 1 else f"{self.needed}"
            return f"confirmed by {most} of {self.repeats} repeats{back}"
        if self.stand is Stand.FLAKY:
            return f"flaky: low in {self.low} of the last {self.seen} repeats, {self.needed} of {self.repeats} confirm"
        if self.stand is Stand.SUSPECT:
            return f"low once, and in {self.low} of {self.seen} repeats; {self.repeats} are needed"
        return "not low"


def repeat_state(
    low: Iterable[bool], repeats: int = REPEATS, *, hard: Iterable[bool] = (), needed: int = 0
) -> RepeatState:
    """Return the state of a series of samples.

    Args:
        low: whether each sample crossed the line that marks it as bad, oldest first.
        repeats: number of samples after a suspicion that decide.
        hard: whether each sample proves the fault by itself. Where it is shorter than `low`, the rest do not.
        needed: how many of the repeats have to be low. More than half is the least; 0 means just that.
    """
    alone, needed = iter(hard), max(needed, repeats // 2 + 1)
    after: deque[bool] | None = None
    confirmed, good = False, 0
    for is_low in low:
        is_hard = next(alone, False)
        good = 0 if is_low or is_hard else good + 1
        if is_hard:
            confirmed, after = True, deque(maxlen=repeats)
        elif good >= repeats:
            confirmed, after = False, None
        elif after is not None:
            after.append(is_low)
            confirmed = confirmed or sum(after) >= needed
        elif is_low:
            after = deque(maxlen=repeats)
    if confirmed:
        return RepeatState(Stand.CONFIRMED, 0, good, repeats, needed)
    if after is None:
        return RepeatState(repeats=repeats, needed=needed)
    stand = Stand.FLAKY if len(after) == repeats else Stand.SUSPECT
    return RepeatState(stand, sum(after), len(after), repeats, needed)


# Results that are close in time are one event: a congested leaf switch, a hot hall, another user's job. Pure. Repeats
# prove something only where they are independent. Repeats within one hour measure the same hour again.

_HOUR_S = 3600.0


@dataclass(frozen=True, slots=True)
class NodeEvent:
    """The results of one test on one node within one span of time, oldest first; at least one."""

    results: tuple[NodeResult, ...]

    def all(self, is_so: Callable[[NodeResult], bool]) -> bool:
        """Whether all results are so. What was well once in that time is well."""
        return all(map(is_so, self.results))

    def any(self, is_so: Callable[[NodeResult], bool]) -> bool:
        """Whether any result is so, for what one result proves."""
        return any(map(is_so, self.results))


def events(results: Sequence[NodeResult], hours: float) -> tuple[NodeEvent, ...]:
    """Return the events of results, oldest first. An event begins with a result and covers so many hours."""
    found: list[list[NodeResult]] = []
    for result in results:
        if not found or result.started_s - found[-1][0].started_s >= hours * _HOUR_S:
            found.append([result])
        else:
            found[-1].append(result)
    return tuple(NodeEvent(tuple(entry)) for entry in found)


def may_repeat(results: Sequence[NodeResult], hours: float, now_s: float) -> bool:
    """Whether one more result now would belong to another event than the newest one."""
    return not results or now_s - events(results, hours)[-1].results[0].started_s >= hours * _HOUR_S


# Results that GPUs of one cohort computed. A digest that differs from the majority is a hard fact about its node. Pure.

Key = tuple[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeDigests:
    """The majority digest of one test and cohort. `blame` says why no node is named though digests differ."""

    found: Majority[tuple[str, str], str]
    blame: str = ""

    def wrong(self, result: NodeResult) -> tuple[str, ...]:
        """Return the parts whose result differs from that of the majority."""
        if self.found.split or self.found.total < LEAST:
            return ()
        return tuple(part for part, digest in result.digests.items() if digest != self.found.usual)


def digests(records: Mapping[Key, NodeRecord], limits: PeerLimits) -> dict[Key, NodeDigests]:
    """Return the majority digests by test and cohort."""
    members: dict[Key, dict[tuple[str, str], str]] = {}
    for record in records.values():
        if record.known and record.known[-1].cohort:
            newest = record.known[-1]
            of_cohort = members.setdefault((record.test, newest.cohort), {})
            of_cohort |= {(record.node, part): digest for part, digest in newest.digests.items()}
    made = {key: majority(found) for key, found in members.items()}
    return {
        key: NodeDigests(found=found, blame=_blame(key, found, len({node for node, _part in members[key]}), limits))
        for key, found in made.items()
        if found is not None
    }


def _blame(key: Key, found: Majority[tuple[str, str], str], nodes: int, limits: PeerLimits) -> str:
    test, cohort = key
    if found.split:
        reported = f"{found.agreeing} of {found.total} GPUs computed the same, and no digest is that of most"
        return (
            f"{test}: digests of cohort {cohort} differ and nobody can be named: {reported}; look at "
            "driver and libraries"
        )
    wrong = sorted({node for node, _part in found.minority})
    if len(wrong) > allowed(nodes, limits):
        reported = f"{len(wrong)} of {nodes} nodes ({first_of(wrong, 4)}) differ, more than {limits.share:.0%}"
        return f"{test}: digests of cohort {cohort}: {reported}; look at driver and libraries before any of them"
    return ""


# The findings about one node by one test, and what all nodes are judged by.


@dataclass(frozen=True, slots=True)
class ClassFinding:
    """One sentence about a node, and the class that follows from it.

    `row`: how many of the newest events in a row say so. `sure`: more than half of its repeats were low, each the best
    of several samples. `repeat`: whether another result of the node would add information.
    """

    word: Word
    text: str
    row: int = 0
    sure: bool = False
    repeat: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassContext:
    """What all nodes are judged by. `hard` and `marginal`: why a cohort is to blame, by test and cohort."""

    now_s: float
    rules: FigureRules
    limits: ClassLimits
    cohorts: Mapping[Group, Cohort]
    hard: Mapping[tuple[str, str], str]
    marginal: Mapping[tuple[str, str], str]
    drifts: Mapping[Series, Drift]
    digests: Mapping[tuple[str, str], NodeDigests]
    figures: Mapping[tuple[str, str], Mapping[str, float]]
    parts: Mapping[str, Mapping[str, str]]
    references: References = field(default_factory=dict)

    def needed(self, test: str) -> int:
        """Return how many of the repeats of a test have to be low."""
        return self.limits.needed(test, self.rules)

    def age(self, result: NodeResult) -> str:
        """Return the age of a result as text."""
        hours = max(0.0, self.now_s - result.started_s) / 3600
        return f"{hours / 24:.1f} days" if hours >= 48 else f"{hours:.1f} h"


def newest_in_a_row(low: Sequence[bool]) -> int:
    """Return how many samples at the end of a series (oldest first) are low."""
    return len(list(takewhile(bool, reversed(low))))


# What figures say about a node, compared with its peers, with the figure to reach, and with its own history. Pure.
# Fewer than four nodes are compared as well: the slower one is a suspect, but agreement proves nothing. Parts of one
# host are peers too. A figure that was compared with its own history alone is unchanged, not healthy.


def figure_findings(record: NodeRecord, context: ClassContext) -> list[ClassFinding]:
    """Return the findings from figures: against peers first, then against the figure to reach, then against their
    history."""
    found = [ClassFinding(Word.UNKNOWN, problem) for problem in record.problems]
    within = _within_host(record, context)
    for series in record.series:
        cohort, own = context.cohorts[series.group], context.drifts[series]
        if cohort.verdict.evaluated:
            found += _against_peers(series, cohort, within.get(series.figure), context)
        found += _against_reference(series, context)
        if own.drifting:
            why = f"; {cohort.blame}" if cohort.blame else ""
            found.append(ClassFinding(Word.DRIFTING, f"{series.name} is slower than it was: {own.arithmetic}{why}"))
    found += _not_compared(record, within, context)
    shared = context.rules.shared.get(record.test)
    return _agreeing(found, record, shared.agreeing) if shared else found


def _within_host(record: NodeRecord, context: ClassContext) -> dict[str, PeerVerdict]:
    """Return by figure how the parts of one host compare, where there are enough parts."""
    by_figure: dict[str, dict[str, float]] = {}
    for series in record.series:
        if series.part and series.speeds:
            by_figure.setdefault(series.figure, {})[series.part] = series.speeds[-1]
    limits = context.limits.peers_of(record.test)
    enough = {figure: values for figure, values in by_figure.items() if len(values) >= limits.least}
    return {figure: compare(values, limits) for figure, values in enough.items()}


def _not_compared(record: NodeRecord, within: dict[str, PeerVerdict], context: ClassContext) -> list[ClassFinding]:
    """Return the figures that no comparison confirms.

    Parts of one host that agree count as confirmed where another figure of theirs reaches its target: what slows a
    whole host down (power, clocks, a library) would slow that figure down as well.
    """
    if record.test in context.rules.held and record.known:
        newest = record.known[-1]
        if newest.status is Status.PASSED and newest.rating is Rating.GOOD:
            return []
    anchored = any((record.node, series.test, series.figure) in context.references for series in record.series)
    found = []
    for series in record.series:
        cohort, own = context.cohorts[series.group], context.drifts[series]
        if (record.node, series.test, series.figure) in context.references:
            continue
        if series.figure in within and anchored:
            continue
        if cohort.evaluated and (not cohort.blame or own.evaluated):
            continue
        peers = cohort.blame or f"peers: {cohort.verdict.arithmetic}"
        same = "; unchanged is not known to be good: accept a run as the baseline" if own.evaluated else ""
        text = f"{series.name} was compared with nobody ({peers}; history: {own.arithmetic}{same})"
        found.append(ClassFinding(Word.UNKNOWN, text))
    return found


def _agreeing(found: list[ClassFinding], record: NodeRecord, least: int) -> list[ClassFinding]:
    """Return findings of a shared resource. A node is not bad by single samples of one figure where it has more
    figures.

    One sample a day reflects its hour, and of many nodes and figures some are low by chance for weeks.
    """
    bad = [finding for finding in found if finding.word is Word.BAD]
    if len(bad) >= min(least, len(record.series)) or any(finding.sure for finding in bad):
        return found
    text = f"; {len(bad)} of {len(record.series)} figures by single samples, which names nobody: {least} figures would"
    return [
        replace(finding, word=Word.SUSPECT, text=f"{finding.text}{text}") if finding in bad else finding
        for finding in found
    ]


def _against_peers(
    series: Series, cohort: Cohort, within: PeerVerdict | None, context: ClassContext
) -> list[ClassFinding]:
    verdict, repeats = cohort.verdict, context.limits.repeats
    low = [speed < verdict.limit for speed in series.speeds]
    observed = repeat_state(low, repeats, needed=context.needed(series.test))
    if observed.stand is Stand.CLEAR:
        return []
    newest, ratio = series.shown[-1], series.speeds[-1] / verdict.median if verdict.median else 0.0
    reported = f"{series.name} is {newest:.4g} {series.unit}, {ratio:.1%} of the speed of its peers ({observed.text})"
    if cohort.blame:
        return [ClassFinding(Word.SUSPECT, f"{reported}; {cohort.blame}")]
    reported += f"; line: {verdict.arithmetic}"
    if observed.stand is not Stand.CONFIRMED:
        return [ClassFinding(Word.SUSPECT, reported)]
    if not cohort.evaluated and not _is_low_within(series, within, context):
        few = f"{cohort.nodes} nodes do not tell which of them is as it should be"
        return [
            ClassFinding(Word.SUSPECT, f"{reported}; {few}: accept a run as the baseline, or test a known good node")
        ]
    named = median(series.speeds[-repeats:]) < cohort.named_below
    less = "" if named else "not as slow as it takes to be named: "
    reported = f"{reported}; {less}{cohort.named_by}"
    sure = 2 * sum(map(and_, low[-repeats:], series.of_many[-repeats:])) > repeats
    return [ClassFinding(Word.BAD if named else Word.SUSPECT, reported, newest_in_a_row(low), sure)]


def _is_low_within(series: Series, within: PeerVerdict | None, context: ClassContext) -> bool:
    """Whether a part is slower than the other parts of its host, repeatedly."""
    if within is None or within.cohort_to_blame:
        return False
    low = [speed < within.limit for speed in series.speeds]
    return repeat_state(low, context.limits.repeats, needed=context.needed(series.test)).stand is Stand.CONFIRMED


def _against_reference(series: Series, context: ClassContext) -> list[ClassFinding]:
    reference = context.references.get((series.node, series.test, series.figure))
    if reference is None or not series.speeds:
        return []
    stands = partial(repeat_state, repeats=context.limits.repeats, needed=context.needed(series.test))
    low = [speed < reference.marginal * reference.speed for speed in series.speeds]
    far = [speed < reference.bad * reference.speed for speed in series.speeds]
    observed, worse = stands(low), stands(far)
    if observed.stand is Stand.CLEAR:
        return []
    reported = f"{series.name} is {series.shown[-1]:.4g} {series.unit}, {series.speeds[-1] / reference.speed:.1%} of "
    reported += reference.text
    if worse.stand is Stand.CONFIRMED:
        return [ClassFinding(Word.BAD, f"{reported} ({worse.text})", newest_in_a_row(far))]
    return [ClassFinding(Word.SUSPECT, f"{reported} ({observed.text})", repeat=observed.stand is not Stand.CONFIRMED)]


_ORDER = tuple(Word)
_MOST_REASONS = 12
# What so many nodes of a cohort show at once, and what to do about it.
_FAIL_HARD = "fail hard at once", "look at what they share (driver, image) before any of them"
_LIE_BETWEEN = "lie between good and bad at once", "look at what they share, and at what they are held against"


@dataclass(frozen=True, slots=True, kw_only=True)
class Classified:
    """The classes of a site.

    It has a class for every node, sentences about whole cohorts, tests to repeat as (node, test), and the records
    behind them by node and test. For a bad node it has the number of newest results in a row that are bad; 0 means that
    the newest is good but the node is not cleared yet.
    """

    classes: tuple[NodeClass, ...]
    cohorts: tuple[str, ...] = ()
    repeats: tuple[tuple[str, str], ...] = ()
    in_a_row: Mapping[str, int] = field(default_factory=dict)
    records: Mapping[tuple[str, str], NodeRecord] = field(default_factory=dict)

    def nodes(self, word: Word) -> tuple[str, ...]:
        """Return the nodes of a class."""
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
        results: the results of the whole window, in any order.
        now_s: the time now, seconds since the epoch.
        rules: which way figures are better, which failures are hard.
        limits: the limits of all comparisons.
        racks: rack by node, where it is known.
        references: what figures have to reach, by node, test and figure.
        firsts: what series began with, where that is recorded (Series.first_key).
    """
    limits, site = limits or ClassLimits(), set(nodes)
    wanted = [entry for entry in results if entry.node in site and entry.test in tests]
    found = records(wanted, now_s, rules, limits)
    observed = drifts(found.values(), limits, firsts)
    compared = with_drift(cohorts(found, limits), observed, limits)
    hard = blamed(found, lambda record: _is_hard(record.known[-1], rules), _FAIL_HARD, limits)
    marginal = blamed(found, lambda record: record.known[-1].rating is Rating.MARGINAL, _LIE_BETWEEN, limits)
    computed = digests(found, limits.peers)
    context = ClassContext(
        now_s=now_s, rules=rules, limits=limits, cohorts=compared, hard=hard, marginal=marginal, drifts=observed,
        digests=computed, figures=_usual_figures(found), parts=parts_now(wanted, now_s), references=references or {},
    )  # fmt: skip
    spared = {key: record.not_owed for key, record in found.items() if record.not_owed}
    owed = ((node, test) for node in nodes for test in tests if (node, test) not in spared)
    by_key, crowds = _without_crowds({key: findings_of(found.get(key), key[1], context) for key in owed}, found, limits)
    repeats = [key for key, of_test in by_key.items() if any(map(_wants_repeat, of_test)) and _may(found[key], context)]
    classes, in_a_row = [], dict[str, int]()
    for node in nodes:
        findings = [finding for test in tests for finding in by_key.get((node, test), ())]
        findings.sort(key=lambda finding: _ORDER.index(finding.word))
        word = findings[0].word if findings else Word.UNKNOWN
        if word is Word.BAD:
            in_a_row[node] = max(finding.row for finding in findings if finding.word is word)
        texts = tuple(finding.text for finding in findings) or ("no test says anything of it",)
        texts += tuple(f"{test}: skipped: {spared[node, test]}" for test in tests if (node, test) in spared)
        classes.append(NodeClass(cycle_id=cycle_id, node=node, word=word.value, reasons=texts[:_MOST_REASONS]))
    lines = (
        *(of_cohort.blame for of_cohort in computed.values() if of_cohort.blame),
        *crowds,
        *blame_lines(compared.values(), hard, marginal),
        *fleet_lines(observed, limits),
        *low_words(compared.values(), racks or {}, nodes),
    )
    return Classified(classes=tuple(classes), cohorts=lines, repeats=tuple(repeats), in_a_row=in_a_row, records=found)


def _wants_repeat(finding: ClassFinding) -> bool:
    return finding.word in (Word.BAD, Word.SUSPECT) and finding.repeat


def _may(record: NodeRecord, context: ClassContext) -> bool:
    """Whether one more result would add information: another event, or a better sample of a shared resource."""
    return record.test in context.rules.shared or may_repeat(record.known, record.event_h, context.now_s)


def _without_crowds(
    reported: Mapping[tuple[str, str], list[ClassFinding]],
    found: Mapping[tuple[str, str], NodeRecord],
    limits: ClassLimits,
) -> tuple[dict[tuple[str, str], list[ClassFinding]], list[str]]:
    """Return the findings and the sentences about crowded cohorts.

    Where too many nodes of a cohort would be bad, none of them is. What hit a whole cohort ends at once for all of its
    nodes, and each node would need several good results to be cleared.
    """
    members: dict[tuple[str, str], list[tuple[str, str]]] = {}
    for key, record in found.items():
        if record.known:
            members.setdefault((record.test, record.known[-1].cohort), []).append(key)
    made, messages = dict(reported), list[str]()
    for (test, cohort), keys in members.items():
        bad = [key for key in keys if any(finding.word is Word.BAD for finding in reported[key])]
        if len(bad) <= allowed(len(keys), limits.peers):
            continue
        text = (
            f"{len(bad)} of {len(keys)} nodes of cohort {cohort or 'without a name'} would be bad at once, more than "
        )
        text += f"{limits.peers.share:.0%}: look at what they share"
        messages.append(f"{test}: {text}")
        for key in bad:
            made[key] = [
                ClassFinding(Word.SUSPECT, f"{finding.text}; {text}") if finding.word is Word.BAD else finding
                for finding in reported[key]
            ]
    return made, messages


def findings_of(record: NodeRecord | None, test: str, context: ClassContext) -> list[ClassFinding]:
    """Return the findings of one test about one node; at least one."""
    days = context.limits.history_days
    if record is None or record.newest is None:
        return [ClassFinding(Word.UNKNOWN, f"{test}: no result within {days:g} days")]
    found = [*_failures(record, context), *_digests(record, context)]
    found += [*figure_findings(record, context), *_unknowns(record, context)]
    swapped = other_part(record.known[-1].parts, context.parts.get(record.node, {})) if record.known else ""
    if swapped:
        before = f"; before that {found[0].text}" if found else ""
        return [ClassFinding(Word.UNKNOWN, f"{test}: {swapped} since its last result{before}")]
    if found:
        return found
    newest = record.known[-1]
    reported = f"{test}: passed {context.age(newest)} ago"
    if record.series:
        reported += f", its {len(record.series)} compared figures not below those of its cohort or its own history"
    return [ClassFinding(Word.HEALTHY, reported)]


def _failures(record: NodeRecord, context: ClassContext) -> list[ClassFinding]:
    """Return the findings from results that failed by themselves, or are marginal.

    Failures are confirmed by repeats. A marginal result waits for a person, however often it occurs.
    """
    if not record.known:
        return []
    observed = events(record.known, record.event_h)
    stands = partial(repeat_state, repeats=context.limits.repeats, needed=context.needed(record.test))
    hard = [event.any(partial(_is_hard, rules=context.rules)) for event in observed]
    low = [event.all(_is_low) or is_hard for event, is_hard in zip(observed, hard, strict=True)]
    failed = [event.all(_is_failed) or is_hard for event, is_hard in zip(observed, hard, strict=True)]
    between, found = stands(low), stands(failed, hard=hard)
    newest_is_low = _is_low(record.known[-1])
    if between.stand is Stand.CLEAR and found.stand is Stand.CLEAR and not newest_is_low:
        return []
    last = next(result for result in reversed(record.known) if _is_low(result))
    reported = (
        f"{record.test}: {last.cause or last.rating.value} {context.age(last)} ago ({last.summary or 'no summary'})"
    )
    key = (record.test, record.known[-1].cohort)
    if found.stand is Stand.CONFIRMED:
        kind, blame = f"a hard fact{_back(found)}" if any(hard) else found.text, context.hard.get(key, "")
        row = newest_in_a_row(failed)
        return [
            ClassFinding(Word.SUSPECT, f"{reported}; {blame}")
            if blame
            else ClassFinding(Word.BAD, f"{reported}; {kind}", row)
        ]
    if found.stand is Stand.CLEAR:
        blame = "" if _is_failed(record.known[-1]) else context.marginal.get(key, "")
        if blame and _is_like_its_equals(record, context):
            return []
        if newest_is_low and not low[-1]:
            # The better one is the event. It does not change that the node was low when it was tested last.
            better = f"a better result within {record.event_h:g} hours of it is the same event, and is what counts"
            return [
                ClassFinding(Word.SUSPECT, f"{reported}; {better}; its repeat decides{f'; {blame}' if blame else ''}")
            ]
        text = f"{reported}; {between.text}; between good and bad a person decides{f'; {blame}' if blame else ''}"
        return [ClassFinding(Word.SUSPECT, text, repeat=between.stand is not Stand.CONFIRMED and not blame)]
    return [ClassFinding(Word.SUSPECT, f"{reported}; {found.text}")]


def _is_like_its_equals(record: NodeRecord, context: ClassContext) -> bool:
    """Whether all figures were compared with those of enough peers.

    Where many nodes are marginal in the same way, the cause is what they share or what they are compared with, and the
    cohort is reported. A node that is slower than its peers is reported by its figures.
    """
    compared = [context.cohorts[series.group] for series in record.series]
    return bool(compared) and all(cohort.evaluated and not cohort.blame for cohort in compared)


def _digests(record: NodeRecord, context: ClassContext) -> list[ClassFinding]:
    """Return the findings from comparing result digests with those of peers."""
    if not record.known or not record.known[-1].digests:
        return []
    newest, test = record.known[-1], record.test
    if not newest.cohort:
        return [ClassFinding(Word.UNKNOWN, f"{test}: digests of no stated hardware and software, compared with nobody")]
    of_cohort = context.digests[test, newest.cohort]
    if of_cohort.found.split or of_cohort.found.total < LEAST:
        few = f"{test}: {of_cohort.found.total} digests of cohort {newest.cohort}, {LEAST} are needed to compare"
        return [ClassFinding(Word.UNKNOWN, of_cohort.blame or few)]
    own = events([result for result in record.known if result.cohort == newest.cohort], record.event_h)
    wrong = [event.any(lambda result: bool(of_cohort.wrong(result))) for event in own]
    observed = repeat_state(wrong, context.limits.repeats, hard=wrong)
    if observed.stand is Stand.CLEAR:
        return []
    last = next(result for event in reversed(own) for result in reversed(event.results) if of_cohort.wrong(result))
    reported = f"{test}: {', '.join(of_cohort.wrong(last))} computed other bits {context.age(last)} ago than"
    reported += f" {of_cohort.found.agreeing} of {of_cohort.found.total} GPUs of cohort {newest.cohort}"
    if of_cohort.blame:
        return [ClassFinding(Word.SUSPECT, f"{reported}; {of_cohort.blame}")]
    return [ClassFinding(Word.BAD, f"{reported}; a hard fact{_back(observed)}", newest_in_a_row(wrong))]


def _unknowns(record: NodeRecord, context: ClassContext) -> list[ClassFinding]:
    """Return why the data about the node is not enough to call it healthy."""
    newest, test = record.newest, record.test
    if newest is None or not record.known:
        reported = f"{newest.status.value}: {newest.cause} ({newest.summary})" if newest else ""
        return [ClassFinding(Word.UNKNOWN, f"{test}: never passed or failed; {reported}")]
    found = []
    if newest is not record.known[-1]:
        # Users are not the only reason why a test is put off: it may have found no partner, or its cycle was ended.
        what = "still to do" if newest.status is Status.PENDING else "tried and not known"
        why = f": {newest.cause} ({newest.summary})" if newest.cause else ""
        found.append(ClassFinding(Word.UNKNOWN, f"{test}: {what} {context.age(newest)} ago{why}"))
    last = record.known[-1]
    days = context.limits.fresh_days(test)
    if context.now_s - last.started_s > days * DAY_S:
        reported = f"{test}: last result {context.age(last)} ago, older than {days:g} days"
        found.append(ClassFinding(Word.UNKNOWN, reported))
    missing = sorted(context.figures[test, last.cohort].keys() - {figure.name for figure in last.figures})
    if missing and last.status is Status.PASSED:
        reported = f"{test}: its result lacks {', '.join(missing)}, which most of its cohort have"
        found.append(ClassFinding(Word.UNKNOWN, reported))
    return found


def _usual_figures(found: Mapping[tuple[str, str], NodeRecord]) -> dict[tuple[str, str], dict[str, float]]:
    """Return by test and cohort the figures that most of its nodes have, with their share of the nodes."""
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


def _back(observed: RepeatState) -> str:
    return f"; {observed.seen} of {observed.repeats} good ones in a row since" if observed.seen else ""
