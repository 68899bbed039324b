# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Which stated criteria change nothing: a layer honours them, but adds nothing for them."""

from __future__ import annotations

from ..outcome.errors import InputError
from .model import Catalogue, RecipeResult
from .resolve import resolve


def without_effect(result: RecipeResult, catalogue: Catalogue) -> tuple[str, ...]:
    """Return the stated criteria without which the recipe is the same, the user's overrides aside.

    Each criterion is tested alone. So two that select the same layers may both be returned.
    """
    whole = resolve(result.criteria, catalogue, result.profiles)
    idle = []
    for name, _value in result.criteria.stated:
        rest = result.criteria.without(name)
        if not rest.stated:
            continue
        try:
            other = resolve(rest, catalogue, result.profiles)
        except InputError:
            # Without this criterion there is no recipe.
            continue
        if _content(other) == _content(whole):
            idle.append(name)
    return tuple(idle)


def _content(result: RecipeResult) -> object:
    return result.components, result.constraints, result.order, dict(result.validation)
