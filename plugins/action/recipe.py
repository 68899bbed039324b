# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Module recipe: resolves a recipe and writes it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.action_base.module_action import ModuleAction
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.features.recipe.detected import (
    detected_lines,
    request_for,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.errors import InputError
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.recipe.detect import plain_detection
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.recipe.foreign_data import foreign_warnings
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.recipe.output import (
    Written,
    documents,
    pool_documents,
    summary,
    write_documents,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.recipe.request import answer, answer_pools
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.runtime.redaction import redact


class ActionModule(ModuleAction):
    """Resolve a recipe, for one kind of GPU nodes or for several pools."""

    module = "recipe"

    def execute(self, options: dict[str, Any], task_vars: dict[str, Any]) -> dict[str, Any]:
        del task_vars
        result: dict[str, Any] = {"exit_code": 0}
        if options["pools"]:
            if options["snapshot"]:
                hint = "state the criteria of each pool; without pools the answer names those that the nodes make"
                raise InputError("snapshot", "is given with pools.", hint)
            recipe, catalogue, warnings = answer_pools(request_for(options), options["pools"])
            found, texts = recipe.result, pool_documents(recipe, catalogue, options)
        else:
            answered = answer(request_for(options))
            found, catalogue, warnings = answered.result, answered.catalogue, answered.warnings
            texts = documents(answered.result, answered.catalogue, options)
            if answered.detection is not None:
                result["detection"] = plain_detection(answered.detection)
                result["detected"] = detected_lines(answered.detection)
        dest = Path(options["dest"]).expanduser() if options.get("dest") else None
        reported = foreign_warnings(found, catalogue, dest, self_contained=bool(options["self_contained"]))
        written = write_documents(texts, check_mode=self.check_mode)
        if self._task.diff:
            result["diff"] = [_diff_of(file) for file in written if file.changed]
        return result | {
            "changed": any(file.changed for file in written),
            "recipe": summary(found, catalogue),
            "files": [str(file.path) for file in written],
            "warnings": [*warnings, *reported, *(line for file in written for line in file.warnings)],
        }


def _diff_of(file: Written) -> dict[str, str]:
    return {
        "before": redact(file.before),
        "after": redact(file.after),
        "before_header": str(file.path),
        "after_header": str(file.path),
    }
