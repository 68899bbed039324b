# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The operator of Prometheus: its pods as objects, and what objects ask for as configuration of the real programs.

Prometheus and Alertmanager run on loopback (see telemetry/plan.py). Their pods are played; a port forwarded to one goes
to the program. A Service of the cluster in a webhook's address leads to the process that plays the receiver's pod.
"""

from __future__ import annotations

import http
import http.client
import json
import sys
import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ...clients.kube.kinds import (
    CLUSTER_POLICIES,
    DEPLOYMENTS,
    NAMESPACES,
    PODS,
    SERVICES,
    STATEFUL_SETS,
    Kind,
)
from ...runtime.files import write_atomic
from ..model.values import Telemetry
from ..telemetry.plan import (
    ALERTMANAGER_FILE,
    PORTS_FILE,
    PROMETHEUS_FILE,
    RULES,
    TARGETS,
    alertmanager_configuration,
    prometheus_configuration,
    telemetry_directory,
)
from .pod_ports import stand_in, stand_no_more
from .truth import Truth
from .world import (
    CREATE,
    Change,
    Json,
    World,
    available,
    is_deleted,
    is_true,
    key_of,
    labels_of,
    owner_reference,
)

MANAGER = "prometheus-operator"
GROUP = "monitoring.coreos.com"
PROMETHEUSES = Kind(f"{GROUP}/v1", "Prometheus", "prometheuses")
ALERTMANAGERS = Kind(f"{GROUP}/v1", "Alertmanager", "alertmanagers")
PROMETHEUS_RULES = Kind(f"{GROUP}/v1", "PrometheusRule", "prometheusrules")
ALERTMANAGER_CONFIGS = Kind(f"{GROUP}/v1alpha1", "AlertmanagerConfig", "alertmanagerconfigs")
WATCHED = (PROMETHEUSES, ALERTMANAGERS, PROMETHEUS_RULES, ALERTMANAGER_CONFIGS, NAMESPACES, SERVICES, STATEFUL_SETS)
_EXPORTER = "nvidia-dcgm-exporter"
_EXPORTER_PORT = 9400
# Nobody listens there.
_NOWHERE = 9
_RELOAD_LIMIT_S, _AGAIN_S = 5.0, 1.0


@dataclass(frozen=True, slots=True)
class _Server:
    """What a custom resource of the operator becomes: workload, port and container."""

    kind: Kind
    word: str
    port: int
    port_name: str


_SERVERS = (
    _Server(PROMETHEUSES, "prometheus", 9090, "http-web"),
    _Server(ALERTMANAGERS, "alertmanager", 9093, "http-web"),
)


class PrometheusOperator:
    """Keeps objects and configuration as the cluster asks for; without the programs it does nothing."""

    def __init__(self, rehearsal: Path, wake: Callable[[], None]) -> None:
        """Find the programs' files; `wake` has the controllers look again."""
        self._rehearsal, self._directory, self._wake = rehearsal, telemetry_directory(rehearsal), wake
        self._written: dict[Path, str] = {}
        self._stale: set[str] = set()
        self._ports: dict[str, int] = {}

    def reconcile(self, world: World, truth: Truth) -> list[Change]:
        """Return the objects to make; write what the programs read."""
        if not self._there() or truth.model is None:
            return []
        operator = available(world, DEPLOYMENTS, "app.kubernetes.io/component", "prometheus-operator")
        if operator is None:
            return []
        state = truth.model.stack.telemetry
        self._serve(state)
        self._write_targets(world, truth, state)
        self._write_rules(world, state)
        self._write(PROMETHEUS_FILE, self._prometheus(state), "prometheus")
        self._write(ALERTMANAGER_FILE, self._alertmanager(world, state), "alertmanager")
        self._reload()
        return [change for server in _SERVERS for change in _server_objects(world, server)]

    def _there(self) -> bool:
        if not self._ports:
            try:
                self._ports = json.loads((self._directory / PORTS_FILE).read_text(encoding="utf-8"))
            except (OSError, ValueError):
                return False
        return True

    def _serve(self, state: Telemetry) -> None:
        for server in _SERVERS:
            if server.word == "prometheus" and not state.prometheus:
                stand_no_more(self._rehearsal, server.word)
                continue
            labels, ports = {"app.kubernetes.io/name": server.word}, {server.port: self._ports[server.word]}
            stand_in(self._rehearsal, server.word, labels, ports)

    def _write_targets(self, world: World, truth: Truth, state: Telemetry) -> None:
        groups = list(_targets(world, truth, self._ports["exporters"])) if state.scraped else []
        # Prometheus sees a changed file by itself.
        self._write(f"{TARGETS}/exporters.json", groups, "")

    def _write_rules(self, world: World, state: Telemetry) -> None:
        wanted = (
            {f"{RULES}/{'-'.join(key_of(rule))}.json": rule["spec"] for rule in _rules(world)} if state.rules else {}
        )
        for name, spec in wanted.items():
            self._write(name, {"groups": spec.get("groups") or []}, "prometheus")
        for path in (self._directory / RULES).glob("*.json"):
            if f"{RULES}/{path.name}" not in wanted:
                path.unlink()
                self._written.pop(path, None)
                self._stale.add("prometheus")

    def _prometheus(self, state: Telemetry) -> Json:
        found = json.loads((self._directory / PROMETHEUS_FILE).read_text(encoding="utf-8"))
        return prometheus_configuration(found["global"]["scrape_interval"], self._ports, wired=state.wired)

    def _alertmanager(self, world: World, state: Telemetry) -> Json:
        port = self._ports["alert-receiver"] if state.delivers else _NOWHERE
        configs = [config for config in _alertmanager_configs(world) if not is_deleted(config)]
        routes = tuple(_route(config) for config in configs)
        receivers = tuple(receiver for config in configs for receiver in _receivers(config, port))
        return alertmanager_configuration(routes, receivers)

    def _write(self, name: str, document: Any, program: str) -> None:
        path, text = self._directory / name, json.dumps(document, sort_keys=True)
        if self._written.get(path) != text:
            write_atomic(path, text)
            self._written[path] = text
            if program:
                self._stale.add(program)

    def _reload(self) -> None:
        for program in sorted(self._stale):
            connection = http.client.HTTPConnection("127.0.0.1", self._ports[program], timeout=_RELOAD_LIMIT_S)
            try:
                connection.request("POST", "/-/reload")
                answer = connection.getresponse()
                if answer.status == http.HTTPStatus.OK:
                    self._stale.discard(program)
                else:
                    print(f"{program}: reload: {answer.read()[:500]!r}", file=sys.stderr, flush=True)
            except (OSError, http.client.HTTPException) as error:
                print(f"{program}: reload: {error!r}", file=sys.stderr, flush=True)
            finally:
                connection.close()
        if self._stale:
            timer = threading.Timer(_AGAIN_S, self._wake)
            timer.daemon = True
            timer.start()


