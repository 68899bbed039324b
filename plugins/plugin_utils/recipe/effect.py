# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Which criteria of a question change nothing: honoured by a layer that says nothing of its own."""

from __future__ import annotations

from ..outcome.errors import InputError
from .model import Catalogue, RecipeResult
from .resolve import resolve


def without_effect(result: RecipeResult, catalogue: Catalogue) -> tuple[str, ...]:
    """Return the stated criteria without each of which the recipe would be the same, what the user sets aside.

    Two that bring the same layers in may both be among them: it is asked of one at a time.
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
            # Without it there is no recipe.
            continue
        if _content(other) == _content(whole):
            idle.append(name)
    return tuple(idle)


def _content(result: RecipeResult) -> object:
    return result.components, result.constraints, result.order, dict(result.validation)
