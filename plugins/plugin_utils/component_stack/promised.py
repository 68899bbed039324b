# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""What a release must have running: the workloads in its own manifest, and those that operators make for it. Pure.

A deleted workload leaves no trace among the workloads of a cluster. Only the manifest still lists it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from ..outcome.errors import InputError
from ..runtime.foreign_yaml import documents
from .api_services import API_SERVICES
from .workloads import Workload

# A Job may be removed after its end (ttlSecondsAfterFinished), so its absence means nothing.
_KINDS = ("Deployment", "DaemonSet", "StatefulSet", API_SERVICES.kind)
# The Prometheus operator makes a StatefulSet of each, with these prefixes. Further shards of a Prometheus have a suffix
# (prometheus-operator/prometheus-operator, pkg/prometheus/statefulset.go and pkg/alertmanager/statefulset.go).
_MADE_OF = {"Prometheus": "prometheus", "Alertmanager": "alertmanager"}
_OPERATOR_GROUP = "monitoring.coreos.com/"
# A chart may render JSON, which is YAML too: `"kind": "Deployment"`.
_OF_THESE = re.compile(rf"\bkind[\"']?:\s*[\"']?({'|'.join((*_KINDS, *_MADE_OF))})\b")
_SEPARATOR = re.compile(r"^---\s*(?:#.*)?$", re.MULTILINE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Promised:
    """A workload in a release's manifest, or an API that it serves. `replicas` is None if the manifest sets none."""

    kind: str
    name: str
    namespace: str
    replicas: int | None = None

    @property
    def title(self) -> str:
        """Its name in messages."""
        return " ".join((self.kind, "/".join(filter(None, self.key[1:]))))

    @property
    def key(self) -> tuple[str, str, str]:
        """Kind, namespace and name, by which it is found in a cluster. An API is in no namespace."""
        return _key(self.kind, self.namespace, self.name)


def _key(kind: str, namespace: str, name: str) -> tuple[str, str, str]:
    return kind, "" if kind == API_SERVICES.kind else namespace, name


def promised_by_text(text: str, namespace: str) -> tuple[Promised, ...]:
    """Return the workloads of a manifest as `helm get manifest` prints it.

    Args:
        text: YAML documents.
        namespace: namespace of the release, for objects without one.

    Raises:
        InputError: the document of a workload is not YAML, or lacks its name.
    """
    bodies: list[Any] = []
    for document in _SEPARATOR.split(text):
        if _OF_THESE.search(document):
            try:
                bodies += documents(document)
            except ValueError as error:
                raise InputError("manifest of the release", f"is not YAML: {error}.") from None
    return promised_by(bodies, namespace)


def promised_by(bodies: Iterable[Any], namespace: str) -> tuple[Promised, ...]:
    """Return the workloads among objects. Arguments and errors are those of promised_by_text."""
    found = []
    for body in bodies:
        made = _is_made_of(body)
        if not isinstance(body, Mapping) or not (made or body.get("kind") in _KINDS):
            continue
        metadata = body.get("metadata")
        name = metadata.get("name") if isinstance(metadata, Mapping) else None
        if not isinstance(metadata, Mapping) or not isinstance(name, str) or not name:
            raise InputError("manifest of the release", f"has a {body['kind']} without a name.")
        configured = body.get("spec")
        spec = configured if isinstance(configured, Mapping) else {}
        replicas = spec.get("replicas")
        found += [
            Promised(
                kind="StatefulSet" if made else body["kind"],
                name=each,
                namespace=str(metadata.get("namespace") or namespace),
                replicas=replicas if isinstance(replicas, int) else None,
            )
            for each in (_made_of(body["kind"], name, spec) if made else (name,))
        ]
    return tuple(found)


def _is_made_of(body: Any) -> bool:
    if not isinstance(body, Mapping) or body.get("kind") not in _MADE_OF:
        return False
    return str(body.get("apiVersion")).startswith(_OPERATOR_GROUP)


def _made_of(kind: str, name: str, spec: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the names of the StatefulSets that the operator makes. A paused resource has none."""
    if spec.get("paused") is True:
        return ()
    first, shards = f"{_MADE_OF[kind]}-{name}", spec.get("shards")
    more = range(1, shards) if kind == "Prometheus" and isinstance(shards, int) else ()
    return (first, *(f"{first}-shard-{shard}" for shard in more))


class Broken(NamedTuple):
    """A promise that is not kept, and why."""

    entry: Promised
    cause: str
    text: str


def broken_promise(promised: Iterable[Promised], workloads: Iterable[Workload]) -> Broken | None:
    """Return the first workload that a release lacks or that was scaled to zero. None if all are there.

    A manifest with 0 replicas promises none.
    """
    there = {_key(workload.kind, workload.namespace, workload.name): workload for workload in workloads}
    for entry in promised:
        workload = there.get(entry.key)
        if workload is None:
            return Broken(entry, "workload-missing", f"{entry.title} of the release's manifest is not in the cluster")
        if entry.kind != "DaemonSet" and entry.replicas != 0 and workload.desired == 0:
            return Broken(entry, "workload-scaled-to-zero", f"{entry.title} is scaled to 0 replicas")
    return None