def selects(selector: Json | None, labels: Mapping[str, str]) -> bool:
    """Tell whether a label selector of an object selects labels; one that is not there selects nothing."""
    if selector is None:
        return False
    words = selector.get("matchLabels") or {}
    return all(labels.get(key) == value for key, value in words.items())


def _selected(world: World, kind: Kind, owner: Json, field: str) -> Iterable[Json]:
    spec = owner.get("spec") or {}
    spaces = {item["metadata"]["name"]: labels_of(item) for item in world.all(NAMESPACES)}
    for item in world.all(kind):
        space = item["metadata"]["namespace"]
        everywhere = spec.get(f"{field}NamespaceSelector")
        here = (
            space == owner["metadata"]["namespace"]
            if everywhere is None
            else selects(everywhere, spaces.get(space, {}))
        )
        if here and not is_deleted(item) and selects(spec.get(f"{field}Selector"), labels_of(item)):
            yield item


def _rules(world: World) -> Iterable[Json]:
    for owner in world.all(PROMETHEUSES):
        yield from _selected(world, PROMETHEUS_RULES, owner, "rule")


def _alertmanager_configs(world: World) -> Iterable[Json]:
    for owner in world.all(ALERTMANAGERS):
        yield from _selected(world, ALERTMANAGER_CONFIGS, owner, "alertmanagerConfig")


def _receiver_name(config: Json, name: str) -> str:
    return "/".join((*key_of(config), name))


