# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Pod ports and commands, as in production: port-forward to a server on loopback, exec into a host's tools."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.clients.kube.objects import PODS, Kind
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.runtime.files import write_atomic

from .cluster_facts import CREATE, DELETE, MERGE, Change, ClusterFacts, ClusterView, Json, is_deleted, key_of, labels_of
from .slurm_operator import COMMANDS, runs_slurms_commands

# Pod ports: a server on loopback is the backend of a pod's port and is reached by port-forward, as in production.
#
# The owner of such a server registers it in a file (register_backend) at any time. It then serves all pods with those
# labels, including later ones. The product reaches it with clients.http: `service_route(cluster, ServiceRef(namespace,
# service, port))`.

MANAGER = "rehearsal"
PORT_FORWARDS = Kind("kwok.x-k8s.io/v1alpha1", "PortForward", "portforwards")


@dataclass(frozen=True, slots=True)
class PodBackend:
    """A server on loopback behind the pods with these labels, and in this namespace if one is given.

    `ports` maps container ports to ports of 127.0.0.1.
    """

    labels: Mapping[str, str]
    ports: Mapping[int, int]
    namespace: str = ""

    def matches(self, pod: Json) -> bool:
        """Tell whether this backend serves the pod."""
        labels = labels_of(pod)
        here = self.namespace in ("", pod["metadata"]["namespace"])
        return here and all(labels.get(key) == value for key, value in self.labels.items())


def backends_directory(rehearsal: Path) -> Path:
    """Return the directory of the registered backends."""
    return rehearsal / "serving"


def register_backend(
    rehearsal: Path, name: str, labels: Mapping[str, str], ports: Mapping[int, int], namespace: str = ""
) -> None:
    """Register a server on loopback as the backend of pods. A later call with the same name replaces it.

    Args:
        rehearsal: directory of the rehearsal.
        name: name of the backend, such as `prometheus`.
        labels: labels of the pods; at least one.
        ports: container port to port of 127.0.0.1.
        namespace: namespace of the pods; empty: any.

    Raises:
        ValueError: there is no label.
    """
    if not labels:
        raise ValueError(f"backend {name}: without labels it would serve every pod")
    directory = backends_directory(rehearsal)
    directory.mkdir(parents=True, exist_ok=True)
    document = {"labels": dict(labels), "ports": {str(port): to for port, to in ports.items()}, "namespace": namespace}
    path, text = directory / f"{name}.json", json.dumps(document)
    if not path.is_file() or path.read_text(encoding="utf-8") != text:
        write_atomic(path, text)


def remove_backend(rehearsal: Path, name: str) -> None:
    """Remove a registered backend. Its pods then serve nothing."""
    (backends_directory(rehearsal) / f"{name}.json").unlink(missing_ok=True)


def read_backends(directory: Path) -> tuple[PodBackend, ...]:
    """Return the registered backends. A file that cannot be read is left out and reported on stderr."""
    found = []
    for path in sorted(directory.glob("*.json")):
        try:
            document = json.loads(path.read_text(encoding="utf-8"))
            ports = {int(port): int(to) for port, to in document["ports"].items()}
            found.append(PodBackend(dict(document["labels"]), ports, str(document.get("namespace", ""))))
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            print(f"serving: {path}: {error!r}", file=sys.stderr, flush=True)
    return tuple(found)


class PodPorts:
    """Writes the port-forwards of KWOK for the registered backends."""

    def __init__(self, directory: Path) -> None:
        """Read the registered backends."""
        self._directory = directory
        self._stamps: dict[str, int] = {}
        self._known: dict[tuple[str, str], list[PodBackend]] = {}
        self.refresh()

    def refresh(self) -> bool:
        """Read the files again if one changed. Return whether one did."""
        stamps = {path.name: path.stat().st_mtime_ns for path in self._directory.glob("*.json")}
        if stamps == self._stamps:
            return False
        self._stamps, self._known = stamps, {}
        # By the last label of each, since there are thousands of pods and hundreds of servers.
        for entry in (entry for entry in read_backends(self._directory) if entry.labels):
            self._known.setdefault(list(entry.labels.items())[-1], []).append(entry)
        return True

    def reconcile(self, view: ClusterView, _facts: object) -> list[Change]:
        """Return the port-forwards to write: one for every pod with a backend."""
        return [change for pod in view.all(PODS) if not is_deleted(pod) for change in self._of(view, pod)]

    def _of(self, view: ClusterView, pod: Json) -> Iterable[Change]:
        labels = labels_of(pod).items()
        meant = [entry for label in labels for entry in self._known.get(label, ()) if entry.matches(pod)]
        ports = {port: to for entry in meant for port, to in entry.ports.items()}
        namespace, name = key_of(pod)
        target = [
            {"ports": [port], "target": {"port": to, "address": "127.0.0.1"}} for port, to in sorted(ports.items())
        ]
        known = view.find(PORT_FORWARDS, name, namespace)
        if not ports:
            if known is not None:
                yield Change(MANAGER, DELETE, PORT_FORWARDS, name, namespace)
        elif known is None:
            owner = {"apiVersion": "v1", "kind": "Pod", "name": name, "uid": pod["metadata"]["uid"]}
            body = {"metadata": {"name": name, "namespace": namespace, "ownerReferences": [owner]}}
            body["spec"] = {"forwards": target}
            yield Change(MANAGER, CREATE, PORT_FORWARDS, name, namespace, body)
        elif known["spec"].get("forwards") != target:
            yield Change(MANAGER, MERGE, PORT_FORWARDS, name, namespace, {"spec": {"forwards": target}})


