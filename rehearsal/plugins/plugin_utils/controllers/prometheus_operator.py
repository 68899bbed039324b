# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Stand-in of prometheus-operator: creates the pods of Prometheus and Alertmanager, and configures the real programs.

Both programs run on loopback (see telemetry/plan.py). Their pods are simulated, and a port-forward to a pod reaches the
program. A webhook that names a Service of the cluster reaches the process that simulates the receiver's pod.
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

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.clients.kube.objects import (
    CLUSTER_POLICIES,
    DEPLOYMENTS,
    NAMESPACES,
    PODS,
    SERVICES,
    STATEFUL_SETS,
    Kind,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.runtime.files import write_atomic

from ..model.site import Telemetry
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
from .cluster_facts import (
    CREATE,
    Change,
    ClusterFacts,
    ClusterView,
    Json,
    available,
    is_deleted,
    is_true,
    key_of,
    labels_of,
    owner_reference,
)
from .pod_ports import register_backend, remove_backend

MANAGER = "prometheus-operator"
GROUP = "monitoring.coreos.com"
PROMETHEUSES = Kind(f"{GROUP}/v1", "Prometheus", "prometheuses")
ALERTMANAGERS = Kind(f"{GROUP}/v1", "Alertmanager", "alertmanagers")
PROMETHEUS_RULES = Kind(f"{GROUP}/v1", "PrometheusRule", "prometheusrules")
ALERTMANAGER_CONFIGS = Kind(f"{GROUP}/v1alpha1", "AlertmanagerConfig", "alertmanagerconfigs")
WATCHED = (PROMETHEUSES, ALERTMANAGERS, PROMETHEUS_RULES, ALERTMANAGER_CONFIGS, NAMESPACES, SERVICES, STATEFUL_SETS)
_EXPORTER = "nvidia-dcgm-exporter"
_EXPORTER_PORT = 9400
# The discard port, which has no listener.
_NOWHERE = 9
_RELOAD_LIMIT_S, _AGAIN_S = 5.0, 1.0


@dataclass(frozen=True, slots=True)
class _Server:
    """One kind of server of the operator: its custom resource, the name of its container, and its port."""

    kind: Kind
    word: str
    port: int
    port_name: str


_SERVERS = (
    _Server(PROMETHEUSES, "prometheus", 9090, "http-web"),
    _Server(ALERTMANAGERS, "alertmanager", 9093, "http-web"),
)


class PrometheusOperator:
    """Keeps objects and configuration up to date; does nothing where the programs do not run."""

    def __init__(self, rehearsal: Path, wake: Callable[[], None]) -> None:
        """Keep the directories. `wake` makes the controllers run another pass."""
        self._rehearsal, self._directory, self._wake = rehearsal, telemetry_directory(rehearsal), wake
        self._written: dict[Path, str] = {}
        self._stale: set[str] = set()
        self._ports: dict[str, int] = {}

    def reconcile(self, view: ClusterView, facts: ClusterFacts) -> list[Change]:
        """Return the objects to create, and write the configuration of the programs."""
        if not self._programs_run() or facts.model is None:
            return []
        operator = available(view, DEPLOYMENTS, "app.kubernetes.io/component", "prometheus-operator")
        if operator is None:
            return []
        state = facts.model.stack.telemetry
        self._serve(state)
        self._write_targets(view, facts, state)
        self._write_rules(view, state)
        self._write(PROMETHEUS_FILE, self._prometheus(state), "prometheus")
        self._write(ALERTMANAGER_FILE, self._alertmanager(view, state), "alertmanager")
        self._reload()
        return [change for server in _SERVERS for change in _server_objects(view, server)]

    def _programs_run(self) -> bool:
        if not self._ports:
            try:
                self._ports = json.loads((self._directory / PORTS_FILE).read_text(encoding="utf-8"))
            except (OSError, ValueError):
                return False
        return True

    def _serve(self, state: Telemetry) -> None:
        for server in _SERVERS:
            if server.word == "prometheus" and not state.prometheus:
                remove_backend(self._rehearsal, server.word)
                continue
            labels, ports = {"app.kubernetes.io/name": server.word}, {server.port: self._ports[server.word]}
            register_backend(self._rehearsal, server.word, labels, ports)

    def _write_targets(self, view: ClusterView, facts: ClusterFacts, state: Telemetry) -> None:
        groups = list(_targets(view, facts, self._ports["exporters"])) if state.scraped else []
        # Prometheus notices a changed target file by itself.
        self._write(f"{TARGETS}/exporters.json", groups, "")

    def _write_rules(self, view: ClusterView, state: Telemetry) -> None:
        wanted = (
            {f"{RULES}/{'-'.join(key_of(rule))}.json": rule["spec"] for rule in _rules(view)} if state.rules else {}
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

    def _alertmanager(self, view: ClusterView, state: Telemetry) -> Json:
        port = self._ports["alert-receiver"] if state.delivers else _NOWHERE
        configs = [config for config in _alertmanager_configs(view) if not is_deleted(config)]
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
    """Tell whether a label selector selects these labels. A missing selector selects nothing."""
    if selector is None:
        return False
    words = selector.get("matchLabels") or {}
    return all(labels.get(key) == value for key, value in words.items())


def _selected(view: ClusterView, kind: Kind, owner: Json, field: str) -> Iterable[Json]:
    spec = owner.get("spec") or {}
    spaces = {item["metadata"]["name"]: labels_of(item) for item in view.all(NAMESPACES)}
    for item in view.all(kind):
        space = item["metadata"]["namespace"]
        everywhere = spec.get(f"{field}NamespaceSelector")
        here = (
            space == owner["metadata"]["namespace"]
            if everywhere is None
            else selects(everywhere, spaces.get(space, {}))
        )
        if here and not is_deleted(item) and selects(spec.get(f"{field}Selector"), labels_of(item)):
            yield item


def _rules(view: ClusterView) -> Iterable[Json]:
    for owner in view.all(PROMETHEUSES):
        yield from _selected(view, PROMETHEUS_RULES, owner, "rule")


def _alertmanager_configs(view: ClusterView) -> Iterable[Json]:
    for owner in view.all(ALERTMANAGERS):
        yield from _selected(view, ALERTMANAGER_CONFIGS, owner, "alertmanagerConfig")


def _receiver_name(config: Json, name: str) -> str:
    return "/".join((*key_of(config), name))


def _route(config: Json) -> Json:
    """Return the route of an AlertmanagerConfig, for alerts of its own namespace. Other routes get them too."""
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


def _targets(view: ClusterView, facts: ClusterFacts, port: int) -> Iterable[Json]:
    """Return the scrape targets of the GPU operator's ServiceMonitor."""
    policies = [policy["spec"].get("dcgmExporter") or {} for policy in view.all(CLUSTER_POLICIES)]
    if not any((policy.get("serviceMonitor") or {}).get("enabled") for policy in policies) or facts.model is None:
        return
    pods = {pod["spec"].get("nodeName"): pod for pod in view.all(PODS) if labels_of(pod).get("app") == _EXPORTER}
    for node in facts.model.nodes:
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


def _server_objects(view: ClusterView, server: _Server) -> Iterable[Change]:
    for owner in view.all(server.kind):
        namespace, name = key_of(owner)
        if is_deleted(owner):
            continue
        workload, service = f"{server.word}-{name}", f"{server.word}-operated"
        labels = {
            "app.kubernetes.io/instance": name, "app.kubernetes.io/managed-by": MANAGER,
            "app.kubernetes.io/name": server.word, server.word: name,
        }  # fmt: skip
        owners = {"ownerReferences": [owner_reference(owner, server.kind.api_version, server.kind.kind)]}
        if view.find(STATEFUL_SETS, workload, namespace) is None:
            body = {"metadata": {"name": workload, "namespace": namespace, "labels": labels, **owners}}
            body["spec"] = _stateful_set(server, labels, service)
            yield Change(MANAGER, CREATE, STATEFUL_SETS, workload, namespace, body)
        if view.find(SERVICES, service, namespace) is None:
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
