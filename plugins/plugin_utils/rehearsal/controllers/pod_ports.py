# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Ports of pods: a server on loopback stands for what a pod would serve, reached by port-forward as in production.

Whoever runs such a server says so in a file (stand_in), at any time: pods with those labels then serve it, those of
later too. The product reaches it with clients.http: `service_route(cluster, ServiceRef(namespace, service, port))`.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from ...clients.kube.kinds import PODS, Kind
from ...runtime.files import write_atomic
from .world import CREATE, DELETE, MERGE, Change, Json, World, is_deleted, key_of, labels_of

MANAGER = "rehearsal"
PORT_FORWARDS = Kind("kwok.x-k8s.io/v1alpha1", "PortForward", "portforwards")


@dataclass(frozen=True, slots=True)
class StandIn:
    """Pods with these labels (and in this namespace, if one is named) serve what listens on loopback: container port
    to port of 127.0.0.1."""

    labels: Mapping[str, str]
    ports: Mapping[int, int]
    namespace: str = ""

    def stands_for(self, pod: Json) -> bool:
        """Tell whether a pod is meant."""
        labels = labels_of(pod)
        here = self.namespace in ("", pod["metadata"]["namespace"])
        return here and all(labels.get(key) == value for key, value in self.labels.items())


def stands_in(rehearsal: Path) -> Path:
    """Return the directory of the files that say what stands for what."""
    return rehearsal / "serving"


def stand_in(
    rehearsal: Path, name: str, labels: Mapping[str, str], ports: Mapping[int, int], namespace: str = ""
) -> None:
    """Say that pods with these labels serve what listens on loopback; a later call with the same name replaces it.

    Args:
        rehearsal: directory of the rehearsal.
        name: a word for it, such as `prometheus`.
        labels: labels of the pods; never none.
        ports: container port to port of 127.0.0.1.
        namespace: only there; empty: anywhere.
    """
    if not labels:
        raise ValueError(f"stand-in {name}: without labels it would stand for every pod")
    directory = stands_in(rehearsal)
    directory.mkdir(parents=True, exist_ok=True)
    document = {"labels": dict(labels), "ports": {str(port): to for port, to in ports.items()}, "namespace": namespace}
    path, text = directory / f"{name}.json", json.dumps(document)
    if not path.is_file() or path.read_text(encoding="utf-8") != text:
        write_atomic(path, text)


def stand_no_more(rehearsal: Path, name: str) -> None:
    """Take back what `stand_in` said under that name: those pods serve nothing any more."""
    (stands_in(rehearsal) / f"{name}.json").unlink(missing_ok=True)


def read_stand_ins(directory: Path) -> tuple[StandIn, ...]:
    """Return what the files say; a file that cannot be read counts as none and is named."""
    found = []
    for path in sorted(directory.glob("*.json")):
        try:
            document = json.loads(path.read_text(encoding="utf-8"))
            ports = {int(port): int(to) for port, to in document["ports"].items()}
            found.append(StandIn(dict(document["labels"]), ports, str(document.get("namespace", ""))))
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            print(f"serving: {path}: {error!r}", file=sys.stderr, flush=True)
    return tuple(found)


class PodPorts:
    """Keeps the port-forwards of KWOK as the files say."""

    def __init__(self, directory: Path) -> None:
        """Read the files for the first time."""
        self._directory = directory
        self._stamps: dict[str, int] = {}
        self._known: tuple[StandIn, ...] = ()
        self.refresh()

    def refresh(self) -> bool:
        """Read the files again if one changed; tell whether one did."""
        stamps = {path.name: path.stat().st_mtime_ns for path in self._directory.glob("*.json")}
        if stamps == self._stamps:
            return False
        self._stamps, self._known = stamps, read_stand_ins(self._directory)
        return True

    def reconcile(self, world: World, _truth: object) -> list[Change]:
        """Return the port-forwards to write: one for every pod that serves something."""
        return [change for pod in world.all(PODS) if not is_deleted(pod) for change in self._of(world, pod)]

    def _of(self, world: World, pod: Json) -> Iterable[Change]:
        meant = [entry for entry in self._known if entry.stands_for(pod)]
        ports = {port: to for entry in meant for port, to in entry.ports.items()}
        namespace, name = key_of(pod)
        target = [
            {"ports": [port], "target": {"port": to, "address": "127.0.0.1"}} for port, to in sorted(ports.items())
        ]
        known = world.find(PORT_FORWARDS, name, namespace)
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
