# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Which nodes of a snapshot are in scope, and which of them belong to each pool of the recipe. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from ...site.model import Site
from ...snapshot.model import Snapshot, gpu_nodes


def nodes_in_scope(snapshot: Snapshot, site: Site) -> tuple[str, ...]:
    """Return the nodes of the hosts in scope.

    Without an inventory: all nodes that have GPUs.
    """
    return tuple(host.node_name for host in site.in_scope) if site.hosts else gpu_nodes(snapshot)


def nodes_by_pool(
    recipe: Mapping[str, Any], snapshot: Snapshot, site: Site
) -> Iterator[tuple[Mapping[str, Any], tuple[str, ...]]]:
    """Yield each pool of a recipe with its nodes.

    A pool that names hosts has the nodes of those hosts. Any other pool has the nodes that carry the labels of its
    `nodeSelector`; with no selector it can be any node in scope.
    """
    known = nodes_in_scope(snapshot, site)
    by_host = {host.name: host.node_name for host in site.in_scope}
    for pool in recipe.get("pools") or ():
        if "hosts" in pool and site.hosts:
            yield pool, tuple(by_host[name] for name in pool["hosts"] if name in by_host)
            continue
        wanted = (pool.get("nodeSelector") or {}).items()
        labels = {name: snapshot.nodes[name].labels if name in snapshot.nodes else {} for name in known}
        yield pool, tuple(name for name in known if wanted <= labels[name].items())
