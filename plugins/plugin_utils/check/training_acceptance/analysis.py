# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Evaluate all runs over the hosts of a SKU together. Pure.

The observer calls it to decide whether to run again, and the judges for their verdicts, so that both get the same
result. A single run confirms no suspicion: it is repeated, and the median of the runs counts.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from statistics import median

from ...hardware.sku import Sku
from ...probe.error_lines import NAME, find_error, last_line
from ...probe.training_log import PHASES, PodLog, RankLog, Setup
from ...verdict.peers import NOISE, PeerVerdict, as_slow, compare
from .figures import Figures
from .model import HostProblem, PlannedHost, PodRecord, Record, Results, Run
from .settings import JudgeSettings

# Why the ranks of a failed run never met, and which hosts kept the others waiting. Pure. A running pod waits for all
# others, so those that came furthest are not to blame: the ones that stopped first are.

STARTS = "training-gang-start"
# How far a pod came: it logged nothing, its phases, at least one rank.
_SILENT, _STARTED, _RESOLVED, _LOADED, _RANKS = range(5)
_MARK = '{"schema_version"'
_DID = {
    _SILENT: "wrote nothing: its container did not begin",
    _STARTED: "did not find the meeting point by its name",
    _RESOLVED: "did not come to an end of loading PyTorch",
    _LOADED: "had no rank",
}


def never_met(record: Record, pods: Mapping[str, PodLog], logs: Mapping[str, str]) -> HostProblem | None:
    """Return the problem of a run whose ranks did not begin on every host.

    None: they began, or the failure of a rank explains more. Runs of release 0.1 have no phases: a pod logged nothing,
    or it had ranks.
    """
    reached = {host: _reached(pods.get(host)) for host in record.hosts}
    least = min(reached.values())
    if least == _RANKS or any(log.failure for pod in pods.values() for log in pod.ranks):
        return None
    said_last = {host: _since_phases(text) for host, text in logs.items()}
    names = {host: error.text for host, text in said_last.items() if (error := find_error(text)) and error.says == NAME}
    deaf = [host for host in record.hosts if host in names and reached[host] < _RANKS]
    if deaf or least == _STARTED:
        hosts = deaf or [host for host, far in reached.items() if far == least]
        reported = names.get(hosts[0]) or last_line(said_last.get(hosts[0], ""))
        text = (
            f"{words(hosts)} {_DID[_STARTED]}{f' ({reported})' if reported else ''}; all others waited: {record.reason}"
        )
        return _problem("rendezvous-dns", text, hosts)
    hosts = [host for host, far in reached.items() if far == least]
    ended = [pod for pod in record.pods if pod.host in hosts and pod.exit_code]
    if ended:
        hosts = [pod.host for pod in ended]
        text = f"{_exited(ended[0], logs)}; no rank ever began on {words(hosts)}"
        return _problem("not-started", text, hosts)
    if len(hosts) == len(record.hosts):
        return _problem("not-started", f"no rank ever began, no pod {_past(least)}: {record.reason}", hosts)
    return _problem("not-started", f"{words(hosts)} {_DID[least]}, all others waited: {record.reason}", hosts)


def _problem(cause: str, text: str, hosts: Iterable[str]) -> HostProblem:
    return HostProblem(cause=cause, text=text[:400], check=STARTS, hosts=tuple(hosts))


def _reached(pod: PodLog | None) -> int:
    if pod is None:
        return _SILENT
    return _RANKS if pod.ranks else len(pod.phases)


def _past(far: int) -> str:
    return {_SILENT: "wrote anything", _RESOLVED: "loaded PyTorch", _LOADED: "had a rank"}[far]


def _exited(pod: PodRecord, logs: Mapping[str, str]) -> str:
    reported = last_line(_since_phases(logs.get(pod.host, "")))
    more = "; ".join(part for part in (pod.reason, reported) if part)
    return f"the pod of {pod.host} ended with exit code {pod.exit_code}{f' ({more})' if more else ''}"


