# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A fleet whose runs print what NCCL and nccl-tests would: enough to drive the gate's decisions without a cluster."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import date

from sites import make_site

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.fabric_validation.model import (
    Plan,
    PlannedHost,
    Record,
    Results,
    Run,
    Wanted,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.fabric_validation.observe_nccl import next_runs
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.fabric_validation.parse_run import parse_run
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.fabric_validation.settings import (
    FabricValidationSettings,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.kit.settings_layers import checked_settings
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.registry import checks_of
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.spec import JudgeContext
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.hardware.sku import Sku
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.model import Outcome, Status
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.site.model import Host, Site

G = 1 << 30
HEAD = "#  size  count  type  redop  root  time  algbw  busbw  #wrong  time  algbw  busbw  #wrong\n"
Change = Callable[[Wanted, str], str]


def unchanged(_want: Wanted, text: str) -> str:
    return text


def well(_want: Wanted) -> tuple[str, int | None]:
    return "succeeded", 0


def as_planned(plan: Plan) -> Plan:
    return plan


@dataclass
class Fleet:
    """Hosts and what is wrong with them; factors are parts of the full speed."""

    hosts: tuple[str, ...]
    hardware: dict[str, Sku]
    sku: str = "dgx-h100"
    gpus: int = 8
    nvlink: dict[str, float] = field(default_factory=dict)
    nics: dict[tuple[str, int], float] = field(default_factory=dict)
    paths: dict[frozenset[str], float] = field(default_factory=dict)
    says: dict[str, str] = field(default_factory=dict)
    whole: float = 1.0
    noise: float = 0.004
    algorithm: str = "NVLS_TREE"
    # Whether the site states that all hosts reduce in the switches.
    sharp: bool = False
    change: Change = unchanged
    state: Callable[[Wanted], tuple[str, int | None]] = well
    plan_change: Callable[[Plan], Plan] = as_planned
    settings: dict[str, object] = field(default_factory=dict)
    # What each host may share with others, see JudgeContext.shared.
    shared: dict[str, dict[str, str]] = field(default_factory=dict)
    draw: random.Random = field(default_factory=lambda: random.Random(7))

    def plan(self) -> Plan:
        names = tuple(f"mlx5_{n}:1" for n in range(self.gpus))
        planned = [
            PlannedHost(name=name, node=name, sku=self.sku, rack=f"r{n // 4}", hcas=names, rdma_offered=8)
            for n, name in enumerate(self.hosts)
        ]
        settings = checked_settings(
            FabricValidationSettings, "fabric_validation", {"largest": 8 * G, "smallest": 1 << 26, **self.settings}
        )
        plan = Plan(hosts=tuple(planned), settings=settings, rdma_resource="rdma/hca", adapter_runs=True)
        return self.plan_change(plan)

    def speed(self, want: Wanted) -> float:
        # A ring gets less out of NVLink than the switches do, and so does a ring over hosts.
        inside = (360.0 if self.algorithm == "RING" else 473.0) * min(self.nvlink.get(name, 1.0) for name in want.hosts)
        if want.phase == "node":
            return inside
        rails = range(self.gpus) if want.rail is None else [want.rail]
        nic = 47.5 * min(self.nics.get((name, rail), 1.0) for name in want.hosts for rail in rails)
        path = self.paths.get(frozenset(want.hosts), 1.0)
        if want.phase == "adapters":
            return nic * path
        if want.phase == "loop":
            return nic / self.gpus
        factor = 1.875 if self.gpus > 1 and len(want.hosts) == 2 and self.algorithm != "RING" else 1.0
        return min(inside, nic * len(list(rails)) * factor) * path * (self.whole if want.phase == "all" else 1.0)

    def log(self, want: Wanted, smallest: int) -> str:
        lines: list[str] = []
        ranks = [(host, gpu) for host in want.hosts for gpu in range(self.gpus)]
        for host in want.hosts:
            said = [f"{host}-pod:1:1 [0] NCCL INFO NCCL version 2.27.7+cuda12.9"]
            if want.phase != "node":
                rails = range(self.gpus) if want.rail is None else [want.rail]
                devices = " ".join(f"[{n}]mlx5_{rail}:1/IB" for n, rail in enumerate(rails))
                default = (
                    f"NET/IB : Using {devices} [RO]; OOB eth0:10.0.0.1<0>\nUsing network IB\n"
                    "Channel 00/0 : 0[0] -> 8[0] [send] via NET/IB/0/GDRDMA"
                )
                texts = self.says.get(host, default).splitlines()
                said += [f"{host}-pod:1:1 [0] NCCL {'' if t.startswith('WARN') else 'INFO '}{t}" for t in texts]
            lines += said
        split = want.phase == "adapters"
        lines += [
            f"#  Rank {n} Group {g if split else 0:2d} Pid 1 on {h}-pod device {g} [0x1b] NVIDIA H100"
            for n, (h, g) in enumerate(ranks)
        ]
        value, rows, size = self.speed(want) * self.draw.gauss(1.0, self.noise), [], smallest
        while size <= 8 * G:
            bandwidth = value * (1 - 0.02 * (8 * G / size - 1) / 128)
            rows.append(f"  {size} {size // 4} float sum -1  10.0 1.0 {bandwidth:.2f} 0  10.0 1.0 {bandwidth:.2f} 0\n")
            lines.append(
                f"{want.hosts[0]}-pod:1:1 [0] NCCL INFO AllReduce: {size} Bytes -> Algo {self.algorithm} proto SIMPLE"
            )
            size *= 2
        foot = "# Out of bounds values : 0 OK\n# Avg bus bandwidth    : 100.0\n"
        return "\n".join(lines) + "\n" + HEAD + "".join(rows) + foot

    def run(self, want: Wanted, plan: Plan, serial: int) -> Run:
        large_only = want.phase in ("adapters", "rail", "loop")
        smallest = plan.settings.run.rail_smallest if large_only else plan.settings.run.smallest
        state, code = self.state(want)
        names = (f"mlx5_{rail}:1" for rail in (range(self.gpus) if want.rail is None else [want.rail]))
        ports = tuple(names) if want.phase != "node" else ()
        record = Record(
            name=f"{want.phase}-{serial}",
            phase=want.phase,
            hosts=want.hosts,
            attempt=want.attempt,
            rail=want.rail,
            state=state,
            reason="as the test says",
            exit_code=code,
            hostnames={f"{name}-pod": name for name in want.hosts},
            hcas=dict.fromkeys(want.hosts, ports),
            command=("all_reduce_perf",),
            smallest=smallest,
            ranks=self.gpus * len(want.hosts),
            log=f"evidence/{serial}.log",
        )
        return parse_run(record, self.change(want, self.log(want, smallest)), plan.settings)

    def results(self) -> Results:
        """Run the gate's course to its end."""
        results = Results(plan=self.plan())
        for _step in range(20):
            wanted = next_runs(results, self.hardware)
            if not wanted:
                return results
            done = len(results.runs)
            more = tuple(self.run(want, results.plan, done + n) for n, want in enumerate(wanted))
            results = replace(results, runs=results.runs + more)
        raise AssertionError("the course does not come to an end")

    def site(self) -> Site:
        words = ("kubernetes", "multi_node") if len(self.hosts) > 1 else ("kubernetes",)
        hosts = tuple(Host(name=name, sku=self.sku, node_name=name) for name in self.hosts)
        return make_site(hosts, name="here", capabilities=words, settings={"nccl-all-nodes-bw": {"sharp": self.sharp}})

    def outcomes(self, results: Results | None = None) -> tuple[Outcome, ...]:
        """Judge everything."""
        site, seen = self.site(), results or self.results()
        context = JudgeContext(
            gate="fabric_validation", site=site, today=date(2026, 1, 1), hardware=self.hardware, shared=self.shared
        )
        checks = [
            c
            for c in checks_of("fabric_validation", site)
            if c.observer.key == "nccl" and not c.spec.missing_capabilities(site)
        ]
        return tuple(outcome for check in checks for outcome in check.judge(seen, context))


def findings(outcomes: tuple[Outcome, ...]) -> list[tuple[str, str, str]]:
    """What is not passed and waits for nothing: check, cause, names of the subjects."""
    return sorted(
        (o.check, o.cause, " ".join(subject.name for subject in o.subjects))
        for o in outcomes
        if o.status is not Status.PASSED and not o.blocked_by
    )
