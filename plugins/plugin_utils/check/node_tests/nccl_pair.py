# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Test: the GPUs of two nodes reduce over the network between them.

The run is that of gate fabric_validation over two hosts, in the phase in which adapters alone carry data (phase
`adapters`; phase `pair` for hosts with one GPU). With NVLink, a tree between two hosts sends so little over the network
that NVLink limits it, and a slow path would not show.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace

from ...clients.kube.permission import Permission
from ...outcome.model import Rating, Status
from ...store.records import NodeResult
from ...workload.job import JobResult, JobSpec
from ..benchmark.network import FILTERED_FABRICS, gang_permissions
from ..benchmark.plan import BenchmarkHost
from ..fabric_validation.bandwidth import rate_run, same_leaves
from ..fabric_validation.model import Plan, PlannedHost, Run, Wanted
from ..fabric_validation.parse_run import parse_run
from ..fabric_validation.transport import Transport, transport_of
from ..kit.settings import with_default
from .nccl_loop import NcclLoop, RunOfOne, rate_text
from .pair_spec import Hosts, PairRun, PairTest, PairWord
from .reading import result_of, without_result
from .settings import NodeTestSettings

# Endings of a run that either host may have caused. Any other run without a figure proves nothing about hosts.
_ONE_OF_BOTH = ("run-hung", "run-crashed")
SLOW, NAMED = "slow-pair", "slow-between-nodes"


@dataclass(frozen=True, slots=True, kw_only=True)
class NcclPairSettings(NodeTestSettings):
    """Settings of the test; how its run is made and judged stands in those of gate fabric_validation."""

    # A site states that it wants it: where two nodes of a SKU are seldom idle at once, no node would ever be covered.
    enabled: bool = with_default(NodeTestSettings, "enabled", False)
    timeout_s: float = with_default(NodeTestSettings, "timeout_s", 900)