def _since_phases(log: str) -> str:
    """Return what a pod logged after the last line of the program. Earlier lookups of a name succeeded in the end."""
    return log[max(0, log.rfind(_MARK)) :].partition("\n")[2] if _MARK in log else log


def words(names: Iterable[str]) -> str:
    """Return at most eight names, and how many more there are."""
    found = list(names)
    return ", ".join(found[:8]) + (f" and {len(found) - 8} more" if len(found) > 8 else "")


# Ranks that compute more slowly than the others: single GPUs, or a whole node. Pure.


@dataclass(frozen=True, slots=True, kw_only=True)
class Slow:
    """What a comparison of ranks found.

    Args:
        peers: the comparison.
        nodes: hosts with all of their GPUs slow.
        gpus: single slow GPUs of other hosts.
        bad: names from both that are more than marginally slow.
        uneven: slow GPUs, if so many are slow that none of them is to blame.
    """

    peers: PeerVerdict
    nodes: tuple[str, ...] = ()
    gpus: tuple[str, ...] = ()
    bad: frozenset[str] = frozenset()
    uneven: tuple[str, ...] = ()

    @property
    def any(self) -> bool:
        return bool(self.nodes or self.gpus or self.uneven)

    def of(self, host: str) -> tuple[str, ...]:
        """Return the slow GPUs of a host."""
        return tuple(gpu for gpu in self.gpus if gpu.partition("/")[0] == host)


def find_slow(rates: Mapping[str, float], settings: JudgeSettings) -> Slow:
    """Return the slow GPUs (`gpu01/gpu3`), by their rates. More is better."""
    hosts: dict[str, list[str]] = {}
    for gpu in rates:
        hosts.setdefault(gpu.partition("/")[0], []).append(gpu)
    peers = compare(rates, settings.peers, hosts=lambda gpu: (gpu.partition("/")[0],))
    suspects = set(peers.suspects)
    for own in hosts.values():
        mine = suspects.intersection(own)
        if 2 * len(mine) > len(own):
            suspects |= as_slow({gpu: rates[gpu] for gpu in own}, mine, peers.median)
    nodes = tuple(host for host, gpus in hosts.items() if len(gpus) > 1 and suspects.issuperset(gpus))
    gpus = tuple(gpu for gpu in rates if gpu in suspects and gpu.partition("/")[0] not in nodes)
    others = len(rates) - sum(len(hosts[host]) for host in nodes)
    # Hosts are counted and not ranks: one slow node of four has a quarter of all ranks and is still a single node.
    share, least = settings.cohort_share, settings.peers_least
    if len(nodes) > max(1, int(share * len(hosts))) or len(nodes) == len(hosts):
        return Slow(peers=peers, uneven=tuple(sorted(suspects)))
    if len(gpus) > max(2 if others >= 2 * least else 1, int(share * others)):
        return Slow(peers=peers, uneven=tuple(sorted(suspects)))
    line = peers.median * (1 - settings.peer_bad)
    middles = {host: median(rates[gpu] for gpu in hosts[host]) for host in nodes}
    bad = as_slow(middles, [host for host, rate in middles.items() if rate < line], peers.median)
    alone, low = {gpu: rates[gpu] for gpu in gpus}, min(line, peers.limit)
    bad |= as_slow(alone, [gpu for gpu, rate in alone.items() if rate < low], peers.median)
    return Slow(peers=peers, nodes=nodes, gpus=gpus, bad=bad)


def slow_hosts(slow: Slow, rates: Mapping[str, float]) -> tuple[tuple[str, ...], frozenset[str]]:
    """Return the hosts with all of their GPUs slow, however many they are.

    The second value has these together with the hosts that are as slow as one of them.
    """
    marked = {*slow.uneven, *slow.gpus, *(gpu for gpu in rates if gpu.partition("/")[0] in slow.nodes)}
    hosts: dict[str, list[str]] = {}
    for gpu in rates:
        hosts.setdefault(gpu.partition("/")[0], []).append(gpu)
    found = tuple(host for host, own in hosts.items() if marked.issuperset(own))
    return found, as_slow({host: median(map(rates.__getitem__, own)) for host, own in hosts.items()}, found, 1.0)


