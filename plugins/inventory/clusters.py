# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Inventory clusters: one inventory of many clusters, from a directory with one file for each."""

from __future__ import annotations

DOCUMENTATION = r"""
name: clusters
short_description: One inventory of many clusters, from a directory with a file for each
version_added: 0.1.0
author: gpufleet.bringup contributors (@gpufleet)
description:
  - Reads a directory in which every YAML file describes one cluster, and makes the inventory of which
    C(gpufleet.bringup.fleet) runs playbooks over clusters, ring by ring.
  - Each cluster is a group C(cluster_NAME) (a hyphen becomes an underscore) with its variables. In it are a host
    C(NAME), which stands for the cluster and is a member of group C(clusters) as well, and its GPU hosts. What else is
    known of the cluster is variable C(gpufleet_cluster) of that host.
  - A GPU host is called C(NAME.HOST), always, so that C(gpu01) of two clusters are two hosts and no name changes when
    a cluster is added. Its address is that of its own inventory, else C(HOST), which is also its C(gpufleet_node_name)
    where no other is stated.
  - A cluster is also in a group C(ring_RING), C(site_SITE), C(orchestrator_NAME) and, by the runs in its directory of
    runs, C(acceptance_accepted), C(acceptance_not_passed) and so on, in the words of C(gpufleet fleet-status), or
    C(acceptance_no_run). Its GPU hosts are in C(sku_SKU) and C(rack_NAME_RACK). Variables of such groups, in
    C(group_vars) beside the source, count for the clusters in them. The plugin P(ansible.builtin.constructed#inventory)
    makes more groups of the variables.
  - Hosts are in no group C(gpu_nodes). A playbook for one cluster refuses this inventory, because it would take all
    clusters for one.
  - All problems of all files are one error. Ansible makes a warning of it and goes on without these clusters; set
    E(ANSIBLE_INVENTORY_ANY_UNPARSED_IS_FAILED) to end there. Playbook C(gpufleet.bringup.fleet) ends in any case.
  - "Keys of a file: C(name); C(ring), C(site) and C(owners) (a list); C(orchestrator) (C(kubernetes) or C(slurm)),
    C(kubeconfig), C(slurm_conf); C(criteria), C(profile), C(driver_owner), as variables C(gpufleet_criteria) and so on;
    either C(inventory), the path of the cluster's own inventory, or C(racks) (by name, C(hosts) and C(sku)), C(hosts)
    and C(sku); C(run_dir); C(vars), more variables of its runs. Paths are from the file."
options:
  plugin:
    description: Names this plugin.
    type: str
    required: true
    choices: [gpufleet.bringup.clusters]
  path:
    description: Directory of the files, from the directory of this source where it is relative.
    type: str
    default: clusters
  runs:
    description:
      - Directory in which each cluster has one for its runs, under its name, from the directory of this source where
        it is relative. A cluster whose file states C(run_dir) has that.
    type: str
    default: .run
  acceptance:
    description: Whether runs are looked at for the state of acceptance.
    type: bool
    default: true
"""

EXAMPLES = r"""
# clusters.yml; clusters/ beside it has a file for each cluster, such as clusters/lab1.yml:
#   name: lab1
#   ring: lab
#   owners: [ada@example.org]
#   kubeconfig: ../secrets/lab1.kubeconfig
#   criteria: {service: generic, accelerator: h100, intent: training}
#   racks:
#     rack-a1: {sku: dgx-h100, hosts: ["gpu[01:04]"]}
plugin: gpufleet.bringup.clusters
path: clusters
"""

from pathlib import Path
from typing import Any

