# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Secrets of a run: its directory has none, so the tasks that need one read it from the variables again."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from ...outcome.errors import InputError
from ...run.run import Run
from ...run.settings_sources import merged_settings
from ...runtime.redaction import holds_mask, redact_data, with_secrets

_SETTINGS_HINT = "state gpufleet_settings for all hosts (inventory or -e), so that every play sees it"
_RECIPE_HINT = "state gpufleet_overrides and gpufleet_recipe_data for all hosts (inventory or -e), as in preflight"


def restore_settings(run: Run, options: Mapping[str, Any]) -> None:
    """Put the secrets of the settings back into the run's values in memory; its files stay without them.

    Args:
        run: the run.
        options: `settings` and `set` as preflight got them.

    Raises:
        InputError: a masked setting is missing in the variables.
    """
    if not holds_mask(run.site.settings) and not holds_mask(run.settings):
        return
    configured = merged_settings(options["settings"] or {}, options["set"] or (), {})
    run.site = replace(
        run.site, settings=with_secrets(run.site.settings, configured, "gpufleet_settings", _SETTINGS_HINT)
    )
    run.settings = with_secrets(run.settings, configured, "gpufleet_settings", _SETTINGS_HINT)


def recipe_with_secrets(run: Run, options: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the run's recipe as it is installed. Where a value in it is masked, it is resolved once more.

    Args:
        run: the run.
        options: `recipe_data`, `overrides`, `helm` and `chart_mirror` as preflight got them.

    Raises:
        InputError: a masked value is missing in the variables.
        ProblemsError: a manifest cannot be rendered.
    """
    saved = run.recipe
    if saved is None:
        return None
    # A gate without a recipe needs no renderer, and the catalogue is read only where something is masked.
    from ...component_stack.render import Renderer, rendered

    renderer = Renderer.of(options)
    if not holds_mask(saved):
        # A recipe that no preflight wrote may have manifests that are not plain.
        return rendered(saved, renderer)
    from .app import answer_for
    from .pool_layers import recipe_data_of

    answered = answer_for(run.site, options, run.hardware)
    full = recipe_data_of(answered, run.site, run.hardware)
    masked = rendered(redact_data(full), renderer, built=saved)
    configured = rendered(full, renderer, built=saved)
    # A text that was rendered from secrets cannot be merged from both: it is compared, and taken whole.
    texts = _texts(masked)
    if any(holds_mask(text) and texts.get(place) != text for place, text in _texts(saved).items()):
        raise InputError("recipe", "a manifest was rendered from values that are not stated any more.", _RECIPE_HINT)
    restored: dict[str, Any] = with_secrets(_with_texts(saved, _texts(configured)), full, "recipe", _RECIPE_HINT)
    return restored


_Place = tuple[str, str, str]


def _texts(recipe: Mapping[str, Any]) -> dict[_Place, str]:
    """Return the text of every manifest file of a recipe, by component, time and file."""
    return {
        (str(entry["name"]), str(item["when"]), str(item["file"])): str(item["text"])
        for entry in recipe["componentRefs"]
        for item in entry.get("manifests") or ()
    }


def _with_texts(recipe: Mapping[str, Any], texts: Mapping[_Place, str]) -> dict[str, Any]:
    """Return a recipe in which texts with a mask are replaced by the given ones."""
    entries = []
    for entry in recipe["componentRefs"]:
        items = [
            {**item, "text": texts[str(entry["name"]), str(item["when"]), str(item["file"])]}
            if holds_mask(item["text"])
            else item
            for item in entry.get("manifests") or ()
        ]
        entries.append({**entry, **({"manifests": items} if items else {})})
    return {**recipe, "componentRefs": entries}
