# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Verb recipe: resolves, asks, explains, compares and lists recipes on the controller."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.action_base.verb import VerbBase
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.codec import to_plain
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.recipe.criteria import parse_criteria
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.recipe.detect import Detection
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.recipe.difference import difference
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.recipe.explain import explain
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.recipe.hydrate import hydrated
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.recipe.listing import listing
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.recipe.output import (
    Written,
    documents,
    pool_documents,
    summary,
    write_documents,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.recipe.query import query
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.recipe.request import (
    answer,
    answer_pools,
    catalogue_of,
    request_of,
)


class ActionModule(VerbBase):
    """Answer one question about recipes; only `resolve` writes files."""

    module = "recipe"

    def execute(self, options: dict[str, Any], task_vars: dict[str, Any]) -> dict[str, Any]:
        """Do what the command says."""
        del task_vars
        commands: dict[str, Callable[[dict[str, Any]], dict[str, Any]]] = {
            "resolve": self._resolve,
            "query": self._query,
            "explain": self._explain,
            "diff": self._diff,
            "list": self._list,
            "hydrate": self._hydrate,
        }
        return {"exit_code": 0, "changed": False, **commands[options["command"]](options)}

    def _resolve(self, options: dict[str, Any]) -> dict[str, Any]:
        detection: Detection | None = None
        if options["pools"]:
            recipe, catalogue, warnings = answer_pools(request_of(options), options["pools"])
            found, texts = recipe.result, pool_documents(recipe, catalogue, options)
        else:
            answered = answer(request_of(options))
            found, warnings, detection = answered.result, answered.warnings, answered.detection
            texts = documents(answered.result, answered.catalogue, options)
        written = write_documents(texts, check_mode=self.check_mode)
        result = {"recipe": summary(found), "changed": any(file.changed for file in written), "warnings": [*warnings]}
        result["files"] = [str(file.path) for file in written]
        if detection is not None:
            result["detection"] = to_plain(detection)
        if self._task.diff:
            result["diff"] = [_diff_of(file) for file in written if file.changed]
        return result

    def _hydrate(self, options: dict[str, Any]) -> dict[str, Any]:
        answered = answer(request_of(options))
        return {"value": hydrated(answered.result, answered.catalogue), "warnings": [*answered.warnings]}

    def _query(self, options: dict[str, Any]) -> dict[str, Any]:
        answered = answer(request_of(options))
        value = query(answered.result, answered.catalogue, options["selector"])
        return {"value": value, "warnings": [*answered.warnings]}

    def _explain(self, options: dict[str, Any]) -> dict[str, Any]:
        answered = answer(request_of(options))
        explanation = explain(answered.result, answered.catalogue, options["selector"])
        return {
            "msg": explanation.lines(),
            "explanation": to_plain(explanation),
            "warnings": [*answered.warnings],
        }

    def _diff(self, options: dict[str, Any]) -> dict[str, Any]:
        left, right = answer(request_of(options)), answer(request_of({**options, **_other(options)}))
        found = difference(left.result, left.catalogue, right.result, right.catalogue)
        return {"difference": to_plain(found), "same": found.same, "warnings": [*left.warnings, *right.warnings]}

    def _list(self, options: dict[str, Any]) -> dict[str, Any]:
        catalogue = catalogue_of([Path(text) for text in options["recipe_data"] or ()])
        return {"listing": listing(catalogue, parse_criteria(options["criteria"], catalogue.vocabulary))}


def _other(options: dict[str, Any]) -> dict[str, Any]:
    """Return the other side of a comparison: what it does not say is the same as on this side."""
    other = options["other"] or {}
    return {name: other[name] for name in ("criteria", "recipe_data", "overrides") if other.get(name) is not None}


def _diff_of(file: Written) -> dict[str, str]:
    return {
        "before": file.before,
        "after": file.after,
        "before_header": str(file.path),
        "after_header": str(file.path),
    }
