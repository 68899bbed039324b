# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The command diff: what differs between two recipes, from the first to the second."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from ..outcome.errors import InputError
from ..recipe.difference import difference_of
from ..recipe.query import document_map, query_map
from ..recipe.request import Answer, Request, answer
from .answer import formatted, write, write_lines
from .questions import criteria_in, is_criteria, named_file, request_for, tell

_DIFFERS = 1
# A resolved recipe, or one in a file as a map of values.
Side = Answer | dict[str, Any]


def diff(arguments: Namespace) -> int:
    """Print what differs; with --exit-code it ends with 1 if anything does, as git diff."""
    request = request_for(arguments)
    before, after = maps_of(two_recipes(arguments.sides, request, "gpufleet diff"))
    found = difference_of(before, after)
    if arguments.format in (None, "text"):
        write_lines(found.lines())
    else:
        from ..outcome.codec import to_plain

        write(formatted(to_plain(found), arguments.format))
    return _DIFFERS if arguments.exit_code and not found.same else 0


def two_recipes(texts: Sequence[str], request: Request, command: str) -> list[Side]:
    """Return both recipes: two named ones, one and that of the flags, or the same without and with the flags' changes.

    Args:
        texts: the named recipes, files or criteria.
        request: the request of the flags.
        command: the command, for messages.

    Raises:
        InputError: more than two are named, or there is nothing to compare with.
    """
    if len(texts) > 2:
        raise InputError(command, f"{len(texts)} recipes are given.", "give two at most")
    if not texts and not (request.recipe_data or request.overrides or request.profiles):
        hint = "give two recipes, or what changes one: --data, --set or --profile"
        raise InputError(command, "there is nothing to compare with.", hint)
    sides = [named_recipe(text, request) for text in texts]
    if not sides:
        sides = [answer(replace(request, recipe_data=(), sku_data=(), overrides={}, profiles={}))]
    return sides if len(sides) > 1 else [*sides, answer(request)]


def maps_of(sides: Sequence[Side]) -> list[dict[str, Any]]:
    """Return recipes as maps of values, and print what was detected and the warnings."""
    tell(*(side for side in sides if isinstance(side, Answer)))
    return [query_map(side.result, side.catalogue) if isinstance(side, Answer) else side for side in sides]


def named_recipe(text: str, request: Request) -> Side:
    """Return the recipe of some criteria, together with those of the flags, or that in a file as a map of values."""
    if is_criteria(text):
        return answer(replace(request, criteria={**request.criteria, **criteria_in(text)}))
    from ..features.snapshot.recipe_drift import resolved_recipe
    from ..recipe.resolved import hydrated_document

    document = resolved_recipe(named_file(text, "name the file of a recipe, or criteria such as service=eks"))
    return document_map(hydrated_document(document, request.recipe_data))
