# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Observes inference: a vLLM server on every host, asked and then loaded by AIPerf, all hosts at the same time.

One server with all GPUs of its host, and one AIPerf beside it: so every host has figures of its own and a bad one has a
name, no load crosses the network between hosts, and the published figures are for whole hosts, too.
"""

from __future__ import annotations

import math
import secrets
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from ...clients.kube.cluster import Cluster
from ...clients.kube.kinds import CONFIG_MAPS
from ...clients.kube.permission import Permission, stream_permissions
from ...hardware.sku import Sku
from ...outcome.codec import from_plain
from ...outcome.errors import InputError
from ...probe import aiperf
from ...runtime.redaction import excerpt, redact
from ...site.model import Host, Site
from ...workload.capacity import NodeCapacity
from ...workload.model import CONFIG_DIR, JobResult, JobSpec
from ...workload.permission import job_permissions
from ...workload.serving import remove_servers
from ..benchmark.plan import device_class, placement, planned_hosts
from ..benchmark.records import ended, kept_text, require_planned
from ..benchmark.run_loop import Benchmark, Session
from ..kit.saved_settings import with_plan_settings
from ..spec import ObserveContext, Observer
from . import locked
from .analysis import to_load_again
from .commands import leg_exit, leg_options, legs_env, load_command, load_in_pod
from .legs import CACHED, legs_for
from .model import Load, Measured, Plan, PlannedHost, Results, SavedObservation, Server
from .parse_run import parse_run
from .servers import Servers, hub_env, secret_env
from .settings import GATE, InferenceSettings

_ARTIFACTS = "/tmp/aiperf"
# Groups of hosts for which the setting total_s is stated.
_GROUPS_OF_TOTAL = 4


def observe(context: ObserveContext) -> SavedObservation:
    """Serve and load, and return all servers and loads; logs and exports are kept as evidence.

    Raises:
        InputError: invalid settings.
        BringupError: see Benchmark.observe.
    """
    benchmark = InferenceBenchmark(context, context.settings_of(GATE, InferenceSettings))
    found = benchmark.observe()
    return SavedObservation(
        plan=found.plan,
        servers=tuple(benchmark.servers),
        loads=tuple(measured.load for made in found.runs for measured in made),
        leftovers=found.leftovers,
    )


def restore(data: Any, run_dir: Path, site: Site) -> Results:
    """Return plan, servers and loads, the exports parsed again."""
    complete = with_plan_settings(data, InferenceSettings, GATE, site, run_dir)
    saved = from_plain(SavedObservation, complete, "observation inference")
    require_planned(saved.plan.hosts, site, "observation inference")
    runs = tuple(parse_run(load, kept_text(run_dir, load.export), saved.plan.settings) for load in saved.loads)
    return Results(plan=saved.plan, servers=saved.servers, runs=runs, leftovers=saved.leftovers)


def permissions(settings: InferenceSettings, *, by_dra: bool = False) -> tuple[Permission, ...]:
    """Return what servers and loads need beside BASIC of workload.permission."""
    server = settings.server
    wanted = [
        *job_permissions("plain-job", by_dra=by_dra),
        Permission("create", "services"),
    ]
    if server.reach == "port-forward":
        wanted += stream_permissions("portforward")
    if server.reach == "service-proxy":
        wanted += [Permission(verb, "services", subresource="proxy") for verb in ("get", "create")]
    if server.token_secret:
        wanted.append(Permission("get", "secrets", namespace=server.token_secret.split("/")[0]))
        wanted.append(Permission("create", "secrets"))
    if locked.is_locked(settings.load.package):
        wanted.append(Permission("create", "configmaps"))
    if server.claim:
        wanted.append(Permission("create", "persistentvolumeclaims"))
    return tuple(wanted)


class InferenceBenchmark(Benchmark[Plan, str, tuple[Measured, ...]]):
    """vLLM and AIPerf, host by host; a run is one pod that makes the loads of a host, wanted by the host's name."""

    gate = GATE
    name = "inference"

    def __init__(self, context: ObserveContext, settings: InferenceSettings) -> None:
        # Hosts serve so many at a time, one group after the other, so a larger fleet takes as much longer.
        groups = math.ceil(len(context.site.in_scope) / settings.server.parallel)
        total_s = settings.server.total_s * max(1.0, groups / _GROUPS_OF_TOTAL)
        super().__init__(context, total_s=total_s, cleanup_s=settings.server.cleanup_s)
        self.settings = settings
        self.servers: list[Server] = []
        self._names: dict[str, str] = {}
        self._marks: dict[str, str] = {}
        self._group: frozenset[str] = frozenset()

    def make_plan(self, cluster: Cluster) -> Plan:
        """Look at the nodes: each server gets all GPUs of its host, or there is none: a GPU that served nothing is not
        proven."""
        copy = self.settings.server.tensor_parallel

        def planned(host: Host, sku: Sku, capacity: NodeCapacity) -> PlannedHost:
            where = placement(host, sku, capacity)
            if not where["closed"] and sku.gpus % copy:
                where["closed"] = f"{sku.gpus} GPUs are no whole number of copies of {copy}; correct tensor_parallel"
            return PlannedHost(**where, accelerator=sku.accelerator, gpus=sku.gpus, gpus_of_host=sku.gpus)

        return Plan(hosts=planned_hosts(cluster, self.context, planned), settings=self.settings)

    def permissions(self) -> tuple[Permission, ...]:
        return permissions(self.settings, by_dra=bool(device_class(*self.plan.open_hosts)))

    def make_runs(self, session: Session) -> None:
        """Serve and load all hosts, as many at a time as the settings allow."""
        hosts, size = self.plan.open_hosts, self.settings.server.parallel
        self._names = {host.name: f"vllm-{number}" for number, host in enumerate(hosts, 1)}
        servers = Servers(session, self.settings, self.evidence, self._names)
        servers.provide()
        self._provide_lock(session)
        groups = [hosts[start : start + size] for start in range(0, len(hosts), size)]
        for number, group in enumerate(groups, 1):
            session.progress.say(f"vLLM: {self.settings.server.model} on {len(group)} hosts")
            self.servers += servers.start(group)
            self._group = frozenset(host.name for host in group)
            self.run_until_known(session)
            if number < len(groups):
                remove_servers(session.cluster, session.namespace, [self._names[host.name] for host in group])

    def _provide_lock(self, session: Session) -> None:
        package = self.settings.load.package
        if locked.is_locked(package):
            body = locked.lock_object(session.namespace.labels)
            session.cluster.create(CONFIG_MAPS, body, session.namespace.name)
        elif package:
            session.progress.say(f"AIPerf: this release has no digests of {package}, so the index decides what it is")

    def next_runs(self) -> list[str]:
        """The hosts of the group whose server answers, once, and those whose figures are bad, again."""
        made = tuple(measured for run in self.runs for measured in run)
        loaded = {measured.load.host for measured in made}
        answering = [s.host for s in self.servers if s.answers and all(a.status == 200 for a in s.answers)]
        first = [name for name in answering if name in self._group and name not in loaded]
        again = to_load_again(Results(plan=self.plan, runs=made))
        return first or [name for name in again if name in self._group]

    def announce(self, wanted: Sequence[str]) -> str:
        return f"AIPerf: {len(wanted)} hosts under load"

    def job(self, want: str) -> JobSpec:
        """One AIPerf on the node of a host; it marks its exports in its log with a word that nobody can guess."""
        host, load, server = self.plan.host(want), self.settings.load, self.settings.server
        name = f"load-{self._names[want].rpartition('-')[2]}-{self._attempt(want)}"
        self._marks[name] = f"gpufleet-export-{secrets.token_hex(8)}"
        url = f"http://{self._names[want]}:{server.port}"
        lock = locked.NAME if locked.is_locked(load.package) else ""
        env = {
            "PACKAGE": load.package, "LOCK": f"{CONFIG_DIR}/{locked.FILE}" if lock else "", "ARTIFACTS": _ARTIFACTS,
            "MARK": self._marks[name],
        }  # fmt: skip
        return JobSpec(
            name=name, nodes=(host.node,), gpus_per_node=0, image=load.image,
            command=load_in_pod(load_command(self.settings, url)),
            env={**env, **legs_env(legs_for(load, host.gpus)), **hub_env(self.settings)},
            kind="plain-job", timeout_s=load.timeout_s, schedule_s=server.schedule_s, pull_s=server.pull_s,
            gang="none",
            volume=server.storage, secret_env=secret_env(self.settings), config_map=lock,
        )  # fmt: skip

    def read(self, want: str, spec: JobSpec, result: JobResult) -> tuple[Measured, ...]:
        """Keep the exports that are in the log, and the rest of the log; a load that was not begun is none."""
        host, mark = self.plan.host(want), self._marks[spec.name]
        log = self.evidence.keep(f"{spec.name}.log", aiperf.without_exports(result.log, mark)).path
        found: list[Measured] = []
        for leg in legs_for(self.settings.load, host.gpus):
            code = leg_exit(result.log, f"{mark}-{leg.name}")
            load = Load(
                **ended(result, (*spec.command[4:], *leg_options(leg))), host=want, leg=leg.name,
                attempt=self._attempt(want), exit_code=result.exit_code, gpus=host.gpus, concurrency=leg.concurrency,
                requests=leg.requests, warmup=leg.warmup, seed=leg.seed, log=log,
            )  # fmt: skip
            if code is not None:
                # What became of the pod afterwards is not this load's matter.
                load = replace(load, exit_code=code, state="failed" if code else "succeeded")
            found.append(self._measured(load, spec, result, leg.name))
            if code != 0:
                break
        return tuple(found)

    def _measured(self, load: Load, spec: JobSpec, result: JobResult, leg: str) -> Measured:
        mark, export = self._marks[spec.name], ""
        try:
            whole = aiperf.export_in(result.log, f"{mark}-{leg}")
            export = aiperf.redacted(whole, redact) if whole is not None else ""
        except InputError as error:
            load = replace(load, unreadable=error.reason)
        if load.state == "failed" or not (export or load.unreadable):
            words = _last_words(aiperf.without_exports(result.log, mark))
            load = replace(load, reason=f"{load.reason}: {words}"[:400])
        # The export has no secrets any more; masked as a text it would lose metrics with names such as those of tokens.
        file = f"{spec.name}.json" if leg == CACHED else f"{spec.name}-{leg}.json"
        return parse_run(replace(load, export=self.evidence.keep(file, export, mask=str).path), export, self.settings)

    def _attempt(self, host: str) -> int:
        return len([run for run in self.runs if run[0].load.host == host]) + 1


def _last_words(log: str) -> str:
    lines = [line.strip() for line in log.splitlines() if line.strip()]
    errors = [line for line in lines if "error" in line.lower()]
    return excerpt((errors or lines or ["it wrote nothing"])[-1], 250)


OBSERVER = Observer("inference", Results, observe, restore, saved=SavedObservation)
