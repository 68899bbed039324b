# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Observes inference: a vLLM server on every host, asked and then loaded by AIPerf, all hosts at the same time.

One server with all GPUs of its host, and one AIPerf beside it: so every host has figures of its own and a bad one has a
name, no load crosses the network between hosts, and the published figures are for whole hosts, too.
"""

from __future__ import annotations

import base64
import secrets
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from ...clients.http.model import Route, ServiceRef
from ...clients.http.routes import PodRoute, ServiceProxyRoute, UrlRoute
from ...clients.http.session import HttpSession
from ...clients.kube.cluster import Cluster, Permission
from ...clients.kube.connection import connection_from
from ...clients.kube.errors import ForbiddenError
from ...clients.kube.kinds import SECRETS
from ...component_stack.facts import stack_facts
from ...hardware.sku import sku_or_error
from ...outcome.codec import from_plain
from ...outcome.errors import BringupError, InputError
from ...probe import aiperf
from ...runtime.clock import Deadline
from ...runtime.files import write_atomic
from ...runtime.pool import map_bounded
from ...runtime.progress import Progress
from ...runtime.redaction import excerpt, redact
from ...site.model import Host, Site
from ...workload.capacity import NodeCapacity, read_node_capacity
from ...workload.launch import JobResult, JobSpec, job_namespace, run_jobs
from ...workload.namespace import TemporaryNamespace
from ...workload.serving import ServerResult, ServerSpec, look_again, remove_servers, start_servers
from ..spec import ObserveContext, Observer
from .asking import health_of, models_of, smoke_answers
from .commands import load_command, load_in_pod, server_command
from .model import Load, Measured, Plan, PlannedHost, Results, SavedObservation, Server
from .parse_run import open_hosts, read_load, to_load_again
from .rules import GATE, Rules, load_rules

_TOKEN_SECRET, _TOKEN_KEY = "hub-token", "token"
_ARTIFACTS = "/tmp/aiperf"
_ASKERS = 8
_PATIENCE_S, _PAUSE_S = 15.0, 0.5


def observe(context: ObserveContext) -> SavedObservation:
    """Serve and load what can be, and return all of it; logs and exports are kept as evidence.

    Raises:
        InputError: settings that are none.
        BringupError: the API server does not answer, or refuses the run's namespace.
    """
    rules = load_rules(context.site.settings.get(GATE, {}))
    with Cluster(connection_from(context.connections)) as cluster:
        _refuse_without_permission(cluster, rules)
        plan = _plan(cluster, context, rules)
        if not open_hosts(plan):
            return SavedObservation(plan=plan)
        pods = stack_facts().test_pods
        with job_namespace(
            cluster,
            "inference",
            prefix=pods.namespace_prefix,
            priority=pods.priority,
            cleanup_s=rules.server.cleanup_s,
            emit=context.emit,
        ) as space:
            bench = _Bench(cluster, space, context, plan)
            bench.run()
        return SavedObservation(
            plan=plan,
            servers=tuple(bench.servers),
            loads=tuple(measured.load for measured in bench.loads),
            leftovers=tuple(space.leftovers),
        )


def restore(data: Any, run_dir: Path, _site: Site) -> Results:
    """Return plan, servers and loads, the exports read again."""
    saved = from_plain(SavedObservation, data, "observation inference")
    loads = tuple(read_load(load, _text(run_dir, load.export), saved.plan.rules) for load in saved.loads)
    return Results(plan=saved.plan, servers=saved.servers, loads=loads, leftovers=saved.leftovers)


def _text(run_dir: Path, name: str) -> str:
    path = run_dir / name
    return path.read_text(encoding="utf-8", errors="replace") if name and path.is_file() else ""


def _refuse_without_permission(cluster: Cluster, rules: Rules) -> None:
    """What is not allowed is said before anything is started, all of it at once."""
    refused = [wanted for wanted in permissions(rules) if not cluster.can_i(wanted)[0]]
    if refused:
        words = ", ".join(
            f"{wanted.verb} {'/'.join(part for part in (wanted.resource, wanted.subresource) if part)}"
            + (f" in {wanted.namespace}" if wanted.namespace else "")
            for wanted in refused
        )
        raise ForbiddenError(f"gate {GATE}", f"not allowed: {words}.", "grant it, see docs/inference_acceptance.md")


def permissions(rules: Rules) -> tuple[Permission, ...]:
    """Return what the gate must be allowed to do beside what gate gpu_stack asks for."""
    server = rules.server
    wanted = [Permission("create", "deployments", "apps"), Permission("create", "jobs", "batch")]
    if server.reach == "port-forward":
        wanted.append(Permission("create", "pods", subresource="portforward"))
    if server.reach == "service-proxy":
        wanted += [Permission(verb, "services", subresource="proxy") for verb in ("get", "create")]
    if server.token_secret:
        wanted.append(Permission("get", "secrets", namespace=server.token_secret.split("/")[0]))
    if server.claim:
        wanted.append(Permission("create", "persistentvolumeclaims"))
    return tuple(wanted)


def _plan(cluster: Cluster, context: ObserveContext, rules: Rules) -> Plan:
    hosts = context.site.in_scope
    rooms = read_node_capacity(cluster, {host.node_name for host in hosts})
    return Plan(hosts=tuple(_planned(host, context, rules, rooms[host.node_name]) for host in hosts), rules=rules)


def _planned(host: Host, context: ObserveContext, rules: Rules, room: NodeCapacity) -> PlannedHost:
    sku, closed = sku_or_error(context.hardware, host.sku), room.closed
    copy = rules.server.tensor_parallel
    gpus = min(room.free, sku.gpus) // copy * copy
    if not closed and not gpus:
        closed = f"{room.free} of {sku.gpus} GPUs are free on {room.name}, a copy of the model takes {copy}"
    return PlannedHost(
        name=host.name, node=host.node_name, sku=host.sku, accelerator=sku.accelerator, gpus=gpus,
        gpus_of_host=sku.gpus, closed=closed, by_dra=room.by_dra,
    )  # fmt: skip


@dataclass(slots=True)
class _Bench:
    """Makes servers and loads until nothing is left to be known."""

    cluster: Cluster
    space: TemporaryNamespace
    context: ObserveContext
    plan: Plan
    servers: list[Server] = field(default_factory=list)
    loads: list[Measured] = field(default_factory=list)
    names: dict[str, str] = field(default_factory=dict)
    progress: Progress = field(init=False)
    deadline: Deadline = field(init=False)

    def __post_init__(self) -> None:
        self.progress = Progress(self.context.emit)
        self.deadline = Deadline.after(self.rules.server.total_s)

    @property
    def rules(self) -> Rules:
        return self.plan.rules

    def run(self) -> None:
        """Serve and load all hosts, as many at a time as the settings allow."""
        self._provide()
        names = open_hosts(self.plan)
        self.names = {name: f"vllm-{number}" for number, name in enumerate(names, 1)}
        size = self.rules.server.parallel
        groups = [names[start : start + size] for start in range(0, len(names), size)]
        for number, group in enumerate(groups, 1):
            self.progress.say(f"vLLM: {self.rules.server.model} on {len(group)} hosts")
            self._serve(group)
            self._load(group)
            if number < len(groups):
                remove_servers(self.cluster, self.space, [self.names[name] for name in group])

    def _provide(self) -> None:
        """Bring the hub's token and the claim for the weights into the namespace."""
        server = self.rules.server
        objects: list[dict[str, Any]] = []
        if server.token_secret:
            objects.append(self._token(*server.token_secret.split("/")))
        if server.claim:
            metadata = {"name": "models", "labels": self.space.labels}
            objects.append(
                {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": metadata, "spec": server.claim}
            )
        self.space.create(objects)

    def _token(self, namespace: str, name: str, key: str) -> dict[str, Any]:
        held = (self.cluster.get(SECRETS, name, namespace).get("data") or {}).get(key)
        if not held:
            raise InputError(f"secret {namespace}/{name}", f"has no key {key!r}.", "correct token_secret")
        token = base64.b64encode(base64.b64decode(held).strip()).decode()
        metadata = {"name": _TOKEN_SECRET, "labels": self.space.labels}
        return {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "data": {_TOKEN_KEY: token}}

    @property
    def _secret_env(self) -> dict[str, str]:
        return {"HF_TOKEN": f"{_TOKEN_SECRET}/{_TOKEN_KEY}"} if self.rules.server.token_secret else {}

    def _serve(self, group: Sequence[str]) -> None:
        specs = [self._server(name) for name in group]
        results = start_servers(self.cluster, self.space, specs, self._final, self.progress, self.deadline)
        pairs = list(zip(group, specs, results, strict=True))
        self.progress.say(f"vLLM: {sum(result.state == 'ready' for result in results)} of {len(group)} servers ready")
        self.servers += map_bounded(lambda pair: self._asked(*pair), pairs, _ASKERS)

    def _final(self, log: str) -> bool:
        error = self.rules.understand(log)
        return error is not None and error.final

    def _server(self, name: str) -> ServerSpec:
        host, server = self.plan.host(name), self.rules.server
        return ServerSpec(
            name=self.names[name], node=host.node, gpus=host.gpus, image=server.image,
            command=server_command(self.rules, host.gpus), env=server.env, secret_env=self._secret_env,
            port=server.port, resources=server.resources, shm_gib=server.shm_gib, volume=server.storage,
            device_class=stack_facts().dra.device_class if host.by_dra else "", schedule_s=server.schedule_s,
            ready_s=server.ready_s, restarts=server.restarts,
        )  # fmt: skip

    def _asked(self, host: str, spec: ServerSpec, result: ServerResult) -> Server:
        found = Server(
            host=host, state=result.state, reason=excerpt(result.reason, 500), ready_s=round(result.ready_s, 2),
            command=spec.command, started=result.started,
        )  # fmt: skip
        if result.state != "ready":
            return self._ended(found, result)
        session = HttpSession(self._route(spec, result))
        patience = Deadline.after(_PATIENCE_S)
        while True:
            try:
                found = replace(found, health=health_of(session), problem="")
                if found.health == 200:
                    found = replace(found, models=models_of(session))
                break
            except BringupError as error:
                found = replace(found, problem=f"{error.subject}: {error.reason}"[:400])
            # It may have died since, and a Service needs a moment to know a pod that has become ready.
            now = look_again(self.cluster, self.space, spec, result.pod, self._final, self.deadline)
            if now is not None and now.state != "ready":
                return self._ended(replace(found, state=now.state, reason=now.reason, problem=""), now)
            if patience.left_s <= 0:
                return found
            time.sleep(_PAUSE_S)
        if self.rules.server.name not in found.models:
            return found
        return replace(found, answers=smoke_answers(session, self.rules))

    def _ended(self, found: Server, result: ServerResult) -> Server:
        error = self.rules.understand(result.log)
        if error is not None and result.state == "failed":
            found = replace(found, cause=error.cause, hint=error.hint)
        if result.log.strip():
            found = replace(found, log=self._keep(f"{result.name}.log", redact(result.log)))
        return found

    def _route(self, spec: ServerSpec, result: ServerResult) -> Route:
        server = self.rules.server
        if server.reach == "url":
            words = {"node": spec.node, "service": spec.name, "namespace": self.space.name}
            try:
                return UrlRoute(server.url.format(**words))
            except (KeyError, IndexError, ValueError) as error:
                raise InputError(f"settings of {GATE}", f"url: {error!r}.", f"known: {', '.join(words)}") from None
        service = ServiceRef(self.space.name, spec.name, spec.port)
        if server.reach == "service-proxy":
            return ServiceProxyRoute(self.cluster, service)
        return PodRoute(self.cluster, self.space.name, result.pod, spec.port, str(service))

    def _load(self, group: Sequence[str]) -> None:
        """Load the hosts whose server answers; bad figures are measured again."""
        wanted = [s.host for s in self.servers if s.host in group and s.answers and s.answers[-1].status == 200]
        while wanted:
            self.progress.say(f"AIPerf: {len(wanted)} hosts under load")
            pairs = [self._job(name) for name in wanted]
            specs = [spec for spec, _mark in pairs]
            results = run_jobs(self.cluster, self.space, specs, len(specs), self.progress, self.deadline)
            for name, (spec, mark), result in zip(wanted, pairs, results, strict=True):
                self.loads.append(self._measured(name, spec, mark, result))
            again = to_load_again(Results(plan=self.plan, loads=tuple(self.loads)))
            wanted = [name for name in again if name in group]

    def _job(self, name: str) -> tuple[JobSpec, str]:
        host, load, server = self.plan.host(name), self.rules.load, self.rules.server
        attempt = len([measured for measured in self.loads if measured.load.host == name]) + 1
        mark = f"gpufleet-export-{secrets.token_hex(8)}"
        url = f"http://{self.names[name]}:{server.port}"
        spec = JobSpec(
            name=f"load-{self.names[name].rpartition('-')[2]}-{attempt}", nodes=(host.node,), gpus_per_node=0,
            image=load.image, command=load_in_pod(load_command(self.rules, url, host.gpus)),
            env={"PACKAGE": load.package, "ARTIFACTS": _ARTIFACTS, "MARK": mark, **server.env},
            kind="plain-job", timeout_s=load.timeout_s, schedule_s=server.schedule_s, gang="none",
            volume=server.storage, secret_env=self._secret_env,
        )  # fmt: skip
        return spec, mark

    def _measured(self, name: str, spec: JobSpec, mark: str, result: JobResult) -> Measured:
        host, load = self.plan.host(name), self.rules.load
        attempt = len([measured for measured in self.loads if measured.load.host == name]) + 1
        found = Load(
            host=name, attempt=attempt, state=result.state, reason=excerpt(result.reason, 400),
            exit_code=result.launcher.exit_code if result.launcher else None, gpus=host.gpus,
            concurrency=load.concurrency(host.gpus), requests=load.requests(host.gpus), warmup=load.warmup(host.gpus),
            command=spec.command[4:], started=result.started, duration_s=round(result.duration_s, 2),
        )  # fmt: skip
        words, export = result.log, ""
        try:
            whole = aiperf.export_in(result.log, mark)
            if whole is not None:
                words, export = result.log.partition(f"{mark} begin")[0], aiperf.redacted(whole, redact)
        except InputError as error:
            found = replace(found, unreadable=error.reason)
        if found.state == "failed" or not (export or found.unreadable):
            found = replace(found, reason=f"{found.reason}: {_last_words(words)}"[:400])
        if words.strip():
            found = replace(found, log=self._keep(f"{spec.name}.log", redact(words)))
        if export:
            found = replace(found, export=self._keep(f"{spec.name}.json", export))
        return read_load(found, export, self.rules)

    def _keep(self, name: str, text: str) -> str:
        path = f"evidence/{GATE}/{name}"
        write_atomic(self.context.run_dir / path, text)
        return path


def _last_words(log: str) -> str:
    lines = [line.strip() for line in log.splitlines() if line.strip()]
    telling = [line for line in lines if "error" in line.lower()]
    return excerpt((telling or lines or ["it said nothing"])[-1], 250)


OBSERVER = Observer("inference", Results, observe, restore)
