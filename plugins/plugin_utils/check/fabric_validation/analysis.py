# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Evaluate all runs together: excluded hosts, pairs, what is to blame, which adapter. Pure.

The observer calls it to decide what to run next, and the judges for their verdicts, so that both get the same result.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from statistics import median

from ...hardware.sku import Sku
from ...verdict.localise import Blame, Pair, PairVerdict, blame, disjoint_pairs, other_pairings, second_round
from ...verdict.peers import compare
from ..benchmark.network import FILTERED_FABRICS
from .bandwidth import BandwidthResult, PeerGroup, peer_group
from .model import Phase, PlannedHost, Results
from .pair_round import NOT_SPLIT, PairRound, pair_round, scores
from .settings import JudgeSettings
from .transport import Transport, transport_of

_LEAST_RAILS = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Rails:
    """Two hosts adapter by adapter: GB/s by rail, and the slow rails. `complete` once every adapter was run."""

    pair: Pair
    values: dict[int, float]
    slow: tuple[int, ...]
    complete: bool


@dataclass(frozen=True)
class SkuCohort:
    """The hosts of one SKU with their runs."""

    results: Results
    hardware: Mapping[str, Sku]
    sku_name: str

    @property
    def sku(self) -> Sku:
        return self.hardware[self.sku_name]

    @property
    def limits(self) -> JudgeSettings:
        return self.results.plan.settings.judge

    @cached_property
    def hosts(self) -> tuple[PlannedHost, ...]:
        return self.results.plan.hosts_of(self.sku_name)

    @cached_property
    def open_hosts(self) -> tuple[str, ...]:
        """The hosts on which a pod can be placed."""
        return tuple(host.name for host in self.hosts if not host.closed)

    @cached_property
    def alone(self) -> PeerGroup:
        """Every host by itself."""
        found = peer_group(self.results, self.hardware, "node", [(name,) for name in self.open_hosts])
        return found.levelled(self.results.plan.settings.run.repeats)

    @cached_property
    def without_rdma(self) -> frozenset[str]:
        """Hosts that offer none of the adapters that their pods would request."""
        if not self.results.plan.rdma_resource:
            return frozenset()
        return frozenset(host.name for host in self.hosts if not host.closed and not host.rdma_offered)

    @cached_property
    def usable(self) -> tuple[str, ...]:
        """Hosts that may be paired: good by themselves, with adapters for their pods.

        Empty if all are bad by themselves: pairs would only show the same again.
        """
        if self.alone.to_blame and any(s.verdict == "bad" for s in self.alone.members):
            return ()
        well = [s.hosts[0] for s in self.alone.members if s.problem is None and not self._out(s)]
        return tuple(name for name in well if name not in self.without_rdma)

    def _out(self, result: BandwidthResult) -> bool:
        return result.verdict == "bad" and not self.alone.to_blame

    @cached_property
    def adapter_runs(self) -> bool:
        """Whether pairs are also run over their adapters alone. Hosts with one GPU use nothing else anyway."""
        return self.results.plan.adapter_runs and self.has_adapters

    @cached_property
    def has_adapters(self) -> bool:
        """Whether several GPUs of a host share adapters whose rate is known."""
        return self.sku.fabric != "none" and self.sku.nics > 0 and self.sku.gpus > 1

    @cached_property
    def first_pairs(self) -> tuple[Pair, ...]:
        """Disjoint pairs of all usable hosts."""
        return disjoint_pairs(self.usable)

    @cached_property
    def first(self) -> PairRound:
        """The pairs of round one."""
        return self._round(self.first_pairs)

    def _round(self, pairs: Iterable[Pair], first: PairRound | None = None) -> PairRound:
        return pair_round(self.results, self.hardware, pairs, first)

    @cached_property
    def paired_anew(self) -> tuple[PairRound, ...]:
        """The same hosts in other pairs, if round one blames what all share or shows no good pair.

        More rounds follow until some pairs are clearly faster: one slow host in every pair looks like a slow fabric.
        """
        rounds: list[PairRound] = []
        slow = [s for s in self.first.members if s.problem is None and self.pair_good(s) is False]
        good = [s for s in self.first.members if self.pair_good(s)]
        anew = len(self.usable) > 2 and (self.first.to_blame or (slow and not good))
        for pairs in other_pairings(self.usable) if anew else ():
            if self._told_apart((self.first, *rounds)):
                break
            found = self._round(pairs, self.first)
            rounds.append(found)
            if len(found.members) < len(pairs):
                break
        return tuple(rounds)

    @cached_property
    def next_pairing(self) -> tuple[Pair, ...]:
        """The pairs of the last round of `paired_anew`. Some may not have been run yet."""
        return other_pairings(self.usable)[len(self.paired_anew) - 1] if self.paired_anew else ()

    def _told_apart(self, rounds: Sequence[PairRound]) -> bool:
        """Whether some pairs are good and clearly faster than those that are not."""
        known = [(self.pair_good(member), score) for member, score in scores(rounds)]
        good = [score for well, score in known if well]
        slow = [score for well, score in known if well is False]
        return bool(good and slow) and median(good) * (1 - 2 * self.limits.peer_tolerance) >= median(slow)

    @cached_property
    def all_slow(self) -> bool:
        """Whether what all pairs share is at fault, however the hosts were paired."""
        tried = self.first.to_blame or (bool(self.paired_anew) and not any(self.pair_good(s) for s in self._placed))
        return tried and not self._told_apart((self.first, *self.paired_anew))

    @cached_property
    def broken(self) -> dict[str, Transport]:
        """Hosts whose log lines prove a wrong transport."""
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
        """Return whether a pair was good. None: not known."""
        if any(name in self.broken for name in result.hosts):
            return None
        if result.problem is not None:
            return None if result.problem.cause == NOT_SPLIT else False
        # A figure without a ceiling blames no host. Its own judge reports that it has no reference.
        return {"good": True, "unknown": True, "bad": False, "marginal": False}.get(result.verdict)

    @cached_property
    def _placed(self) -> tuple[BandwidthResult, ...]:
        return tuple(s for found in (self.first, *self.paired_anew) for s in found.members)

    @cached_property
    def second_pairs(self) -> tuple[Pair, ...]:
        """Pairs of round two: suspects, and a host left over in round one, with partners that are known to be good."""
        if self.all_slow:
            # No pair is known to be good, so no partner is.
            return ()
        good = dict.fromkeys(name for s in self._placed if self.pair_good(s) for name in s.hosts)
        doubt = [name for name in self.usable if name not in good and name not in self.broken]
        waves = second_round(doubt, tuple(good), [(s.hosts[0], s.hosts[1]) for s in self._placed])
        return tuple(pair for wave in waves for pair in wave)

    @cached_property
    def second(self) -> PairRound:
        """The pairs of round two, compared with the peers of round one."""
        return self._round(self.second_pairs, self.first)

    @cached_property
    def third_pairs(self) -> tuple[Pair, ...]:
        """A second pair for a host that was left over in round one and not good in round two: one pair is no proof."""
        observed = (*self._placed, *self.second.members)
        good = dict.fromkeys(name for s in observed if self.pair_good(s) for name in s.hosts)
        placed = Counter(name for s in observed if self.pair_good(s) is False for name in s.hosts if name not in good)
        doubt = [name for name, times in placed.items() if times == 1]
        waves = second_round(doubt, tuple(good), [(s.hosts[0], s.hosts[1]) for s in observed])
        return tuple(pair for wave in waves for pair in wave)

    @cached_property
    def third(self) -> PairRound:
        """The pairs of round three, compared with the peers of round one."""
        return self._round(self.third_pairs, self.first)

    @cached_property
    def rounds(self) -> tuple[PairRound, ...]:
        """All rounds of pairs, in the order in which they were run."""
        return (self.first, *self.paired_anew, self.second, self.third)

    @cached_property
    def pairs(self) -> tuple[BandwidthResult, ...]:
        """For every pair the leg (full or adapters alone) that decides."""
        return tuple(member for found in self.rounds for member in found.members)

    @cached_property
    def blame(self) -> Blame:
        """What is to blame for pairs that were not good. Nothing if all pairs are equally slow."""
        if self.all_slow:
            return Blame()
        known = [(s, self.pair_good(s)) for s in self.pairs]
        return blame(PairVerdict((s.hosts[0], s.hosts[1]), good) for s, good in known if good is not None)

    def pairs_of(self, name: str) -> Sequence[BandwidthResult]:
        """Return the pairs of a host, those of round one first."""
        return self._pairs_by_host.get(name, ())

    @cached_property
    def _pairs_by_host(self) -> dict[str, list[BandwidthResult]]:
        found: dict[str, list[BandwidthResult]] = {}
        for member in self.pairs:
            for name in member.hosts:
                found.setdefault(name, []).append(member)
        return found

    def bad_pairs_of(self, name: str) -> tuple[BandwidthResult, ...]:
        """Return the pairs of a host that were not good, the latest first."""
        return tuple(s for s in reversed(self.pairs_of(name)) if self.pair_good(s) is False)

    @cached_property
    def paths_of(self) -> dict[str, list[Pair]]:
        """By host, its pairs whose path is to blame."""
        return _by_host(self.blame.paths)

    @cached_property
    def unclear_of(self) -> dict[str, list[Pair]]:
        """By host, its pairs for which it is not known what is to blame."""
        return _by_host(self.blame.unclear)

    @cached_property
    def rail_pairs(self) -> tuple[Pair, ...]:
        """Pairs to run adapter by adapter: the slow ones.

        If a whole rail is slow: all pairs of round one, so that the rail does not hide a slow adapter beside it.
        """
        if not self.slow_rails:
            return self._sampled
        return tuple(dict.fromkeys((*self._sampled, *(pair for pair in self.first_pairs if self._railed(pair)))))

    @cached_property
    def _sampled(self) -> tuple[Pair, ...]:
        if self.sku.fabric not in FILTERED_FABRICS:
            return ()
        most = self.results.plan.settings.run.rail_samples
        if self.all_slow:
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
        """Return the bandwidth of two hosts over each adapter."""
        plan = self.results.plan
        count = len(plan.host(pair[0]).hcas)
        runs = {rail: found for rail in range(count) if (found := self.results.of("rail", pair, rail))}
        judged = {rail: [run for run in found if run.problem is None] for rail, found in runs.items()}
        values = {rail: median(run.value for run in found) for rail, found in judged.items() if found}
        slow: list[int] = []
        if len(values) >= _LEAST_RAILS:
            verdict = compare({str(rail): value for rail, value in values.items()}, self.limits.peers)
            slow = [] if len(verdict.suspects) * 2 > len(values) else [int(name) for name in verdict.suspects]
        elif values:
            line = self.limits.marginal * max(values.values())
            slow = [rail for rail, value in values.items() if value < line]
        # An adapter without any successful run counts as slow.
        slow += [rail for rail, found in judged.items() if not found]
        return Rails(pair=pair, values=values, slow=tuple(sorted(slow)), complete=len(runs) == count)

    @cached_property
    def slow_rails(self) -> tuple[int, ...]:
        """Adapters that are slow on several hosts: the rail is at fault, not the hosts."""
        observed = [self.rails_of(pair) for pair in self._sampled]
        looked = [rails for rails in observed if rails.complete]
        if not looked:
            return ()
        shared = set(looked[0].slow).intersection(*(rails.slow for rails in looked))
        hosts = {name for rails in looked for name in rails.pair}
        # Among many hosts, two bad adapters of the same number can be chance, three hardly.
        least = 2 if self.all_slow or self.blame.unclear else 3
        return tuple(sorted(shared)) if len(looked) >= least and len(hosts) >= 4 else ()

    @cached_property
    def loop_pairs(self) -> tuple[Pair, ...]:
        """Pairs with a slow adapter that may be on either host.

        Each host is then run by itself over each of its adapters.
        """
        open_pairs = set(self.blame.unclear) | (set(self.rail_pairs) if self.slow_rails else set())
        observed = [self.rails_of(pair) for pair in self.rail_pairs if pair in open_pairs]
        return tuple(rails.pair for rails in observed if rails.complete and set(rails.slow) - set(self.slow_rails))

    def looped(self, pair: Pair) -> dict[str, tuple[int, ...]]:
        """Return by host the adapters of a pair that are slow by themselves, among those that are slow between the two.

        Slow rails are left out.
        """
        doubt = set(self.rails_of(pair).slow) - set(self.slow_rails)
        values: dict[str, float] = {}
        for name in pair:
            for rail in range(len(self.results.plan.host(name).hcas)):
                found = [run.value for run in self.results.of("loop", (name,), rail) if run.problem is None]
                if found:
                    values[f"{name}/{rail}"] = median(found)
        verdict = compare(values, self.limits.peers)
        slow = set() if len(verdict.suspects) * 2 > len(values) else set(verdict.suspects)
        named = {name: tuple(sorted(rail for rail in doubt if f"{name}/{rail}" in slow)) for name in pair}
        return {name: rails for name, rails in named.items() if rails}

    @cached_property
    def slow_beside(self) -> dict[str, tuple[int, ...]]:
        """By host, adapters that are slow in addition to a slow rail."""
        found: dict[str, set[int]] = {}
        for pair in self.rail_pairs if self.slow_rails else ():
            extra = set(self.rails_of(pair).slow) - set(self.slow_rails)
            mine = {name: extra for name in pair if name in self.blame.nodes} or self.looped(pair)
            for name, rails in mine.items():
                found.setdefault(name, set()).update(rails)
        return {name: tuple(sorted(rails)) for name, rails in found.items() if rails}

    @cached_property
    def sound(self) -> bool:
        """Whether a run over all hosts can show something new: every host and pair is good so far."""
        if self.broken or self.without_rdma or not self.blame.nobody or self.all_slow or self.alone.to_blame:
            return False
        paired = {name for s in self.pairs if self.pair_good(s) for name in s.hosts}
        return set(self.usable) == {host.name for host in self.hosts} and paired == set(self.usable)

    @cached_property
    def whole(self) -> BandwidthResult | None:
        """The result of all hosts together. With two hosts that is their pair. None: it was not run."""
        names = tuple(host.name for host in self.hosts)
        phase: Phase = "pair" if len(names) == 2 else "all"
        found = peer_group(self.results, self.hardware, phase, [names])
        return found.members[0] if found.members else None


def _by_host(pairs: Iterable[Pair]) -> dict[str, list[Pair]]:
    found: dict[str, list[Pair]] = {}
    for pair in pairs:
        for name in pair:
            found.setdefault(name, []).append(pair)
    return found


def cohorts_of(results: Results, hardware: Mapping[str, Sku]) -> dict[str, SkuCohort]:
    """Return the cohorts of all SKUs with known hardware facts, by SKU."""
    return {name: SkuCohort(results, hardware, name) for name in results.plan.skus if name in hardware}
