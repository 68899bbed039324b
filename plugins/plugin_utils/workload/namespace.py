# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""A namespace of its own for one test, removed with everything in it however the test ends."""

from __future__ import annotations

import os
import secrets
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

from ..clients.kube.cluster import Cluster
from ..clients.kube.kinds import NAMESPACES, PODS, PRIORITY_CLASSES, Kind
from ..clients.kube.wait import until
from ..outcome.errors import BringupError, DeadlineError
from ..runtime.clock import Deadline
from ..runtime.progress import Emit, silent
from .interrupt import interruptible
from .tolerations import Toleration, known_tolerations

OWNER_LABELS = {"gpufleet.io/managed-by": "gpufleet.bringup", "gpufleet.io/purpose": "test"}
_SELECTOR = ",".join(f"{key}={value}" for key, value in OWNER_LABELS.items())
_HOST, _PID = "gpufleet.io/host", "gpufleet.io/pid"
# A test never takes that long: what is older was left by a run that we cannot see.
_FORGOTTEN = timedelta(hours=2)
_PATIENCE_S = 10.0


@dataclass(slots=True)
class TemporaryNamespace:
    """One test's namespace and priority class; `leftovers` says what could not be removed.

    `kinds` are removed after the pods, `makers` (which would make their pods anew) before them.
    """

    cluster: Cluster
    name: str
    cleanup_s: float
    kinds: tuple[Kind, ...]
    emit: Emit = silent
    leftovers: list[str] = field(default_factory=list)
    makers: tuple[Kind, ...] = ()
    tolerations: tuple[Toleration, ...] = field(default_factory=known_tolerations)

    @property
    def tolerated(self) -> list[dict[str, str]]:
        """What its pods tolerate, as their manifests say it."""
        return [entry.body for entry in self.tolerations]

    @property
    def priority_class(self) -> str:
        """The priority class of its pods: below any user's, and never an eviction (or a new node) for them."""
        return self.name

    @property
    def labels(self) -> dict[str, str]:
        """Labels of everything in it."""
        return {**OWNER_LABELS, "gpufleet.io/test": self.name}

    def open(self, priority: int) -> None:
        """Make the namespace and the priority class."""
        annotations = {_HOST: socket.gethostname(), _PID: str(os.getpid())}
        metadata = {"name": self.name, "labels": self.labels, "annotations": annotations}
        self.cluster.create(NAMESPACES, {"metadata": metadata})
        body = {
            "metadata": metadata,
            "value": priority,
            "preemptionPolicy": "Never",
            "globalDefault": False,
            "description": "Pods of a test of gpufleet.bringup.",
        }
        self.cluster.create(PRIORITY_CLASSES, body)

    def create(self, objects: list[dict[str, Any]]) -> None:
        """Create objects in the namespace, in that order."""
        for obj in objects:
            self.cluster.create(self.cluster.kind(obj["apiVersion"], obj["kind"]), obj, self.name)

    def pods(self, labels: str = "") -> list[dict[str, Any]]:
        """Return the pods of the test."""
        return self.cluster.list_objects(PODS, self.name, labels=labels)

    def close(self) -> None:
        """Remove everything: pods first, for a group may not go before its members; every step has a time limit."""
        deadline = Deadline.after(self.cleanup_s)
        for kind in self.makers:
            self._step(f"{kind.title} of {self.name}", partial(self._dismiss, kind))
        for kind in (PODS, *self.kinds):
            self._step(f"{kind.title} of {self.name}", partial(self._empty, kind, deadline))
        self._step(f"priority class {self.name}", partial(self._drop, PRIORITY_CLASSES))
        self._step(f"namespace {self.name}", partial(self._drop, NAMESPACES))
        for text in self.leftovers:
            self.emit(f"not removed: {text}"[:199])

    def _step(self, what: str, action: Callable[[], None]) -> None:
        try:
            action()
        except BringupError as error:
            self.leftovers.append(f"{what}: {error.reason}")

    def _drop(self, kind: Kind) -> None:
        self.cluster.delete(kind, self.name)

    def _dismiss(self, kind: Kind) -> None:
        for obj in self.cluster.find_all(kind, self.name) or []:
            self.cluster.delete(kind, obj["metadata"]["name"], self.name)

    def _empty(self, kind: Kind, deadline: Deadline) -> None:
        there = self.cluster.find_all(kind, self.name)
        # What waits for a place goes first: it must not get the place of what goes.
        for obj in sorted(there or [], key=lambda obj: bool((obj.get("spec") or {}).get("nodeName"))):
            self.cluster.delete(kind, obj["metadata"]["name"], self.name, grace_period_s=0)
        if not there:
            return
        try:
            self._gone(kind, Deadline.after(min(_PATIENCE_S, deadline.left_s)))
        except DeadlineError:
            # A finalizer whose controller does not run would keep our own object for ever.
            self.emit(f"{kind.title} of {self.name}: still there, taking off finalizers")
            for obj in self.cluster.find_all(kind, self.name) or []:
                body = {"metadata": {"finalizers": None}}
                self.cluster.patch(kind, obj["metadata"]["name"], body, self.name)
            self._gone(kind, deadline)

    def _gone(self, kind: Kind, deadline: Deadline) -> None:
        until(lambda: not self.cluster.find_all(kind, self.name), deadline, f"{kind.title} of {self.name} gone")


