# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Run directories of runs that never happened: a fleet of any size with results of any kind, for the reports."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from datetime import date
from pathlib import Path
from typing import Any

from sites import make_site

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.codec import dumps
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.decisions import Acceptance, Quarantine, Waiver
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.gates import GATE_IDS
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.model import (
    Axis,
    Basis,
    Bound,
    Evidence,
    Expectation,
    Measure,
    Outcome,
    Rating,
    Series,
    Status,
    Subject,
    SubjectKind,
    node_subject,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.report.facts import write_suites
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.runtime.files import RUN, SITE
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.site.model import Host, Site
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.verdict.gate import NotDeclared, decide
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.verdict.run import (
    RunRecord,
    new_run,
    with_site,
)

STARTED = "2026-11-21T10:00:00.000Z"
WHOLE = "site-1"


def passed(gate: str, check: str, subject: Subject, **more: Any) -> Outcome:
    """An outcome that is good."""
    about = {"status": Status.PASSED, "rating": Rating.GOOD, "subjects": (subject,), "summary": "as it should be"}
    return Outcome(check=check, gate=gate, **{**about, **more})


def failed(gate: str, check: str, subject: Subject, cause: str, **more: Any) -> Outcome:
    """An outcome that is bad, with everything that a reader needs."""
    about: dict[str, Any] = {
        "summary": f"{subject.name} does 199.2 GB/s",
        "hint": f"look at {subject.name} with `ibstat`",
        "measured": (Measure("busbw", 199.2, "GB/s"),),
        "expected": (
            Expectation("busbw", ">=", 408.0, Basis.CEILING, "GB/s", "0.85 x 480, bad under 0.75 x; 8 x 400 Gb/s / 8"),
        ),
        "evidence": (Evidence("all_reduce_perf", subject.name, "8589934592 199.2", f"evidence/{subject.name}.log"),),
    }
    return passed(
        gate, check, subject, **{"status": Status.FAILED, "rating": Rating.BAD, "cause": cause, **about, **more}
    )


def held(gate: str, check: str, subject: Subject, cause: str, rating: Rating = Rating.MARGINAL, **more: Any) -> Outcome:
    """An outcome that is neither: marginal, or not known."""
    return failed(gate, check, subject, cause, status=Status.OTHER, rating=rating, **more)


def bandwidth(name: str, top: float, ceiling: float = 480.0) -> Series:
    """A curve as nccl-tests give one."""
    points = tuple((float(1 << k), top / (1 + math.exp((24 - k) * 0.6))) for k in range(16, 34))
    bounds = (("ceiling (ring)", 1.0), ("marginal below", 0.85), ("bad below", 0.75))
    return Series(
        figure="NCCL bus bandwidth between two nodes",
        name=name,
        x=Axis(name="size", unit="B", logarithmic=True),
        y=Axis(name="busbw", unit="GB/s"),
        points=points,
        bounds=tuple(Bound(name=word, value=part * ceiling) for word, part in bounds),
    )


def step_times(rank: int, steps: int = 200) -> Series:
    """The step times of a rank."""
    points = tuple((float(s), 0.412 + 0.004 * math.sin(s * 0.7 + rank) + (0.9 if s < 2 else 0)) for s in range(steps))
    return Series(
        figure="Step time",
        name=f"rank {rank}",
        x=Axis(name="step"),
        y=Axis(name="step time", unit="s"),
        points=points,
        bounds=(Bound(name="slowest allowed", value=0.45),),
    )


def first_tokens() -> Series:
    """The distribution of the time to the first token."""
    points = tuple((float(p), 38.0 + 1.3 * p + (p / 12) ** 3.1) for p in (1, 5, 10, 25, 50, 75, 90, 95, 99))
    return Series(
        figure="Time to first token",
        name="256 concurrent requests",
        x=Axis(name="percentile", unit="%"),
        y=Axis(name="TTFT", unit="ms"),
        points=points,
        bounds=(Bound(name="SLO p99", value=1000.0), Bound(name="SLO p50", value=200.0)),
    )


@dataclass
class MadeRun:
    """A run to be written: change what is to be different, then write it."""

    nodes: int = 4
    rehearsal: bool = False
    outcomes: dict[str, tuple[Outcome, ...]] = field(default_factory=dict)
    waivers: tuple[Waiver, ...] = ()
    acceptances: tuple[Acceptance, ...] = ()
    quarantine: tuple[Quarantine, ...] = ()
    scope: tuple[str, ...] = GATE_IDS
    name: str = WHOLE
    prefix: str = ""
    settings: dict[str, dict[str, Any]] = field(default_factory=dict)
    not_declared: dict[str, tuple[NotDeclared, ...]] = field(default_factory=dict)

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the hosts."""
        width = max(2, len(str(self.nodes)))
        return tuple(f"{self.prefix}gpu{number:0{width}}" for number in range(1, self.nodes + 1))

    @property
    def site(self) -> Site:
        """The inventory."""
        hosts = tuple(Host(name=n, sku="h100", node_name=n, rack=f"rack-{i // 4:03}") for i, n in enumerate(self.names))
        return make_site(
            hosts,
            name=self.name,
            gates=self.scope,
            waivers=self.waivers,
            acceptances=self.acceptances,
            quarantine=self.quarantine,
            rehearsal=self.rehearsal,
            settings=self.settings,
            capabilities=("host_access", "kubernetes"),
            missing={"facility_record": "the provider owns the room"},
        )

    def every_node(self, gate: str, check: str, **more: Any) -> tuple[Outcome, ...]:
        """One good outcome for each host."""
        return tuple(passed(gate, check, node_subject(name), **more) for name in self.names)

    def healthy(self) -> MadeRun:
        """Fill in a healthy run over eight gates."""
        whole = Subject(SubjectKind.CLUSTER, self.name)
        for gate in GATE_IDS:
            self.outcomes[gate] = (passed(gate, f"{gate.replace('_', '-')}-whole", whole),)
        self.outcomes["nodes"] = (*self.every_node("nodes", "gpu-census"), *self.every_node("nodes", "gpu-ecc"))
        pairs = tuple(
            replace(o, series=(bandwidth(f"{o.subjects[0].name} with its partner", 470.0 - i % 7),))
            for i, o in enumerate(self.every_node("fabric_validation", "nccl-pair-bw"))
        )
        self.outcomes["fabric_validation"] = pairs
        steps = tuple(step_times(rank) for rank in range(min(64, 8 * self.nodes)))
        self.outcomes["training_acceptance"] = (passed("training_acceptance", "step-time", whole, series=steps),)
        self.outcomes["inference_acceptance"] = (
            passed("inference_acceptance", "ttft", whole, series=(first_tokens(),)),
        )
        return self

    def record(self) -> RunRecord:
        """The verdicts of what is there; gates without outcomes are pending."""
        record = with_site(new_run("r-1", self.name, STARTED, self.scope, rehearsal=self.rehearsal), self.site)
        record = replace(record, updated="2026-11-21T10:20:00.000Z", versions={"gpufleet.bringup": "0.1.0"})
        for number, gate in enumerate(g for g in GATE_IDS if g in self.outcomes):
            outcomes = self.outcomes[gate]
            expected = {outcome.check: () for outcome in outcomes}
            verdict = decide(gate, expected, outcomes, self.site, date(2026, 11, 21), self.not_declared.get(gate, ()))
            began = f"2026-11-21T10:{2 * number:02}:00.000Z"
            record = record.with_gate(replace(verdict, started=began, duration_s=90.0))
        return record

    def write(self, run_dir: Path) -> RunRecord:
        """Write what a run leaves behind, without the reports."""
        record = self.record()
        run_dir.mkdir(parents=True, exist_ok=True)
        (run_dir / SITE).write_text(dumps(self.site), encoding="utf-8")
        (run_dir / RUN).write_text(dumps(record), encoding="utf-8")
        for gate, outcomes in self.outcomes.items():
            write_suites(run_dir, gate, outcomes, record, "0.1.0")
        return record
