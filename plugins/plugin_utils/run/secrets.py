# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Secrets of a run: its directory has none, so the tasks that need one get it from the variables once more."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from ..recipe.hydrate import hydrated
from ..runtime.secret_keys import holds_mask, with_secrets
from .preflight import answer_for
from .run import Run
from .settings_sources import merged_settings

_SETTINGS_HINT = "state gpufleet_settings for all hosts (inventory or -e), so that every play sees it"
_RECIPE_HINT = "state gpufleet_overrides and gpufleet_recipe_data for all hosts (inventory or -e), as in preflight"


def restore_settings(run: Run, options: Mapping[str, Any]) -> None:
    """Put the secrets of the settings back into the run's values in memory; its files stay without them.

    Args:
        run: the run.
        options: `settings` and `set` as preflight got them.

    Raises:
        InputError: a setting was masked and is not stated any more.
    """
    if not holds_mask(run.site.settings) and not holds_mask(run.settings):
        return
    stated = merged_settings(options["settings"] or {}, options["set"] or (), {})
    run.site = replace(run.site, settings=with_secrets(run.site.settings, stated, "gpufleet_settings", _SETTINGS_HINT))
    run.settings = with_secrets(run.settings, stated, "gpufleet_settings", _SETTINGS_HINT)


def recipe_with_secrets(run: Run, options: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the run's recipe as it is installed: where something in it is masked, resolved once more.

    Args:
        run: the run.
        options: `recipe_data` and `overrides` as preflight got them.

    Raises:
        InputError: a value was masked and is not stated any more.
    """
    saved = run.recipe
    if saved is None or not holds_mask(saved):
        return saved
    answered = answer_for(run.site, options)
    full = hydrated(answered.result, answered.catalogue)
    restored: dict[str, Any] = with_secrets(saved, full, "recipe", _RECIPE_HINT)
    return restored
