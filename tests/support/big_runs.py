# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Runs of healthy fleets of any size, gate by gate: a run directory as a gate's observers leave it, made in seconds.

One host's evidence is made and multiplied, with name, UUIDs and serial numbers of each host put in its place.
"""

from __future__ import annotations

import importlib.util
import json
import sys
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from datetime import date
from functools import cache
from pathlib import Path
from time import process_time
from types import ModuleType
from typing import Any

from big_benchmarks import ranks, unit_tests
from big_fabric import fabric_tools, guid_of_host, with_guids
from gpu_metrics import Metrics
from llm_fleet import LEGS, export, fleet, load, server
from nccl_fleet import Fleet
from sites import make_site
from training_fleet import TrainingFleet

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.fabric_validation.model import (
    Results,
    SavedObservation,
    Wanted,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.fabric_validation.observe_nccl import next_runs
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.gpu_stack.access import (
    AccessResult,
    Looked,
    NodeAccess,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.gpu_stack.claimed_container import ContainerSeen
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.gpu_stack.observe_gang import GangResult
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.gpu_stack.observe_platform import (
    PlatformState,
    TriedObject,
    Webhook,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.inference_acceptance.model import (
    SavedObservation as SavedInference,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.observation import Observation, observation_path
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.observation import observe as observe_gate
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.registry import observers_of
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.spec import ObserveContext
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.telemetry.model import AlertDelivery
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.training_acceptance.model import (
    SavedObservation as SavedTraining,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.collect.host_evidence import (
    FABRIC,
    HOSTS,
    HostEvidence,
    evidence_file,
    write_evidence,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.collect.loads import AFTER, MOMENTS, load_kind
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.hardware.sku import Sku, load_hardware
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.codec import dumps, to_plain
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.run.run import Run
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.runtime.files import RECIPE, RECIPES, RUN, write_atomic
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.site.model import Host, Site
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.verdict.run import new_run, with_site
from ansible_collections.gpufleet.rehearsal.plugins.plugin_utils.facility.room import write_facility

STARTED = "2026-11-21T10:00:00.000Z"
TODAY = date(2026, 11, 21)
SKU = "dgx-h100"
_SMALLEST = 1 << 29
"""With fewer message sizes a log is shorter and as good."""


GATES = (
    "facility", "fabric", "nodes", "gpu_stack", "telemetry",
    "fabric_validation", "training_acceptance", "inference_acceptance",
)  # fmt: skip
_CONFTESTS = Path(__file__).resolve().parents[1] / "unit/plugins/plugin_utils/check"


@dataclass
class BigRun:
    """A run of one gate over so many hosts. `steps` is what was known before each step of its benchmark; `observing_s`
    the CPU time of observers that look at evidence alone; `stated` settings of checks, by check."""

    path: Path
    gate: str
    count: int
    stated: dict[str, dict[str, object]] = field(default_factory=dict)
    hardware: dict[str, Sku] = field(default_factory=lambda: load_hardware([RECIPES / "hardware"]))
    steps: list[Results] = field(default_factory=list)
    observing_s: float = 0.0

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the hosts; none begins with another."""
        return tuple(_words(number)[0] for number in range(self.count))

    def make(self) -> Run:
        """Write the run directory and return the run, ready to be decided."""
        makers = {
            "facility": self._facility,
            "fabric": self._fabric,
            "nodes": self._nodes,
            "gpu_stack": self._gpu_stack,
            "telemetry": self._telemetry,
            "fabric_validation": self._nccl,
            "training_acceptance": self._training,
            "inference_acceptance": self._inference,
        }
        makers[self.gate]()
        return Run(self.path)

    def _start(self, site: Site, hardware: dict[str, Sku]) -> None:
        self.path.mkdir(parents=True, exist_ok=True)
        scoped = replace(site, gates=(self.gate,))
        record = with_site(new_run("r-1", site.name, STARTED, (self.gate,), rehearsal=False), scoped)
        write_atomic(self.path / RUN, dumps(record))
        run = Run(self.path)
        run.save_site(scoped)
        run.save_hardware(hardware)

    def _site(self, **more: Any) -> Site:
        hosts = tuple(
            Host(name=name, sku=SKU, node_name=name, rack=f"rack-{number // 4:04}")
            for number, name in enumerate(self.names)
        )
        return make_site(hosts, name="large", capabilities=("host_access", "kubernetes", "multi_node"), **more)

    def _save(self, key: str, data: Any) -> None:
        seen = Observation(
            gate=self.gate, key=key, started=STARTED, duration_s=1.0, data=json.loads(json.dumps(to_plain(data))),
            run_id="r-1",
        )  # fmt: skip
        write_atomic(observation_path(self.path, self.gate, key), dumps(seen))

    def _observe(self, *keys: str) -> None:
        """Let observers look that need no cluster."""
        run, begun = Run(self.path), process_time()
        for key in keys:
            observer = observers_of(self.gate)[key]
            context = ObserveContext(site=run.site, run_dir=self.path, today=TODAY, hardware=run.hardware)
            observe_gate(observer, self.gate, context)
        self.observing_s += process_time() - begun

    def _multiply(self, evidence: HostEvidence, kinds: Iterable[str]) -> None:
        """Write the evidence of every host from that of the first one."""
        for kind in kinds:
            text = write_evidence(self.path, evidence, kind).read_text(encoding="utf-8")
            for number, name in enumerate(self.names):
                mine = text
                for word, another in zip(_words(0), _words(number), strict=True):
                    mine = mine.replace(word, another)
                write_atomic(self.path / evidence_file(name, kind), mine)

    def _states(self) -> None:
        """Write what the hosts said before and after the load of the gate."""
        pattern = _pattern(self.path)
        tools = {name: run for name, run in pattern.tools.items() if f"{name}{AFTER}" in pattern.tools}
        self._multiply(replace(pattern, tools=tools), [load_kind(self.gate, moment) for moment in MOMENTS])
        self._observe("host_state")

    def _facility(self) -> None:
        site = self._site()
        racks: dict[str, tuple[str, ...]] = {}
        for host in site.hosts:
            racks[host.rack] = (*racks.get(host.rack, ()), SKU)
        paths = write_facility(
            site=site.name, racks=racks, hardware=self.hardware, directory=self.path / "room", today=TODAY, state={}
        )
        stated = {"capabilities": (*site.capabilities, "facility_record"), "settings": {"facility": {**paths}}}
        self._start(replace(site, **stated), {SKU: self.hardware[SKU]})
        self._observe("facility-record")

    def _fabric(self) -> None:
        """Every adapter of a rail on a leaf of its own for each 32 hosts, two trunks from every leaf to the spines."""
        site = self._site()
        words = (*site.capabilities, "infiniband", "subnet_manager")
        self._start(replace(site, capabilities=words), {SKU: _conftest("nodes").SKU})
        pattern = _pattern(self.path)
        rails = [line.split("'")[1] for line in pattern.tools["ibstat"].stdout.splitlines() if line.startswith("CA ")]
        tools = {name: pattern.tools[name] for name in ("ibstat", "nvidia_smi_topo")}
        tools["ibstat"] = replace(tools["ibstat"], stdout=with_guids(tools["ibstat"].stdout))
        self._multiply(replace(pattern, tools=tools), [HOSTS])
        seen = fabric_tools(self.names, rails)
        write_evidence(self.path, replace(pattern, host=self.names[0], tools=seen), FABRIC)
        self._observe("fabric")

    def _nodes(self) -> None:
        self._start(self._site(), {SKU: _conftest("nodes").SKU})
        self._multiply(_pattern(self.path), [HOSTS])
        self._observe("hosts")

    def _gpu_stack(self) -> None:
        made = _conftest("gpu_stack")
        view = made.healthy()
        nodes = tuple(replace(view.nodes[0], name=name) for name in self.names)
        operands = tuple(
            replace(one, workload=replace(one.workload, desired=self.count, ready=self.count)) for one in view.operands
        )
        self._start(self._site(), {SKU: self.hardware[SKU]})
        write_atomic(self.path / RECIPE, dumps(made.recipe()))
        workloads = (*view.workloads, *(one.workload for one in operands))
        self._save(
            "gang",
            GangResult(
                provider="volcano", nodes=self.names[:2], slots=2, gang_size=2, gpus_per_pod=8,
                bound={"gang-a": 2, "gang-b": 0},
            ),
        )  # fmt: skip
        # The device plugin gives the GPUs out, so there is no driver of DRA that does.
        self._save("cluster", replace(view, nodes=nodes, slices=(), operands=operands, workloads=workloads))
        classes = ("fast",)
        hook = Webhook(
            configuration="volcano-admission-service-jobs-validate", name="validatejob.volcano.sh",
            service="volcano-system/volcano-admission-service", ready=1, strict=True, has_ca=True,
        )  # fmt: skip
        denied = f'admission webhook "{hook.name}" denied the request: duplicated task name twin;'
        tried = TriedObject(component="volcano", kind="Job", accepted=False, said=denied)
        platform = PlatformState(webhooks=(hook,), tried=(tried,), storage_classes=classes, default_classes=classes)
        self._save("platform", replace(platform, claims=()))
        refused = "violates PodSecurity baseline: hostPath volumes"
        self._save("access", AccessResult(nodes=tuple(map(_access, self.names)), host_path_refused=refused))

    def _telemetry(self) -> None:
        metrics = Metrics(hosts=self.names)
        self._start(metrics.context().site, {SKU: self.hardware[SKU]})
        view = metrics.view()
        self._save("metrics", view)
        told = AlertDelivery(
            settings=view.settings, name="gpufleet-test-alert-1", loaded_s=1.0, firing_s=2.0, received_s=3.0,
            alertmanagers=("http://alertmanager:9093/api/v2/alerts",),
        )  # fmt: skip
        self._save("alert", told)

    def _nccl(self) -> None:
        course = _Course(hosts=self.names, hardware=self.hardware, settings={"smallest": _SMALLEST})
        site = course.site()
        stated = {"capabilities": self._site().capabilities, "settings": {**site.settings, **self.stated}}
        self._start(replace(site, **stated), {SKU: self.hardware[SKU]})
        results = course.results()
        for run, text in zip(results.runs, course.texts, strict=True):
            write_atomic(self.path / run.record.log, text)
        self.steps = course.steps
        self._save("nccl", SavedObservation(plan=results.plan, records=tuple(run.record for run in results.runs)))
        run = Run(self.path)
        self._save("dl_unit", unit_tests(run, self.hardware[SKU].gpus, TODAY))
        self._save("ranks", ranks(run, TODAY))
        self._states()

    def _training(self) -> None:
        made, site = TrainingFleet(hosts=self.names, hardware=self.hardware), self._site()
        nodes = {host.name: host.node for host in made.plan().hosts}
        hosts = tuple(replace(host, node_name=nodes[host.name]) for host in site.hosts)
        self._start(replace(site, hosts=hosts), {SKU: self.hardware[SKU]})
        record, logs = made.run(1)
        pods = tuple(replace(pod, log=f"evidence/{self.gate}/{pod.index}.log") for pod in record.pods)
        for pod in pods:
            write_atomic(self.path / pod.log, logs[pod.host])
        self._save("training", SavedTraining(plan=made.plan(), records=(replace(record, pods=pods),)))
        self._states()

    def _inference(self) -> None:
        plan = fleet(1)
        hosts = tuple(replace(plan.hosts[0], name=name, node=name) for name in self.names)
        self._start(self._site(), {SKU: self.hardware[SKU]})
        loads = []
        for number, name in enumerate(self.names):
            for leg, (usual, asked) in LEGS.items():
                file = f"evidence/{self.gate}/{name}-{leg}.json"
                own = {"throughput": 72_000.0, **usual}
                own["throughput"] *= 1 + number % 16 / 720
                write_atomic(self.path / file, json.dumps(export(**own)))
                loads.append(load(name, leg=leg, **{**asked, "export": file}))
        servers = tuple(server(name) for name in self.names)
        self._save("inference", SavedInference(plan=replace(plan, hosts=hosts), servers=servers, loads=tuple(loads)))
        self._states()