# How late each host was at the start of a run, and in which phase. Pure arithmetic on the lines of its pod and ranks.
# torchrun's agents meet before any of them starts a worker (torch/distributed/elastic/agent/server/api.py), so workers
# of all hosts begin together however late one host was. What differs between hosts is when a pod's container began,
# when it found the meeting point, how long it loaded PyTorch, and how long its ranks then needed for their devices.

STARTED, RESOLVED, LOADED, READY = "started", "resolved", "loaded", "ready"


@dataclass(frozen=True, slots=True)
class Late:
    """Seconds by which a host was later than the first one, and the phase in which it lost most of them."""

    seconds: float
    phase: str


def lateness_of(run: Run) -> dict[str, Late]:
    """Return the lateness of every host of a run. Empty for runs of release 0.1, which did not record start times."""
    ready = {host: seconds for host, pod in run.pods.items() if (seconds := _ready(pod)) is not None}
    pods = {host: run.pods[host].phases for host in run.record.hosts if host in ready}
    pods = {host: phases for host, phases in pods.items() if len(phases) == len(PHASES)}
    if not pods:
        return {}
    began = min(phases[STARTED] for phases in pods.values())
    index_0 = next((pod.host for pod in run.record.pods if pod.index == 0 and pod.host in pods), None)
    # The name resolves as soon as the pod of index 0 runs. The lateness of that pod does not count against the others.
    meeting = pods[index_0][STARTED] if index_0 else max(phases[STARTED] for phases in pods.values())
    loaded = min(phases[LOADED] - phases[RESOLVED] for phases in pods.values())
    prepared = min(ready[host] for host in pods)
    found = {}
    for host, phases in pods.items():
        parts = {
            STARTED: phases[STARTED] - began,
            RESOLVED: phases[RESOLVED] - max(phases[STARTED], meeting),
            LOADED: phases[LOADED] - phases[RESOLVED] - loaded,
            READY: ready[host] - prepared,
        }
        phase = max(parts, key=parts.__getitem__)
        found[host] = Late(max(0.0, parts[phase]), phase)
    return found


def _ready(pod: PodLog) -> float | None:
    """Return how many seconds the slowest rank of a pod took until it was ready. None: not all ranks became ready."""
    times = [log.setup.ready - log.started for log in pod.ranks if log.setup and log.setup.ready is not None]
    return max(times) if times and len(times) == len(pod.ranks) else None


# Model FLOP utilisation: the fraction of a GPU's dense peak that the model's own arithmetic uses. Pure. FLOP per token
# = 6 P + 12 layers x hidden x sequence. P counts the matrices that every token is multiplied with (twice in the forward
# pass, four times in the backward pass): all layers and the output projection, but not the embeddings, which are looked
# up. Attention is counted in full although the mask is causal, as PaLM defined it and PyTorch's counter does; with half
# of it the figure would be lower by `attention_share / 2`.


@dataclass(frozen=True, slots=True, kw_only=True)
class Mfu:
    """The utilisation of one GPU (1 is the peak), and what it is computed from."""

    value: float
    tokens_per_s: float
    tflops: float
    peak_tflops: float
    step_s: float
    arithmetic: str


def flop_per_token(setup: Setup) -> int:
    """Return the floating-point operations that training does for one token."""
    return 6 * setup.matmul_parameters + 12 * setup.layers * setup.hidden * setup.sequence


def attention_share(setup: Setup) -> float:
    """Return the fraction of these operations that is attention."""
    return 12 * setup.layers * setup.hidden * setup.sequence / flop_per_token(setup)


