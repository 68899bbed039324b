# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Hosts on which the simulated fio runs as the product starts it: the gate's decisions without a cluster.

The report that is scaled for each host is one of the real fio 3.33: tests/data/fio/.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import date, timedelta
from functools import cache
from typing import Any, cast

from simulated_training import NOW, ROOT, hardware
from sites import make_site

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.benchmark.host_runs import HostRecord
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.benchmark.plan import BenchmarkHost
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.kit.settings_layers import checked_settings
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.registry import checks_of
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.shared_storage.analysis import (
    Plan,
    Results,
    Run,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.shared_storage.run import (
    read_storage,
    storage_job,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.shared_storage.settings import (
    KEY,
    StorageSettings,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.spec import JudgeContext, ObserveContext
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.training_acceptance.observe_storage import (
    StorageBenchmark,
)
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
    ModelSpec,
    Shape,
    numbered_nodes,
)
from ansible_collections.gpufleet.rehearsal.plugins.plugin_utils.substitution.replacements import (
    storage_settings,
)
from ansible_collections.gpufleet.rehearsal.plugins.plugin_utils.workloads import fio_pods
from ansible_collections.gpufleet.rehearsal.plugins.plugin_utils.workloads.pod_simulator import (
    PodGroup,
    SimContext,
)

GATE = "training_acceptance"
CATALOGUE = load_catalogue()


@cache
def sample() -> str:
    """Return what the real program wrote."""
    return (ROOT / "tests" / "data" / "fio" / "shared-volume-3.33.txt").read_text()


def same(_host: str, _attempt: int, log: str) -> str:
    return log


@dataclass
class StorageFleet:
    """Hosts and what is wrong with them.

    `rate` is the part of its data that a host moves in a second in a group of runs (1: the first one); `edit` changes
    the log of a host's run by its number, `ended` says how it ended where that was not well; `stated` are settings of
    the site over those of a rehearsal.
    """

    nodes: int = 8
    sku: str = "dgx-h100"
    faults: tuple[str, ...] = ()
    shapes: tuple[Shape, ...] = ()
    stated: dict[str, Any] = field(default_factory=dict)
    edit: Callable[[str, int, str], str] = same
    ended: dict[str, tuple[str, str]] = field(default_factory=dict)
    closed: dict[str, str] = field(default_factory=dict)
    shared: dict[str, dict[str, str]] = field(default_factory=dict)
    seed: int = 3
    rate: Callable[[str, int], float] = lambda _host, _group: 1.0

    def __post_init__(self) -> None:
        spec = ModelSpec(name="lab", seed=self.seed, nodes=numbered_nodes(self.nodes, self.sku), shapes=self.shapes)
        healthy = healthy_cluster(spec, hardware())
        self.model = build_model(replace(spec, faults=choose_faults(self.faults, healthy, CATALOGUE)), hardware())
        options = {**storage_settings(self.nodes), **self.stated}
        self.settings = checked_settings(StorageSettings, KEY, options)
        names = [node.name for node in self.model.nodes]
        hosts = tuple(Host(name=n, sku=self.sku, node_name=n) for n in names)
        words = ("kubernetes", "shared_volume", "multi_node")
        self.site = make_site(hosts, capabilities=words, settings={KEY: options})
        planned = tuple(BenchmarkHost(name=n, node=n, sku=self.sku, closed=self.closed.get(n, "")) for n in names)
        self.plan = Plan(hosts=planned, settings=self.settings)
        self.groups: list[list[str]] = []

    def log(self, host: BenchmarkHost, attempt: int) -> tuple[str, int | None]:
        """Return what the pod of a host prints, and its exit code."""
        name = f"fio-{self.plan.hosts.index(host) + 1}-{attempt}-{self.seed}"
        spec = storage_job(name, host, self.settings, f"{attempt}")
        namespace = TemporaryNamespace(cast(Any, None), "test", 60.0, ())
        template = job_objects(spec, namespace)[-1]["spec"]["template"]["spec"]
        pod = {"metadata": {"name": name, "namespace": "test"}, "spec": {**template, "nodeName": host.node},
               "status": {"phase": "Running"}}  # fmt: skip
        context = SimContext(model=self.model, skus=hardware(), now=NOW)
        fio_pods.put_sample(pod, context, (0, sample(), ""))
        assert fio_pods.handles(pod)
        output = (fio_pods.simulate(PodGroup(name=name, pods=(pod,)), context) or {})[name]
        return "".join(f"{line}\n" for _stream, line in output.lines), output.exit_code

    def results(self) -> Results:
        """Return all runs that the observer would make."""
        self.groups = []
        context = ObserveContext(site=self.site, run_dir=ROOT, today=date(2026, 1, 1), hardware=hardware())
        bench = StorageBenchmark(context, self.settings)
        bench.plan = self.plan
        while wanted := (bench.next_runs() if self.plan.open_hosts else []):
            self.groups.append(list(wanted))
            bench.runs += [self._run(self.plan.host(name), bench.attempt(name)) for name in wanted]
            assert len(self.groups) < 100
        return Results(plan=self.plan, runs=tuple(bench.runs))

    def _run(self, host: BenchmarkHost, attempt: int) -> Run:
        log, code = self.log(host, attempt)
        state, reason = self.ended.get(host.name, ("failed" if code else "succeeded", ""))
        group = len(self.groups)
        part = self.rate(host.name, group)
        if part != 1.0:
            log = re.sub(r'("bw_bytes" ?: ?)(\d+)', lambda found: f"{found[1]}{int(int(found[2]) * part)}", log)
        log = self.edit(host.name, attempt, log)
        record = HostRecord(
            name=f"fio-{host.name}", host=host.name, attempt=attempt, state=state, reason=reason,
            started=(NOW + timedelta(minutes=2 * group)).isoformat(), duration_s=60.0,
        )  # fmt: skip
        return Run(record=record, reading=read_storage(state, reason, log, self.settings))

    def outcomes(self) -> list[Outcome]:
        """Return what the three checks say."""
        context = JudgeContext(
            gate=GATE, site=self.site, today=date(2026, 1, 1), hardware=hardware(), shared=self.shared
        )
        results = self.results()
        checks = [check for check in checks_of(GATE, self.site) if check.spec.id.startswith("storage-")]
        assert len(checks) == 3
        told = [outcome for check in checks for outcome in check.judge(results, context)]
        for check in checks:
            named = {s.name for o in told if o.check == check.spec.id for s in o.subjects}
            assert {host.name for host in self.plan.hosts} <= named, check.spec.id
        return told

    def findings(self) -> list[tuple[str, str, str, str]]:
        """Return check, cause, status and first subject of everything that is not passed by itself."""
        found = [o for o in self.outcomes() if o.status is not Status.PASSED and not o.blocked_by]
        return [(o.check, o.cause, o.status.value, o.subjects[0].name) for o in found]
