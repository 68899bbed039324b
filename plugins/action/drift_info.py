# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Module drift_info: what differs between two snapshots, or between a recipe and the cluster."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.action_base.module_action import ModuleAction
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.clients.kube.cluster import Cluster
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.clients.kube.connection import connection_from
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.collect.snapshot_place import read_snapshot
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.features.snapshot.app import requested_snapshot
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.features.snapshot.difference import (
    Importance,
    SiteRule,
    drift_between,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.features.snapshot.recipe_drift import (
    drift_from_recipe,
    resolved_recipe,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.codec import to_plain
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.errors import InputError


class ActionModule(ModuleAction):
    """Compare two snapshots."""

    module = "drift_info"

    def execute(self, options: dict[str, Any], task_vars: dict[str, Any]) -> dict[str, Any]:
        """Read the first, read or take the second, and return what differs."""
        del task_vars
        connection = connection_from(options)
        if bool(options["before"]) == bool(options["recipe"]):
            raise InputError(
                "drift",
                "compares with a snapshot (before) or with a recipe; give one of them.",
                "-e gpufleet_drift_before=accepted.json, or -e gpufleet_drift_recipe=recipe.yaml",
            )
        recipe = resolved_recipe(Path(options["recipe"]).expanduser()) if options["recipe"] else None
        before = read_snapshot(options["before"], lambda: Cluster(connection)) if recipe is None else None
        after = requested_snapshot(connection, options["after"], options, check_mode=self.check_mode)
        own = tuple(SiteRule(**rule) for rule in options["ignore"])
        drift = drift_between(before, after, own) if before is not None else drift_from_recipe(recipe or {}, after, own)
        level = options["fail_on"]
        reached = level != "never" and drift.reaches(Importance(level))
        return {
            "msg": drift.lines(),
            "changes": [to_plain(change) for change in drift.changes],
            "ignored": list(drift.ignored),
            "not_compared": list(drift.not_compared),
            "one_sided": list(drift.one_sided),
            "complete": not drift.incomplete,
            "drifted": reached,
            "rehearsal": after.of_rehearsal,
            "exit_code": 0,
        }
