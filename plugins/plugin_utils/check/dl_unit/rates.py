# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Compares the rates of GPUs of all hosts: which are slower than their peers, and whether all are equally slow.
Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from statistics import median

from ...hardware.sku import Sku
from ...probe.dl_unit import RATES
from ...verdict.ceiling import CeilingLimits
from ...verdict.peers import PeerVerdict, as_slow, compare
from .model import Gpu, Kind, Results
from .settings import GemmRateSettings

# Without a bound for these rates a host is not known to be fast. The facts of SKUs have no peak for single precision.
ALWAYS = ("gemm-bf16", "memory-copy")
_TRIES_TO_PLACE = 2


def peak_of(sku: Sku | None, rate: str) -> float | None:
    """Return the peak of a rate in the facts of a SKU, None where they have none."""
    if sku is None:
        return None
    if rate == "memory-copy":
        return sku.hbm_tb_per_s * 1e3 if sku.hbm_tb_per_s else None
    return sku.peak_tflops.get(rate.removeprefix("gemm-"))


def reference_of(sku: Sku | None, rate: str) -> float | None:
    """Return the best published rate of such GPUs, None where there is none."""
    found = sku.gpu_kind.gemm.get(rate.removeprefix("gemm-")) if sku else None
    return found.reached_tflops if found and peak_of(sku, rate) == found.peak_tflops else None