def mfu_of(setup: Setup, step_s: float, peak_tflops: float) -> Mfu:
    """Return the utilisation of each GPU at a step time in seconds, for a dense peak in TFLOP/s."""
    tokens = setup.batch * setup.accumulate * setup.sequence
    attention = f"12 x {setup.layers} x {setup.hidden} x {setup.sequence}"
    rate = tokens / step_s
    tflops = rate * flop_per_token(setup) / 1e12
    arithmetic = (
        f"{tokens} tokens / {step_s:.4g} s = {rate:.5g} tokens/s a GPU; x {flop_per_token(setup):.4g} FLOP a token "
        f"(6 x {setup.matmul_parameters:.4g} + {attention}, attention in full) "
        f"= {tflops:.4g} TFLOP/s; / {peak_tflops:g} = {tflops / peak_tflops:.3f}"
    )
    return Mfu(
        value=tflops / peak_tflops, tokens_per_s=rate, tflops=tflops, peak_tflops=peak_tflops, step_s=step_s,
        arithmetic=arithmetic,
    )  # fmt: skip


# What the samples of a GPU's clock, power and temperature show over a whole run. Pure. `sw_power_cap` is the usual
# state of a GPU under full load and proves no fault by itself. Heat and the power brake are never usual. Names are
# NVML's (nvmlClocksEventReasons in NVIDIA's NVML API reference).

# Reasons of heat and power supply, from hardware and driver.
HELD_DOWN = ("hw_slowdown", "hw_thermal_slowdown", "hw_power_brake_slowdown", "sw_thermal_slowdown")
# Fewest samples per second of load. The program takes one per second.
_LEAST_RATE = 0.2
_OPTIONAL = ("clock_min_mhz", "power_w", "temperature_c")


@dataclass(frozen=True)
class DeviceState:
    """The samples of one rank together."""

    log: RankLog

    @cached_property
    def samples(self) -> int:
        return sum(state.samples for state in self.log.states)

    @property
    def missing(self) -> str:
        """What was not sampled, as text. Empty: there is enough to judge."""
        wanted = _LEAST_RATE * self.log.load_s
        if self.samples < max(1.0, wanted):
            return f"{self.samples} samples in {self.log.load_s:.0f} s of load"
        reported = [state for state in self.log.states if state.samples]
        lacking = [name for name in ("clock_mhz", "reasons") if any(getattr(state, name) is None for state in reported)]
        if lacking:
            return f"its device does not tell {' and '.join(lacking)}"
        # A driver that does not report a value never reports it, so a gap in between is a fault.
        uneven = [name for name in _OPTIONAL if len({getattr(state, name) is None for state in reported}) > 1]
        return f"only some of its samples tell {' and '.join(uneven)}" if uneven else ""

    @cached_property
    def reasons(self) -> dict[str, float]:
        """Fraction of the samples in which each reason throttled the clock."""
        counts: Counter[str] = Counter()
        for state in self.log.states:
            counts.update(state.reasons or {})
        return {name: count / self.samples for name, count in counts.items()} if self.samples else {}

    @property
    def held_down(self) -> tuple[str, float]:
        """The most frequent reason of heat or power supply, and its fraction of the samples."""
        found = {name: part for name, part in self.reasons.items() if name in HELD_DOWN}
        # hw_slowdown is set together with its specific reason, which is preferred.
        name = max(found, key=lambda word: (found[word], word != "hw_slowdown"), default="")
        return name, found.get(name, 0.0)

    def clocks(self) -> tuple[float, ...]:
        """Mean clock of every state in MHz."""
        return tuple(state.clock_mhz for state in self.log.states if state.clock_mhz is not None)

    @property
    def text(self) -> str:
        """Clock, power and temperature as text. Empty: nothing was sampled."""
        clocks = self.clocks()
        if not clocks:
            return ""
        end = median(clocks[-3:])
        parts = [
            f"{median(clocks):.0f} MHz" + (f" ({end:.0f} at the end)" if abs(end / median(clocks) - 1) > 0.02 else "")
        ]
        power = [state.power_w for state in self.log.states if state.power_w is not None]
        limit = self.log.setup.power_limit_w if self.log.setup else None
        if power:
            parts.append(f"{median(power):.0f} W" + (f" of {limit:.0f}" if limit else ""))
        heat = [state.temperature_c for state in self.log.states if state.temperature_c is not None]
        if heat:
            parts.append(f"{max(heat):.0f} C")
        often = [f"{name} in {100 * part:.0f} %" for name, part in sorted(self.reasons.items()) if part >= 0.01]
        return ", ".join((*parts, *often))