@contextmanager
def temporary_namespace(
    cluster: Cluster,
    purpose: str,
    *,
    prefix: str,
    priority: int,
    kinds: tuple[Kind, ...],
    makers: tuple[Kind, ...] = (),
    cleanup_s: float = 60.0,
    emit: Emit = silent,
    tolerations: tuple[Toleration, ...] | None = None,
) -> Iterator[TemporaryNamespace]:
    """Yield a namespace of its own for one test; it is removed on every way out, SIGTERM included.

    Args:
        cluster: where.
        purpose: word for its name (`gang`).
        prefix: first part of its name.
        priority: priority of its pods, below -10.
        kinds: kinds to remove after the pods, in that order.
        makers: kinds to remove before the pods, because they would make them anew.
        cleanup_s: time limit of the removal.
        emit: takes progress lines.
        tolerations: what its pods tolerate; None: the taints of platforms.
    """
    sweep(cluster, cleanup_s=cleanup_s, kinds=kinds, makers=makers, emit=emit)
    namespace = TemporaryNamespace(
        cluster,
        f"{prefix}-{purpose}-{secrets.token_hex(3)}",
        cleanup_s,
        kinds,
        emit,
        makers=makers,
        tolerations=known_tolerations() if tolerations is None else tolerations,
    )
    with interruptible(f"test {purpose}"):
        try:
            namespace.open(priority)
            yield namespace
        finally:
            namespace.close()


def sweep(
    cluster: Cluster,
    *,
    cleanup_s: float,
    kinds: tuple[Kind, ...] = (),
    makers: tuple[Kind, ...] = (),
    emit: Emit = silent,
) -> tuple[str, ...]:
    """Remove what dead runs left behind; return the names of the namespaces that were removed."""
    swept = []
    for found in cluster.list_objects(NAMESPACES, labels=_SELECTOR):
        name = found["metadata"]["name"]
        if not _is_orphan(found):
            continue
        # One that is going away already may still be held by a finalizer within: emptied again, not counted.
        if not found["metadata"].get("deletionTimestamp"):
            emit(f"removing what a dead run left: {name}")
            swept.append(name)
        TemporaryNamespace(cluster, name, cleanup_s, kinds, emit, makers=makers).close()
    return tuple(swept)


def _is_orphan(namespace: dict[str, Any]) -> bool:
    metadata = namespace["metadata"]
    annotations = metadata.get("annotations") or {}
    if annotations.get(_HOST) == socket.gethostname() and annotations.get(_PID, "").isdigit():
        return not _alive(int(annotations[_PID]))
    created = datetime.fromisoformat(metadata["creationTimestamp"].replace("Z", "+00:00"))
    return datetime.now(UTC) - created > _FORGOTTEN


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
