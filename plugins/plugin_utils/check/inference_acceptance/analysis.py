# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Evaluate all loads together: figures of each host, its bounds and peers, and which hosts are loaded again. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from statistics import median

from ...outcome.errors import InputError
from ...probe import aiperf
from ...probe.aiperf import AiperfExport
from ...verdict.peers import PeerVerdict, as_slow, compare
from ..benchmark.problem import Problem, launch_problem
from .model import CACHED, Load, Measured, Results, legs_for
from .settings import InferenceSettings, Slo

# Parse the export of a load to figures, or to the reason why there are none. Pure, fails closed.

RATE_LIMITED = "model-hub-rate-limited"
_INSTALL_FAILED = 72
_LIMITED = re.compile(r"\b429\b.{0,40}Too Many Requests|429 Client Error|We had to rate limit")


def parse_run(load: Load, export: str, settings: InferenceSettings) -> Measured:
    """Return a load with its figures, or with the problem because of which it has none."""
    problem = _ended_badly(load)
    if problem is not None:
        return Measured(load=load, problem=problem)
    try:
        parsed = aiperf.parse(export)
    except InputError as error:
        return Measured(load=load, problem=Problem("export-unreadable", error.reason[:400]))
    return Measured(load=load, export=parsed, problem=_not_as_asked(load, parsed, settings))


def _ended_badly(load: Load) -> Problem | None:
    launch = launch_problem(load.state, load.reason)
    if launch:
        return Problem(*launch)
    if load.state == "timeout":
        return Problem("benchmark-hung", f"did not end in its time: {load.reason}"[:400])
    if load.exit_code == _INSTALL_FAILED:
        return Problem("benchmark-not-installed", "AIPerf could not be installed in its pod")
    if load.unreadable:
        return Problem("export-truncated", load.unreadable[:400])
    if load.state != "succeeded" and _LIMITED.search(load.reason):
        return Problem(RATE_LIMITED, f"AIPerf did not get its tokenizer: {load.reason}"[:400])
    if load.state != "succeeded" or load.exit_code != 0:
        code = "no known exit code" if load.exit_code is None else f"exit code {load.exit_code}"
        return Problem("benchmark-crashed", f"AIPerf ended with {code}: {load.reason}"[:400])
    if not load.export:
        return Problem("export-missing", f"AIPerf wrote no export: {load.reason}"[:400])
    return None


def _not_as_asked(load: Load, export: AiperfExport, settings: InferenceSettings) -> Problem | None:
    """Return what makes the figures worthless: failed requests, a cut-off run, or another load than requested.

    None: nothing.
    """
    if export.cancelled or not export.complete:
        return Problem("benchmark-cancelled", f"the run was cut off after {export.requests} requests")
    if export.errors:
        kinds = "; ".join(f"{kind.count} x {kind.code} {kind.kind}".strip() for kind in export.error_kinds[:3])
        text = f"{export.errors} of {export.errors + export.requests} requests failed: {kinds}"
        return Problem("request-errors", text[:400], bad=True)
    if wrong := _other_than_planned(load, settings):
        return Problem("other-load", wrong)
    if export.requests != load.requests:
        return Problem("requests-missing", f"{export.requests} of {load.requests} requests are in the export")
    if wrong := _wrong_load(load, export, settings):
        return Problem("other-load", wrong)
    requested, given = settings.load.input_tokens, export.input_tokens.mean
    if abs(given - requested) > settings.load.input_tolerance * requested:
        text = (
            f"the server counts {given:.0f} tokens a prompt, asked for were {requested}: its tokenizer is another one"
        )
        return Problem("tokenizer-mismatch", text)
    return _wrong_length(export, settings)


def _other_than_planned(load: Load, settings: InferenceSettings) -> str:
    leg = next((leg for leg in legs_for(settings.load, load.gpus) if leg.name == load.leg), None)
    if leg is None:
        return f"a load {load.leg!r} that the settings do not have"
    noted = {"requests at a time": load.concurrency, "requests": load.requests, "requests before": load.warmup}
    planned = {"requests at a time": leg.concurrency, "requests": leg.requests, "requests before": leg.warmup}
    wrong = [f"{name}: {noted[name]} noted, {planned[name]} planned" for name in noted if noted[name] != planned[name]]
    return ", ".join(wrong)


