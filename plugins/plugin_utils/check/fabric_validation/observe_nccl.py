# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Observe NCCL: run nccl-tests on each host, on pairs and on all, one step after the other."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import count
from typing import cast

from ...clients.kube.cluster import Cluster
from ...clients.kube.permission import Permission
from ...hardware.sku import Sku
from ...outcome.errors import InputError
from ...workload.job import JobResult, JobSpec
from ...workload.node_use import NodeUse
from ..benchmark.network import gang_permissions
from ..benchmark.run_loop import Benchmark
from ..benchmark.saved_observer import benchmark_observer
from ..spec import ObserveContext
from .analysis import SkuCohort, cohorts_of
from .bandwidth import BandwidthResult, PeerGroup
from .model import Phase, Plan, Record, Results, Run, SavedObservation, Wanted
from .nccl_job import NcclJobs, plan_nccl, plan_on_hosts
from .pair_round import PairRound
from .parse_run import parse_run
from .settings import ALL_NODES, GATE, AllNodesSettings, FabricValidationSettings

# Which runs come next, given the results so far: the order of the gate. Pure.

_LEAST_FOR_ALL = 3


def next_runs(results: Results, hardware: Mapping[str, Sku]) -> tuple[Wanted, ...]:
    """Return the runs of the next step, all of which may be made at once. Empty: everything is known."""
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


# A stage is evaluated only if the stages before it need no more runs.
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


# Number of hosts for which the setting total_s is meant.
_HOSTS_OF_TOTAL = 1000
# Hosts of a run, for phases with a fixed number.
_HOSTS = {"node": 1, "loop": 1, "pair": 2, "adapters": 2, "rail": 2}
_PHASES = {
    "node": "hosts by themselves",
    "pair": "pairs",
    "adapters": "pairs over adapters alone",
    "rail": "single adapters",
    "loop": "single adapters of one host",
    "all": "all hosts",
}


def _require_hosts_of_all(saved: SavedObservation) -> None:
    planned = frozenset(host.name for host in saved.plan.hosts)
    for record in saved.records:
        _require_hosts(record, planned)


def _require_hosts(record: Record, planned: frozenset[str]) -> None:
    """Refuse a run whose hosts are not in the plan, are not as many as its phase has, or do not match its pods.

    Raises:
        InputError: one of these is true.
    """
    wanted = _HOSTS.get(record.phase, len(record.hosts))
    strange = {*record.hosts, *record.hostnames.values()} - {name for name in record.hosts if name in planned}
    if strange or len(set(record.hosts)) != wanted or not record.hosts:
        found = f"run {record.name} ({record.phase}) has the hosts {', '.join(record.hosts) or 'none'}"
        raise InputError("observation nccl", f"{found}, which its plan and its pods do not say.", "run the gate again")


class NcclBenchmark(Benchmark[Plan, Wanted, Run]):
    """nccl-tests over hosts by themselves, pairs, single adapters and all hosts."""

    gate = GATE
    name = "nccl"

    def __init__(self, context: ObserveContext, settings: FabricValidationSettings) -> None:
        # A limited number of runs is made at a time, so a larger fleet needs proportionally more time.
        total_s = settings.run.total_s * max(1.0, len(context.site.in_scope) / _HOSTS_OF_TOTAL)
        super().__init__(context, total_s=total_s, cleanup_s=settings.run.cleanup_s)
        self.settings = settings
        self._serial = count(1)

    def make_plan(self, cluster: Cluster) -> Plan:
        """Return the hosts with their free GPUs, and adapters for their pods."""
        return self._planned(plan_nccl(cluster, self.context, self.settings, connected=self._connected))

    def plan_on_hosts(self, uses: Mapping[str, NodeUse]) -> Plan:
        """Return the hosts with their adapters. Those whose nodes are not free are closed."""
        return self._planned(plan_on_hosts(self.context, self.settings, uses, connected=self._connected))

    @property
    def _connected(self) -> bool:
        """Whether runs need the network: not with a single host."""
        return len(self.context.site.in_scope) > 1

    def _planned(self, plan: Plan) -> Plan:
        self.jobs = NcclJobs(plan, self.context.hardware, self.context.settings_of(ALL_NODES, AllNodesSettings).sharp)
        return plan

    def permissions(self) -> tuple[Permission, ...]:
        return gang_permissions(self.settings.run.kind, self.plan.open_hosts, self.plan.gang)

    def next_runs(self) -> tuple[Wanted, ...]:
        return next_runs(Results(plan=self.plan, runs=tuple(self.runs)), self.context.hardware)

    def parallel(self, wanted: Sequence[Wanted]) -> int:
        return self.settings.run.parallel

    def job(self, want: Wanted) -> JobSpec:
        """Return one all_reduce_perf over the hosts of a run."""
        return self.jobs.job(f"{want.phase}-{next(self._serial)}", want)

    def read(self, want: Wanted, spec: JobSpec, result: JobResult) -> Run:
        """Save the log of the launcher, which has the output of every rank, and return the run."""
        kept = self.evidence.keep(f"{spec.name}.log", result.log)
        return parse_run(self.jobs.record(want, spec, result, kept.path), kept.text, self.settings)

    def announce(self, wanted: Sequence[Wanted]) -> str:
        counts = Counter(want.phase for want in wanted)
        again = " again" if all(want.attempt > 1 for want in wanted) else ""
        return "nccl-tests: " + ", ".join(f"{count} x {_PHASES[phase]}" for phase, count in counts.items()) + again


OBSERVER = benchmark_observer(
    "nccl",
    Results,
    saved=SavedObservation,
    make=lambda context: NcclBenchmark(context, context.settings_of(GATE, FabricValidationSettings)),
    settings=(GATE, FabricValidationSettings),
    run_of=parse_run,
    require=_require_hosts_of_all,
)