from ansible.errors import AnsibleError, AnsibleParserError
from ansible.inventory.manager import InventoryManager
from ansible.plugins.inventory import BaseInventoryPlugin
from ansible.vars.manager import VariableManager

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.features.fleet.cluster_files import (
    UNREAD,
    Cluster,
    ClusterHost,
    OwnInventory,
    group_name,
    read_clusters,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.features.fleet.clusters import states_of
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.features.inventory.app import HOST_VARIABLES
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.errors import (
    BringupError,
    InputError,
    ProblemsError,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.runtime.interpreter import missing_module

_GROUP = "clusters"
# Variables for the connection to a host. Other variables of its own inventory are for the runs of that cluster.
_REACHED_BY = (
    "ansible_host", "ansible_port", "ansible_user", "ansible_connection", "ansible_ssh_common_args",
    "ansible_ssh_private_key_file", "ansible_python_interpreter", "ansible_become",
)  # fmt: skip


class InventoryModule(BaseInventoryPlugin):  # type: ignore[misc,unused-ignore]
    """Clusters as groups and hosts."""

    NAME = "gpufleet.bringup.clusters"

    def verify_file(self, path: str) -> bool:
        """Tell whether a file may be a source of this plugin. Ansible checks the plugin's name inside it."""
        return bool(super().verify_file(path)) and path.endswith((".yml", ".yaml"))

    def parse(self, inventory: Any, loader: Any, path: str, cache: bool = True) -> None:
        """Fill the inventory.

        Raises:
            AnsibleParserError: all problems of all files.
        """
        super().parse(inventory, loader, path, cache)
        self._read_config_data(path)
        source = Path(path).absolute()
        try:
            clusters = read_clusters(
                source.parent / Path(self.get_option("path")).expanduser(),
                source.parent / Path(self.get_option("runs")).expanduser(),
                lambda own: _own_inventory(loader, own, source),
                besides=[source],
            )
        except BringupError as error:
            raise _unread(inventory, error) from None
        except ModuleNotFoundError as missing:
            raise _unread(inventory, missing_module(str(missing.name))) from None
        inventory.add_group(_GROUP)
        for cluster in clusters:
            _add(inventory, cluster, _state(cluster) if self.get_option("acceptance") else "")


def _unread(inventory: Any, error: BringupError) -> AnsibleParserError:
    """Return the error of which Ansible warns. It is also stored in the inventory, for the end of playbook fleet."""
    found = error.problems if isinstance(error, ProblemsError) else (error,)
    problems = [{"subject": each.subject, "reason": each.reason, "hint": each.hint} for each in found]
    inventory.set_variable("all", UNREAD, {"subject": error.subject, "problems": problems})
    return AnsibleParserError(str(error))


def _add(inventory: Any, cluster: Cluster, state: str) -> None:
    stated, own = cluster.stated, group_name("cluster", cluster.name)
    inventory.add_group(own)
    for kind, name in (("ring", stated.ring), ("site", stated.site), ("orchestrator", cluster.orchestrator),
                       ("acceptance", state)):  # fmt: skip
        if name:
            inventory.add_child(inventory.add_group(group_name(kind, name)), own)
    about = {
        "name": cluster.name, "ring": stated.ring, "site": stated.site, "owners": list(stated.owners),
        "file": str(cluster.file), "inventory": stated.inventory, "slurm_conf": stated.slurm_conf,
        "orchestrator": cluster.orchestrator, "state": state, "variables": sorted(cluster.variables),
        "hosts": {} if stated.inventory else {host.name: host.variables for host in cluster.hosts},
    }  # fmt: skip
    for name, value in cluster.variables.items():
        inventory.set_variable(own, name, value)
    inventory.add_host(cluster.name, own)
    # A variable of this host alone, because on the group each GPU host would have the list of all hosts.
    inventory.set_variable(cluster.name, "gpufleet_cluster", about)
    inventory.add_child(_GROUP, cluster.name)
    inventory.set_variable(cluster.name, "ansible_connection", "local")
    for host in cluster.hosts:
        _add_host(inventory, cluster, host, own)


def _add_host(inventory: Any, cluster: Cluster, host: ClusterHost, own: str) -> None:
    name = f"{cluster.name}.{host.name}"
    inventory.add_host(name, own)
    for key, value in {"ansible_host": host.name, "gpufleet_node_name": host.name, **host.variables}.items():
        inventory.set_variable(name, key, value)
    for kind, of in (("sku", (host.sku,)), ("rack", (cluster.name, host.rack))):
        if of[-1]:
            inventory.add_child(inventory.add_group(group_name(kind, *of)), name)


def _state(cluster: Cluster) -> str:
    """Return the state of acceptance from the run directory of a cluster. Of several sites there, the worst counts."""
    try:
        states = states_of([Path(cluster.stated.run_dir)])
    except BringupError:
        states = ()
    # Runs without cluster do not count.
    return next((state.word for state in states if not state.accepted), "accepted" if states else "no run")


def _own_inventory(loader: Any, path: Path, source: Path) -> OwnInventory:
    """Return the GPU hosts of a cluster's own inventory, and its variables for all hosts.

    Raises:
        InputError: it is the source of the fleet itself, or Ansible cannot read it.
    """
    if path.resolve() in (source.resolve(), source.parent.resolve()):
        raise InputError(str(path), "is the inventory of the fleet.", "name that of this cluster alone")
    # Ansible has loaded it already. The first variable manager of a process sets ansible_version for all of them.
    from ansible.cli import CLI

    try:
        inventory = InventoryManager(loader=loader, sources=[str(path)])
        version = CLI.version_info(gitinfo=False)
        variables = VariableManager(loader=loader, inventory=inventory, version_info=version)
        everywhere = variables.get_vars(host=inventory.get_host("localhost"), include_hostvars=False)
        group = inventory.groups.get(str(everywhere.get("gpufleet_group") or "gpu_nodes"))
        hosts = []
        for host in group.get_hosts() if group is not None else ():
            found = variables.get_vars(host=host, include_hostvars=False)
            kept = {name: found[name] for name in (*HOST_VARIABLES, *_REACHED_BY) if found.get(name) is not None}
            hosts.append(ClusterHost(name=host.name, variables=kept))
    except AnsibleError as error:
        raise InputError(str(path), f"cannot be read: {error}.", f"see ansible-inventory -i {path} --list") from None
    kept = {name: value for name, value in everywhere.items() if name.startswith("gpufleet_")}
    return OwnInventory(hosts=tuple(hosts), variables=kept)
