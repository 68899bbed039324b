# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Which runs come next, from what the runs so far say. Pure: the order of the gate stands here and nowhere else."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping

from ...hardware.sku import Sku
from .bandwidth import Cohort, Standing
from .conclusion import Conclusion, Kind
from .model import Phase, Sight, Wanted

_LEAST_FOR_ALL = 3


def next_runs(sight: Sight, hardware: Mapping[str, Sku]) -> tuple[Wanted, ...]:
    """Return the runs of the next step, all of which may be made at once; nothing when everything is known."""
    kinds = tuple(Conclusion.of(sight, hardware).kinds.values())
    for stage in _STAGES:
        missing = sight.missing(want for kind in kinds for want in stage(kind))
        if missing:
            return missing
    return ()


def _firsts(phase: Phase, groups: Iterable[tuple[str, ...]]) -> Iterator[Wanted]:
    for group in groups:
        yield Wanted(phase=phase, hosts=tuple(group))


def _repeats(phase: Phase, standings: Iterable[Standing], repeats: int) -> Iterator[Wanted]:
    for standing in standings:
        last = standing.attempts
        if standing.verdict == "open":
            for attempt in range(last + 1, last + 1 + repeats - len(standing.runs)):
                yield Wanted(phase=phase, hosts=standing.hosts, attempt=attempt)
        elif standing.problem is not None and standing.problem.passing and last == 1:
            yield Wanted(phase=phase, hosts=standing.hosts, attempt=2)


def _again(kind: Kind, phase: Phase, cohort: Cohort) -> Iterator[Wanted]:
    standings = [s for s in cohort.standings if not (phase == "pair" and any(name in kind.broken for name in s.hosts))]
    return _repeats(phase, standings, kind.sight.plan.rules.run.repeats)


def _rails(kind: Kind) -> Iterator[Wanted]:
    for pair in kind.rail_pairs:
        for rail in range(len(kind.sight.plan.host(pair[0]).hcas)):
            yield Wanted(phase="rail", hosts=pair, rail=rail)


def _whole(kind: Kind) -> Iterator[Wanted]:
    if kind.sound and len(kind.hosts) >= _LEAST_FOR_ALL:
        yield Wanted(phase="all", hosts=tuple(host.name for host in kind.hosts))


def _whole_again(kind: Kind) -> Iterator[Wanted]:
    if kind.sound and kind.whole is not None and len(kind.hosts) >= _LEAST_FOR_ALL:
        yield from _repeats("all", [kind.whole], kind.sight.plan.rules.run.repeats)


# Each is asked only when those before it are done.
_STAGES: tuple[Callable[[Kind], Iterable[Wanted]], ...] = (
    lambda kind: _firsts("node", [(name,) for name in kind.open_hosts]),
    lambda kind: _again(kind, "node", kind.alone),
    lambda kind: _firsts("pair", kind.first_pairs),
    lambda kind: _again(kind, "pair", kind.first),
    lambda kind: _firsts("pair", kind.second_pairs),
    lambda kind: _again(kind, "pair", kind.second),
    lambda kind: _firsts("pair", kind.third_pairs),
    lambda kind: _again(kind, "pair", kind.third),
    _rails,
    _whole,
    _whole_again,
)
