# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The objects of a cluster, kept up to date by watches."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Sequence

from ...clients.kube.cluster import Cluster
from ...clients.kube.errors import GoneError
from ...clients.kube.kinds import DEPLOYMENTS, Kind
from ...outcome.errors import BringupError, NotFoundError
from ...runtime.clock import Deadline
from .cluster_view import ClusterView, Json, Key, key_of

_WATCH_S = 600.0
# Pause before a server that is away, or one that does not serve a kind yet, is asked again.
_AGAIN_S = 0.5
# CRDs come with what is installed. While no Deployment comes or changes, the groups are asked for less often.
_QUIET_AFTER_S, _QUIET_AGAIN_S = 10.0, 2.0
_DELETED_KEPT = 4096


class Store:
    """The objects by kind; `changed` is set when one changed."""

    def __init__(self, kinds: Sequence[Kind]) -> None:
        """Make an empty store for these kinds."""
        self.changed = threading.Event()
        self._lock = threading.Lock()
        self._objects: dict[Kind, dict[Key, Json]] = {kind: {} for kind in kinds}
        self._deleted: dict[tuple[Kind, Key], int] = {}
        self._installed_at = time.monotonic()

    @property
    def is_quiet(self) -> bool:
        """Whether nothing was installed for a while."""
        return time.monotonic() - self._installed_at >= _QUIET_AFTER_S

    def view(self) -> ClusterView:
        """Return the objects that are known now."""
        with self._lock:
            return ClusterView({kind: dict(items) for kind, items in self._objects.items()})

    def put(self, kind: Kind, item: Json) -> None:
        """Keep an object, unless a later version of it is known, it was deleted since, or nobody follows its kind."""
        if kind not in self._objects:
            return
        item["metadata"].pop("managedFields", None)
        key, version = key_of(item), _version(item)
        with self._lock:
            known = self._objects[kind].get(key)
            if version <= max(_version(known) if known else -1, self._deleted.get((kind, key), -1)):
                return
            self._objects[kind][key] = item
            if kind == DEPLOYMENTS:
                self._installed_at = time.monotonic()
        self.changed.set()

    def remove(self, kind: Kind, item: Json) -> None:
        """Remove an object; a late answer to an earlier write does not bring it back."""
        key, version = key_of(item), _version(item)
        with self._lock:
            known = self._objects[kind].get(key)
            if known and _version(known) <= version:
                del self._objects[kind][key]
            self._deleted[(kind, key)] = version
            while len(self._deleted) > _DELETED_KEPT:
                del self._deleted[next(iter(self._deleted))]
        self.changed.set()

    def replace(self, kind: Kind, items: Sequence[Json]) -> None:
        """Keep exactly these objects of a kind."""
        for item in items:
            item["metadata"].pop("managedFields", None)
        with self._lock:
            if not items and not self._objects[kind]:
                return
            self._objects[kind] = {key_of(item): item for item in items}
        self.changed.set()


class Served:
    """Which API groups the server serves, asked for once for all kinds that wait for their CRD."""

    def __init__(self, cluster: Cluster, store: Store) -> None:
        """Nothing is asked yet."""
        self._cluster, self._store = cluster, store
        self._lock = threading.Lock()
        self._asked_at = 0.0
        self._groups: frozenset[str] = frozenset()

    def groups(self) -> frozenset[str]:
        """Return the groups as they were at most half a second ago, or two where nothing is installed.

        Raises:
            BringupError: the server does not answer.
        """
        with self._lock:
            if time.monotonic() - self._asked_at >= (_QUIET_AGAIN_S if self._store.is_quiet else _AGAIN_S):
                answer = self._cluster.transport.json("GET", "/apis")
                self._groups = frozenset(group["name"] for group in answer["groups"])
                self._asked_at = time.monotonic()
            return self._groups

    def wait(self, kind: Kind, stop: threading.Event) -> None:
        """Wait for the group of a kind that is not served.

        Raises:
            BringupError: the server does not answer.
        """
        if kind.group in self.groups():
            # Of another kind of the group, or in another version.
            stop.wait(_AGAIN_S)
            return
        while not stop.wait(_AGAIN_S) and kind.group not in self.groups():
            continue


def _version(item: Json) -> int:
    return int(item["metadata"].get("resourceVersion") or 0)


def follow(cluster: Cluster, store: Store, kind: Kind, stop: threading.Event, served: Served) -> None:
    """List and watch a kind until `stop` is set; ask again while the server or the kind is missing."""
    while not stop.is_set():
        try:
            items, version = cluster.list_with_version(kind)
            store.replace(kind, items)
            _watch(cluster, store, kind, version, stop)
        except NotFoundError:
            store.replace(kind, [])
            try:
                served.wait(kind, stop)
            except BringupError as error:
                _say(kind, error, stop)
        except GoneError:
            continue
        except BringupError as error:
            _say(kind, error, stop)


def _say(kind: Kind, error: BringupError, stop: threading.Event) -> None:
    if not stop.is_set():
        print(f"watch {kind.title}: {error}", file=sys.stderr, flush=True)
    stop.wait(_AGAIN_S)


def _watch(cluster: Cluster, store: Store, kind: Kind, version: str, stop: threading.Event) -> None:
    """Follow the changes after a version; when the server ends a watch, start the next one at its last version."""
    while not stop.is_set():
        for event, item in cluster.watch(kind, Deadline.after(_WATCH_S), version=version):
            if stop.is_set():
                return
            version = item["metadata"]["resourceVersion"]
            if event == "DELETED":
                store.remove(kind, item)
            else:
                store.put(kind, item)