def states_of(run: Run) -> dict[str, DeviceState]:
    """Return the samples of every GPU of a run."""
    return {rank.gpu: DeviceState(rank.log) for rank in run.ranks}


# Hosts whose CPUs take longer than others for the data of a step, so that all ranks wait for them. Pure.

# With this many hosts besides a faster one, that one is the outlier. Of two hosts, the slower one is slow.
_LEAST_OTHERS = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class SlowData:
    """What a comparison of hosts found.

    Args:
        usual_s: the time of the fastest hosts; 0: nothing to compare.
        cost: by host, the fraction of a step by which it is later than those.
        slow: hosts that are named.
        bad: those of them that are more than marginally slow.
        uneven: slow hosts, if there are so many that none of them is to blame.
        alone: the one host that is so much faster than all others that these are `uneven`.
    """

    usual_s: float = 0.0
    cost: Mapping[str, float] = field(default_factory=dict)
    slow: tuple[str, ...] = ()
    bad: frozenset[str] = frozenset()
    uneven: tuple[str, ...] = ()
    alone: str = ""


def find_slow_data(data_s: Mapping[str, float], step_s: float, settings: JudgeSettings) -> SlowData:
    """Return the hosts that are slow at the data, by their seconds per step.

    The second fastest host is the reference: a single host that is faster than all others makes none of them slow, and
    where half of the hosts are slow the median proves nothing. If all others are later than one host by more than is
    marginal, the times do not show whether that one is an outlier or they are slow, and no host is named
    (docs/design/peers.md).
    """
    if len(data_s) < 2:
        return SlowData(usual_s=0.0)
    first, second = sorted(data_s, key=lambda host: data_s[host])[:2]
    usual = data_s[second] if len(data_s) > _LEAST_OTHERS else data_s[first]
    if usual - data_s[first] > settings.peer_marginal * step_s:
        fastest = data_s[first]
        others = {host: (seconds - fastest) / step_s for host, seconds in data_s.items()}
        uneven = tuple(host for host in data_s if host != first)
        return SlowData(usual_s=fastest, cost=others, uneven=uneven, alone=first)
    cost = {host: max(0.0, seconds - usual) / step_s for host, seconds in data_s.items()}

    # The factor counts only if it costs more of a step than noise does.
    def is_slow(host: str) -> bool:
        factor = data_s[host] / usual if usual > 0 else 1.0
        return cost[host] > settings.peer_marginal or (factor >= settings.data_factor and cost[host] > NOISE)

    slow = tuple(host for host in data_s if is_slow(host))
    if len(slow) > max(1, int(settings.cohort_share * len(data_s))):
        return SlowData(usual_s=usual, cost=cost, uneven=slow)
    lost = {host: -cost[host] for host in slow}
    bad = as_slow(lost, [host for host in slow if cost[host] > settings.peer_bad], 1.0)
    return SlowData(usual_s=usual, cost=cost, slow=slow, bad=bad)


_TRIES_TO_PLACE = 2


