# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Compare bandwidths with ceiling and peers, and decide whether a repeated suspicion is confirmed. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from statistics import median
from typing import Literal

from ...hardware.sku import Sku
from ...outcome.errors import InputError
from ...outcome.model import Rating
from ...verdict.ceiling import (
    Rated,
    Reference,
    Topology,
    adapters,
    judge,
    loop,
    topology_of,
)
from ...verdict.peers import PeerVerdict, as_slow, compare, confirmed
from ...verdict.plateau import last_gain
from ...verdict.published_reference import reference_for, with_floor, with_share_of_gate
from ..benchmark.problem import Problem
from .model import ADAPTER_PHASES, ONE_RANK, Phase, Plan, Results, Run
from .settings import JudgeSettings

_NO_PEERS = PeerVerdict(evaluated=False, arithmetic="the others are over another number of NVLink domains")
# `open` must be repeated before it counts. `unknown` has no figure, or nothing to compare it with.
Verdict = Literal["good", "marginal", "bad", "open", "unknown"]


@dataclass(frozen=True, slots=True, kw_only=True)
class BandwidthResult:
    """The bandwidth of a host, a pair or all hosts over all of its runs.

    `value` is the median in GB/s. `rated` is its rating by the ceiling; None: there is no ceiling. `scale` makes it
    comparable with peers whose place in racks and under leaf switches allows more. `like` is a bad host that this one
    is as slow as, within the noise of a measurement.
    """

    hosts: tuple[str, ...]
    runs: tuple[Run, ...]
    verdict: Verdict
    value: float = 0.0
    rated: Rated | None = None
    peers: PeerVerdict | None = None
    problem: Problem | None = None
    attempts: int = 1
    scale: float = 1.0
    like: str = ""

    @property
    def below_peers(self) -> bool:
        """Whether the median is lower than its peers allow."""
        peers = self.peers
        return (
            peers is not None
            and peers.evaluated
            and not peers.cohort_to_blame
            and self.value * self.scale < peers.limit
        )

    @property
    def unsaturated(self) -> bool:
        """Whether the bandwidth still grows with the message size."""
        return self.rated is not None and self.rated.unsaturated

    @property
    def best_run(self) -> Run:
        """The run whose figure is nearest to the median. If none has a figure: the first run."""
        judged = [run for run in self.runs if run.problem is None]
        return min(judged, key=lambda run: abs(run.value - self.value)) if judged else self.runs[0]


@dataclass(frozen=True, kw_only=True)
class PeerGroup:
    """Hosts or pairs of one SKU that were run in the same way, and how they compare.

    `best` are the hosts of the best placed group; empty: places are not known. Only groups over `domains` NVLink
    domains are compared, as most groups are: NVLink reaches another fraction of its ceiling than adapters do.
    """

    members: tuple[BandwidthResult, ...]
    peers: PeerVerdict
    best: tuple[str, ...] = ()
    domains: int = 0

    @property
    def to_blame(self) -> bool:
        """Whether so many are slow that what they share is at fault."""
        return self.peers.cohort_to_blame

    def find(self, hosts: Iterable[str]) -> BandwidthResult | None:
        """Return the result of exactly these hosts. None: there is none."""
        return self._by_hosts.get(frozenset(hosts))

    def as_slow(self, slow: Collection[str]) -> frozenset[str]:
        """Return the slow hosts, and those that are as slow as one of them. For hosts that were run by themselves."""
        known = {s.hosts[0]: s.value for s in self.members if s.problem is None and s.value and not s.unsaturated}
        return as_slow(known, known.keys() & slow, self.peers.median) | frozenset(slow)

    def levelled(self, repeats: int) -> PeerGroup:
        """Return the group with hosts marked bad that are as slow as a bad one, so that no limit separates equals.

        For hosts that were run by themselves. One with fewer than `repeats` runs becomes open instead.
        """
        bad = {s.hosts[0]: s.value for s in self.members if s.verdict == "bad"}
        if self.to_blame or not bad:
            return self
        found, near = self.as_slow(bad), max(bad, key=bad.__getitem__)
        return replace(self, members=tuple(
            replace(s, verdict="bad" if len(s.runs) >= repeats else "open", like=near)
            if s.hosts[0] in found and s.hosts[0] not in bad else s
            for s in self.members
        ))  # fmt: skip

    @cached_property
    def _by_hosts(self) -> dict[frozenset[str], BandwidthResult]:
        # If the same hosts have two results, the first one counts.
        return {frozenset(result.hosts): result for result in reversed(self.members)}


