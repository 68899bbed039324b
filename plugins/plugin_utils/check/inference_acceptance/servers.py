# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The servers of the gate: started one a host, followed until they are ready, then asked. What is wrong is a value."""

from __future__ import annotations

import base64
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from ...clients.http.kept import kept
from ...clients.http.model import Route, ServiceRef
from ...clients.http.routes import PodRoute, ServiceProxyRoute, UrlRoute
from ...clients.http.session import HttpSession
from ...clients.kube.kinds import SECRETS
from ...outcome.errors import BringupError, InputError
from ...runtime.clock import Deadline
from ...runtime.pool import map_bounded
from ...runtime.redaction import excerpt
from ...workload.serving import AfterDeath, Intake, ServerResult, ServerSpec, look_again, start_servers
from ..benchmark.plan import device_class
from ..benchmark.records import EvidenceFolder
from ..benchmark.run_loop import Session
from .asking import ask_engines, health_of, models_of
from .commands import server_command
from .model import PlannedHost, Server
from .settings import GATE, InferenceSettings

_TOKEN_SECRET, _TOKEN_KEY = "hub-token", "token"
# Each holds a port for each engine of its server.
_ASKERS = 16
_PATIENCE_S, _PAUSE_S = 15.0, 0.5


def secret_env(settings: InferenceSettings) -> dict[str, str]:
    """Return the environment of pods that read from the model hub, as `secret/key`."""
    return {"HF_TOKEN": f"{_TOKEN_SECRET}/{_TOKEN_KEY}"} if settings.server.token_secret else {}


def hub_env(settings: InferenceSettings) -> dict[str, str]:
    """Return the environment of pods that read from the model hub: whose mirror, and where weights are kept.

    HF_ENDPOINT and HF_HOME are huggingface_hub's; what the site states in `env` wins.
    """
    server = settings.server
    found = {"HF_ENDPOINT": server.hub} if server.hub else {}
    if server.stage:
        found["HF_HOME"] = "/models"
    return {**found, **server.env}


@dataclass(frozen=True, slots=True)
class Servers:
    """Starts and asks the servers of a run; `names` has the name of each host's server."""

    session: Session
    settings: InferenceSettings
    evidence: EvidenceFolder
    names: dict[str, str]

    def provide(self) -> None:
        """Bring the hub's token and the claim for the weights into the namespace.

        Raises:
            InputError: the secret has no such key.
            BringupError: the API server refuses, or does not answer.
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
        """Return the server of each host as it did: started, followed, asked."""
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
        held = (self.session.cluster.get(SECRETS, name, namespace).get("data") or {}).get(key)
        if not held:
            raise InputError(f"secret {namespace}/{name}", f"has no key {key!r}.", "correct token_secret")
        token = base64.b64encode(base64.b64decode(held).strip()).decode()
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
            # It may have died since, and a Service needs a moment to know a pod that has become ready.
            session = self.session
            now = look_again(session.cluster, session.namespace, spec, result.pod, self._after_death, session.deadline)
            if now is not None and now.state != "ready":
                return self._ended(replace(found, state=now.state, reason=now.reason, problem=""), now)
            if patience.left_s <= 0:
                return found
            time.sleep(_PAUSE_S)
        if self.settings.server.name not in found.models:
            return found
        asked = ask_engines(route, self.settings, host.gpus // self.settings.server.tensor_parallel, http)
        return replace(found, answers=asked.answers, engines=asked.engines, uncounted=asked.uncounted)

    def _ended(self, found: Server, result: ServerResult) -> Server:
        error = self.settings.understand(result.log)
        # A server that waited for its turn at the hub until its time was over did not load slowly.
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
