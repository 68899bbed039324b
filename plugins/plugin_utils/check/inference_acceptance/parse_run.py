# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""From a load and its export to figures, or the reason why there are none. Pure, fails closed."""

from __future__ import annotations

from collections.abc import Mapping
from statistics import median

from ...outcome.errors import InputError
from ...probe import aiperf
from ...probe.aiperf import AiperfExport
from ...verdict.peers import PeerVerdict, compare
from .model import Load, Measured, Plan, Problem, Results
from .rules import Rules, Slo

_LAUNCH_WORDS = {
    "unschedulable": "the scheduler found no place",
    "image": "the image cannot be had",
    "refused": "the API server refused it",
    "lost-node": "the node went away",
    "preempted": "a user's pod took the place",
    "aborted": "the time of all runs was over",
}
_INSTALL_FAILED = 72


def read_load(load: Load, export: str, rules: Rules) -> Measured:
    """Return what is known of a load."""
    problem = _ended_badly(load)
    if problem is not None:
        return Measured(load=load, problem=problem)
    try:
        parsed = aiperf.parse(export)
    except InputError as error:
        return Measured(load=load, problem=Problem("export-unreadable", error.reason[:400]))
    return Measured(load=load, export=parsed, problem=_not_as_asked(load, parsed, rules))


def _ended_badly(load: Load) -> Problem | None:
    if load.state in _LAUNCH_WORDS:
        return Problem(f"launch-{load.state}", f"{_LAUNCH_WORDS[load.state]}: {load.reason}"[:400])
    if load.state == "timeout":
        return Problem("benchmark-hung", f"did not end in its time: {load.reason}"[:400])
    if load.exit_code == _INSTALL_FAILED:
        return Problem("benchmark-not-installed", "AIPerf could not be installed in its pod")
    if load.unreadable:
        return Problem("export-truncated", load.unreadable[:400])
    if load.state != "succeeded" or load.exit_code not in (0, None):
        return Problem("benchmark-crashed", f"AIPerf ended with exit code {load.exit_code}: {load.reason}"[:400])
    if not load.export:
        return Problem("export-missing", f"AIPerf wrote no export: {load.reason}"[:400])
    return None


def _not_as_asked(load: Load, export: AiperfExport, rules: Rules) -> Problem | None:
    """What makes figures worthless: requests that failed, were cut off, or got another answer than asked for."""
    if export.cancelled or not export.complete:
        return Problem("benchmark-cancelled", f"the run was cut off after {export.requests} requests")
    if export.errors:
        kinds = "; ".join(f"{kind.count} x {kind.code} {kind.kind}".strip() for kind in export.error_kinds[:3])
        text = f"{export.errors} of {export.errors + export.requests} requests failed: {kinds}"
        return Problem("request-errors", text[:400], bad=True)
    if export.requests != load.requests:
        return Problem("requests-missing", f"{export.requests} of {load.requests} requests are in the export")
    if wrong := _wrong_load(load, export, rules):
        return Problem("other-load", wrong)
    return _wrong_length(export, rules)


def _wrong_load(load: Load, export: AiperfExport, rules: Rules) -> str:
    phase = export.phases.get("profiling", {})
    found = {"requests at a time": phase.get("concurrency"), "seed": export.seed}
    wanted = {"requests at a time": load.concurrency, "seed": rules.load.seed}
    if load.warmup:
        found["requests before"] = export.phases.get("warmup", {}).get("requests")
        wanted["requests before"] = load.warmup
    return ", ".join(
        f"{name}: {found[name]}, asked for {wanted[name]}" for name in wanted if found[name] != wanted[name]
    )


def _wrong_length(export: AiperfExport, rules: Rules) -> Problem | None:
    asked, given = rules.load.output_tokens, export.output_tokens
    # Every answer has the length that was asked for, for the end of the text does not end it (ignore_eos).
    if given.least < asked or export.mismatches:
        count = f"{export.mismatches} of {export.requests} answers" if export.mismatches else "some answers"
        lengths = f"{given.least:g} to {given.most:g}, {given.mean:g} on average"
        text = f"{count} are of another length than {asked} tokens: {lengths}"
        return Problem("short-answers", text, bad=True)
    return None


class Figures:
    """What is judged: of each host the median of its loads, and how hosts of a kind compare."""

    def __init__(self, results: Results) -> None:
        """Take plan and loads."""
        self.plan = results.plan
        self.loads: Mapping[str, tuple[Measured, ...]] = {
            host.name: tuple(load for load in results.loads_of(host.name) if load.good) for host in results.plan.hosts
        }
        self._peers: dict[str, PeerVerdict] = {}

    def throughput(self, host: str) -> float:
        """Output tokens per second and GPU."""
        return median(load.good.output_tokens_per_s / load.load.gpus for load in self.loads[host] if load.good)

    def ttft_ms(self, host: str) -> float:
        """Time to the first token, at the percentile that is judged."""
        at = self.plan.rules.judge.ttft_percentile
        return median(load.good.ttft.at(at) for load in self.loads[host] if load.good)

    def tpot_ms(self, host: str) -> float:
        """Time per output token, at the percentile that is judged."""
        at = self.plan.rules.judge.tpot_percentile
        return median(load.good.tpot.at(at) for load in self.loads[host] if load.good)

    def middle(self, host: str) -> tuple[Measured, AiperfExport]:
        """The load whose throughput is the median one (the lower of two) and its figures: its curves are drawn."""
        found = [(load, load.good) for load in self.loads[host] if load.good]
        return sorted(found, key=lambda entry: entry[1].output_tokens_per_s)[(len(found) - 1) // 2]

    def slo(self, host: str) -> tuple[Slo, str]:
        """The bounds for a host, and where they come from."""
        return self.plan.rules.slo_of(self.plan.host(host).accelerator)

    def floor(self, host: str) -> float:
        """The least throughput per GPU that is accepted; 0 without a bound."""
        return self.slo(host)[0].throughput_per_gpu * (1 - self.plan.rules.judge.slack)

    def peers(self, host: str) -> PeerVerdict:
        """How a host's kind compares."""
        sku = self.plan.host(host).sku
        if sku not in self._peers:
            names = [entry.name for entry in self.plan.hosts if entry.sku == sku and self.loads[entry.name]]
            values = {name: self.throughput(name) for name in names}
            self._peers[sku] = compare(values, self.plan.rules.judge.peers)
        return self._peers[sku]

    def missed(self, host: str) -> tuple[str, ...]:
        """What a host misses: words of throughput, ttft, tpot, peers."""
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
    """Return the hosts whose figures are bad and were measured too few times to count."""
    figures = Figures(results)
    return tuple(
        host.name
        for host in results.plan.hosts
        if figures.missed(host.name) and len(results.loads_of(host.name)) < results.plan.rules.load.repeats
    )


def open_hosts(plan: Plan) -> tuple[str, ...]:
    """Return the hosts that can be tried."""
    return tuple(host.name for host in plan.hosts if not host.closed)
