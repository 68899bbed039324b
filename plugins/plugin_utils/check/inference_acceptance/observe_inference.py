# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Observe inference: a vLLM server on every host, queried and then loaded by AIPerf, all hosts at the same time.

Each host has one server with all of its GPUs, and one AIPerf. So every host has its own figures, a bad one can be
named, no load crosses the network between hosts, and the figures compare with published ones, which are for whole hosts
too.
"""

from __future__ import annotations

import base64
import json
import math
import re
import secrets
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from time import monotonic
from typing import Any

from ...clients.http.model import Route, ServiceRef
from ...clients.http.routes import PodRoute, ServiceProxyRoute, UrlRoute, kept
from ...clients.http.session import HttpSession
from ...clients.kube.cluster import Cluster
from ...clients.kube.objects import CONFIG_MAPS, SECRETS
from ...clients.kube.permission import Permission, stream_permissions
from ...hardware.sku import Sku
from ...outcome.codec import from_plain
from ...outcome.errors import BringupError, InputError
from ...probe import aiperf
from ...probe.text import unreadable
from ...runtime.clock import Deadline
from ...runtime.pool import map_bounded
from ...runtime.redaction import excerpt, redact
from ...site.model import Host, Site
from ...workload.capacity import NodeCapacity
from ...workload.job import CONFIG_DIR, JobResult, JobSpec
from ...workload.namespace import job_permissions
from ...workload.serving import AfterDeath, Intake, ServerResult, ServerSpec, look_again, remove_servers, start_servers
from ..benchmark.plan import device_class, placement, planned_hosts
from ..benchmark.records import EvidenceFolder, ended, kept_text, require_planned
from ..benchmark.run_loop import Benchmark, Session
from ..kit.saved_settings import with_plan_settings
from ..spec import ObserveContext, Observer
from . import locked
from .analysis import parse_run, to_load_again
from .model import (
    CACHED,
    Leg,
    Load,
    Measured,
    Plan,
    PlannedHost,
    Results,
    SavedObservation,
    Server,
    SmokeAnswer,
    legs_for,
)
from .settings import GATE, InferenceSettings

# Query a server: its health, its models, and the smoke request twice for each of its engines. A wrong output is a
# value, not an error. vLLM sends a request to the engine in header X-data-parallel-rank (vllm/entrypoints/openai, since
# v0.12.0). A server that does not know the header distributes requests that arrive together to different engines.
# Therefore all engines are queried at once, the server's own count shows which of them responded, and the others are
# queried again.

# `/metrics` of a vLLM server: how many requests each of its engines has finished. vLLM counts them in
# `vllm:request_success_total` with the labels `engine`, `finished_reason` and `model_name` (vllm/v1/metrics/loggers.py
# since v0.11); with several API servers it sums up what each of them counted.

TOOL = "vLLM /metrics"
_COUNTER = "vllm:request_success_total"
_SAMPLE = re.compile(r"vllm:request_success_total\{([^}]*)\} ([0-9.eE+]{1,32})(?: [0-9]{1,32})?")
_ENGINE = re.compile(r'(?:^|,)engine="([0-9]{1,6})"')
# In characters. No line of this metric is longer.
_LONGEST = 2000


def finished_requests(text: str) -> dict[int, int]:
    """Return the number of finished requests by engine.

    Raises:
        InputError: no engine is listed, or a line of the metric cannot be parsed.
    """
    found: dict[int, int] = {}
    for line in text.splitlines():
        if not line.startswith(f"{_COUNTER}{{"):
            continue
        sample = _SAMPLE.fullmatch(line.strip()) if len(line) <= _LONGEST else None
        engine = _ENGINE.search(sample.group(1)) if sample else None
        if sample is None or engine is None:
            raise unreadable(TOOL, line, f"{_COUNTER} with the label engine and a number")
        try:
            count = float(sample.group(2))
        except ValueError:
            raise unreadable(TOOL, line, "a number") from None
        number = int(engine.group(1))
        found[number] = found.get(number, 0) + int(count)
    if not found:
        raise unreadable(TOOL, f"no {_COUNTER}", "one line for each engine")
    return found


_SHORT_S = 20.0
# Greedy decoding: if two outputs differ, the server does not compute deterministically.
_ASKED = 2
_ROUNDS = 4
_AT_ONCE = 16
_HEADER = "X-data-parallel-rank"


def health_of(session: HttpSession) -> int:
    """Return the HTTP status of /health.

    Raises:
        BringupError: no response.
    """
    return session.request("GET", "/health", timeout_s=_SHORT_S).status


def models_of(session: HttpSession) -> tuple[str, ...]:
    """Return the names of the models that a server lists.

    Raises:
        BringupError: no response, or one that lists no models.
    """
    answer = session.get_json("/v1/models", timeout_s=_SHORT_S)
    entries = answer.get("data") if isinstance(answer, dict) else None
    if not isinstance(entries, list):
        raise BringupError(session.where, "/v1/models lists no models.", "is it an OpenAI-compatible server?")
    return tuple(str(entry.get("id")) for entry in entries if isinstance(entry, dict))


@dataclass(frozen=True, slots=True)
class Asked:
    """The responses to the smoke request, and by engine how many requests it finished meanwhile.

    `uncounted` is why the latter is not known.
    """

    answers: tuple[SmokeAnswer, ...]
    engines: dict[str, int]
    uncounted: str = ""


def ask_engines(route: Route, settings: InferenceSettings, copies: int, session: HttpSession | None = None) -> Asked:
    """Return the responses of a server's engines: each is queried at least twice, until the server has counted all.

    With a single engine the count is not read, since nothing else can have responded. After a bad response no more
    requests are sent. `session` is an open one to reuse for single requests.
    """
    answers: list[SmokeAnswer] = []
    if copies == 1:
        while len(answers) < _ASKED and _well(answers):
            answers.append(_smoke(HttpSession(route), settings, -1))
        return Asked(tuple(answers), {})
    counts = _Counts(session or HttpSession(route))
    open_engines = list(range(copies))
    for _round in range(_ROUNDS):
        for requested in map_bounded(lambda engine: _to_engine(route, settings, engine), open_engines, _AT_ONCE):
            answers += requested
        grown = counts.grown()
        open_engines = [engine for engine in open_engines if grown.get(str(engine), 0) < 1]
        if counts.problem or not open_engines or not _well(answers):
            break
    return Asked(tuple(answers), counts.grown(), counts.problem)


class _Counts:
    """How many requests the engines of a server have finished since this object was created."""

    def __init__(self, session: HttpSession) -> None:
        self.problem = ""
        self._session = session
        self._before = self._read()

    def grown(self) -> dict[str, int]:
        now = self._read()
        return {} if self.problem else {str(key): count - self._before.get(key, 0) for key, count in now.items()}

    def _read(self) -> dict[int, int]:
        try:
            return finished_requests(self._session.text("GET", "/metrics", timeout_s=_SHORT_S))
        except BringupError as error:
            self.problem = f"{error.subject}: {error.reason}"[:300]
            return {}


def _well(answers: Sequence[SmokeAnswer]) -> bool:
    return all(answer.status == 200 and not answer.problem for answer in answers)


def _to_engine(route: Route, settings: InferenceSettings, engine: int) -> list[SmokeAnswer]:
    with kept(route) as way:
        session = HttpSession(way, headers={_HEADER: str(engine)})
        return [_smoke(session, settings, engine) for _time in range(_ASKED)]


def _smoke(session: HttpSession, settings: InferenceSettings, engine: int) -> SmokeAnswer:
    smoke = settings.smoke
    body = {
        "model": settings.server.name, "prompt": smoke.prompt, "max_tokens": smoke.tokens, "temperature": 0, "seed": 0,
    }  # fmt: skip
    began_at = monotonic()
    try:
        answer = session.request("POST", "/v1/completions", body=body, timeout_s=smoke.request_s)
    except BringupError as error:
        return SmokeAnswer(engine=engine, problem=f"no answer: {error.reason}"[:300])
    latency_s = round(monotonic() - began_at, 4)
    text = answer.body.decode("utf-8", errors="replace")
    if answer.status != 200:
        return SmokeAnswer(engine=engine, status=answer.status, latency_s=latency_s, problem=excerpt(text, 300))
    return replace(_read(text, latency_s), engine=engine)


def _read(text: str, latency_s: float) -> SmokeAnswer:
    try:
        data: Any = json.loads(text)
        choice, usage = data["choices"][0], data["usage"]
        answer_text, finish = choice["text"], choice["finish_reason"]
        tokens = {name: usage[name] for name in ("prompt_tokens", "completion_tokens")}
    except (ValueError, KeyError, IndexError, TypeError) as error:
        return SmokeAnswer(status=200, latency_s=latency_s, problem=f"not a completion: {type(error).__name__} {error}")
    counts = all(isinstance(count, int) and not isinstance(count, bool) for count in tokens.values())
    if not isinstance(answer_text, str) or not isinstance(finish, str) or not counts:
        return SmokeAnswer(status=200, latency_s=latency_s, problem="not a completion: text, reason or usage are none")
    return SmokeAnswer(status=200, text=answer_text[:400], finish=finish, latency_s=latency_s, **tokens)


# The commands of the gate: vLLM's, AIPerf's, and the script that gets AIPerf's export out of its pod. Pure.

# The export goes through the log, since that needs nothing else: no exec into a pod that ended, no volume, no egress.
# Length and digest show whether the log was cut. Each load has its options in a variable LEG_<name>, as words without
# blanks.
_SCRIPT = """\
set -u
if [ -n "$PACKAGE" ]; then
  PATH=${HOME:-/tmp}/.local/bin:$PATH
  tries=0
  if [ -n "$LOCK" ]; then set_of="--require-hashes --no-deps --requirement $LOCK"; else set_of=$PACKAGE; fi
  until python3 -m pip install --quiet --no-cache-dir --root-user-action=ignore $set_of; do
    tries=$((tries + 1))
    [ "$tries" -lt 3 ] || exit 72
    sleep $((tries * 15))
  done
