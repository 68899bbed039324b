# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Hosts on which the simulated DL unit test runs as gate fabric_validation starts it, without a cluster."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import date
from typing import Any, cast

from simulated_training import NOW, ROOT, hardware
from sites import make_site

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.benchmark.host_runs import HostRecord
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.benchmark.plan import BenchmarkHost
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.dl_unit.model import Plan, Results
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.dl_unit.settings import (
    ID,
    RATE,
    DlUnitSettings,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.fabric_validation.observe_dl_unit import (
    OBSERVER,
    DlUnitBenchmark,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.registry import checks_of
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.spec import JudgeContext, ObserveContext
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.model import Outcome, Status
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.site.model import Host
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.workload.manifests import job_objects
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.workload.namespace import TemporaryNamespace
from ansible_collections.gpufleet.rehearsal.plugins.plugin_utils.faults.catalogue import (
    choose_faults,
    load_catalogue,
)
from ansible_collections.gpufleet.rehearsal.plugins.plugin_utils.model.patch import build_model, healthy_cluster
from ansible_collections.gpufleet.rehearsal.plugins.plugin_utils.model.spec import (
    Fault,
    ModelSpec,
    numbered_nodes,
)
from ansible_collections.gpufleet.rehearsal.plugins.plugin_utils.workloads.dl_unit_pods import simulate
from ansible_collections.gpufleet.rehearsal.plugins.plugin_utils.workloads.pod_simulator import (
    PodGroup,
    SimContext,
)

GATE = "fabric_validation"
CATALOGUE = load_catalogue()
CHECKS = ("gpu-gemm-rate", "gpu-numerics")


def same(_host: str, _attempt: int, log: str) -> str:
    return log


@dataclass
class UnitFleet:
    """Hosts and what is wrong with them.

    `edit` changes the log of a host's run by its number, `ended` says how it ended where that was not well; `stated`
    are settings of the rates; `leftovers` what could not be removed; without `peaks` nobody states what a GPU can do.
    """

    nodes: int = 4
    sku: str = "dgx-h100"
    faults: tuple[str, ...] = ()
    broken: tuple[Fault, ...] = ()
    stated: dict[str, Any] = field(default_factory=dict)
    edit: Callable[[str, int, str], str] = same
    ended: dict[str, tuple[str, str]] = field(default_factory=dict)
    closed: dict[str, str] = field(default_factory=dict)
    peaks: bool = True
    shared: dict[str, dict[str, str]] = field(default_factory=dict)
    leftovers: tuple[str, ...] = ()
    seed: int = 3

    def __post_init__(self) -> None:
        spec = ModelSpec(name="lab", seed=self.seed, nodes=numbered_nodes(self.nodes, self.sku))
        chosen = choose_faults(self.faults, healthy_cluster(spec, hardware()), CATALOGUE)
        self.model = build_model(replace(spec, faults=(*chosen, *self.broken)), hardware())
        names = [node.name for node in self.model.nodes]
        hosts = tuple(Host(name=n, sku=self.sku, node_name=n) for n in names)
        self.site = make_site(hosts, capabilities=("kubernetes", "multi_node"), settings={RATE: self.stated})
        self.context = ObserveContext(site=self.site, run_dir=ROOT, today=date(2026, 1, 1), hardware=hardware())
        if not self.peaks:
            unknown = replace(hardware()[self.sku], peak_tflops={}, hbm_tb_per_s=None)
            self.context = replace(self.context, hardware={self.sku: unknown})
        planned = tuple(BenchmarkHost(name=n, node=n, sku=self.sku, closed=self.closed.get(n, "")) for n in names)
        self.bench = DlUnitBenchmark(self.context, self.context.settings_of(ID, DlUnitSettings))
        self.bench.plan = Plan(hosts=planned, settings=self.bench.settings)
        self.steps: list[list[str]] = []

    def log(self, host: str) -> tuple[str, str]:
        """Return what the pod of a host's next run prints, and how it ends."""
        spec = self.bench.job(host)
        namespace = TemporaryNamespace(cast(Any, None), "test", 60.0, ())
        template = job_objects(spec, namespace)[-1]["spec"]["template"]["spec"]
        pod = {"metadata": {"name": f"{spec.name}-0", "namespace": "test"},
               "spec": {**template, "nodeName": spec.nodes[0]}, "status": {"phase": "Running"}}  # fmt: skip
        context = SimContext(model=self.model, skus=hardware(), now=NOW)
        output = (simulate(PodGroup(name=spec.name, pods=(pod,)), context) or {})[f"{spec.name}-0"]
        state = "image" if output.fault else "failed" if output.exit_code else "succeeded"
        return "".join(f"{line}\n" for _stream, line in output.lines), state

    def results(self) -> Results:
        """Return all runs that the observer would make."""
        while wanted := (self.bench.next_runs() if self.bench.plan.open_hosts else []):
            self.steps.append(list(wanted))
            assert len(self.steps) < 10
            for host in wanted:
                attempt = self.bench.attempt(host)
                log, state = self.log(host)
                state, reason = self.ended.get(host, (state, "as it did"))
                name = self.bench.job_name("dl-unit", host)
                kept = f"evidence/{GATE}/{name}.log"
                record = HostRecord(name=name, host=host, attempt=attempt, state=state, reason=reason, log=kept)
                self.bench.runs.append(self.bench.run_of(record, self.edit(host, attempt, log)))
        return Results(plan=self.bench.plan, runs=tuple(self.bench.runs), leftovers=self.leftovers)

    def outcomes(self) -> list[Outcome]:
        """Return what the two checks say; each host has an answer of each."""
        context = JudgeContext(
            gate=GATE, site=self.site, today=date(2026, 1, 1), hardware=self.context.hardware, shared=self.shared
        )
        results = self.results()
        checks = [check for check in checks_of(GATE, self.site) if check.observer is OBSERVER]
        assert tuple(check.spec.id for check in checks) == CHECKS
        told = [outcome for check in checks for outcome in check.judge(results, context)]
        for name in CHECKS:
            named = {s.name for o in told if o.check == name for s in o.subjects}
            assert {host.name for host in self.bench.plan.hosts} <= named, name
        return told

    def findings(self) -> list[tuple[str, str, str, tuple[str, ...]]]:
        """Return check, cause, status and subjects of everything that is not passed by itself."""
        found = [o for o in self.outcomes() if o.status is not Status.PASSED and not o.blocked_by]
        return [(o.check, o.cause, o.status.value, tuple(s.name for s in o.subjects)) for o in found]
