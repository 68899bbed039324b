# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Which runs come next, from what the runs so far say: the order of the gate. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import cast

from ...hardware.sku import Sku
from .analysis import SkuCohort, cohorts_of
from .bandwidth import BandwidthResult, PeerGroup
from .model import Phase, Results, Wanted
from .pair_round import PairRound

_LEAST_FOR_ALL = 3


def next_runs(results: Results, hardware: Mapping[str, Sku]) -> tuple[Wanted, ...]:
    """Return the runs of the next step, all of which may be made at once; nothing when everything is known."""
    cohorts = tuple(cohorts_of(results, hardware).values())
    for stage in _STAGES:
        missing = results.missing(want for cohort in cohorts for want in stage(cohort))
        if missing:
            return missing
    return ()


def _firsts(phase: Phase, groups: Iterable[tuple[str, ...]]) -> Iterator[Wanted]:
    for group in groups:
        yield Wanted(phase=phase, hosts=tuple(group))


def _repeats(phase: Phase, members: Iterable[BandwidthResult], repeats: int) -> Iterator[Wanted]:
    for result in members:
        last = result.attempts
        if result.verdict == "open":
            for attempt in range(last + 1, last + 1 + repeats - len(result.runs)):
                yield Wanted(phase=phase, hosts=result.hosts, attempt=attempt)
        elif result.problem is not None and result.problem.transient and last == 1:
            yield Wanted(phase=phase, hosts=result.hosts, attempt=2)


def _pairs(cohort: SkuCohort, pairs: Iterable[tuple[str, ...]]) -> Iterator[Wanted]:
    wanted = tuple(pairs)
    yield from _firsts("pair", wanted)
    if cohort.adapter_runs:
        yield from _firsts("adapters", wanted)


def _pairs_again(cohort: SkuCohort, rounds: Iterable[PairRound]) -> Iterator[Wanted]:
    repeats = cohort.results.plan.settings.run.repeats
    for found in rounds:
        for phase, leg in (("pair", found.full), ("adapters", found.adapters)):
            members = [s for s in leg.members if not any(name in cohort.broken for name in s.hosts)]
            yield from _repeats(cast(Phase, phase), members, repeats)


def _again(cohort: SkuCohort, group: PeerGroup) -> Iterator[Wanted]:
    return _repeats("node", group.members, cohort.results.plan.settings.run.repeats)


def _rails(cohort: SkuCohort) -> Iterator[Wanted]:
    for pair in cohort.rail_pairs:
        for rail in range(len(cohort.results.plan.host(pair[0]).hcas)):
            yield Wanted(phase="rail", hosts=pair, rail=rail)


def _loops(cohort: SkuCohort) -> Iterator[Wanted]:
    for name in dict.fromkeys(name for pair in cohort.loop_pairs for name in pair):
        for rail in range(len(cohort.results.plan.host(name).hcas)):
            yield Wanted(phase="loop", hosts=(name,), rail=rail)


def _whole(cohort: SkuCohort) -> Iterator[Wanted]:
    if cohort.sound and len(cohort.hosts) >= _LEAST_FOR_ALL:
        yield Wanted(phase="all", hosts=tuple(host.name for host in cohort.hosts))


def _whole_again(cohort: SkuCohort) -> Iterator[Wanted]:
    if cohort.sound and cohort.whole is not None and len(cohort.hosts) >= _LEAST_FOR_ALL:
        yield from _repeats("all", [cohort.whole], cohort.results.plan.settings.run.repeats)


# A stage is asked only when those before it want nothing more.
_STAGES: tuple[Callable[[SkuCohort], Iterable[Wanted]], ...] = (
    lambda cohort: _firsts("node", [(name,) for name in cohort.open_hosts]),
    lambda cohort: _again(cohort, cohort.alone),
    lambda cohort: _pairs(cohort, cohort.first_pairs),
    lambda cohort: _pairs_again(cohort, [cohort.first]),
    lambda cohort: _pairs(cohort, cohort.next_pairing),
    lambda cohort: _pairs_again(cohort, cohort.paired_anew),
    lambda cohort: _pairs(cohort, cohort.second_pairs),
    lambda cohort: _pairs_again(cohort, [cohort.second]),
    lambda cohort: _pairs(cohort, cohort.third_pairs),
    lambda cohort: _pairs_again(cohort, [cohort.third]),
    _rails,
    _loops,
    _whole,
    _whole_again,
)
