# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""What all runs together say: hosts that are out, pairs, who is to blame, which adapter. Pure.

The observer asks it what to run next, the judges ask it for their verdicts, so that both see the same.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from statistics import median

from ...hardware.sku import Sku
from ...outcome.model import Rating
from ...verdict.localise import Blame, Pair, PairVerdict, blame, disjoint_pairs, second_round
from ...verdict.peers import compare
from .bandwidth import BandwidthResult, PeerGroup, peer_group, rate_run
from .model import Phase, PlannedHost, Results
from .transport import Transport, transport_of

# Fabrics on which NCCL_IB_HCA picks a single adapter.
_RAIL_FABRICS = ("infiniband", "roce")
_LEAST_RAILS = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Rails:
    """Two hosts adapter by adapter: GB/s of each, and the slow ones. `complete` once every adapter was run."""

    pair: Pair
    values: dict[int, float]
    slow: tuple[int, ...]
    complete: bool


@dataclass(frozen=True)
class SkuCohort:
    """The hosts of one SKU and everything that their runs say."""

    results: Results
    hardware: Mapping[str, Sku]
    sku_name: str

    @property
    def sku(self) -> Sku:
        """Its facts."""
        return self.hardware[self.sku_name]

    @cached_property
    def hosts(self) -> tuple[PlannedHost, ...]:
        """The hosts of that kind."""
        return tuple(host for host in self.results.plan.hosts if host.sku == self.sku_name)

    @cached_property
    def open_hosts(self) -> tuple[str, ...]:
        """The hosts on which a pod can be placed."""
        return tuple(host.name for host in self.hosts if not host.closed)

    @cached_property
    def alone(self) -> PeerGroup:
        """How each host did by itself."""
        return peer_group(self.results, self.hardware, "node", [(name,) for name in self.open_hosts])

    @cached_property
    def without_rdma(self) -> tuple[str, ...]:
        """Hosts that offer none of the adapters that their pods would ask for."""
        if not self.results.plan.rdma_resource:
            return ()
        return tuple(host.name for host in self.hosts if not host.closed and not host.rdma_offered)

    @cached_property
    def usable(self) -> tuple[str, ...]:
        """Hosts that may be paired: well by themselves, with adapters for their pods.

        Where all of them are bad by themselves there are none: pairs would only tell the same again.
        """
        if self.alone.to_blame and any(s.verdict == "bad" for s in self.alone.members):
            return ()
        well = [s.hosts[0] for s in self.alone.members if s.problem is None and not self._out(s)]
        return tuple(name for name in well if name not in self.without_rdma)

    def _out(self, result: BandwidthResult) -> bool:
        return result.verdict == "bad" and not self.alone.to_blame

    @cached_property
    def first_pairs(self) -> tuple[Pair, ...]:
        """The disjoint pairs of round one."""
        return disjoint_pairs(self.usable)[0]

    @cached_property
    def first(self) -> PeerGroup:
        """How the pairs of round one did."""
        return peer_group(self.results, self.hardware, "pair", self.first_pairs)

    @cached_property
    def broken(self) -> dict[str, Transport]:
        """Hosts whose own lines say that their transport is not what it should be."""
        found: dict[str, Transport] = {}
        for run in (*self.results.in_phase("pair"), *self.results.in_phase("all")):
            for name in run.record.hosts:
                if self.results.plan.host(name).sku != self.sku_name or name in found:
                    continue
                transport = transport_of(run, self.results.plan.host(name), self.results.plan, self.sku)
                if transport.proof == "broken":
                    found[name] = transport
        return found

    def pair_good(self, result: BandwidthResult) -> bool | None:
        """Return whether a pair was good; None where that is not known."""
        if any(name in self.broken for name in result.hosts):
            return None
        if result.problem is not None:
            return False
        return {"good": True, "bad": False, "marginal": False}.get(result.verdict)

    @cached_property
    def second_pairs(self) -> tuple[Pair, ...]:
        """Pairs of round two: whoever is in doubt, and who was left over, with partners known to be good."""
        if self.first.to_blame:
            # Whom all are like is no measure for anybody.
            return ()
        good = [name for s in self.first.members if self.pair_good(s) for name in s.hosts]
        doubt = [name for name in self.usable if name not in good and name not in self.broken]
        waves = second_round(doubt, good, self.first_pairs)
        return tuple(pair for wave in waves for pair in wave)

    @cached_property
    def second(self) -> PeerGroup:
        """How the pairs of round two did, held against the peers of round one."""
        return peer_group(self.results, self.hardware, "pair", self.second_pairs, self.first.peers)

    @cached_property
    def third_pairs(self) -> tuple[Pair, ...]:
        """Another placement for who was left over in round one and was not good in round two: one is no proof."""
        seen = (*self.first.members, *self.second.members)
        good = [name for s in seen if self.pair_good(s) for name in s.hosts]
        placed = [name for s in seen if self.pair_good(s) is False for name in s.hosts if name not in good]
        doubt = [name for name in dict.fromkeys(placed) if placed.count(name) == 1]
        waves = second_round(doubt, list(dict.fromkeys(good)), (*self.first_pairs, *self.second_pairs))
        return tuple(pair for wave in waves for pair in wave)

    @cached_property
    def third(self) -> PeerGroup:
        """How these did."""
        return peer_group(self.results, self.hardware, "pair", self.third_pairs, self.first.peers)

    @cached_property
    def pairs(self) -> tuple[BandwidthResult, ...]:
        """All pairs."""
        return (*self.first.members, *self.second.members, *self.third.members)

    @cached_property
    def blame(self) -> Blame:
        """Who is to blame for pairs that were not good; nobody if the cohort is."""
        if self.first.to_blame:
            return Blame()
        known = [(s, self.pair_good(s)) for s in self.pairs]
        return blame(PairVerdict((s.hosts[0], s.hosts[1]), good) for s, good in known if good is not None)

    def bad_pairs_of(self, name: str) -> tuple[BandwidthResult, ...]:
        """Return the pairs of a host that were not good, those of round two first."""
        return tuple(s for s in reversed(self.pairs) if name in s.hosts and self.pair_good(s) is False)

    @cached_property
    def rail_pairs(self) -> tuple[Pair, ...]:
        """Pairs to be looked at adapter by adapter."""
        if self.sku.fabric not in _RAIL_FABRICS:
            return ()
        most = self.results.plan.rules.run.rail_samples
        if self.first.to_blame:
            slow = sorted((s for s in self.first.members if s.problem is None), key=lambda s: s.value)
            chosen = [s.hosts for s in slow[:most]]
        else:
            chosen = [bad[0].hosts for name in self.blame.nodes if (bad := self.bad_pairs_of(name))]
            chosen += self.blame.unclear[:most]
        slow_pairs = {frozenset(s.hosts) for s in self.pairs if s.problem is None}
        return tuple(dict.fromkeys((p[0], p[1]) for p in chosen if frozenset(p) in slow_pairs and self._railed(p)))

    def _railed(self, pair: tuple[str, ...]) -> bool:
        first, second = (self.results.plan.host(name).hcas for name in pair)
        return len(first) == len(second) >= 2

    def rails_of(self, pair: Pair) -> Rails:
        """Return what two hosts did adapter by adapter."""
        plan = self.results.plan
        count = len(plan.host(pair[0]).hcas)
        runs = {rail: found for rail in range(count) if (found := self.results.of("rail", pair, rail))}
        judged = {rail: [run for run in found if run.problem is None] for rail, found in runs.items()}
        values = {rail: median(run.value for run in found) for rail, found in judged.items() if found}
        slow: list[int] = []
        if len(values) >= _LEAST_RAILS:
            verdict = compare({str(rail): value for rail, value in values.items()}, plan.rules.judge.peers)
            slow = [] if len(verdict.suspects) * 2 > len(values) else [int(name) for name in verdict.suspects]
        elif values:
            line = plan.rules.judge.marginal * max(values.values())
            slow = [rail for rail, value in values.items() if value < line]
        # An adapter that does not carry a run at all is the slowest of them.
        slow += [rail for rail, found in judged.items() if not found]
        return Rails(pair=pair, values=values, slow=tuple(sorted(slow)), complete=len(runs) == count)

    @cached_property
    def slow_rails(self) -> tuple[int, ...]:
        """Adapters that are slow on several hosts: the rail is at fault, not the hosts."""
        seen = [self.rails_of(pair) for pair in self.rail_pairs]
        looked = [rails for rails in seen if rails.complete]
        if not looked:
            return ()
        shared = set(looked[0].slow).intersection(*(rails.slow for rails in looked))
        hosts = {name for rails in looked for name in rails.pair}
        # Two bad adapters of the same number can be chance among many hosts, three hardly.
        least = 2 if self.first.to_blame or self.blame.unclear else 3
        return tuple(sorted(shared)) if len(looked) >= least and len(hosts) >= 4 else ()

    @cached_property
    def sound(self) -> bool:
        """Whether nothing so far speaks against a run over all hosts."""
        if self.broken or self.without_rdma or not self.blame.nobody or self.first.to_blame or self.alone.to_blame:
            return False
        paired = {name for s in self.pairs if self.pair_good(s) for name in s.hosts}
        return set(self.usable) == {host.name for host in self.hosts} and paired == set(self.usable)

    @cached_property
    def whole(self) -> BandwidthResult | None:
        """How all hosts together did; of two hosts that is their pair."""
        names = tuple(host.name for host in self.hosts)
        phase: Phase = "pair" if len(names) == 2 else "all"
        found = peer_group(self.results, self.hardware, phase, [names])
        return found.members[0] if found.members else None

    def rail_rating(self, pair: Pair, rail: int) -> Rating | None:
        """Return the rating of one adapter by its own ceiling."""
        judged = [run for run in self.results.of("rail", pair, rail) if run.problem is None]
        rated = rate_run(self.results.plan, self.sku, judged[0]) if judged else None
        return rated.rating if rated else None


@dataclass(frozen=True)
class Analysis:
    """Every kind of hosts."""

    cohorts: dict[str, SkuCohort] = field(default_factory=dict)

    @classmethod
    def of(cls, results: Results, hardware: Mapping[str, Sku]) -> Analysis:
        """Return what the runs say."""
        return cls({name: SkuCohort(results, hardware, name) for name in results.plan.skus if name in hardware})

    def cohort_of(self, host: PlannedHost) -> SkuCohort | None:
        """Return the kind of a host, None where its SKU has no facts."""
        return self.cohorts.get(host.sku)
