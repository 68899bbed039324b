# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""What figures say of a node: compared with its equals, with what it has to reach, and with themselves. Pure.

Fewer than four nodes are compared all the same: the slower one is a suspect, and that they agree proves nothing. Parts
of one host are each other's equals, too. What nothing but its own history was compared with is unchanged, not healthy.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from operator import and_
from statistics import median

from ..outcome.model import Rating, Status
from ..verdict.peers import PeerVerdict, compare
from ..verdict.repeats import Stand, standing
from .class_rules import Word
from .cohorts import Cohort
from .finding import Context, Finding, newest_in_a_row
from .series import Record, Series


def figure_findings(record: Record, context: Context) -> list[Finding]:
    """Return what the comparison of figures says, with equals first, then with what they have to reach, then with
    themselves."""
    found = [Finding(Word.UNKNOWN, problem) for problem in record.problems]
    within = _within_host(record, context)
    for series in record.series:
        cohort, own = context.cohorts[series.group], context.drifts[series]
        if cohort.verdict.evaluated:
            found += _against_peers(series, cohort, within.get(series.figure), context)
        found += _against_reference(series, context)
        if own.drifting:
            why = f"; {cohort.blame}" if cohort.blame else ""
            found.append(Finding(Word.DRIFTING, f"{series.name} is slower than it was: {own.arithmetic}{why}"))
    found += _not_compared(record, within, context)
    shared = context.rules.shared.get(record.test)
    return _agreeing(found, record, shared.agreeing) if shared else found


def _within_host(record: Record, context: Context) -> dict[str, PeerVerdict]:
    """Return by figure how the parts of one host compare, where they are enough to compare."""
    by_figure: dict[str, dict[str, float]] = {}
    for series in record.series:
        if series.part and series.speeds:
            by_figure.setdefault(series.figure, {})[series.part] = series.speeds[-1]
    limits = context.limits.peers_of(record.test)
    enough = {figure: values for figure, values in by_figure.items() if len(values) >= limits.least}
    return {figure: compare(values, limits) for figure, values in enough.items()}


def _not_compared(record: Record, within: dict[str, PeerVerdict], context: Context) -> list[Finding]:
    """Return the figures of which nothing says that they are as they should be.

    Parts of one host that agree are as they should be where another figure of theirs reaches what it has to: what slows
    a whole host down (power, clocks, a library) slows that one down, too.
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
        found.append(Finding(Word.UNKNOWN, text))
    return found


def _agreeing(found: list[Finding], record: Record, least: int) -> list[Finding]:
    """Return findings of what all nodes share: nobody is bad by single samples of one figure, where there are more.

    One sample of a day is that of its hour, and of many nodes and figures some are low by chance for weeks.
    """
    bad = [finding for finding in found if finding.word is Word.BAD]
    if len(bad) >= min(least, len(record.series)) or any(finding.sure for finding in bad):
        return found
    text = f"; {len(bad)} of {len(record.series)} figures by single samples, which names nobody: {least} figures would"
    return [
        replace(finding, word=Word.SUSPECT, text=f"{finding.text}{text}") if finding in bad else finding
        for finding in found
    ]


def _against_peers(series: Series, cohort: Cohort, within: PeerVerdict | None, context: Context) -> list[Finding]:
    verdict, repeats = cohort.verdict, context.limits.repeats
    low = [speed < verdict.limit for speed in series.speeds]
    seen = standing(low, repeats, needed=context.needed(series.test))
    if seen.stand is Stand.CLEAR:
        return []
    newest, ratio = series.shown[-1], series.speeds[-1] / verdict.median if verdict.median else 0.0
    said = f"{series.name} is {newest:.4g} {series.unit}, {ratio:.1%} of the speed of its peers ({seen.text})"
    if cohort.blame:
        return [Finding(Word.SUSPECT, f"{said}; {cohort.blame}")]
    said += f"; line: {verdict.arithmetic}"
    if seen.stand is not Stand.CONFIRMED:
        return [Finding(Word.SUSPECT, said)]
    if not cohort.evaluated and not _is_low_within(series, within, context):
        few = f"{cohort.nodes} nodes do not tell which of them is as it should be"
        return [Finding(Word.SUSPECT, f"{said}; {few}: accept a run as the baseline, or test a known good node")]
    named = median(series.speeds[-repeats:]) < cohort.named_below
    less = "" if named else "not as slow as it takes to be named: "
    said = f"{said}; {less}{cohort.named_by}"
    sure = 2 * sum(map(and_, low[-repeats:], series.of_many[-repeats:])) > repeats
    return [Finding(Word.BAD if named else Word.SUSPECT, said, newest_in_a_row(low), sure)]


def _is_low_within(series: Series, within: PeerVerdict | None, context: Context) -> bool:
    """Whether a part is slower than the others of its own host, again and again."""
    if within is None or within.cohort_to_blame:
        return False
    low = [speed < within.limit for speed in series.speeds]
    return standing(low, context.limits.repeats, needed=context.needed(series.test)).stand is Stand.CONFIRMED


def _against_reference(series: Series, context: Context) -> list[Finding]:
    reference = context.references.get((series.node, series.test, series.figure))
    if reference is None or not series.speeds:
        return []
    stands = partial(standing, repeats=context.limits.repeats, needed=context.needed(series.test))
    low = [speed < reference.marginal * reference.speed for speed in series.speeds]
    far = [speed < reference.bad * reference.speed for speed in series.speeds]
    seen, worse = stands(low), stands(far)
    if seen.stand is Stand.CLEAR:
        return []
    said = f"{series.name} is {series.shown[-1]:.4g} {series.unit}, {series.speeds[-1] / reference.speed:.1%} of "
    said += reference.text
    if worse.stand is Stand.CONFIRMED:
        return [Finding(Word.BAD, f"{said} ({worse.text})", newest_in_a_row(far))]
    return [Finding(Word.SUSPECT, f"{said} ({seen.text})", repeat=seen.stand is not Stand.CONFIRMED)]
