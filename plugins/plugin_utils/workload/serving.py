# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Servers as Jobs with a Service each: created, followed until they are ready or cannot become ready, removed."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from ..clients.kube.cluster import Cluster
from ..clients.kube.errors import ConflictError, ForbiddenError, RefusedError
from ..clients.kube.objects import JOBS, PODS, is_ready
from ..clients.kube.wait import until
from ..outcome.errors import BringupError, NotFoundError
from ..runtime.clock import Deadline, now_utc
from ..runtime.files import RECIPES
from ..runtime.pool import map_bounded
from ..runtime.progress import Progress, silent
from .capacity import claim_variables, gpu_requests
from .follow import Ending, ObservedJob, all_run, ending_of, node_of, phase_of, where
from .job import JobSpec, JobState
from .manifests import JOB_LABEL, render
from .namespace import TemporaryNamespace, where_they_are
from .nodes import NodeWatch
from .pods import PodView, create_unheld, deaths_of, explained, told_deaths, unmade, warning_events

Json = dict[str, Any]
ServerState = JobState | Literal["ready"]
# What to do about a server that died: give up, let the kubelet restart it a few times, or as often as it takes.
AfterDeath = Literal["final", "again", "wait"]
_TEMPLATE = RECIPES / "workloads" / "vllm.yaml.j2"
_POLL_S, _POLL_MOST_S = 0.5, 5.0
_LOG_LINES, _CREATORS = 400, 8
# Longer than the grace period of its pods and what a kubelet needs to release devices.
_REMOVAL_S = 120.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerSpec:
    """One server: `command` on one node with some of its GPUs, reached on `port` under `name`.

    Args:
        name: name of the Job and of its Service: a DNS label of at most 40 characters, unique in a namespace.
        node: node that it runs on.
        gpus: number of its GPUs.
        image: its image.
        command: program and arguments.
        env: environment.
        secret_env: environment from secrets of the namespace, as `secret/key`.
        port: port of its HTTP API.
        resources: requests of CPU and memory.
        shm_gib: size limit of /dev/shm.
        volume: volume source mounted at /models; empty for none.
        volume_written: the volume is mounted writable.
        device_class: DRA device class of whole GPUs; empty takes them from the device plugin.
        schedule_s: how long the scheduler may report that it does not fit before that is final.
        pull_s: time limit for its pod from being bound to its start, mostly the pull of the image.
        ready_s: time limit from the start of its container until it is ready.
        restarts: how often it may die before it is ready.
        deadline_s: after this time the cluster itself ends it, also when the controller is gone.
    """

    name: str
    node: str
    gpus: int
    image: str
    command: tuple[str, ...]
    env: Mapping[str, str] = field(default_factory=dict)
    secret_env: Mapping[str, str] = field(default_factory=dict)
    port: int = 8000
    resources: Mapping[str, str] = field(default_factory=dict)
    shm_gib: int = 16
    volume: Mapping[str, Any] = field(default_factory=dict)
    volume_written: bool = False
    device_class: str = ""
    schedule_s: float = 60.0
    pull_s: float = 900.0
    ready_s: float = 1800.0
    restarts: int = 2
    deadline_s: float = 14400.0

    @property
    def as_job(self) -> JobSpec:
        """The server as a job, for the rules of follow.py. The time to load is not one of these rules."""
        return JobSpec(
            name=self.name, nodes=(self.node,), gpus_per_node=self.gpus, image=self.image, command=self.command,
            kind="plain-job", timeout_s=math.inf, schedule_s=self.schedule_s, pull_s=self.pull_s, gang="none",
        )  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Intake:
    """How many servers may be starting at a time: `at_once`, 0 for all.

    With `first_alone` it is one until the first is ready.
    """

    at_once: int = 0
    first_alone: bool = False

    def room(self, under_way: int, ready: int) -> int | None:
        """Return how many more may be started. None for all."""
        if self.first_alone and not ready:
            return 1 - under_way
        return self.at_once - under_way if self.at_once else None


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerResult:
    """How a server ended, or that it is ready. `log` has its last log lines, and is empty if it is ready."""

    name: str
    state: ServerState
    reason: str
    pod: str = ""
    log: str = ""
    ready_s: float = 0.0
    started: str = ""


