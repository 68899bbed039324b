# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The commands about one recipe: recipe, query, explain, values, list."""

from __future__ import annotations

import json
from argparse import Namespace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..outcome.errors import InputError, NotFoundError
from ..recipe.model import RecipeResult
from ..recipe.request import Answer
from .answer import formatted, warn, write, write_lines
from .questions import answered, has_question, kept_in, one_path, request_for

if TYPE_CHECKING:
    from ..recipe.explain import Stage


def recipe(arguments: Namespace) -> int:
    """Print a resolved recipe, or write it into a file."""
    if arguments.self_contained and arguments.hydrated:
        raise InputError("--hydrated", "is given with --self-contained.", "leave one of them out")
    if arguments.output not in (None, "-"):
        return _to_file(arguments)
    found = answered(request_for(arguments))
    form = arguments.format or "yaml"
    if form == "text":
        write_lines(_summary(found))
        return 0
    data = _document(found, arguments)
    _warn_of_secrets(data)
    write(formatted(data, form))
    return 0


def _document(found: Answer, arguments: Namespace) -> dict[str, Any]:
    from ..recipe.hydrate import hydrated, in_api, plain, self_contained

    if arguments.hydrated:
        return hydrated(found.result, found.catalogue)
    result = in_api(found.result, arguments.api)
    return self_contained(result, found.catalogue) if arguments.self_contained else plain(result)


def _warn_of_secrets(data: Any) -> None:
    from ..outcome.wording import first_of
    from ..recipe.secret_places import secret_places

    places = secret_places(data)
    if places:
        warn([f"what is printed holds secrets ({first_of(places, 3)}): keep it out of logs and version control"])


def _to_file(arguments: Namespace) -> int:
    from ..recipe.foreign_data import foreign_warnings
    from ..recipe.output import documents, write_documents

    place = Path(arguments.output).expanduser()
    if arguments.output.startswith(("cm://", "https://")):
        raise InputError(f"--output {arguments.output}", "is no file.", "write a file, and put it there")
    form = arguments.format or ("json" if place.suffix == ".json" else "yaml")
    if form == "text" or (form == "json") != (place.suffix == ".json"):
        hint = "leave --format out: a file that ends in .json is JSON, any other YAML"
        raise InputError(f"--format {form}", f"is not what {place.name} says.", hint)
    found = answered(request_for(arguments))
    contained = bool(arguments.self_contained)
    place_of = "hydrated_dest" if arguments.hydrated else "dest"
    options = {place_of: str(place), "self_contained": contained, "api": arguments.api}
    texts = documents(found.result, found.catalogue, options)
    written = write_documents(texts, check_mode=False)
    warn(line for file in written for line in file.warnings)
    foreign = None if arguments.hydrated else place
    option = "--self-contained"
    warn(foreign_warnings(found.result, found.catalogue, foreign, self_contained=contained, option=option))
    return 0


def _summary(found: Answer) -> list[str]:
    from ..recipe.effect import without_effect
    from ..recipe.explain import chains

    result = found.result
    width = max((len(name) for name in result.order), default=0)
    lines = [f"criteria: {result.criteria}"]
    idle = without_effect(result, found.catalogue)
    lines += [f"without effect: {', '.join(idle)}"] if idle else []
    lines += [f"layers: {' → '.join(names)}" for names in chains(result, found.catalogue)]
    lines += [f"mixins: {', '.join(result.mixins)}"] if result.mixins else []
    lines += ["components, in the order of their installation:"]
    lines += [f"  {name:{width}}  {version}".rstrip() for name, version in _versions(result)]
    lines += ["constraints:"] if result.constraints else []
    return lines + [f"  {constraint.name} {constraint.value}" for constraint in result.constraints]


def _versions(result: RecipeResult) -> list[tuple[str, str]]:
    found = {component.name: component for component in result.components if component.enabled}
    return [(name, found[name].version or found[name].tag) for name in result.order if name in found]


def _requested(arguments: Namespace) -> tuple[Answer, Answer, tuple[Stage, ...]]:
    """Return the recipe of its layers, the same with the driver owner, and what was laid over it for that."""
    request = request_for(arguments)
    found = answered(request)
    if not arguments.driver_owner:
        return found, found, ()
    from ..features.recipe.owner_layer import with_owner

    return found, *with_owner(found, request.overrides, arguments.driver_owner)


def _idle(arguments: Namespace) -> list[str]:
    """Return why the requested value has no effect with this driver owner, empty where it has one."""
    if not arguments.driver_owner:
        return []
    from ..features.recipe.owner_layer import idle_value
    from ..recipe.paths import parse_path

    reported = idle_value(arguments.driver_owner, parse_path(one_path(arguments)))
    return [reported] if reported else []


def query(arguments: Namespace) -> int:
    """Print one value: a scalar as it is, anything else as YAML."""
    from ..recipe.query import query_shown

    if not one_path(arguments) and not has_question(arguments):
        hint = "name a value, such as components.gpu-operator.version; gpufleet recipe prints the whole recipe"
        raise InputError("gpufleet query", "PATH is missing.", hint)
    _found, owned, _laid_over = _requested(arguments)
    value = query_shown(owned.result, owned.catalogue, one_path(arguments))
    warn(_idle(arguments))
    if arguments.format in (None, "text") and not isinstance(value, dict | list):
        write_lines([value if isinstance(value, str) else json.dumps(value)])
    else:
        write(formatted(value, arguments.format or "yaml"))
    return 0


def explain(arguments: Namespace) -> int:
    """Print which layers set a value; without a path the chains of layers."""
    from ..recipe.explain import explain as explained

    found, _owned, laid_over = _requested(arguments)
    explanation = explained(found.result, found.catalogue, one_path(arguments), laid_over)
    warn(_idle(arguments))
    if arguments.format in (None, "text"):
        write_lines(explanation.lines())
        return 0
    from ..outcome.codec import to_plain

    write(formatted(to_plain(explanation), arguments.format))
    return 0


def values(arguments: Namespace) -> int:
    """Print the merged chart values of one component, secrets included: an installation from them needs these."""
    from ..recipe.hydrate import component_values
    from ..recipe.nearest import unknown_hint

    _found, found, _laid_over = _requested(arguments)
    component = found.result.component(arguments.component)
    if component is None:
        hint = unknown_hint(arguments.component, [each.name for each in found.result.components])
        raise NotFoundError(f"component {arguments.component}", "is not in this recipe.", hint)
    if not component.enabled:
        warn([f"component {component.name} is switched off in this recipe"])
    data = component_values(component, found.catalogue)
    _warn_of_secrets(data)
    write(formatted(data, arguments.format or "yaml"))
    return 0


def listed(arguments: Namespace) -> int:
    """Print what the catalogue supports for the given criteria."""
    from ..recipe.criteria import parse_criteria
    from ..recipe.listing import listing, listing_lines
    from ..recipe.request import catalogue_of

    request = request_for(arguments)
    catalogue = catalogue_of(request.recipe_data, kept_in(arguments))
    warn(catalogue.warnings)
    found = listing(catalogue, parse_criteria(request.criteria, catalogue.vocabulary))
    if arguments.format in (None, "text"):
        write_lines(listing_lines(found))
    else:
        write(formatted(found, arguments.format))
    return 0