def _route(config: Json) -> Json:
    """The route of an AlertmanagerConfig: only for alerts of its own namespace, and others still see them."""
    route = config["spec"].get("route") or {}
    matchers = [f'namespace="{config["metadata"]["namespace"]}"']
    matchers += [
        f'{entry["name"]}{entry.get("matchType", "=")}"{entry["value"]}"' for entry in route.get("matchers") or []
    ]
    found = {"receiver": _receiver_name(config, route["receiver"]), "matchers": matchers, "continue": True}
    words = {"groupWait": "group_wait", "groupInterval": "group_interval", "repeatInterval": "repeat_interval"}
    return found | {to: route[word] for word, to in words.items() if route.get(word)}


def _receivers(config: Json, port: int) -> Iterable[Json]:
    for receiver in config["spec"].get("receivers") or []:
        hooks = [
            {"url": f"http://127.0.0.1:{port}/", "send_resolved": bool(hook.get("sendResolved", True))}
            for hook in receiver.get("webhookConfigs") or []
        ]
        yield {"name": _receiver_name(config, receiver["name"]), "webhook_configs": hooks}


def _targets(world: World, truth: Truth, port: int) -> Iterable[Json]:
    """The exporters' pods as Prometheus is told of them through the ServiceMonitor of the GPU operator."""
    policies = [policy["spec"].get("dcgmExporter") or {} for policy in world.all(CLUSTER_POLICIES)]
    if not any((policy.get("serviceMonitor") or {}).get("enabled") for policy in policies) or truth.model is None:
        return
    pods = {pod["spec"].get("nodeName"): pod for pod in world.all(PODS) if labels_of(pod).get("app") == _EXPORTER}
    for node in truth.model.nodes:
        pod = pods.get(node.name)
        if pod is None or is_deleted(pod) or not is_true(pod, "Ready"):
            continue
        jobs = (_EXPORTER, "dcgm-exporter") if node.exporter == "twice" else (_EXPORTER,)
        for number, job in enumerate(jobs):
            yield {"targets": [f"127.0.0.1:{port}"], "labels": _target_labels(pod, node.name, job, number)}


def _target_labels(pod: Json, node: str, job: str, number: int) -> dict[str, str]:
    namespace, name = key_of(pod)
    address = (pod.get("status") or {}).get("podIP", "")
    return {
        "__metrics_path__": f"/hosts/{node}/metrics", "__meta_kubernetes_pod_node_name": node, "job": job,
        "instance": f"{address}:{_EXPORTER_PORT + number}", "namespace": namespace, "pod": name, "service": job,
        "container": _EXPORTER, "endpoint": "gpu-metrics",
    }  # fmt: skip


def _server_objects(world: World, server: _Server) -> Iterable[Change]:
    for owner in world.all(server.kind):
        namespace, name = key_of(owner)
        if is_deleted(owner):
            continue
        workload, service = f"{server.word}-{name}", f"{server.word}-operated"
        labels = {
            "app.kubernetes.io/instance": name, "app.kubernetes.io/managed-by": MANAGER,
            "app.kubernetes.io/name": server.word, server.word: name,
        }  # fmt: skip
        owners = {"ownerReferences": [owner_reference(owner, server.kind.api_version, server.kind.kind)]}
        if world.find(STATEFUL_SETS, workload, namespace) is None:
            body = {"metadata": {"name": workload, "namespace": namespace, "labels": labels, **owners}}
            body["spec"] = _stateful_set(server, labels, service)
            yield Change(MANAGER, CREATE, STATEFUL_SETS, workload, namespace, body)
        if world.find(SERVICES, service, namespace) is None:
            ports = [{"name": server.port_name, "port": server.port, "targetPort": server.port_name}]
            metadata = {"name": service, "namespace": namespace, "labels": {f"operated-{server.word}": "true"}}
            spec = {"clusterIP": "None", "selector": {"app.kubernetes.io/name": server.word}, "ports": ports}
            body = {"metadata": {**metadata, **owners}, "spec": spec}
            yield Change(MANAGER, CREATE, SERVICES, service, namespace, body)


def _stateful_set(server: _Server, labels: Mapping[str, str], service: str) -> Json:
    ports = [{"name": server.port_name, "containerPort": server.port}]
    containers = [{"name": server.word, "image": f"rehearsal/{server.word}:stand-in", "ports": ports}]
    template = {"metadata": {"labels": dict(labels)}, "spec": {"containers": containers}}
    return {"serviceName": service, "replicas": 1, "selector": {"matchLabels": dict(labels)}, "template": template}