def server_objects(spec: ServerSpec, namespace: TemporaryNamespace) -> list[Json]:
    """Return the objects of a server.

    Raises:
        InputError: the template does not render.
    """
    claims = gpu_requests(spec.device_class, spec.gpus)
    variables: dict[str, Any] = {
        "name": spec.name, "namespace": namespace.name, "node": spec.node, "image": spec.image, "port": spec.port,
        "command": list(spec.command), "env": dict(spec.env), "secret_env": dict(spec.secret_env),
        "labels": namespace.labels, "priority_class": namespace.priority_class, "tolerations": namespace.tolerated,
        "resources": dict(spec.resources), "shm_gib": spec.shm_gib, "volume": dict(spec.volume),
        "volume_written": spec.volume_written, "ready_s": spec.ready_s, "deadline_s": spec.deadline_s,
        "plugin_gpus": 0 if spec.device_class else spec.gpus,
        **claim_variables(spec.name, namespace.name, {**namespace.labels, JOB_LABEL: spec.name}, claims),
    }  # fmt: skip
    return render(_TEMPLATE, variables)


def start_servers(
    cluster: Cluster,
    namespace: TemporaryNamespace,
    specs: Sequence[ServerSpec],
    after_death: Callable[[str], AfterDeath],
    progress: Progress,
    deadline: Deadline,
    intake: Intake = Intake(),
) -> tuple[ServerResult, ...]:
    """Start servers and wait until each is ready or cannot become ready. Return the results in the order of the specs.

    Args:
        cluster: the cluster.
        namespace: open namespace of the run.
        specs: the servers.
        after_death: decides from the log of a server that died whether to restart it.
        progress: gets the progress lines.
        deadline: end of the whole run; a server that is not ready then is `aborted`.
        intake: how many may be starting at a time.

    Raises:
        BringupError: the cluster does not answer.
    """
    watch = _Watch(cluster, namespace, after_death, {spec.name: spec for spec in specs}, intake, list(specs))
    return _follow(watch, specs, progress, deadline)


def look_again(
    cluster: Cluster,
    namespace: TemporaryNamespace,
    spec: ServerSpec,
    pod: str,
    after_death: Callable[[str], AfterDeath],
    deadline: Deadline,
) -> ServerResult | None:
    """Return the result of a server that was ready and does not respond. None if its pod is still ready.

    Raises:
        BringupError: the cluster does not answer.
    """
    found = cluster.find_listed(PODS, pod, namespace.name)
    if found is not None and is_ready(found):
        return None
    watch = _Watch(cluster, namespace, after_death, {spec.name: spec})
    watch.note_start(spec)
    return _follow(watch, [spec], Progress(silent), deadline)[0]


def _follow(
    watch: _Watch, specs: Sequence[ServerSpec], progress: Progress, deadline: Deadline
) -> tuple[ServerResult, ...]:
    pause_s = _POLL_S
    while watch.unsettled:
        if deadline.left_s <= 0:
            for spec in watch.unsettled:
                watch.end(spec, Ending("aborted", "the time of the whole run was over"))
            break
        watch.admit()
        watch.look()
        progress.tick(watch.progress())
        if watch.unsettled:
            watch.view.wait(min(pause_s, max(deadline.left_s, 0.0)))
            pause_s = min(pause_s * 1.15, _POLL_MOST_S)
    return tuple(watch.results[spec.name] for spec in specs)


def remove_servers(cluster: Cluster, namespace: TemporaryNamespace, names: Sequence[str]) -> None:
    """Remove servers and wait until their GPUs are free. What does not go is removed with the namespace."""
    for name in names:
        cluster.delete(JOBS, name, namespace.name, propagation="Foreground")
    wanted = f"{JOB_LABEL} in ({','.join(names)})"
    try:
        until(lambda: not namespace.pods(wanted), Deadline.after(_REMOVAL_S), "servers removed")
    except BringupError as error:
        left = namespace.pods(wanted)
        namespace.emit(f"{error.subject}: {error.reason} Still there: {where_they_are(left)}")


