# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Hosts whose ranks write what the training program would: enough to drive the gate's decisions without a cluster."""

from __future__ import annotations

import json
import math
import random
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import date
from functools import cached_property
from typing import Any

from sites import make_site

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.kit.settings_layers import checked_settings
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.registry import checks_of
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.spec import JudgeContext
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.training_acceptance.analysis import cohorts_of
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.training_acceptance.model import (
    Plan,
    PlannedHost,
    PodRecord,
    Record,
    Results,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.training_acceptance.observe_training import (
    parse_run,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.training_acceptance.settings import (
    Shape,
    TrainingSettings,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.hardware.sku import Sku
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.model import Outcome, Status
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.site.model import Host

GATE = "training_acceptance"
STEPS, WINDOWS = 60, 20
LOAD_S = 600.0
Line = dict[str, Any]
# From a rank's number and its lines to the lines that it writes instead.
Edit = Callable[[int, list[Line]], list[Line]]
# How a run ends: its state, the reason, the exit code of each pod by index; lines are edited apart.
End = tuple[str, str, dict[int, int | None]]
WELL: End = ("succeeded", "exit code 0", {})


def unchanged(_rank: int, lines: list[Line]) -> list[Line]:
    return lines


@dataclass
class TrainingFleet:
    """Hosts and what is wrong with them. `pace` is a GPU's or a host's part of the usual rate, in a run by its number.

    `grown` and `jolted` are the parts by which a host's work grows over a run, or is longer in every fifth step.
    `late_s` is a phase of a pod, or `ready` of its ranks, and by host the seconds that come before its end; `throttled`
    by GPU the reason and the part of the samples; `data_s` by host the seconds for the data of a step.
    """

    hosts: tuple[str, ...]
    hardware: dict[str, Sku]
    sku: str = "dgx-h100"
    pace: dict[str, float] = field(default_factory=dict)
    grown: dict[str, float] = field(default_factory=dict)
    jolted: dict[str, float] = field(default_factory=dict)
    late_s: dict[str, float] = field(default_factory=dict)
    late_at: str = "started"
    throttled: dict[str, tuple[str, float]] = field(default_factory=dict)
    data_s: dict[str, float] = field(default_factory=dict)
    mfu: float = 0.45
    noise: float = 0.005
    edit: Edit = unchanged
    raw: Callable[[str, str], str] = lambda _host, text: text
    end: Callable[[int], End] = lambda _attempt: WELL
    # In which attempts what is wrong is there; later ones are healthy.
    attempts: int = 99
    closed: dict[str, str] = field(default_factory=dict)
    settings: dict[str, Any] = field(default_factory=dict)
    # What each host may share with others, see JudgeContext.shared.
    shared: dict[str, dict[str, str]] = field(default_factory=dict)
    draw: random.Random = field(default_factory=lambda: random.Random(7))

    @property
    def gpus(self) -> int:
        return self.hardware[self.sku].gpus

    @property
    def open(self) -> tuple[str, ...]:
        return tuple(host for host in self.hosts if host not in self.closed)

    def plan(self) -> Plan:
        settings = checked_settings(TrainingSettings, "training_acceptance", self.settings)
        hosts = tuple(
            PlannedHost(name=name, node=f"n-{name}", sku=self.sku, closed=self.closed.get(name, ""))
            for name in self.hosts
        )
        return Plan(hosts=hosts, settings=settings, shapes={self.sku: settings.shape_for(self.hardware[self.sku])})

    def run(self, attempt: int) -> tuple[Record, dict[str, str]]:
        """Return a run and the log of every host."""
        healthy = attempt > self.attempts
        mended = replace(self, pace={}, grown={}, jolted={}, late_s={}, throttled={}, data_s={})
        fleet = mended if healthy else self
        state, reason, codes = WELL if healthy else self.end(attempt)
        pods = tuple(
            PodRecord(host=host, node=f"n-{host}", index=n, exit_code=codes.get(n, 0), log=f"{n}.log")
            for n, host in enumerate(self.open)
        )
        record = Record(
            name=f"train-1-{attempt}", sku=self.sku, hosts=self.open, attempt=attempt, gpus=self.gpus, state=state,
            reason=reason, pods=pods, command=("train.py",),
        )  # fmt: skip
        logs = {}
        lines = fleet.lines()
        for n, host in enumerate(self.open):
            mine = [lines[n * self.gpus + gpu] for gpu in range(self.gpus)]
            edited = mine if healthy else [self.edit(n * self.gpus + gpu, said) for gpu, said in enumerate(mine)]
            ours = [fleet.phases(host, n), *edited]
            text = "".join(json.dumps(line, separators=(",", ":")) + "\n" for said in ours for line in said)
            logs[host] = text if healthy else self.raw(host, text)
        return record, logs

    def phases(self, host: str, index: int) -> list[Line]:
        """Return what a pod says before its ranks begin; a pod waits for the name of the one of index 0."""
        late = {at: self.late_s.get(host, 0.0) for at in (self.late_at,)}
        first = self.late_s.get(self.open[0], 0.0) if self.late_at == "started" else 0.0
        own = 1e9 + late.get("started", 0.0)
        started = own + self.draw.random()
        resolved = max(own, 1e9 + first) + 1.5 + late.get("resolved", 0.0)
        loaded = resolved + 8 + self.draw.random() + late.get("loaded", 0.0)
        times = {"started": started, "resolved": resolved, "loaded": loaded}
        return [
            {"schema_version": 2, "event": "pod", "phase": phase, "index": index, "at": at}
            for phase, at in times.items()
        ]

    def lines(self) -> list[list[Line]]:
        """Return the lines of every rank: steps, windows up to the end of the load, a state every ten seconds."""
        settings = checked_settings(TrainingSettings, "training_acceptance", self.settings)
        sku = self.hardware[self.sku]
        shape = settings.shape_for(sku)
        matrices = 12 * shape.layers * shape.hidden**2 + shape.hidden * shape.vocabulary
        flop = 6 * matrices + 12 * shape.layers * shape.hidden * shape.sequence
        tokens = shape.batch * shape.accumulate * shape.sequence
        usual = tokens * flop / (self.mfu * sku.peak_tflops["bf16"] * 1e12)
        ranks = [(host, f"{host}/gpu{gpu}", gpu) for host in self.open for gpu in range(self.gpus)]
        said = [self._begin(number, rank, len(ranks), shape, matrices) for number, rank in enumerate(ranks)]
        elapsed = self._steps(said, ranks, usual, tokens)
        each = max(1, math.ceil((LOAD_S - elapsed) / (usual * WINDOWS)))
        for number in range(len(ranks)):
            said[number].append(self._digest(number, 2, STEPS))
        elapsed += self._windows(said, ranks, usual, each)
        states = max(1, int(elapsed / 10))
        for number, (_host, gpu, _local) in enumerate(ranks):
            said[number] += [self._state(number, gpu, state) for state in range(1, states + 1)]
            said[number].append(self._digest(number, 3, STEPS + WINDOWS * each))
            said[number].append(
                {
                    "schema_version": 2, "event": "end", "rank": number, "steps": STEPS + WINDOWS * each,
                    "load_s": elapsed, "digests": 3, "windows": WINDOWS, "states": states, "weights": "ab",
                    "memory_mib": 1,
                }
            )  # fmt: skip
        return said

    def _begin(self, number: int, rank: tuple[str, str, int], world: int, shape: Shape, matrices: int) -> list[Line]:
        """Return what a rank says until it trains; everybody's workers begin when the last agent is there."""
        host, _gpu, local = rank
        began = 1e9 + 20 + max(self.late_s.values(), default=0.0)
        started = began + self.draw.random()
        slow = self.late_s.get(host, 0.0) if self.late_at == "ready" else 0.0
        head = {"schema_version": 2, "rank": number}
        start = {
            **head, "event": "start", "ready": started + 5 + slow, "joined": began + 900, "world": world,
            "device": "cuda", "device_name": self.hardware[self.sku].gpu_product, "uuid": f"GPU-{number}",
            "backend": "nccl", "torch": "2.8.0", "dtype": "bfloat16", "batch": shape.batch,
            "accumulate": shape.accumulate, "sequence": shape.sequence, "layers": shape.layers,
            "hidden": shape.hidden, "vocabulary": shape.vocabulary, "parameters": matrices + 1000,
            "matmul_parameters": matrices, "power_limit_w": 700.0, "clock_max_mhz": 1980,
        }  # fmt: skip
        hello = {**head, "event": "hello", "local_rank": local, "host": host, "started": started}
        return [hello, start, self._digest(number, 1, 0)]

    def _steps(self, said: list[list[Line]], ranks: list[tuple[str, str, int]], usual: float, tokens: int) -> float:
        """Add the first steps; return their seconds."""
        slowest, elapsed = max(self.data_s.values(), default=0.015), 0.0
        for step in range(1, STEPS + 1):
            own = [0.98 * usual * self._part(host, gpu, step / 1400, step) for host, gpu, _local in ranks]
            whole = slowest + max(own) + 0.02 * usual
            elapsed += whole
            loss = 0.2 + 8.8 * math.exp(-step / 12)
            for number, seconds in enumerate(own):
                said[number].append(
                    {
                        "schema_version": 2, "event": "step", "rank": number, "step": step, "step_time_s": whole,
                        "loss": loss * self.draw.gauss(1.0, 0.02), "compute_s": seconds, "tokens": tokens,
                        "data_s": self._data(ranks[number][0]),
                    }
                )  # fmt: skip
        return elapsed

    def _windows(self, said: list[list[Line]], ranks: list[tuple[str, str, int]], usual: float, each: int) -> float:
        """Add the windows after them; return their seconds."""
        slowest, elapsed = max(self.data_s.values(), default=0.015), 0.0
        for window in range(1, WINDOWS + 1):
            own = [0.98 * usual * self._part(host, gpu, window / WINDOWS) for host, gpu, _local in ranks]
            jolt = 1 + max(self.jolted.values(), default=0.0)
            # A fifth of the steps is longer by the jolt, so the mean by a fifth of it and the deviation by two fifths.
            whole = slowest + max(own) * (1 + (jolt - 1) / 5) + 0.02 * usual
            elapsed += each * whole
            for number, seconds in enumerate(own):
                mine = 1 + self.jolted.get(ranks[number][0], 0.0)
                said[number].append(
                    {
                        "schema_version": 2, "event": "window", "rank": number, "number": window,
                        "first": STEPS + 1 + (window - 1) * each, "count": each, "loss": 0.2, "not_finite_from": 0,
                        "step_time_s": whole, "step_time_sd_s": whole * math.hypot(self.noise, 0.4 * (jolt - 1)),
                        "step_time_max_s": whole * (1 + 2 * self.noise) * jolt, "compute_s": seconds,
                        "compute_max_s": seconds * (1 + 2 * self.noise) * mine, "data_s": self._data(ranks[number][0]),
                    }
                )  # fmt: skip
        return elapsed

    def _data(self, host: str) -> float:
        return self.data_s.get(host, 0.015) * self.draw.gauss(1.0, 0.02)

    @staticmethod
    def _digest(rank: int, number: int, step: int) -> Line:
        return {
            "schema_version": 2, "event": "digest", "rank": rank, "number": number, "step": step, "gemm": "a1",
            "attention": "b2", "wrong_rows": 0,
        }  # fmt: skip

    def _state(self, rank: int, gpu: str, number: int) -> Line:
        reason, part = self.throttled.get(gpu, ("", 0.0))
        held = {reason: round(10 * part)} if reason and round(10 * part) else {}
        return {
            "schema_version": 2, "event": "state", "rank": rank, "number": number, "at_s": 10.0 * number, "samples": 10,
            "clock_mhz": 1755.0 * self.draw.gauss(1.0, 0.01) * (1 - part / 3), "clock_min_mhz": 1100.0,
            "power_w": 695.0, "temperature_c": 72.0, "reasons": {"sw_power_cap": 10, **held},
        }  # fmt: skip

    def _part(self, host: str, gpu: str, done: float, step: int = 0) -> float:
        """Return the factor on the usual time after so much of the run, at a step of the first ones."""
        warming = 5.0 if step == 1 else 1.0
        grown = 1 + self.grown.get(host, 0.0) * done
        jolt = 1 + (self.jolted.get(host, 0.0) if step and step % 5 == 0 else 0.0)
        noise = self.draw.gauss(1.0, self.noise if step else self.noise / 5)
        return warming * grown * jolt * noise / self.pace.get(gpu, self.pace.get(host, 1.0))

    def results(self) -> Results:
        """The gate's course to its end: one for each fleet, whatever is asked of it."""
        return self._course

    @cached_property
    def _course(self) -> Results:
        plan = self.plan()
        results = Results(plan=plan)
        for attempt in range(1, 6):
            if not any(kind.wants_more for kind in cohorts_of(results, self.hardware)):
                return results
            record, logs = self.run(attempt)
            results = replace(results, runs=(*results.runs, parse_run(record, logs, plan.settings)))
        raise AssertionError("the course does not come to an end")

    def outcomes(self, results: Results | None = None) -> tuple[Outcome, ...]:
        """Judge everything."""
        seen = results or self.results()
        hosts = tuple(Host(name=name, sku=self.sku, node_name=f"n-{name}") for name in self.hosts)
        site = make_site(hosts, name="here", capabilities=("kubernetes",))
        context = JudgeContext(gate=GATE, site=site, today=date(2026, 1, 1), hardware=self.hardware, shared=self.shared)
        checks = [check for check in checks_of(GATE, site) if not check.spec.missing_capabilities(site)]
        return tuple(outcome for check in checks for outcome in check.judge(seen, context))

    def findings(self, results: Results | None = None) -> list[tuple[str, str, str, str]]:
        """Return check, cause, status and first subject of what is not passed, references to others left out."""
        return [
            (o.check, o.cause, o.status.value, o.subjects[0].name)
            for o in self.outcomes(results)
            if o.status is not Status.PASSED and not o.blocked_by
        ]