class NcclPair(PairTest, NcclLoop):
    """all_reduce_perf over the network between two nodes."""

    id = "nccl_pair"
    title = "NCCL over the network between two nodes"
    settings_type = NcclPairSettings
    _counted: tuple[Plan, Counter[str]] | None = None

    def unfit(self, host: BenchmarkHost) -> str:
        """Return why the test does not apply to such hosts, empty if it does.

        Without adapters there is no path between nodes, and the only host of its SKU has no peer.
        """
        sku = self._sku(host)
        if sku.fabric == "none" or not sku.nics or not sku.nic_gbps:
            return f"{sku.name} has no adapters for GPU traffic (fabric {sku.fabric})"
        return "" if self._has_equals(host.sku) else f"it is the only {host.sku} in scope, and pairs are of one SKU"

    def _has_equals(self, sku: str) -> bool:
        """Whether there are two hosts of a SKU. It is counted once, since it is called for every host of a fleet."""
        plan = self._jobs.plan
        if self._counted is None or self._counted[0] is not plan:
            self._counted = plan, Counter(host.sku for host in plan.hosts)
        return self._counted[1][sku] > 1

    def unready(self, host: BenchmarkHost) -> str:
        """Return that pods cannot use its adapters, or that it is not known which they are; empty if neither."""
        planned = self._jobs.plan.host(host.name)
        if planned.closed or self._sku(host).fabric not in FILTERED_FABRICS:
            return planned.closed
        return super().unready(host)

    def permissions(self) -> tuple[Permission, ...]:
        """Return what its jobs need beyond BASIC."""
        plan = self._jobs.plan
        return gang_permissions(plan.settings.run.kind, plan.hosts, plan.gang)

    def pair_job(self, name: str, hosts: Hosts) -> JobSpec:
        """Return the job that runs over all adapters of both nodes at once."""
        spec = self._jobs.job(name, self._want_pair(hosts))
        return replace(spec, timeout_s=self.common.timeout_s, pull_s=self.common.pull_s)

    def read_pair(self, cycle_id: str, hosts: Hosts, result: JobResult, started_s: float) -> PairRun:
        """Return the bandwidth, judged by what the adapters of both can carry, once the logs prove that they carried
        it."""
        early = [without_result(self.id, cycle_id, host, result, started_s) for host in hosts]
        if early[0] is not None and early[1] is not None:
            return PairRun(word="told", results=(early[0], early[1]))
        record = self._jobs.record(self._want_pair(hosts), self.pair_job(result.name, hosts), result)
        run = parse_run(record, result.log, self._jobs.plan.settings)
        planned = tuple(self._jobs.plan.host(host.name) for host in hosts)
        one = RunOfOne(self._jobs, planned[0], self._sku(hosts[0]), run)

        def said(place: int, status: Status, rating: Rating, cause: str, text: str) -> NodeResult:
            host = hosts[place]
            return result_of(
                self.id, cycle_id, host, result, started_s, status, rating=rating, cause=cause,
                summary=f"{host.name} with {hosts[1 - place].name}: {text}", cohort=self._cohort(one, planned),
                figures=one.figures, parts=self._parts(planned[place]),
            )  # fmt: skip

        def both(word: PairWord, status: Status, rating: Rating, cause: str, text: str, named: str = "") -> PairRun:
            first, second = (said(place, status, rating, cause, text) for place in (0, 1))
            return PairRun(word=word, results=(first, second), bad=rating is Rating.BAD, named=named)

        ways = [transport_of(run, host, self._jobs.plan, self._sku(host)) for host in planned]
        if any(way.proof == "broken" for way in ways):
            first, second = (said(place, *_of_way(way)) for place, way in enumerate(ways))
            return PairRun(word="told", results=(first, second))
        return both(*self._figure(run, ways, one))

    def _figure(self, run: Run, ways: list[Transport], one: RunOfOne) -> tuple[PairWord, Status, Rating, str, str, str]:
        """Return what a run proves about both hosts where the path is broken at neither.

        Returns:
            Word, status, rating, cause, text, and the cause with which a node fails if the cycle confirms it.
        """
        problem = run.problem
        if problem is not None:
            if problem.bad or problem.cause in _ONE_OF_BOTH:
                return "low", Status.OTHER, Rating.BAD, problem.cause, problem.text, problem.cause
            return "told", Status.OTHER, Rating.UNKNOWN, problem.cause, problem.text, ""
        unproven = next((way for way in ways if way.proof != "proven"), None)
        if unproven is not None:
            return "told", Status.OTHER, Rating.UNKNOWN, "transport-unproven", unproven.text, ""
        rated = rate_run(self._jobs.plan, one.sku, run)
        if rated is None:
            text = f"{run.value:.4g} GB/s over {ways[0].text}, and nothing is known to compare it with"
            return "told", Status.OTHER, Rating.UNKNOWN, "no-ceiling", text, ""
        text = f"{rate_text(run.value, rated)}; {ways[0].text}"
        if rated.rating is Rating.GOOD:
            return "well", Status.PASSED, Rating.GOOD, "", text, ""
        if rated.unsaturated:
            return "told", Status.OTHER, Rating.MARGINAL, "unsaturated", text, ""
        return "low", Status.OTHER, rated.rating, SLOW, text, NAMED

    def _cohort(self, one: RunOfOne, planned: tuple[PlannedHost, ...]) -> str:
        """What the runs of two pairs must have in common to be compared, also whether the data crosses spine
        switches."""
        if not all(host.leaves for host in planned):
            return one.cohort
        near = same_leaves(self._jobs.plan, [host.name for host in planned])
        return f"{one.cohort}, {'the same' if near else 'other'} leaf switches"

    def _want_pair(self, hosts: Hosts) -> Wanted:
        several = self._sku(hosts[0]).gpus > 1
        return Wanted(phase="adapters" if several else "pair", hosts=tuple(host.name for host in hosts))


def _of_way(way: Transport) -> tuple[Status, Rating, str, str]:
    """Return the result of each end where a path is broken: the log of an end shows whether it is the one at fault."""
    if way.proof == "broken":
        return Status.FAILED, Rating.BAD, way.cause, f"{way.text}; {way.hint}"
    return Status.PENDING, Rating.UNKNOWN, "partner-at-fault", "the way is broken at the other node, which says nothing"


TEST = NcclPair
