# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""How the pods of a run reach the network: what their nodes offer of adapters, and who admits them as a gang."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

from ...clients.kube.cluster import Cluster
from ...clients.kube.kinds import NODES
from ...component_stack.facts import stack_facts
from ..spec import ObserveContext
from .rules import Rules

_NO_RESOURCE = "none"


def adapter_offers(cluster: Cluster, names: Iterable[str], rules: Rules) -> dict[str, dict[str, int]]:
    """Return by node how much it offers of each resource that stands for adapters.

    Raises:
        BringupError: the API server does not answer.
    """
    wanted, found = set(names), {}
    prefixes = tuple({*rules.rdma_resources, *([rules.run.rdma_resource] if rules.run.rdma_resource else [])})
    for node in cluster.list_objects(NODES):
        if node["metadata"]["name"] in wanted:
            amounts = (node.get("status") or {}).get("allocatable") or {}
            found[node["metadata"]["name"]] = {
                name: int(amount)
                for name, amount in amounts.items()
                if name.startswith(prefixes) and str(amount).isdigit()
            }
    return found


def adapter_resource(offers: Mapping[str, Mapping[str, int]], rules: Rules) -> str:
    """Return the resource that pods ask for: the one that is stated, else the one that most nodes offer."""
    stated = rules.run.rdma_resource
    if stated:
        return "" if stated == _NO_RESOURCE else stated
    seen = Counter(name for resources in offers.values() for name, amount in sorted(resources.items()) if amount)
    return seen.most_common(1)[0][0] if seen else ""


def gang_of(context: ObserveContext) -> str:
    """Return who admits gangs, by the recipe."""
    names = [str(name) for name in (context.recipe or {}).get("deploymentOrder") or []]
    return next((name for name in stack_facts().gangs if name in names), "native")