def _wrong_load(load: Load, export: AiperfExport, settings: InferenceSettings) -> str:
    phase = export.phases.get("profiling", {})
    found = {"requests at a time": phase.get("concurrency"), "requests": phase.get("requests"), "seed": export.seed}
    # Runs from before there were several loads did not record a seed. Theirs was that of the settings.
    wanted = {
        "requests at a time": load.concurrency, "requests": load.requests, "seed": load.seed or settings.load.seed,
    }  # fmt: skip
    if load.warmup:
        found["requests before"] = export.phases.get("warmup", {}).get("requests")
        wanted["requests before"] = load.warmup
    return ", ".join(
        f"{name}: {found[name]}, asked for {wanted[name]}" for name in wanted if found[name] != wanted[name]
    )


def _wrong_length(export: AiperfExport, settings: InferenceSettings) -> Problem | None:
    requested, given = settings.load.output_tokens, export.output_tokens
    # Every output has the requested length, since an end-of-sequence token does not end it (ignore_eos).
    if given.least < requested or export.mismatches:
        count = f"{export.mismatches} of {export.requests} answers" if export.mismatches else "some answers"
        lengths = f"{given.least:g} to {given.most:g}, {given.mean:g} on average"
        text = f"{count} are of another length than {requested} tokens: {lengths}"
        return Problem("short-answers", text, bad=True)
    return None


