# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Module recipe_diff_info: what differs between two recipes."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.action_base.module_action import ModuleAction
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.features.recipe.detected import request_for
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.codec import to_plain
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.recipe.difference import difference
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.recipe.request import answer


class ActionModule(ModuleAction):
    """Compare two recipes."""

    module = "recipe_diff_info"

    def execute(self, options: dict[str, Any], task_vars: dict[str, Any]) -> dict[str, Any]:
        del task_vars
        requested, other = request_for(options), request_for({**options, **_configured(options["other"])})
        # The hosts are the same in both; other criteria are used as they are given.
        skus = () if (options["other"] or {}).get("criteria") else requested.skus
        mine, before = answer(requested), answer(replace(other, skus=skus, sku_data=requested.recipe_data))
        found = difference(before.result, before.catalogue, mine.result, mine.catalogue)
        return {
            "exit_code": 0,
            "msg": found.lines(),
            "difference": to_plain(found),
            "same": found.same,
            "warnings": [*mine.warnings, *before.warnings],
        }


def _configured(other: dict[str, Any] | None) -> dict[str, Any]:
    """Return the options that the other recipe sets; the rest is the same as in the first."""
    return {name: value for name, value in (other or {}).items() if value is not None}
