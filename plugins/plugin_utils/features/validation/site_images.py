# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The validators that a site brings in its own catalogues."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from ...check.selection import names_of_checks
from ...check.validators.catalog import ValidatorImage, validator_images
from ...recipe.request import catalogue_of


def site_images(recipe_data: Sequence[str]) -> tuple[tuple[ValidatorImage, ...], tuple[str, ...]]:
    """Return the validators of the site's own catalogues, and a note about those that our checks cover.

    Raises:
        InputError: an entry that cannot be run as it is written.
        ProblemsError: everything that is wrong with the directories.
    """
    if not recipe_data:
        return (), ()
    entries = catalogue_of([Path(text) for text in recipe_data]).checks
    images, ours = validator_images(entries, names_of_checks())
    text = f"checks of this collection answer for {', '.join(ours)}; give an image a name of its own to run it as well"
    return images, (text,) if ours else ()
