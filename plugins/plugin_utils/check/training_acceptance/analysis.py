# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""What all runs over the hosts of a SKU say together. Pure.

The observer asks it whether to run again, the judges ask it for their verdicts, so that both see the same. One run
confirms no suspicion: it is repeated, and the median of the runs counts.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from statistics import median

from ...hardware.sku import Sku
from ...probe.training_log_model import Setup
from .device_states import DeviceState, states_of
from .figures import Figures
from .lateness import Late, lateness_of
from .mfu import Mfu, mfu_of
from .model import HostProblem, PlannedHost, Results, Run
from .slow_data import SlowData, find_slow_data
from .stragglers import Slow, find_slow

_TRIES_TO_PLACE = 2


@dataclass(frozen=True)
class SkuCohort:
    """The hosts of one SKU, and everything that their runs say. The rates of GPUs of hosts `without` are left out."""

    results: Results
    hardware: Mapping[str, Sku]
    sku_name: str
    without: frozenset[str] = frozenset()

    @property
    def sku(self) -> Sku | None:
        """Its hardware facts, None where none are known."""
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
        """What went wrong in the last run with figures, else in the last run."""
        counting = (self.complete or self.runs)[-1:]
        return counting[0].problem if counting else None

    @cached_property
    def figures(self) -> tuple[Figures, ...]:
        return tuple(Figures(run, self.results.plan.settings.judge.warmup_steps) for run in self.complete)

    @property
    def typical(self) -> Figures:
        """The run with the middle step time; only where there are figures."""
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
        """Delay of each host, the middle one of the runs; empty where the runs do not tell it."""
        runs = [lateness_of(run) for run in self.complete]
        names = [name for name in (runs or [{}])[0] if all(name in run for run in runs)]
        ordered = {name: sorted((run[name] for run in runs), key=lambda late: late.seconds) for name in names}
        return {name: found[len(found) // 2] for name, found in ordered.items()}

    @cached_property
    def states(self) -> Mapping[str, DeviceState]:
        """What was sampled of each GPU in the longest run."""
        return states_of(self.longest) if self.complete else {}

    @property
    def longest(self) -> Run:
        """The last of the complete runs with the longest load: what heat does is judged by it."""
        return max(reversed(self.figures), key=lambda figures: round(figures.load_s, -1)).run

    @cached_property
    def held_down(self) -> Mapping[str, float]:
        """GPUs whose clock heat or power supply held down so often that it is bad, with the part of the samples."""
        limit = self.results.plan.settings.judge.throttled_bad
        parts = {gpu: state.held_down[1] for gpu, state in self.states.items()}
        return {gpu: part for gpu, part in parts.items() if part >= limit and part > 0}

    @cached_property
    def slow_data(self) -> SlowData:
        """Hosts that hold all others up with the data of a step."""
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
        """Return what was sampled of GPUs and of all together, in words for a summary; empty without samples."""
        told = [f"{gpu} {text}" for gpu in list(gpus)[:2] if (state := self.states.get(gpu)) and (text := state.text)]
        clocks = [median(found) for state in self.states.values() if (found := state.clocks())]
        return f" ({'; '.join(told)}; all: {median(clocks):.0f} MHz)" if told and clocks else ""

    @cached_property
    def growing(self) -> Mapping[str, float]:
        """GPUs whose own part of a step grew, with the growth as a fraction."""
        limit = self.results.plan.settings.judge.growth
        growth = _medians([{gpu: t.growth if t.sure else 0.0 for gpu, t in f.trends.items()} for f in self.figures])
        return {gpu: part for gpu, part in growth.items() if part > limit}

    @cached_property
    def growth(self) -> float:
        """Growth of the step time over a run, as a fraction; 0 where it is not certain."""
        trends = [figures.trend for figures in self.figures]
        return median(trend.growth if trend.sure else 0.0 for trend in trends) if trends else 0.0

    @cached_property
    def variation(self) -> float:
        """Coefficient of variation of the step time without its growth."""
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
        """Rate of each GPU compared with the median of its run; GPUs that slow down have none."""
        rates = _medians([figures.rates for figures in self.figures])
        left_out = self.without
        return {g: rate for g, rate in rates.items() if g not in self.growing and g.partition("/")[0] not in left_out}

    @cached_property
    def slow(self) -> Slow:
        return find_slow(self.rates, self.results.plan.settings.judge)

    @cached_property
    def mfu(self) -> Mfu | None:
        """MFU at the typical step time, None where the peak is not known."""
        peak = self.results.plan.settings.peak_for(self.sku) if self.sku else None
        if self.setup is None or not peak or not self.figures:
            return None
        return mfu_of(self.setup, self.typical.step_s, peak)

    @property
    def target(self) -> float:
        """Lowest MFU that passes."""
        return self.results.plan.settings.target_for(self.sku) if self.sku else 0.0

    @property
    def steady(self) -> bool:
        """Whether the step time neither grows nor varies too much."""
        judge = self.results.plan.settings.judge
        return self.growth <= judge.growth and self.variation <= judge.step_time_cv

    @cached_property
    def doubtful(self) -> bool:
        """Whether more runs can confirm or clear something suspicious."""
        return bool(self.figures) and (bool(self.late) or self.slow_at_work)

    @property
    def slow_at_work(self) -> bool:
        """Whether the training itself shows something suspicious, and not only its start."""
        low = self.mfu is not None and self.mfu.value < self.target
        return bool(self.slow_data.slow or self.slow_data.uneven) or self.slow.any or not self.steady or low

    @property
    def load_s(self) -> float:
        """How long the next run is to be. What only the start showed needs no further ten minutes of load."""
        again = bool(self.figures) and not self.slow_at_work
        return 0.0 if again else self.results.plan.settings.run.load_s

    @property
    def confirmed(self) -> bool:
        """Whether there are enough runs for a suspicion to count."""
        return len(self.complete) >= self.results.plan.settings.run.repeats

    @property
    def wants_more(self) -> bool:
        """Whether another run would say more."""
        if not self.open_hosts or self.sku is None:
            return False
        if not self.runs:
            return True
        if self.runs[-1].problem is not None and not self.runs[-1].complete:
            return self.runs[-1].problem.transient and len(self.runs) < _TRIES_TO_PLACE
        return self.doubtful and not self.confirmed and len(self.runs) < self.results.plan.settings.run.repeats


def cohorts_of(results: Results, hardware: Mapping[str, Sku]) -> tuple[SkuCohort, ...]:
    """Return the cohorts of all SKUs of the plan."""
    return tuple(SkuCohort(results, hardware, name) for name in results.plan.skus)


def _medians(runs: list[Mapping[str, float]]) -> dict[str, float]:
    """Return the median of every name that all runs have."""
    if not runs:
        return {}
    names = [name for name in runs[0] if all(name in run for run in runs)]
    return {name: median(run[name] for run in runs) for name in names}
