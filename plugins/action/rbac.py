# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Module rbac: makes the roles that gates need on a cluster, and binds them."""

from __future__ import annotations

from typing import Any

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.action_base.module_action import ModuleAction
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.rights import every_choice
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.clients.kube.cluster import Cluster
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.clients.kube.connection import connection_from
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.features.rbac.app import (
    RbacSubject,
    bindings,
    put_objects,
    remove_objects,
    role_objects,
    subject_objects,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.gates import API_GATES, gate_spec


class ActionModule(ModuleAction):
    """Grant or remove roles."""

    module = "rbac"

    def execute(self, options: dict[str, Any], task_vars: dict[str, Any]) -> dict[str, Any]:
        """Apply the roles and bindings of those gates, or remove them."""
        del task_vars
        gates = [gate_spec(gate).id for gate in options["gates"]] or API_GATES
        roles = role_objects(gates, options["levels"], every_choice())
        names = {name: options[f"subject_{name}"] for name in ("kind", "name", "namespace")}
        subject = RbacSubject(**names)
        objects = [*subject_objects(subject), *roles, *bindings(roles, subject)]
        work = put_objects if options["state"] == "present" else remove_objects
        with Cluster(connection_from(options)) as cluster:
            changed, titles = work(cluster, objects, dry_run=self.check_mode)
        return {"changed": changed, "objects": titles}
