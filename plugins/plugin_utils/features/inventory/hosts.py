# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The inventory as Ansible provides it, and which of its hosts each play reads."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ...outcome.gates import GATES, LOADING_GATES
from ...site.adapters import LINK_LAYERS
from ...site.model import Site

# Hosts that observe the fabric, where the inventory has such a group.
FABRIC_GROUP = "fabric_managers"
# Capabilities of a site whose fabric one host can read (check link-errors-under-load).
FABRIC_WORDS = frozenset({"infiniband", "multi_node", "subnet_manager", "host_access"})
_ADAPTER_GATES = frozenset(gate.id for gate in GATES if gate.needs_adapters)
_FABRIC_LOADING_GATES = frozenset(gate.id for gate in GATES if gate.loads_fabric)


@dataclass(frozen=True, slots=True)
class Inventory:
    """The inventory as Ansible provides it: the hosts of each group, the variables of each host.

    `simulated`: the connection of GPU hosts shows that they are simulated. `forks`: how many hosts Ansible works on at
    a time, 0 if unknown.
    """

    groups: Mapping[str, Sequence[str]]
    variables: Mapping[str, Mapping[str, Any]]
    simulated: bool = False
    forks: int = 0

    @classmethod
    def of(cls, task_vars: Mapping[str, Any], *, simulated: bool = False) -> Inventory:
        """Return the inventory from the variables of a task."""
        forks = int(task_vars.get("ansible_forks") or 0)
        return cls(task_vars.get("groups") or {}, task_vars.get("hostvars") or {}, simulated, forks)

    def contact(self, host: str) -> Mapping[str, Any] | None:
        """Return what the contact to that host found, None if it was not contacted."""
        found: Mapping[str, Any] | None = self.variables[host].get("gpufleet_contact")
        return found


def hosts_to_read(
    site: Site, inventory: Inventory, fabric_host: str = "", taken_over: Collection[str] = ()
) -> dict[str, list[str]]:
    """Return the hosts of each play that reads hosts.

    `contact`: hosts to contact. `nodes` and `fabric`: hosts read for these gates. `nodes_again` and `fabric_again`:
    hosts read before the start at a later gate. `fabric_loaded`: hosts read before and after a load of the fabric.
    `adapters`: hosts whose adapters are read, where a gate depends on these and gate nodes does not come before it. The
    tools see the whole fabric from one host: the first that is not known to be unreachable.

    Args:
        site: the checked site.
        inventory: groups, and what the contact found so far.
        fabric_host: the host that the user wants to observe the fabric.
        taken_over: gates that are not run, because earlier passes count.
    """
    nodes = [host.name for host in site.in_scope] if "nodes" in site.gates else []
    looking = _fabric_host(site, inventory, fabric_host)
    fabric = looking if "fabric" in site.gates else []
    before = site.before_from_gate
    left = [gate for gate in site.gates if gate not in taken_over and gate not in before]
    depends = next((gate for gate in left if gate in _ADAPTER_GATES), "")
    there = "nodes" in before or (depends and "nodes" in left[: left.index(depends)])
    asks = depends and not there and set(LINK_LAYERS) & set(site.capabilities) and "multi_node" in site.capabilities
    return {
        "contact": nodes,
        "adapters": [host.name for host in site.in_scope] if asks else [],
        "loaded": _loaded(site, left),
        "fabric_loaded": looking if _FABRIC_LOADING_GATES & {*left} and {*site.capabilities} >= FABRIC_WORDS else [],
        "nodes": [] if "nodes" in taken_over else nodes,
        "fabric": [] if "fabric" in taken_over else fabric,
        "nodes_again": nodes if "nodes" in before else [],
        "fabric_again": fabric if "fabric" in before else [],
    }


def _fabric_host(site: Site, inventory: Inventory, fabric_host: str) -> list[str]:
    """Return the host that observes the fabric: the requested one, else the first that is not unreachable."""
    requested = [fabric_host] if fabric_host else list(inventory.groups.get(FABRIC_GROUP) or ())
    candidates = requested or [host.name for host in site.in_scope]
    answering = (host for host in candidates if not _not_reporting(inventory, host))
    return [next(answering, candidates[0])] if candidates else []


def _loaded(site: Site, left: Sequence[str]) -> list[str]:
    """Return the hosts that are read before and after a gate that loads them."""
    reads = "host_access" in site.capabilities and set(LOADING_GATES) & set(left)
    return [host.name for host in site.in_scope] if reads else []


def _not_reporting(inventory: Inventory, host: str) -> bool:
    found = inventory.contact(host) if host in inventory.variables else None
    return found is not None and not found.get("reached")