class Figures:
    """What is judged: for each host the median of its loads, and how hosts of a SKU compare.

    Bounds and latencies apply to the load that they were published for (`legs.CACHED`). The other loads are compared
    between hosts.
    """

    def __init__(self, results: Results) -> None:
        """Keep the loads whose figures can be judged."""
        self.plan = results.plan
        proven = {host.name for host in results.plan.hosts if not host.unproven}
        self._good: dict[str, dict[str, list[Measured]]] = {}
        for measured in results.runs:
            if measured.good and measured.load.host in proven:
                self._good.setdefault(measured.load.host, {}).setdefault(measured.load.leg, []).append(measured)
        self.loads: Mapping[str, tuple[Measured, ...]] = {
            host.name: self._of(host.name, CACHED) for host in results.plan.hosts
        }
        self._peers: dict[tuple[str, str], PeerVerdict] = {}
        self._tpot_peers: dict[str, PeerVerdict] = {}
        self._far: dict[tuple[str, str], frozenset[str]] = {}
        self._typical: dict[str, float] = {}
        self._all_slow: dict[str, bool] = {}

    def legs(self, host: str) -> tuple[str, ...]:
        """The names of the loads of which a host has figures, the published one first."""
        return tuple(self._good.get(host, ()))

    def throughput(self, host: str, leg: str = CACHED) -> float:
        """Output tokens per second and GPU, as the median of the loads."""
        gpus = self.plan.host(host).gpus
        return median(m.good.output_tokens_per_s / gpus for m in self._of(host, leg) if m.good)

    def ttft_ms(self, host: str) -> float:
        """Time to first token in ms at the judged percentile, as the median of the loads."""
        at = self.plan.settings.judge.ttft_percentile
        return median(load.good.ttft.at(at) for load in self.loads[host] if load.good)

    def tpot_ms(self, host: str) -> float:
        """Time per output token in ms at the judged percentile, as the median of the loads."""
        at = self.plan.settings.judge.tpot_percentile
        return median(load.good.tpot.at(at) for load in self.loads[host] if load.good)

    def tpot_middle_ms(self, host: str) -> float:
        """Time per output token in ms at percentile 50, as the median of the loads."""
        return median(load.good.tpot.at(50) for load in self.loads[host] if load.good)

    def tpot_mean_ms(self, host: str) -> float:
        """Mean time per output token in ms, as the median of the loads."""
        return median(load.good.tpot.mean for load in self.loads[host] if load.good)

    def middle(self, host: str) -> tuple[Measured, AiperfExport]:
        """The load with the median throughput (the lower of two) and its figures. Its curves are drawn."""
        found = [(load, load.good) for load in self.loads[host] if load.good]
        return sorted(found, key=lambda entry: entry[1].output_tokens_per_s)[(len(found) - 1) // 2]

    def slo(self, host: str) -> tuple[Slo, str]:
        return self.plan.settings.slo_of(self.plan.host(host).accelerator)

    def floor(self, host: str) -> float:
        """Lowest throughput per GPU that passes, in tokens/s. 0: no bound."""
        return self.slo(host)[0].throughput_per_gpu * (1 - self.plan.settings.judge.slack)

    def peers(self, host: str, leg: str = CACHED) -> PeerVerdict:
        """How the hosts of a host's SKU compare."""
        sku = self.plan.host(host).sku
        if (sku, leg) not in self._peers:
            self._peers[sku, leg] = compare(self._reached(sku, leg), self.plan.settings.judge.peers)
        return self._peers[sku, leg]

    def _reached(self, sku: str, leg: str) -> dict[str, float]:
        names = [host.name for host in self.plan.hosts_of(sku) if self._of(host.name, leg)]
        return {name: self.throughput(name, leg) for name in names}

    def alike(self, sku: str) -> frozenset[str]:
        """The hosts of a SKU that are slower than their peers in a load, and those that are as slow as one of them."""
        found = set[str]()
        for leg in {leg for host in self.plan.hosts_of(sku) for leg in self.slow_legs(host.name)}:
            reached = self._reached(sku, leg)
            peers = self.peers(next(iter(reached)), leg)
            found |= as_slow(reached, peers.suspects, peers.median)
        return frozenset(found)

    def typical(self, sku: str) -> float:
        """The median throughput per GPU of the hosts of a SKU, in tokens/s."""
        if sku not in self._typical:
            hosts = self.plan.hosts_of(sku)
            self._typical[sku] = median(self.throughput(host.name) for host in hosts if self.loads[host.name])
        return self._typical[sku]

    def all_slow(self, sku: str) -> bool:
        """Whether every host of a SKU misses the throughput bound."""
        if sku not in self._all_slow:
            self._all_slow[sku] = all("throughput" in self.missed(host.name) for host in self.plan.hosts_of(sku))
        return self._all_slow[sku]

    def tpot_peers(self, sku: str) -> PeerVerdict:
        """How the hosts of a SKU compare in the inverse of the time per output token, at the judged percentile."""
        if sku not in self._tpot_peers:
            names = [host.name for host in self.plan.hosts_of(sku) if self.loads[host.name]]
            values = {name: 1 / self.tpot_ms(name) for name in names}
            self._tpot_peers[sku] = compare(values, self.plan.settings.judge.peers)
        return self._tpot_peers[sku]

    def slow_legs(self, host: str) -> tuple[str, ...]:
        """The loads in which a host is slower than its peers allow."""
        return tuple(leg for leg in self.legs(host) if host in self.peers(host, leg).suspects)

    def far_below(self, host: str, leg: str) -> bool:
        """Return whether a host is so far below its peers that it fails and is not only marginal.

        That includes a host as slow as one that fails.
        """
        sku, peers = self.plan.host(host).sku, self.peers(host, leg)
        if (sku, leg) not in self._far:
            line = min(peers.limit, peers.median * (1 - self.plan.settings.judge.peer_bad))
            reached = self._reached(sku, leg)
            slow = {name: reached[name] for name in peers.suspects}
            far = [name for name, value in reached.items() if value < line]
            self._far[sku, leg] = as_slow(slow, far, peers.median)
        return host in self._far[sku, leg]

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
        if tpot_fault(self, host):
            found.append("tpot")
        if self.slow_legs(host):
            found.append("peers")
        return tuple(found)

    def _of(self, host: str, leg: str) -> tuple[Measured, ...]:
        found = self._good.get(host, {}).get(leg, ())
        return tuple(sorted(found, key=lambda measured: measured.load.attempt))


def tpot_fault(figures: Figures, host: str) -> str:
    """Return how the time per output token of a host is bad: `slo`, `peers`, `uneven`, or empty.

    With a bound of the site, the percentile is compared with that (`slo`). Nothing is published for this figure, so
    without one it is compared with the host's own median request, since its copies of the model are equal (`uneven`).
    If the other hosts do not have such a tail, it is this host's (`peers`). The mean follows from the throughput and is
    bounded with it.
    """
    slo, _source = figures.slo(host)
    if slo.tpot_ms:
        return "slo" if figures.tpot_ms(host) > slo.tpot_ms else ""
    if figures.tpot_ms(host) <= figures.plan.settings.judge.tpot_tail * figures.tpot_middle_ms(host):
        return ""
    judge, peers = figures.plan.settings.judge, figures.tpot_peers(figures.plan.host(host).sku)
    far = (
        peers.evaluated
        and not peers.cohort_to_blame
        and 1 / figures.tpot_ms(host) < peers.median * (1 - judge.peer_bad)
    )
    return "peers" if far and host in peers.suspects else "uneven"


def to_load_again(results: Results) -> tuple[str, ...]:
    """Return the hosts to load again.

    Their figures are bad and were not yet measured often enough to count, or the model hub rate-limited them.
    """
    figures = Figures(results)
    return tuple(
        host.name
        for host in results.plan.hosts
        if (figures.missed(host.name) or _was_limited(results, host.name))
        and len(results.loads_of(host.name, CACHED)) < results.plan.settings.load.repeats
    )


def _was_limited(results: Results, host: str) -> bool:
    loads = results.loads_of(host)
    problem = loads[-1].problem if loads else None
    return problem is not None and problem.cause == RATE_LIMITED