@dataclass(frozen=True)
class SkuCohort:
    """The hosts of one SKU with their runs. The rates of GPUs of hosts in `without` are left out."""

    results: Results
    hardware: Mapping[str, Sku]
    sku_name: str
    without: frozenset[str] = frozenset()

    @property
    def sku(self) -> Sku | None:
        """Its hardware facts. None: not known."""
        return self.hardware.get(self.sku_name)

    @cached_property
    def hosts(self) -> tuple[PlannedHost, ...]:
        return self.results.plan.hosts_of(self.sku_name)

    @cached_property
    def open_hosts(self) -> tuple[PlannedHost, ...]:
        """The hosts on which a pod can be placed."""
        return tuple(host for host in self.hosts if not host.closed)

    @cached_property
    def runs(self) -> tuple[Run, ...]:
        return self.results.of(self.sku_name)

    @cached_property
    def complete(self) -> tuple[Run, ...]:
        """The runs with figures."""
        return tuple(run for run in self.runs if run.complete)

    @cached_property
    def problem(self) -> HostProblem | None:
        """The problem of the last run with figures. Without such a run: that of the last run."""
        counting = (self.complete or self.runs)[-1:]
        return counting[0].problem if counting else None

    @cached_property
    def figures(self) -> tuple[Figures, ...]:
        return tuple(Figures(run, self.results.plan.settings.judge.warmup_steps) for run in self.complete)

    @property
    def typical(self) -> Figures:
        """The run with the median step time. Only defined if there are figures."""
        ordered = sorted(self.figures, key=lambda figures: figures.step_s)
        return ordered[len(ordered) // 2]

    @property
    def setup(self) -> Setup | None:
        return next((rank.log.setup for run in self.complete for rank in run.ranks if rank.log.setup), None)

    @cached_property
    def late(self) -> Mapping[str, Late]:
        """Hosts that started too late."""
        limit = self.results.plan.settings.judge.start_s
        return {host: late for host, late in self.lateness.items() if late.seconds > limit}

    @cached_property
    def lateness(self) -> Mapping[str, Late]:
        """Lateness of each host, as the median of the runs. Empty: the runs did not record it."""
        runs = [lateness_of(run) for run in self.complete]
        names = [name for name in (runs or [{}])[0] if all(name in run for run in runs)]
        ordered = {name: sorted((run[name] for run in runs), key=lambda late: late.seconds) for name in names}
        return {name: found[len(found) // 2] for name, found in ordered.items()}

    @cached_property
    def states(self) -> Mapping[str, DeviceState]:
        """The samples of each GPU in the longest run."""
        return states_of(self.longest) if self.complete else {}

    @property
    def longest(self) -> Run:
        """The last of the complete runs with the longest load, which shows the effect of heat."""
        return max(reversed(self.figures), key=lambda figures: round(figures.load_s, -1)).run

    @cached_property
    def held_down(self) -> Mapping[str, float]:
        """GPUs that heat or power supply throttled so often that it is bad, with the fraction of the samples."""
        limit = self.results.plan.settings.judge.throttled_bad
        parts = {gpu: state.held_down[1] for gpu, state in self.states.items()}
        return {gpu: part for gpu, part in parts.items() if part >= limit and part > 0}

    @cached_property
    def slow_data(self) -> SlowData:
        """Hosts that delay all others with the data of a step."""
        return (
            find_slow_data(
                _medians([figures.data_s for figures in self.figures]),
                self.typical.step_s,
                self.results.plan.settings.judge,
            )
            if self.figures
            else SlowData()
        )

    def explained(self, gpus: Iterable[str]) -> str:
        """Return the samples of some GPUs and of all together, as text for a summary. Empty: there are none."""
        reported = [
            f"{gpu} {text}" for gpu in list(gpus)[:2] if (state := self.states.get(gpu)) and (text := state.text)
        ]
        clocks = [median(found) for state in self.states.values() if (found := state.clocks())]
        return f" ({'; '.join(reported)}; all: {median(clocks):.0f} MHz)" if reported and clocks else ""

    @cached_property
    def growing(self) -> Mapping[str, float]:
        """GPUs whose own part of a step grew, with the growth as a fraction."""
        limit = self.results.plan.settings.judge.growth
        growth = _medians([{gpu: t.growth if t.sure else 0.0 for gpu, t in f.trends.items()} for f in self.figures])
        return {gpu: part for gpu, part in growth.items() if part > limit}

    @cached_property
    def growth(self) -> float:
        """Growth of the step time over a run, as a fraction. 0: not certain."""
        trends = [figures.trend for figures in self.figures]
        return median(trend.growth if trend.sure else 0.0 for trend in trends) if trends else 0.0

    @cached_property
    def variation(self) -> float:
        """Coefficient of variation of the step time, with its growth removed."""
        return median(figures.trend.variation for figures in self.figures) if self.figures else 0.0

    def rates_of(self, host: str) -> dict[str, float]:
        """Return the rates of the GPUs of a host."""
        return self._rates_by_host.get(host, {})

    @cached_property
    def _rates_by_host(self) -> dict[str, dict[str, float]]:
        found: dict[str, dict[str, float]] = {}
        for gpu, rate in self.rates.items():
            found.setdefault(gpu.partition("/")[0], {})[gpu] = rate
        return found

    @cached_property
    def rates(self) -> Mapping[str, float]:
        """Rate of each GPU relative to the median of its run. GPUs that slow down over a run are left out."""
        rates = _medians([figures.rates for figures in self.figures])
        left_out = self.without
        return {g: rate for g, rate in rates.items() if g not in self.growing and g.partition("/")[0] not in left_out}

    @cached_property
    def slow(self) -> Slow:
        return find_slow(self.rates, self.results.plan.settings.judge)

    @cached_property
    def mfu(self) -> Mfu | None:
        """MFU at the typical step time. None: the peak is not known, or there are no figures."""
        peak = self.results.plan.settings.peak_for(self.sku) if self.sku else None
        if self.setup is None or not peak or not self.figures:
            return None
        return mfu_of(self.setup, self.typical.step_s, peak)

    @property
    def tflops(self) -> float | None:
        """TFLOP/s of the model's arithmetic at the typical step time, whatever the peak. None: no figures."""
        found = mfu_of(self.setup, self.typical.step_s, 1.0) if self.setup is not None and self.figures else None
        return found.tflops if found else None

    @property
    def target(self) -> float:
        """Lowest MFU that passes, as a fraction."""
        return self.results.plan.settings.target_for(self.sku) if self.sku else 0.0

    @property
    def steady(self) -> bool:
        """Whether the step time neither grows nor varies too much."""
        judge = self.results.plan.settings.judge
        return self.growth <= judge.growth and self.variation <= judge.step_time_cv

    @cached_property
    def doubtful(self) -> bool:
        """Whether more runs can confirm or clear a suspicion."""
        return bool(self.figures) and (bool(self.late) or self.slow_at_work)

    @property
    def slow_at_work(self) -> bool:
        """Whether the training itself is suspicious, and not only its start."""
        low = self.mfu is not None and self.mfu.value < self.target
        return bool(self.slow_data.slow or self.slow_data.uneven) or self.slow.any or not self.steady or low

    @property
    def load_s(self) -> float:
        """Seconds of load of the next run. If only the start was suspicious, 0: no long load is needed again."""
        again = bool(self.figures) and not self.slow_at_work
        return 0.0 if again else self.results.plan.settings.run.load_s

    @property
    def confirmed(self) -> bool:
        """Whether there are enough runs for a suspicion to count."""
        return len(self.complete) >= self.results.plan.settings.run.repeats

    @property
    def wants_more(self) -> bool:
        """Whether another run could decide more."""
        if not self.open_hosts or self.sku is None:
            return False
        if not self.runs:
            return True
        if self.runs[-1].problem is not None and not self.runs[-1].complete:
            return self.runs[-1].problem.transient and len(self.runs) < _TRIES_TO_PLACE
        return self.doubtful and not self.confirmed and len(self.runs) < self.results.plan.settings.run.repeats


def cohorts_of(results: Results, hardware: Mapping[str, Sku]) -> tuple[SkuCohort, ...]:
    """Return the hosts of every SKU of the plan, one cohort for each."""
    return tuple(SkuCohort(results, hardware, name) for name in results.plan.skus)


def _medians(runs: list[Mapping[str, float]]) -> dict[str, float]:
    """Return the median of every name that all runs have."""
    if not runs:
        return {}
    names = [name for name in runs[0] if all(name in run for run in runs)]
    return {name: median(run[name] for run in runs) for name in names}