fi
code=0
for leg in $LEGS; do
  eval "options=\\$LEG_$leg"
  "$@" $options --artifact-dir "$ARTIFACTS/$leg" || code=$?
  export_file=$ARTIFACTS/$leg/profile_export_aiperf.json
  if [ -s "$export_file" ]; then
    size=$(wc -c < "$export_file" | tr -d ' ')
    digest=$(sha256sum < "$export_file" | cut -d' ' -f1)
    printf '\\n%s-%s begin %s %s\\n' "$MARK" "$leg" "$size" "$digest"
    cat "$export_file"
    printf '\\n%s-%s end\\n' "$MARK" "$leg"
  fi
  printf '\\n%s-%s exit %s\\n' "$MARK" "$leg" "$code"
  [ "$code" = 0 ] || break
done
exit "$code"
"""


def server_command(settings: InferenceSettings, gpus: int) -> tuple[str, ...]:
    """Return vLLM's command for this many GPUs: as many copies of the model as fit, each with an API server.

    With one API server, which is the default, that process limits the throughput of all engines (vLLM's guide "Data
    Parallel Deployment" names `--api-server-count` for it; measured in vllm-project/vllm#17546).
    """
    server = settings.server
    copies = gpus // server.tensor_parallel
    words = [
        "vllm", "serve", server.model, "--served-model-name", server.name, "--host", "0.0.0.0",
        "--port", str(server.port), "--tensor-parallel-size", str(server.tensor_parallel),
        "--max-model-len", str(server.max_model_len),
        "--gpu-memory-utilization", f"{server.gpu_memory_utilization:g}",
    ]  # fmt: skip
    if copies > 1:
        words += ["--data-parallel-size", str(copies)]
    if (fronts := server.api_servers or copies) > 1:
        words += ["--api-server-count", str(fronts)]
    return (*words, *server.arguments)


def load_command(settings: InferenceSettings, url: str) -> tuple[str, ...]:
    """Return AIPerf's command: the same requests every time, outputs of a fixed length, nothing random."""
    load, server = settings.load, settings.server
    return (
        "aiperf", "profile", "--model", server.name, "--url", url, "--endpoint-type", load.endpoint, "--streaming",
        "--tokenizer", load.tokenizer or server.model, "--use-server-token-count",
        "--synthetic-input-tokens-mean", str(load.input_tokens), "--synthetic-input-tokens-stddev", "0",
        "--output-tokens-mean", str(load.output_tokens), "--output-tokens-stddev", "0",
        "--extra-inputs", "ignore_eos:true", "--extra-inputs", "temperature:0",
        "--request-timeout-seconds", f"{load.request_s:g}",
        "--ui", "none", "--no-gpu-telemetry", "--no-server-metrics",
    )  # fmt: skip


def leg_options(leg: Leg) -> tuple[str, ...]:
    """Return the options of one load for AIPerf's command."""
    words = [
        "--concurrency", str(leg.concurrency), "--request-count", str(leg.requests),
        "--num-dataset-entries", str(leg.prompts), "--random-seed", str(leg.seed),
    ]  # fmt: skip
    if leg.warmup:
        words += ["--warmup-request-count", str(leg.warmup)]
    return tuple(words)


def load_in_pod(command: tuple[str, ...]) -> tuple[str, ...]:
    """Return the command of the pod that makes all loads.

    It reads PACKAGE, LOCK (a file with the digests of all that is installed, or empty), ARTIFACTS, MARK and the
    variables of `legs_env` from its environment.
    """
    return ("/bin/sh", "-c", _SCRIPT, "load", *command)


def legs_env(legs: Iterable[Leg]) -> dict[str, str]:
    """Return the environment that defines the loads of the pod."""
    options = {f"LEG_{leg.name}": " ".join(leg_options(leg)) for leg in legs}
    return {"LEGS": " ".join(name.removeprefix("LEG_") for name in options), **options}


def leg_exit(log: str, mark: str) -> int | None:
    """Return the exit code that the pod logged for a load. None: the load did not end."""
    found = re.search(rf"^{re.escape(mark)} exit (\d{{1,3}})$", log, re.MULTILINE)
    return int(found.group(1)) if found else None


# The servers of the gate: started one per host, followed until they are ready, then queried. A fault is a value.

_TOKEN_SECRET, _TOKEN_KEY = "hub-token", "token"
# Servers queried at the same time. Each takes a local port for each of its engines.
_ASKERS = 16
_PATIENCE_S, _PAUSE_S = 15.0, 0.5


def secret_env(settings: InferenceSettings) -> dict[str, str]:
    """Return the environment of pods that read from the model hub, as `secret/key`."""
    return {"HF_TOKEN": f"{_TOKEN_SECRET}/{_TOKEN_KEY}"} if settings.server.token_secret else {}


def hub_env(settings: InferenceSettings) -> dict[str, str]:
    """Return the environment of pods that read from the model hub: its mirror, and where weights are stored.

    HF_ENDPOINT and HF_HOME are huggingface_hub's. Values of the site in `env` take precedence.
    """
    server = settings.server
    found = {"HF_ENDPOINT": server.hub} if server.hub else {}
    if server.stage:
        found["HF_HOME"] = "/models"
    return {**found, **server.env}


@dataclass(frozen=True, slots=True)
class Servers:
    """Starts and queries the servers of a run. `names` has the name of each host's server."""

    session: Session
    settings: InferenceSettings
    evidence: EvidenceFolder
    names: dict[str, str]

    def provide(self) -> None:
        """Create the hub's token and the claim for the weights in the namespace.

        Raises:
            InputError: the secret has no such key.
            BringupError: the API server refuses, or does not respond.
        """
        server, labels = self.settings.server, self.session.namespace.labels
        objects: list[dict[str, Any]] = []
        if server.token_secret:
            objects.append(self._token(*server.token_secret.split("/")))
        if server.claim:
            metadata = {"name": "models", "labels": labels}
            objects.append(
                {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": metadata, "spec": server.claim}
            )
        self.session.namespace.create(objects)

    def start(self, hosts: Sequence[PlannedHost]) -> list[Server]:
        """Start the servers of these hosts, follow them until they are ready, and query them.

        Return one server for each host.
        """
        specs, open_session = [self._spec(host) for host in hosts], self.session
        results = start_servers(
            open_session.cluster, open_session.namespace, specs, self._after_death, open_session.progress,
            open_session.deadline, self._intake(),
        )  # fmt: skip
        ready = sum(result.state == "ready" for result in results)
        open_session.progress.say(f"vLLM: {ready} of {len(hosts)} servers ready")
        triples = list(zip(hosts, specs, results, strict=True))
        return map_bounded(lambda triple: self._ask(*triple), triples, _ASKERS)

    def _token(self, namespace: str, name: str, key: str) -> dict[str, Any]:
        on_hold = (self.session.cluster.get(SECRETS, name, namespace).get("data") or {}).get(key)
        if not on_hold:
            raise InputError(f"secret {namespace}/{name}", f"has no key {key!r}.", "correct token_secret")
        token = base64.b64encode(base64.b64decode(on_hold).strip()).decode()
        metadata = {"name": _TOKEN_SECRET, "labels": self.session.namespace.labels}
        return {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "data": {_TOKEN_KEY: token}}

    def _spec(self, host: PlannedHost) -> ServerSpec:
        server = self.settings.server
        return ServerSpec(
            name=self.names[host.name], node=host.node, gpus=host.gpus, image=server.image,
            command=server_command(self.settings, host.gpus), env=hub_env(self.settings),
            secret_env=secret_env(self.settings), port=server.port, resources=server.resources, shm_gib=server.shm_gib,
            volume=server.storage, volume_written=server.stage,
            device_class=device_class(host), schedule_s=server.schedule_s, pull_s=server.pull_s, ready_s=server.ready_s,
            restarts=server.restarts, deadline_s=self.session.deadline.limit_s + server.cleanup_s,
        )  # fmt: skip

    def _intake(self) -> Intake:
        server = self.settings.server
        if server.stage:
            return Intake(first_alone=True)
        return Intake() if server.storage else Intake(at_once=server.downloads)

    def _after_death(self, log: str) -> AfterDeath:
        error = self.settings.understand(log)
        if error is None:
            return "again"
        return "final" if error.final else "wait" if error.patient else "again"

    def _ask(self, host: PlannedHost, spec: ServerSpec, result: ServerResult) -> Server:
        found = Server(
            host=host.name, state=result.state, reason=excerpt(result.reason, 500), ready_s=round(result.ready_s, 2),
            command=spec.command, started=result.started,
        )  # fmt: skip
        if result.state != "ready":
            return self._ended(found, result)
        route = self._route(spec, result)
        with kept(route) as way:
            return self._asked(host, spec, result, found, route, HttpSession(way))

    def _asked(
        self, host: PlannedHost, spec: ServerSpec, result: ServerResult, found: Server, route: Route, http: HttpSession
    ) -> Server:
        patience = Deadline.after(_PATIENCE_S)
        while True:
            try:
                found = replace(found, health=health_of(http), problem="")
                if found.health == 200:
                    found = replace(found, models=models_of(http))
                break
            except BringupError as error:
                found = replace(found, problem=f"{error.subject}: {error.reason}"[:400])
            # It may have died since, and it takes a moment until a Service routes to a pod that has become ready.
            session = self.session
            now = look_again(session.cluster, session.namespace, spec, result.pod, self._after_death, session.deadline)
            if now is not None and now.state != "ready":
                return self._ended(replace(found, state=now.state, reason=now.reason, problem=""), now)
            if patience.left_s <= 0:
                return found
            time.sleep(_PAUSE_S)
        if self.settings.server.name not in found.models:
            return found
        requested = ask_engines(route, self.settings, host.gpus // self.settings.server.tensor_parallel, http)
        return replace(found, answers=requested.answers, engines=requested.engines, uncounted=requested.uncounted)

    def _ended(self, found: Server, result: ServerResult) -> Server:
        error = self.settings.understand(result.log)
        # A server that timed out while it waited for the hub was not slow to load.
        if error is not None and (result.state == "failed" or (result.state == "timeout" and error.patient)):
            found = replace(found, cause=error.cause, hint=error.hint, blames_host=error.blames_host)
        return replace(found, log=self.evidence.keep(f"{result.name}.log", result.log).path)

    def _route(self, spec: ServerSpec, result: ServerResult) -> Route:
        server, session = self.settings.server, self.session
        if server.reach == "url":
            words = {"node": spec.node, "service": spec.name, "namespace": session.namespace.name}
            try:
                return UrlRoute(server.url.format(**words))
            except (KeyError, IndexError, ValueError) as error:
                raise InputError(f"settings of {GATE}", f"url: {error!r}.", f"known: {', '.join(words)}") from None
        service = ServiceRef(session.namespace.name, spec.name, spec.port)
        if server.reach == "service-proxy":
            return ServiceProxyRoute(session.cluster, service)
        return PodRoute(session.cluster, session.namespace.name, result.pod, spec.port, str(service))


_ARTIFACTS = "/tmp/aiperf"
# Groups of hosts for which the setting total_s is meant.
_GROUPS_OF_TOTAL = 4


def observe(context: ObserveContext) -> SavedObservation:
    """Serve and load, and return all servers and loads. Logs and exports are saved as evidence.

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
    """Return plan, servers and loads, with the exports parsed again."""
    complete = with_plan_settings(data, InferenceSettings, GATE, site, run_dir)
    saved = from_plain(SavedObservation, complete, "observation inference")
    require_planned(saved.plan.hosts, site, "observation inference")
    runs = tuple(parse_run(load, kept_text(run_dir, load.export), saved.plan.settings) for load in saved.loads)
    return Results(plan=saved.plan, servers=saved.servers, runs=runs, leftovers=saved.leftovers)


def permissions(settings: InferenceSettings, *, by_dra: bool = False) -> tuple[Permission, ...]:
    """Return what servers and loads need in addition to BASIC of workload.permission."""
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
    """vLLM and AIPerf, host by host. A run is one pod that makes all loads of a host, identified by the host's name."""

    gate = GATE
    name = "inference"

    def __init__(self, context: ObserveContext, settings: InferenceSettings) -> None:
        # Hosts serve in groups, one after the other, so a larger fleet needs proportionally more time.
        groups = math.ceil(len(context.site.in_scope) / settings.server.parallel)
        total_s = settings.server.total_s * max(1.0, groups / _GROUPS_OF_TOTAL)
        super().__init__(context, total_s=total_s, cleanup_s=settings.server.cleanup_s)
        self.settings = settings
        self.servers: list[Server] = []
        self._names: dict[str, str] = {}
        self._marks: dict[str, str] = {}
        self._group: frozenset[str] = frozenset()

    def make_plan(self, cluster: Cluster) -> Plan:
        """Plan a server with all GPUs of each host, or none: a GPU that served nothing is not proven."""
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
        """Return the hosts of the group whose server responds, once; after that those whose figures are bad, again."""
        made = tuple(measured for run in self.runs for measured in run)
        loaded = {measured.load.host for measured in made}
        answering = [s.host for s in self.servers if s.answers and all(a.status == 200 for a in s.answers)]
        first = [name for name in answering if name in self._group and name not in loaded]
        again = to_load_again(Results(plan=self.plan, runs=made))
        return first or [name for name in again if name in self._group]

    def announce(self, wanted: Sequence[str]) -> str:
        return f"AIPerf: {len(wanted)} hosts under load"

    def job(self, want: str) -> JobSpec:
        """Return one AIPerf on the node of a host. It marks its exports in the log with an unpredictable word."""
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
        """Save the exports in the log, and the rest of the log. A load that did not begin is left out."""
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
                # How the pod ended afterwards has no effect on this load.
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
        # The export is already redacted. Masking it again as text would drop metrics whose names contain "token".
        file = f"{spec.name}.json" if leg == CACHED else f"{spec.name}-{leg}.json"
        return parse_run(replace(load, export=self.evidence.keep(file, export, mask=str).path), export, self.settings)

    def _attempt(self, host: str) -> int:
        return len([run for run in self.runs if run[0].load.host == host]) + 1


def _last_words(log: str) -> str:
    lines = [line.strip() for line in log.splitlines() if line.strip()]
    errors = [line for line in lines if "error" in line.lower()]
    return excerpt((errors or lines or ["it wrote nothing"])[-1], 250)


OBSERVER = Observer("inference", Results, observe, restore, saved=SavedObservation)
