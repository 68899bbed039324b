# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The objects of a cluster, kept up to date by watches."""

from __future__ import annotations

import sys
import threading
from collections.abc import Sequence

from ...clients.kube.cluster import Cluster
from ...clients.kube.errors import GoneError
from ...clients.kube.kinds import Kind
from ...outcome.errors import BringupError, NotFoundError
from ...runtime.clock import Deadline
from .world import Json, Key, World, key_of

_WATCH_S = 600.0
# How soon a kind is noticed after its CRD was installed, and a server after it came back.
_AGAIN_S = 0.5
_BURIED = 4096


class Store:
    """Objects by kind; `changed` is set whenever one changed."""

    def __init__(self, kinds: Sequence[Kind]) -> None:
        """Start empty."""
        self.changed = threading.Event()
        self._lock = threading.Lock()
        self._objects: dict[Kind, dict[Key, Json]] = {kind: {} for kind in kinds}
        self._buried: dict[tuple[Kind, Key], int] = {}

    def world(self) -> World:
        """Return what is known now."""
        with self._lock:
            return World({kind: dict(items) for kind, items in self._objects.items()})

    def put(self, kind: Kind, item: Json) -> None:
        """Keep an object, unless a later version of it is known or it was deleted since."""
        item["metadata"].pop("managedFields", None)
        key, version = key_of(item), _version(item)
        with self._lock:
            known = self._objects[kind].get(key)
            if version <= max(_version(known) if known else -1, self._buried.get((kind, key), -1)):
                return
            self._objects[kind][key] = item
        self.changed.set()

    def remove(self, kind: Kind, item: Json) -> None:
        """Forget an object; an answer to an earlier write that comes late does not bring it back."""
        key, version = key_of(item), _version(item)
        with self._lock:
            known = self._objects[kind].get(key)
            if known and _version(known) <= version:
                del self._objects[kind][key]
            self._buried[(kind, key)] = version
            while len(self._buried) > _BURIED:
                del self._buried[next(iter(self._buried))]
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


def _version(item: Json) -> int:
    return int(item["metadata"].get("resourceVersion") or 0)


def follow(cluster: Cluster, store: Store, kind: Kind, stop: threading.Event) -> None:
    """List and watch a kind until told to stop; a server or a kind that is not there yet is asked again."""
    while not stop.is_set():
        try:
            items, version = cluster.list_with_version(kind)
            store.replace(kind, items)
            _watch(cluster, store, kind, version, stop)
        except NotFoundError:
            store.replace(kind, [])
            stop.wait(_AGAIN_S)
        except GoneError:
            continue
        except BringupError as error:
            if not stop.is_set():
                print(f"watch {kind.title}: {error}", file=sys.stderr, flush=True)
            stop.wait(_AGAIN_S)


def _watch(cluster: Cluster, store: Store, kind: Kind, version: str, stop: threading.Event) -> None:
    """Follow the changes after a version; a watch that the server ends is taken up where it ended."""
    while not stop.is_set():
        for event, item in cluster.watch(kind, Deadline.after(_WATCH_S), version=version):
            if stop.is_set():
                return
            version = item["metadata"]["resourceVersion"]
            if event == "DELETED":
                store.remove(kind, item)
            else:
                store.put(kind, item)