@dataclass(frozen=True)
class Rates:
    """The median rate of every GPU, and how GPUs of one kind compare.

    The median is over the runs of its host without a problem in which all GPUs were measured at once.
    """

    results: Results
    hardware: Mapping[str, Sku]
    limits: GemmRateSettings

    @cached_property
    def values(self) -> dict[str, dict[str, dict[int, float]]]:
        """Median rates by host, rate and slot."""
        found: dict[str, dict[str, dict[int, list[float]]]] = {}
        for host in self.results.plan.hosts:
            for log in self.results.whole(host.name):
                if not all(rate.together for test in log.tests for rate in test.rates.values()):
                    continue
                for test in log.tests:
                    for name, rate in test.rates.items():
                        of_rate = found.setdefault(host.name, {}).setdefault(name, {})
                        of_rate.setdefault(test.slot, []).append(rate.value)
        return {
            host: {rate: {slot: median(values) for slot, values in of.items()} for rate, of in rates.items()}
            for host, rates in found.items()
        }

    @cached_property
    def kinds(self) -> dict[Gpu, Kind]:
        """The kind of every GPU with rates."""
        return {
            (host.name, test.slot): kind
            for host in self.results.plan.hosts
            if host.name in self.values
            for kind, test in self.results.tests(host.name)
        }

    @cached_property
    def cohorts(self) -> dict[Kind, tuple[str, ...]]:
        """The hosts with rates, by the kind of their GPUs; a host with several kinds is listed under its first."""
        found: dict[Kind, list[str]] = {}
        first: dict[str, Kind] = {}
        for (host, _slot), kind in self.kinds.items():
            first.setdefault(host, kind)
        for host, kind in first.items():
            found.setdefault(kind, []).append(host)
        return {kind: tuple(hosts) for kind, hosts in found.items()}

    def floor(self, sku: str, rate: str) -> float | None:
        """Return the least rate that a GPU of that SKU must reach, None where nothing is known."""
        found, part = reference_of(self.hardware.get(sku), rate), self.limits.floor.get(rate)
        peak = peak_of(self.hardware.get(sku), rate)
        if not peak or not part:
            return None
        return max(peak * part, found * CeilingLimits().bad if found else 0.0)

    @cached_property
    def _members(self) -> dict[tuple[Kind, str], dict[str, float]]:
        """The rates of the GPUs of a kind, by kind and rate. A GPU is named `host/slot`."""
        members: dict[tuple[Kind, str], dict[str, float]] = {}
        for (host, slot), kind in self.kinds.items():
            for rate, values in self.values[host].items():
                if slot in values:
                    members.setdefault((kind, rate), {})[f"{host}/{slot}"] = values[slot]
        return members

    @cached_property
    def peers(self) -> dict[tuple[Kind, str], PeerVerdict]:
        """How the GPUs of a kind compare, by kind and rate."""
        limits = self.limits.peers
        return {key: compare(of, limits, self.floor(key[0][0], key[1])) for key, of in self._members.items()}

    def blamed(self, kind: Kind) -> tuple[str, ...]:
        """Return the rates for which no single GPU of a kind is to blame: too many are slow, or all are."""
        return tuple(rate for rate in RATES if (found := self.peers.get((kind, rate))) and found.cohort_to_blame)

    def missed(self, host: str) -> dict[str, tuple[int, ...]]:
        """Return the GPUs of a host, by rate, that are slower than their peers or the floor allow."""
        found: dict[str, tuple[int, ...]] = {}
        for rate in RATES:
            slow = tuple(slot for slot in self.values[host].get(rate, {}) if self._slow(host, slot, rate))
            if slow:
                found[rate] = slow
        return found

    def below(self, host: str) -> dict[str, tuple[int, ...]]:
        """Return the GPUs of a host, by rate, that are slower than their peers by more than the margin, but do not
        fail."""
        found: dict[str, tuple[int, ...]] = {}
        for rate in RATES:
            slots = self.values[host].get(rate, {})
            low = tuple(slot for slot in slots if self._below(host, slot, rate) and not self._slow(host, slot, rate))
            if low:
                found[rate] = low
        return found

    def _below(self, host: str, slot: int, rate: str) -> bool:
        return self._below_margin(self.peers[self.kinds[host, slot], rate], self.values[host][rate][slot])

    def _below_margin(self, peers: PeerVerdict, value: float) -> bool:
        allowed = max(self.limits.peer_margin * peers.median, self.limits.peer_spreads * peers.spread)
        return peers.evaluated and not peers.cohort_to_blame and value < peers.median - allowed

    def _slow(self, host: str, slot: int, rate: str) -> bool:
        kind, value = self.kinds[host, slot], self.values[host][rate][slot]
        floor, peers = self.floor(kind[0], rate), self.peers[kind, rate]
        return f"{host}/{slot}" in self._suspects[kind, rate] or (
            not peers.evaluated and floor is not None and value < floor
        )

    @cached_property
    def _suspects(self) -> dict[tuple[Kind, str], frozenset[str]]:
        """The GPUs that fail, by kind and rate, with those below the margin that are as slow as one of them."""
        found = {}
        for key, peers in self.peers.items():
            low = {name: value for name, value in self._members[key].items() if self._below_margin(peers, value)}
            alike = {**low, **{name: self._members[key][name] for name in peers.suspects}}
            found[key] = as_slow(alike, peers.suspects, peers.median)
        return found

    def held(self, host: str, rate: str) -> bool:
        """Whether all GPUs of a host have a floor or enough peers to compare this rate with."""
        slots = self.values[host].get(rate, {})
        kinds = {self.kinds[host, slot] for slot in slots}
        return bool(kinds) and all(
            self.floor(kind[0], rate) is not None or self.peers[kind, rate].enough for kind in kinds
        )

    def suspect(self, host: str) -> bool:
        """Whether another run of a host could settle a suspicion about it."""
        found = (*self.missed(host).items(), *self.below(host).items())
        return any(rate not in self.blamed(self.kinds[host, slots[0]]) for rate, slots in found)


def to_test_again(rates: Rates) -> list[str]:
    """Return the hosts to test again: those under suspicion, and those that a transient problem kept from being
    tested."""
    again = []
    for host in rates.results.plan.open_hosts:
        made = rates.results.of(host.name)
        if host.name in rates.values:
            if len(made) < rates.limits.repeats and rates.suspect(host.name):
                again.append(host.name)
        elif made and len(made) < _TRIES_TO_PLACE and (problem := made[-1].problem) and problem.transient:
            again.append(host.name)
    return again
