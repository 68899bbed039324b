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
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.training_acceptance.parse_run import parse_run
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.training_acceptance.settings import (
    TrainingSettings,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.hardware.sku import Sku
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.model import Outcome, Status
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.site.model import Host

GATE = "training_acceptance"
STEPS = 60
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
    """

    hosts: tuple[str, ...]
    hardware: dict[str, Sku]
    sku: str = "dgx-h100"
    pace: dict[str, float] = field(default_factory=dict)
    grown: dict[str, float] = field(default_factory=dict)
    jolted: dict[str, float] = field(default_factory=dict)
    late_s: dict[str, float] = field(default_factory=dict)
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
        fleet = replace(self, pace={}, grown={}, jolted={}, late_s={}) if healthy else self
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
            text = "".join(json.dumps(line, separators=(",", ":")) + "\n" for said in edited for line in said)
            logs[host] = text if healthy else self.raw(host, text)
        return record, logs

    def lines(self) -> list[list[Line]]:
        """Return the lines of every rank."""
        settings = checked_settings(TrainingSettings, "training_acceptance", self.settings)
        sku = self.hardware[self.sku]
        shape = settings.shape_for(sku)
        matrices = 12 * shape.layers * shape.hidden**2 + shape.hidden * shape.vocabulary
        flop = 6 * matrices + 12 * shape.layers * shape.hidden * shape.sequence
        tokens = shape.batch * shape.accumulate * shape.sequence
        usual = tokens * flop / (self.mfu * sku.peak_tflops["bf16"] * 1e12)
        ranks = [(host, f"{host}/gpu{gpu}", gpu) for host in self.open for gpu in range(self.gpus)]
        said: list[list[Line]] = []
        for number, (host, _gpu, local) in enumerate(ranks):
            started = 1e9 + self.late_s.get(host, 0.0) + self.draw.random()
            head = {"schema_version": 1, "rank": number}
            said.append([{**head, "event": "hello", "local_rank": local, "host": host, "started": started}])
            said[-1].append(
                {
                    **head, "event": "start", "world": len(ranks), "device": "cuda", "device_name": sku.gpu_product,
                    "uuid": f"GPU-{number}", "backend": "nccl", "torch": "2.8.0", "joined": 1e9 + 9,
                    "dtype": "bfloat16", "batch": shape.batch, "accumulate": shape.accumulate,
                    "sequence": shape.sequence, "layers": shape.layers,
                    "hidden": shape.hidden, "vocabulary": shape.vocabulary, "parameters": matrices + 1000,
                    "matmul_parameters": matrices,
                }
            )  # fmt: skip
        for step in range(1, STEPS + 1):
            own = [0.98 * usual * self._part(host, gpu, step) for host, gpu, _local in ranks]
            whole = max(own) + 0.02 * usual
            loss = 0.2 + 8.8 * math.exp(-step / 12)
            for number, seconds in enumerate(own):
                said[number].append(
                    {
                        "schema_version": 1, "event": "step", "rank": number, "step": step, "step_time_s": whole,
                        "loss": loss * self.draw.gauss(1.0, 0.02), "compute_s": seconds, "tokens": tokens,
                    }
                )  # fmt: skip
        for number in range(len(ranks)):
            said[number].append(
                {"schema_version": 1, "event": "end", "rank": number, "steps": STEPS, "weights": "ab", "memory_mib": 1}
            )
        return said

    def _part(self, host: str, gpu: str, step: int) -> float:
        warming = 5.0 if step == 1 else 1.0
        grown = 1 + self.grown.get(host, 0.0) * step / STEPS
        jolt = 1 + (self.jolted.get(host, 0.0) if step % 5 == 0 else 0.0)
        return warming * grown * jolt * self.draw.gauss(1.0, self.noise) / self.pace.get(gpu, self.pace.get(host, 1.0))

    def results(self) -> Results:
        """Run the gate's course to its end."""
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
        return tuple(outcome for check in checks_of(GATE, site) for outcome in check.judge(seen, context))

    def findings(self, results: Results | None = None) -> list[tuple[str, str, str, str]]:
        """Return check, cause, status and first subject of what is not passed, references to others left out."""
        return [
            (o.check, o.cause, o.status.value, o.subjects[0].name)
            for o in self.outcomes(results)
            if o.status is not Status.PASSED and not o.blocked_by
        ]