# Commands in pods: `kubectl exec` into a pod of a GPU node runs that host's simulated tools.
#
# KWOK runs such a command on this machine: it looks the program up on its own PATH and adds the environment of the
# ClusterExec that names the pod. So KWOK's PATH is a directory of shims, one script per tool. A shim runs the tool of
# the same name in the directory that the environment names: the tools of the host on which the pod runs.

CLUSTER_EXECS = Kind("kwok.x-k8s.io/v1alpha1", "ClusterExec", "clusterexecs", namespaced=False)
TOOLS_VARIABLE = "GPUFLEET_REHEARSAL_TOOLS"
_JOB_LABEL = "batch.kubernetes.io/job-name"
_SYSTEM_PATH = "/usr/local/bin:/usr/bin:/bin"
_COMMON = ("sh", "bash", "cat", "env", "echo", "true", "false", "ls", "uname", "sleep", "timeout")


def exec_shims(rehearsal: Path) -> Path:
    """Return the directory of the shims, which has to be KWOK's PATH."""
    return rehearsal / "exec" / "bin"


def tools_of(hosts: Path, host: str) -> Path:
    """Return the directory with the simulated tools of a host."""
    return hosts / host / "bin"


def slurm_commands(rehearsal: Path) -> Path:
    """Return the directory with the commands of a simulated Slurm, whose controller is no host."""
    return rehearsal / "exec" / "slurm"


def make_exec_shims(directory: Path, hosts: Path) -> None:
    """Write a shim for every tool of any host, and for a few programs that every image has."""
    directory.mkdir(parents=True, exist_ok=True)
    tools = {path.name for host in sorted(hosts.glob("*/bin")) for path in host.iterdir() if not path.is_dir()}
    tools |= set(COMMANDS)
    for name in sorted(tools | set(_COMMON)):
        target = f'"${{{TOOLS_VARIABLE}:?}}/{name}"' if name in tools else f'"$(command -v {name})"'
        path = directory / f".{name}.partial"
        path.write_text(f'#!/bin/sh\nexec {target} "$@"\n', encoding="utf-8")
        path.chmod(0o755)
        os.replace(path, directory / name)


def _is_served(pod: Json) -> bool:
    """Tell whether commands can run in a pod. Jobs create hundreds of pods, in which no command is run."""
    return not is_deleted(pod) and _JOB_LABEL not in labels_of(pod)


def reconcile(view: ClusterView, facts: ClusterFacts, hosts: Path) -> list[Change]:
    """Return the ClusterExecs to write: one per node, which names the pods on it, and one for those of Slurm."""
    changes: list[Change] = []
    for node in facts.nodes.values():
        pods = [pod for pod in view.pods_on(node.name) if _is_served(pod) and not runs_slurms_commands(pod)]
        changes += _exec(view, f"host-{node.name}", pods, tools_of(hosts, node.name), {"HOSTNAME": node.name})
    slurm = [pod for pod in view.all(PODS) if runs_slurms_commands(pod) and _is_served(pod)]
    return [*changes, *_exec(view, "slurm", slurm, slurm_commands(hosts.parent), {})]


def _exec(view: ClusterView, name: str, pods: list[Json], tools: Path, more: dict[str, str]) -> list[Change]:
    """Return the writes with which these pods run the programs of that directory."""
    names = sorted(pod["metadata"]["name"] for pod in pods)
    known = view.find(CLUSTER_EXECS, name)
    if known is None:
        variables = {TOOLS_VARIABLE: str(tools), "PATH": f"{tools}:{_SYSTEM_PATH}", **more}
        envs = [{"name": key, "value": value} for key, value in variables.items()]
        spec = {"selector": {"matchNames": names}, "execs": [{"local": {"envs": envs}}]}
        body = {"metadata": {"name": name}, "spec": spec}
        return [Change(MANAGER, CREATE, CLUSTER_EXECS, name, body=body)] if names else []
    if known["spec"]["selector"]["matchNames"] == (names or ["-"]):
        return []
    body = {"spec": {"selector": {"matchNames": names or ["-"]}}}
    return [Change(MANAGER, MERGE, CLUSTER_EXECS, name, body=body)]
