# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""What all loads together say: figures of each host, its bounds and its peers, and who is to be loaded again. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from statistics import median

from ...probe.aiperf import AiperfExport
from ...verdict.peers import PeerVerdict, compare
from .model import Measured, Results
from .settings import Slo


class Figures:
    """What is judged: for each host the median of its loads, and how hosts of a SKU compare."""

    def __init__(self, results: Results) -> None:
        """Keep the loads whose figures can be judged."""
        self.plan = results.plan
        self.loads: Mapping[str, tuple[Measured, ...]] = {
            host.name: tuple(load for load in results.loads_of(host.name) if load.good) for host in results.plan.hosts
        }
        self._peers: dict[str, PeerVerdict] = {}

    def throughput(self, host: str) -> float:
        """Output tokens per second and GPU, the median of the loads."""
        return median(load.good.output_tokens_per_s / load.load.gpus for load in self.loads[host] if load.good)

    def ttft_ms(self, host: str) -> float:
        """Time to the first token at the percentile that is judged, the median of the loads."""
        at = self.plan.settings.judge.ttft_percentile
        return median(load.good.ttft.at(at) for load in self.loads[host] if load.good)

    def tpot_ms(self, host: str) -> float:
        """Time per output token at the percentile that is judged, the median of the loads."""
        at = self.plan.settings.judge.tpot_percentile
        return median(load.good.tpot.at(at) for load in self.loads[host] if load.good)

    def middle(self, host: str) -> tuple[Measured, AiperfExport]:
        """The load with the median throughput (the lower of two) and its figures: its curves are drawn."""
        found = [(load, load.good) for load in self.loads[host] if load.good]
        return sorted(found, key=lambda entry: entry[1].output_tokens_per_s)[(len(found) - 1) // 2]

    def slo(self, host: str) -> tuple[Slo, str]:
        return self.plan.settings.slo_of(self.plan.host(host).accelerator)

    def floor(self, host: str) -> float:
        """Lowest throughput per GPU that passes; 0 without a bound."""
        return self.slo(host)[0].throughput_per_gpu * (1 - self.plan.settings.judge.slack)

    def peers(self, host: str) -> PeerVerdict:
        """How the hosts of a host's SKU compare."""
        sku = self.plan.host(host).sku
        if sku not in self._peers:
            names = [entry.name for entry in self.plan.hosts if entry.sku == sku and self.loads[entry.name]]
            values = {name: self.throughput(name) for name in names}
            self._peers[sku] = compare(values, self.plan.settings.judge.peers)
        return self._peers[sku]

    def missed(self, host: str) -> tuple[str, ...]:
        """Return which bounds a host misses: some of `throughput`, `ttft`, `tpot`, `peers`."""
        if not self.loads[host]:
            return ()
        slo, _source = self.slo(host)
        found = []
        if slo.throughput_per_gpu and self.throughput(host) < self.floor(host):
            found.append("throughput")
        if slo.ttft_ms and self.ttft_ms(host) > slo.ttft_ms:
            found.append("ttft")
        if slo.tpot_ms and self.tpot_ms(host) > slo.tpot_ms:
            found.append("tpot")
        if host in self.peers(host).suspects:
            found.append("peers")
        return tuple(found)


def to_load_again(results: Results) -> tuple[str, ...]:
    """Return the hosts whose figures are bad and were measured too few times for that to count."""
    figures = Figures(results)
    return tuple(
        host.name
        for host in results.plan.hosts
        if figures.missed(host.name) and len(results.loads_of(host.name)) < results.plan.settings.load.repeats
    )
