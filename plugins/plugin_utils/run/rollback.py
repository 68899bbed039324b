# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The run to whose recipe a site rolls back: the last other recipe whose gates passed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..outcome.errors import InputError, NotFoundError
from ..outcome.gates import STACK_GATE
from ..store.database import place_of
from ..store.history import open_store
from .run import Run, existing_run_dir

_NAME_ONE = "name the run whose recipe is wanted with rollback_to"


def last_good_run(run: Run, store: str | None, rollback_to: str | None) -> Run:
    """Return the run to whose recipe the site rolls back.

    Without `rollback_to` it is the newest run of the history with a recipe other than this run's, whose gate gpu_stack
    passed, and whose other recorded gates passed as well. If its directory is gone, no older run is taken, because the
    changes in between are unknown.

    Args:
        run: the run from which the site rolls back.
        store: the history, needed without `rollback_to`.
        rollback_to: directory of a run that a person chose.

    Raises:
        InputError: neither is given, or the chosen run has no recipe or is of another site.
        NotFoundError: no run passed with another recipe, or the directory of the one that did is gone.
    """
    if rollback_to:
        chosen = Run(existing_run_dir(rollback_to))
        if chosen.recipe is None:
            raise InputError(str(chosen.path), "holds no resolved recipe (recipe.json).", "choose another run")
        if chosen.record.site != run.record.site:
            reason = f"is a run of site {chosen.record.site}, not of {run.record.site}."
            raise InputError(str(chosen.path), reason, "choose another run")
        return chosen
    if not store:
        raise InputError("rollback", "there is no history that knows which run passed.", f"set store, or {_NAME_ONE}")
    place = place_of(store)
    record, here = run.record, _pins(run.recipe or {})
    good = open_store(place).good_runs(record.site, STACK_GATE, rehearsal=record.rehearsal)
    for run_id in good:
        if run_id == record.run_id:
            continue
        directory = run.path.resolve().parent / run_id
        if not (directory / "recipe.json").is_file():
            reason = f"passed last, and its directory {directory} is gone, and its recipe with it."
            raise NotFoundError(f"run {run_id}", reason, f"put the directory back, or {_NAME_ONE}")
        found = Run(directory)
        if _pins(found.recipe or {}) != here:
            return found
    text = f"names no run of site {record.site} that passed with another recipe ({len(good)} passed)."
    raise NotFoundError(str(place), text, _NAME_ONE)


def rollback_facts(good: Run, run: Run) -> dict[str, Any]:
    """Return the facts of a rollback: the run with the recipe, and the components that its recipe does not have."""
    wanted = {str(name) for name in (good.recipe or {}).get("deploymentOrder") or ()}
    stays = [name for name in (run.recipe or {}).get("deploymentOrder") or () if name not in wanted]
    return {"run_id": good.record.run_id, "stays": stays}


def _pins(recipe: Mapping[str, Any]) -> list[Any]:
    """Return what makes two recipes the same for a cluster: components, versions, values and manifests."""
    keys = ("name", "namespace", "chart", "version", "values", "manifests")
    refs = sorted(recipe.get("componentRefs") or (), key=lambda ref: str(ref.get("name")))
    return [[ref.get(key) for key in keys] for ref in refs]