def domain_sizes(plan: Plan, hosts: Sequence[str], sku: Sku) -> tuple[int, ...]:
    """Return the number of hosts in each NVLink domain."""
    if sku.nvlink_domain == "node":
        return (1,) * len(hosts)
    return tuple(Counter(plan.host(name).rack or name for name in hosts).values())


def topology_for(plan: Plan, sku: Sku, hosts: Sequence[str], phase: Phase, *, single: bool = False) -> Topology:
    """Return what takes part in a run of these hosts.

    Args:
        plan: the plan.
        sku: the SKU of the hosts.
        hosts: the hosts that took part.
        phase: which kind of run. Over the adapters alone every host is a node, even in a rack-wide NVLink domain.
        single: only one NIC of each host was used.
    """
    facts = plan.settings.networks.get(sku.fabric)
    members = (1,) * len(hosts) if phase in ADAPTER_PHASES else domain_sizes(plan, hosts, sku)
    found = topology_of(sku, members, 1 if single else None, facts.efficiency if facts else None)
    fewest = _fewest_adapters(plan, hosts, sku)
    if fewest is not None and not single:
        found = replace(found, nics=found.nics * fewest // sku.nics, published=())
    taper = plan.settings.judge.taper
    # In a loop run, the traffic of a host goes from one of its leaf switches to another.
    if taper == 1.0 or (same_leaves(plan, hosts) and phase != "loop"):
        return found
    carried = {rule: found.efficiency.get(rule, 1.0) / taper for rule in ("ring", "hierarchical")}
    return replace(found, efficiency=carried, published=())


def _fewest_adapters(plan: Plan, hosts: Sequence[str], sku: Sku) -> int | None:
    """Return how many NICs the pods of a run get on each host. None: all of them."""
    configured = plan.settings.run.rdma_count
    offered = [min(configured or plan.host(name).rdma_offered, plan.host(name).rdma_offered) for name in hosts]
    ports = [amount for amount in offered if 1 < amount < min(sku.compute_hcas, sku.nics)]
    return max(1, min(ports) * sku.nics // sku.compute_hcas) if ports else None


def same_leaves(plan: Plan, hosts: Sequence[str]) -> bool:
    """Return whether all hosts are cabled to the same leaf switches, rail by rail. False without a cabling plan."""
    leaves = {plan.host(name).leaves for name in hosts}
    return len(leaves) == 1 and leaves != {()}


def reference_of(
    plan: Plan,
    sku: Sku,
    hosts: Sequence[str],
    algorithm: str,
    phase: Phase,
    *,
    single: bool = False,
    size_bytes: int = 0,
) -> Reference | None:
    """Return the ceilings for a run of these hosts; see topology_for. None: facts are missing.

    Args:
        plan: the plan.
        sku: the SKU of the hosts.
        hosts: the hosts that took part.
        algorithm: the algorithm that NCCL used.
        phase: which kind of run.
        single: only one NIC of each host was used.
        size_bytes: the message size that is judged; 0: not known.
    """
    try:
        topology = replace(topology_for(plan, sku, hosts, phase, single=single), size_bytes=size_bytes)
        if phase == "adapters":
            return with_share_of_gate(Reference(adapters(topology), adapters(topology)), topology)
        if phase == "loop":
            return with_floor(Reference(loop(topology), loop(topology)), topology, phase="loop")
        found = reference_for(topology, algorithm)
    except InputError:
        return None
    return found if found.bad.gbps > 0 else None


def rate_run(plan: Plan, sku: Sku, run: Run) -> Rated | None:
    """Return the rating by the ceiling of a run without a problem. None: there is no ceiling."""
    record = run.record
    single = record.rail is not None
    size_bytes = run.test.largest.size if run.test else 0
    against = reference_of(plan, sku, record.hosts, run.algorithm, record.phase, single=single, size_bytes=size_bytes)
    return judge(run.value, against, _gain(run), plan.settings.judge.ceiling) if against else None


def _gain(run: Run) -> float | None:
    if run.test is None:
        return None
    return last_gain({row.size: row.busbw_gbps for row in run.test.rows})


def peer_group(
    results: Results,
    hardware: Mapping[str, Sku],
    phase: Phase,
    groups: Iterable[tuple[str, ...]],
    first: PeerGroup | None = None,
) -> PeerGroup:
    """Return the results of groups of hosts in a phase, and how they compare.

    Args:
        results: plan and runs.
        hardware: facts of every SKU.
        phase: which runs.
        groups: the hosts of each group, all of the same SKU.
        first: an earlier round to compare with. Without it the groups are compared with each other.
    """
    ran = {group: results.of(phase, group) for group in groups}
    ran = {group: runs for group, runs in ran.items() if runs}
    plan = results.plan
    domains = {group: _domains(plan, hardware, group, phase) for group in ran}
    compared = first.domains if first and first.domains else _usual(domains.values())
    alike = {group: runs for group, runs in ran.items() if domains[group] == compared}
    best = first.best if first and first.best else _best_placed(plan, hardware, alike, phase)
    scales = {group: _scale(plan, hardware, group, runs, best) for group, runs in alike.items()}
    peers = first.peers if first else _peers(plan, hardware, alike, scales)
    members = []
    for group, runs in ran.items():
        against, scale = (peers, scales[group]) if group in alike else (_NO_PEERS, 1.0)
        members.append(_result(plan, hardware, group, runs, against, scale))
    return PeerGroup(members=tuple(members), peers=peers, best=best, domains=compared)


def _domains(plan: Plan, hardware: Mapping[str, Sku], hosts: tuple[str, ...], phase: Phase) -> int:
    return len(hosts) if phase in ADAPTER_PHASES else len(domain_sizes(plan, hosts, _sku(plan, hardware, hosts)))


def _usual(domains: Iterable[int]) -> int:
    """Return the most frequent number, the smaller one of a tie. 0: there are none."""
    times = Counter(domains)
    return min(times, key=lambda number: (-times[number], number), default=0)


def _best_placed(
    plan: Plan, hardware: Mapping[str, Sku], groups: Iterable[tuple[str, ...]], phase: Phase
) -> tuple[str, ...]:
    reach = {group: _reach(plan, hardware, group, phase, "") for group in groups}
    best = max(reach, key=lambda group: reach[group], default=())
    return best if reach.get(best) else ()


def _scale(
    plan: Plan, hardware: Mapping[str, Sku], hosts: tuple[str, ...], runs: Sequence[Run], best: tuple[str, ...]
) -> float:
    """Return how many times more the best place allows than that of these hosts, for the algorithm that they used.

    A taper takes half from a ring, and less from a tree that NVLink limits.
    """
    run = next((run for run in runs if run.problem is None), runs[0])
    own, most = (_reach(plan, hardware, g, run.record.phase, run.algorithm) if g else 0.0 for g in (hosts, best))
    return most / own if own and most else 1.0


def _reach(plan: Plan, hardware: Mapping[str, Sku], hosts: tuple[str, ...], phase: Phase, algorithm: str) -> float:
    """Return what the place of hosts in racks and under leaf switches allows, in GB/s. 0: not known."""
    found = reference_of(plan, _sku(plan, hardware, hosts), hosts, algorithm, phase)
    return found.marginal.gbps if found else 0.0


def _peers(
    plan: Plan,
    hardware: Mapping[str, Sku],
    ran: Mapping[tuple[str, ...], tuple[Run, ...]],
    scales: Mapping[tuple[str, ...], float],
) -> PeerVerdict:
    judged = {group: [run for run in runs if run.problem is None] for group, runs in ran.items()}
    firsts = {group: runs[0] for group, runs in judged.items() if runs}
    references = [
        found.marginal.gbps * scales[group]
        for group, run in firsts.items()
        if (found := _reference_of_run(plan, hardware, run))
    ]
    least = min(references, default=None)
    settings = plan.settings.judge
    floor = settings.marginal * least if least is not None else None
    values = {"+".join(g): run.value * scales[g] for g, run in firsts.items()}
    # A pair is two hosts. Whether a fast one is an outlier is decided by pairing its hosts with others.
    return compare(values, settings.peers, floor, lambda name: name.split("+"))


def _reference_of_run(plan: Plan, hardware: Mapping[str, Sku], run: Run) -> Reference | None:
    record = run.record
    return reference_of(plan, _sku(plan, hardware, record.hosts), record.hosts, run.algorithm, record.phase)


def _sku(plan: Plan, hardware: Mapping[str, Sku], hosts: Sequence[str]) -> Sku:
    return hardware[plan.host(hosts[0]).sku]


def _result(
    plan: Plan,
    hardware: Mapping[str, Sku],
    group: tuple[str, ...],
    runs: tuple[Run, ...],
    peers: PeerVerdict,
    scale: float,
) -> BandwidthResult:
    attempts = max(run.record.attempt for run in runs)
    lasting = [run for run in runs if run.problem is None or not run.problem.transient]
    # A transient problem that did not recur is ignored.
    runs = tuple(lasting) or runs
    problem = next((run.problem for run in runs if run.problem), None)
    if problem is not None and problem.cause == ONE_RANK and _sku(plan, hardware, group).gpus == 1:
        # A host with one GPU has nothing to measure by itself. It only has to end its run with correct values.
        return BandwidthResult(hosts=group, runs=runs, verdict="good", attempts=attempts)
    if problem is not None:
        return BandwidthResult(hosts=group, runs=runs, verdict="unknown", problem=problem, attempts=attempts)
    sku = _sku(plan, hardware, group)
    value = median(run.value for run in runs)
    nearest = min(runs, key=lambda run: abs(run.value - value))
    rated = rate_run(plan, sku, nearest)
    flags = [_suspect(plan, sku, run, peers, scale) for run in runs]
    result = BandwidthResult(
        hosts=group, runs=runs, verdict="good", value=value, rated=rated, peers=peers, attempts=attempts, scale=scale
    )
    return _with_verdict(result, flags, plan.settings.judge, plan.settings.run.repeats)


def _suspect(plan: Plan, sku: Sku, run: Run, peers: PeerVerdict, scale: float) -> bool:
    rated = rate_run(plan, sku, run)
    under_ceiling = rated is not None and rated.rating is not Rating.GOOD
    return under_ceiling or (peers.evaluated and run.value * scale < peers.limit)


def _with_verdict(result: BandwidthResult, flags: list[bool], settings: JudgeSettings, repeats: int) -> BandwidthResult:
    rated, peers = result.rated, result.peers
    # Hosts that agree may all be slow, so without a ceiling that proves nothing.
    verdict: Verdict = "good" if rated is not None else "unknown"
    if flags[0] and peers and peers.cohort_to_blame:
        # If what all share is at fault, a repetition would only show the same again.
        verdict = "bad" if rated is not None and rated.rating is Rating.BAD else "marginal"
    elif flags[0] and len(flags) < repeats:
        verdict = "open"
    elif flags[0] and confirmed(flags, repeats):
        bad = (rated is not None and rated.rating is Rating.BAD) or result.below_peers
        verdict = "bad" if bad and not result.unsaturated else "marginal"
    return replace(result, verdict=verdict)
