# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Which runs come next, from what the runs so far say: the order of the gate. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial

from ...hardware.sku import Sku
from .analysis import TURNS, SkuCohort, cohorts_of
from .bandwidth import BandwidthResult, PeerGroup
from .model import Phase, Results, Wanted

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


def _again(cohort: SkuCohort, phase: Phase, group: PeerGroup) -> Iterator[Wanted]:
    members = [s for s in group.members if not (phase == "pair" and any(name in cohort.broken for name in s.hosts))]
    return _repeats(phase, members, cohort.results.plan.settings.run.repeats)


def _rails(cohort: SkuCohort) -> Iterator[Wanted]:
    for pair in cohort.rail_pairs:
        for rail in range(len(cohort.results.plan.host(pair[0]).hcas)):
            yield Wanted(phase="rail", hosts=pair, rail=rail)


def _whole(cohort: SkuCohort) -> Iterator[Wanted]:
    if cohort.sound and len(cohort.hosts) >= _LEAST_FOR_ALL:
        yield Wanted(phase="all", hosts=tuple(host.name for host in cohort.hosts))


def _whole_again(cohort: SkuCohort) -> Iterator[Wanted]:
    if cohort.sound and cohort.whole is not None and len(cohort.hosts) >= _LEAST_FOR_ALL:
        yield from _repeats("all", [cohort.whole], cohort.results.plan.settings.run.repeats)


def _turn(cohort: SkuCohort, turn: int) -> Iterator[Wanted]:
    yield from _firsts("pair", cohort.turned_pairs(turn))


def _turn_again(cohort: SkuCohort, turn: int) -> Iterator[Wanted]:
    yield from _again(cohort, "pair", cohort.turned(turn))


# A stage is asked only when those before it want nothing more.
_STAGES: tuple[Callable[[SkuCohort], Iterable[Wanted]], ...] = (
    lambda cohort: _firsts("node", [(name,) for name in cohort.open_hosts]),
    lambda cohort: _again(cohort, "node", cohort.alone),
    lambda cohort: _firsts("pair", cohort.first_pairs),
    lambda cohort: _again(cohort, "pair", cohort.first),
    *(stage for turn in TURNS for stage in (partial(_turn, turn=turn), partial(_turn_again, turn=turn))),
    lambda cohort: _firsts("pair", cohort.second_pairs),
    lambda cohort: _again(cohort, "pair", cohort.second),
    lambda cohort: _firsts("pair", cohort.third_pairs),
    lambda cohort: _again(cohort, "pair", cohort.third),
    _rails,
    _whole,
    _whole_again,
)