@dataclass
class _Course(Fleet):
    """A fleet that keeps the logs of its runs, and what was known before each step."""

    texts: list[str] = field(default_factory=list)
    steps: list[Results] = field(default_factory=list)

    def log(self, want: Wanted, smallest: int) -> str:
        text = super().log(want, smallest)
        self.texts.append(text)
        return text

    def results(self) -> Results:
        results = Results(plan=self.plan())
        while wanted := self._next(results):
            done = len(results.runs)
            more = tuple(self.run(want, results.plan, done + n) for n, want in enumerate(wanted))
            results = replace(results, runs=results.runs + more)
        return results

    def _next(self, results: Results) -> tuple[Wanted, ...]:
        self.steps.append(results)
        return next_runs(results, self.hardware)


def _words(number: int) -> tuple[str, str, str, str]:
    """What of a host's evidence is its own: its name, how UUIDs and serial numbers of its GPUs begin, and how the GUIDs
    of its adapters."""
    return f"gpu{number + 1:05}", f"GPU-{number:04}-", f"165{number:07}", guid_of_host(number)


def _access(name: str) -> NodeAccess:
    """Return what containers of a healthy node saw: one with all GPUs, two without any."""
    uuids = tuple(f"GPU-{number:08x}-0000-0000-0000-000000000000" for number in range(8))
    owner = ContainerSeen(exit_code=0, uuids=uuids, printed="GPU 0: NVIDIA H100 (UUID: GPU-00)")
    none = Looked(done=True)
    return NodeAccess(
        node=name, total=8, free=8, resource="nvidia.com/gpu", asked=8, owner=owner, plain=none, asking=none
    )


@cache
def _conftest(gate: str) -> ModuleType:
    """Return what the tests of a gate judge."""
    spec = importlib.util.spec_from_file_location(f"conftest_of_{gate}", _CONFTESTS / gate / "conftest.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def _pattern(run_dir: Path) -> HostEvidence:
    """Return everything that the first host says."""
    host = _conftest("nodes").Fleet(run_dir, 1).hosts["gpu01"]
    host.name = _words(0)[0]
    evidence: HostEvidence = host.evidence()
    return evidence
