# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Sends the writes of the controllers to the API server."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from ...clients.kube.cluster import Cluster
from ...clients.kube.errors import ConflictError
from ...outcome.errors import BringupError, NotFoundError
from ...runtime.pool import map_bounded
from .cluster_view import CREATE, DELETE, REPLACE, STRATEGIC, Change
from .store import Store

_WORKERS = 8
_JSON = "application/json"
_MERGE = "application/merge-patch+json"
_STRATEGIC = "application/strategic-merge-patch+json"


def apply_changes(cluster: Cluster, store: Store, changes: Sequence[Change]) -> bool:
    """Send the changes in parallel and store the answers; return whether all of them succeeded."""
    return all(map_bounded(lambda change: _apply_one(cluster, store, change), list(changes), _WORKERS))


def _apply_one(cluster: Cluster, store: Store, change: Change) -> bool:
    try:
        _send(cluster, store, change)
    except (ConflictError, NotFoundError):
        # Another writer was first; the next pass sees what is left to do.
        return False
    except BringupError as error:
        print(
            f"{change.manager}: {change.verb} {change.kind.title} {change.name}: {error}", file=sys.stderr, flush=True
        )
        return False
    return True


def _send(cluster: Cluster, store: Store, change: Change) -> None:
    query = {"fieldManager": change.manager}
    path = change.kind.path(change.name, change.namespace, change.subresource)
    if change.verb == DELETE:
        cluster.delete(change.kind, change.name, change.namespace)
        return
    body = {"apiVersion": change.kind.api_version, "kind": change.kind.kind, **change.body}
    if change.verb == CREATE:
        collection = change.kind.path(namespace=change.namespace)
        answer = cluster.transport.json("POST", collection, query=query, body=body)
    elif change.verb == REPLACE:
        answer = cluster.transport.json("PUT", path, query=query, body=body)
    else:
        patch_type = _STRATEGIC if change.verb == STRATEGIC else _MERGE
        answer = cluster.transport.json("PATCH", path, query=query, body=change.body, content_type=patch_type)
    store.put(change.kind, answer)