@dataclass(slots=True)
class _Watch:
    cluster: Cluster
    namespace: TemporaryNamespace
    after_death: Callable[[str], AfterDeath]
    specs: dict[str, ServerSpec]
    intake: Intake = Intake()
    waiting: list[ServerSpec] = field(default_factory=list)
    results: dict[str, ServerResult] = field(default_factory=dict)
    pods: dict[str, list[Json]] = field(default_factory=dict)
    started: dict[str, str] = field(default_factory=dict)
    began_at: dict[str, float] = field(default_factory=dict)
    ran_at: dict[str, float] = field(default_factory=dict)
    made_at: dict[str, float] = field(default_factory=dict)
    heard: dict[str, int] = field(default_factory=dict)
    away_before_s: dict[str, float] = field(default_factory=dict)
    nodes: NodeWatch = field(init=False)
    view: PodView = field(init=False)

    def __post_init__(self) -> None:
        self.nodes, self.view = NodeWatch(self.cluster), PodView(self.cluster, self.namespace.name)

    @property
    def unsettled(self) -> list[ServerSpec]:
        return [spec for spec in self.specs.values() if spec.name not in self.results]

    @property
    def open(self) -> list[ServerSpec]:
        """The servers that are starting."""
        return [spec for spec in self.unsettled if spec.name in self.began_at]

    @property
    def ready(self) -> int:
        return sum(result.state == "ready" for result in self.results.values())

    def admit(self) -> None:
        """Start as many waiting servers as the intake allows."""
        room = self.intake.room(len(self.open), self.ready)
        count = len(self.waiting) if room is None else max(room, 0)
        now, self.waiting = self.waiting[:count], self.waiting[count:]
        for spec in now:
            self.note_start(spec)
        map_bounded(self.create, now, _CREATORS)
        if now:
            self.view.forget()

    def note_start(self, spec: ServerSpec) -> None:
        self.began_at[spec.name], self.started[spec.name] = time.monotonic(), now_utc()
        self.away_before_s[spec.name] = self.cluster.transport.outage.away_s

    def age_s(self, spec: ServerSpec) -> float:
        began_at = self.began_at.get(spec.name)
        return 0.0 if began_at is None else time.monotonic() - began_at

    def away_s(self, spec: ServerSpec) -> float:
        """Return the part of its age in which the API server did not answer."""
        return self.cluster.transport.outage.away_s - self.away_before_s.get(spec.name, 0.0)

    def made_s(self, spec: ServerSpec, pods: Sequence[Json]) -> float:
        """Return its age when its pod was first observed. 0 before that."""
        return self.made_at.setdefault(spec.name, self.age_s(spec)) if pods else self.made_at.get(spec.name, 0.0)

    def running_s(self, spec: ServerSpec, pods: Sequence[Json]) -> float | None:
        """Return the time since its container first ran, restarts included. None before that."""
        if spec.name not in self.ran_at and not all_run(spec.as_job, pods):
            return None
        return time.monotonic() - self.ran_at.setdefault(spec.name, time.monotonic())

    def create(self, spec: ServerSpec) -> None:
        try:
            create_unheld(self.namespace, server_objects(spec, self.namespace))
        except (RefusedError, ForbiddenError, NotFoundError, ConflictError) as error:
            self.end(spec, Ending("refused", f"{error.subject}: {error.reason}"))

    def look(self) -> None:
        self.pods = {}
        for pod in self.view.pods():
            self.pods.setdefault((pod["metadata"].get("labels") or {}).get(JOB_LABEL, ""), []).append(pod)
        refusals = self._refusals()
        lost = self.nodes.lost({spec.node for spec in self.open})
        for spec in self.open:
            age_s = self.age_s(spec)
            pods = [pod for pod in self.pods.get(spec.name, []) if not pod["metadata"].get("deletionTimestamp")]
            if any(is_ready(pod) for pod in pods):
                self._settle(spec, "ready", "", pods)
                continue
            running_s = self.running_s(spec, pods)
            observed = ObservedJob(
                pods=pods, refusals=refusals.get(spec.name, ()), lost_nodes=lost, age_s=age_s, running_s=running_s,
                made_s=self.made_s(spec, pods), away_s=self.away_s(spec),
            )  # fmt: skip
            ending = (
                self._dying(spec, pods) if any(deaths_of(pod)[0] for pod in pods) else ending_of(spec.as_job, observed)
            )
            if ending is None and (running_s or 0.0) - observed.away_s > spec.ready_s:
                ending = Ending("timeout", f"not ready after {spec.ready_s:.0f} s: {loading_progress(pods)}")
            if ending:
                self.end(spec, explained(self.namespace, spec.name, observed, ending))

    def end(self, spec: ServerSpec, ending: Ending) -> None:
        self._settle(spec, ending.state, ending.reason, self.pods.get(spec.name, []))

    def progress(self) -> str:
        text = f"{self.namespace.name}: {self.ready} of {len(self.specs)} servers ready"
        if len(self.results) > self.ready:
            text += f", {len(self.results) - self.ready} not well"
        if self.waiting:
            text += f", {len(self.waiting)} wait for their turn"
        if self.open:
            text += f"; {self.open[0].node}: {loading_progress(self.pods.get(self.open[0].name, []))}"
        return text

    def _dying(self, spec: ServerSpec, pods: Sequence[Json]) -> Ending | None:
        pod = next(pod for pod in pods if deaths_of(pod)[0])
        deaths, code = deaths_of(pod)
        if deaths == self.heard.get(spec.name):
            return None
        self.heard[spec.name] = deaths
        next_step = self.after_death(self._log(pod))
        # The kubelet does not restart a pod of a Job that ended.
        ended = phase_of(pod) in ("Succeeded", "Failed")
        if not ended and (next_step == "wait" or (next_step == "again" and deaths <= spec.restarts)):
            return None
        return Ending("failed", f"{where(pod)} {told_deaths(deaths, code)}")

    def _settle(self, spec: ServerSpec, state: ServerState, reason: str, pods: Sequence[Json]) -> None:
        pod = pods[0] if pods else None
        log = self._log(pod) if pod is not None and state != "ready" and node_of(pod) else ""
        self.results[spec.name] = ServerResult(
            name=spec.name, state=state, reason=reason, pod=pod["metadata"]["name"] if pod else "", log=log,
            ready_s=self.age_s(spec), started=self.started.get(spec.name, ""),
        )  # fmt: skip

    def _log(self, pod: Json) -> str:
        """Return the last log lines of the container that died last, or else of the running one."""
        name = pod["metadata"]["name"]
        for previous in (True, False):
            try:
                text = self.cluster.logs(name, self.namespace.name, tail_lines=_LOG_LINES, previous=previous)
            except BringupError:
                continue
            if text.strip():
                return text
        return ""

    def _refusals(self) -> dict[str, list[str]]:
        missing = [spec.name for spec in self.open if not self.pods.get(spec.name)]
        return unmade(warning_events(self.cluster, self.namespace.name), missing) if missing else {}


def loading_progress(pods: Sequence[Json]) -> str:
    """Return how far a server is from being ready, for a progress line."""
    if not pods:
        return "no pod yet"
    pod = pods[0]
    if not node_of(pod):
        return "waiting for the scheduler"
    for status in (pod.get("status") or {}).get("containerStatuses") or []:
        state = status.get("state") or {}
        if state.get("waiting"):
            return str(state["waiting"].get("reason") or "waiting for its container")
        if state.get("running"):
            since = str(state["running"].get("startedAt") or "")
            return f"loading since {since}" if since else "loading"
    return "waiting for its container"
