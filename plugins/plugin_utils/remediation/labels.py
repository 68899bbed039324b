# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The class of each node as a label of ours on it."""

from __future__ import annotations

from collections.abc import Mapping

from ..clients.kube.cluster import Cluster
from ..clients.kube.kinds import NODES
from ..clients.kube.permission import Permission

LABEL_KEY = "gpufleet.io/class"
# What labels, taints and cordons of a policy need; nobody's pod is evicted.
RIGHTS = tuple(Permission(verb, "nodes") for verb in ("get", "list", "patch", "update"))


def label_nodes(
    cluster: Cluster, words: Mapping[str, str], names: Mapping[str, str], *, dry_run: bool = False
) -> tuple[str, ...]:
    """Set the label where it is another one, and return the nodes where it was, by their names at the site.

    Args:
        cluster: where.
        words: the class of each node.
        names: the names of the nodes in the cluster.
        dry_run: change nothing.
    """
    labels = {node["metadata"]["name"]: node["metadata"].get("labels") or {} for node in cluster.list_objects(NODES)}
    changed = []
    for node, word in words.items():
        name = names[node]
        if name in labels and labels[name].get(LABEL_KEY) != word:
            cluster.patch(NODES, name, {"metadata": {"labels": {LABEL_KEY: word}}}, dry_run=dry_run)
            changed.append(node)
    return tuple(changed)
