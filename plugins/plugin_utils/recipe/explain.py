# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The origin of a value in a recipe: the recipe is merged again layer by layer, and the value is compared each time."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from ..outcome.errors import NotFoundError
from ..outcome.wording import count
from .hydrate import file_values, value_files
from .merge import Draft
from .model import Catalogue, ComponentRef, RecipeResult
from .order import deployment_order
from .paths import leaves, lookup, parse_path, shown
from .query import query_map, query_shown, shown_value
from .resolve import BASE, chain, matching_leaves, with_defaults, with_mixin, with_profiles
from .yaml_text import Path


class Stage(NamedTuple):
    """The recipe after one layer, with the layer's name and file (empty if it is built in)."""

    layer: str
    file: str
    result: RecipeResult


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """One layer that set a value. `replaced` is the value before it; with `first` there was none."""

    layer: str
    file: str
    value: Any
    replaced: Any = None
    first: bool = True

    def lines(self) -> list[str]:
        """Return lines on what this layer set. Of a mapping or list they have only the changed values."""
        head = f"  {self.layer} ({self.file or 'built in'}) set"
        before = {} if self.first else _flat(self.replaced)
        after = _flat(self.value)
        if set(after) == {""}:
            replacing = f", replacing {_text(self.replaced)}" if not self.first else ""
            return [f"{head} {_text(self.value)}{replacing}"]
        changed = [name for name in after if name not in before or before[name] != after[name]]
        lines = [f"{head} {count(len(changed), 'value')}"]
        for name in changed:
            lines.append(f"    {name} = {_text(after[name])}" + _replacing(before, name))
        return lines + [
            f"    {name} removed{_replacing(before, name)}" for name in before if name and name not in after
        ]


def _flat(value: Any) -> dict[str, Any]:
    """Return the values below a mapping or list by their paths. A single value has the empty path."""
    return {shown(path): leaf for path, leaf in leaves(value, scalar_lists=True)}


def _text(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, default=str)


def _replacing(before: dict[str, Any], name: str) -> str:
    return f", replacing {_text(before[name])}" if name in before else ""


def _value_lines(path: str, value: Any) -> list[str]:
    values = _flat(value)
    if set(values) == {""}:
        return [f"{path} = {_text(value)}"]
    return [f"{path}:", *(f"  {name} = {_text(leaf)}" for name, leaf in values.items())]


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """A value, the chain of each leaf that applied, and the layers that set it. The last layer decided.

    The chain of the most specific leaf comes first. Without a path there are only chains.
    """

    path: str
    value: Any
    chains: tuple[tuple[str, ...], ...]
    mixins: tuple[str, ...]
    origins: tuple[Origin, ...]

    def lines(self) -> list[str]:
        """Return the explanation as lines for people."""
        lines = [" → ".join(chain) for chain in self.chains]
        if self.mixins:
            lines.append(f"with {', '.join(self.mixins)}")
        if self.path:
            lines += _value_lines(self.path, self.value)
        for origin in self.origins:
            lines += origin.lines()
        return lines


_ABSENT = object()


def _stages(result: RecipeResult, catalogue: Catalogue) -> list[Stage]:
    """Return the recipe after each layer, after each mixin, and after each profile."""
    draft = Draft()
    stages: list[Stage] = []
    for name in result.layers:
        layer = catalogue.layers[name]
        draft = draft.with_fragment(layer.fragment, layer.dialect)
        stages.append(Stage(name, layer.file, _as_result(result, draft)))
    for name in result.mixins:
        draft = with_mixin(draft, catalogue.mixins[name])
        stages.append(Stage(f"mixin {name}", catalogue.mixins[name].file, _as_result(result, draft)))
    layers = tuple(catalogue.layers[name] for name in result.layers)
    for layer in layers:
        if layer.profile is not None:
            draft = with_profiles(draft, (layer,), result.profiles)
            name = f"profile {layer.profile.name}={result.profiles[layer.profile.name]}"
            stages.append(Stage(name, layer.file, _as_result(result, draft)))
    return stages


def _as_result(result: RecipeResult, draft: Draft) -> RecipeResult:
    return replace(
        result,
        components=tuple(draft.components[name] for name in sorted(draft.components)),
        constraints=tuple(draft.constraints[name] for name in sorted(draft.constraints)),
        validation=draft.validation,
        order=(),
    )


def _source_file(stage: RecipeResult, catalogue: Catalogue, path: Path, file: str) -> str:
    """Return the file with a chart value: the layer itself, or one of its values files."""
    if len(path) < 4 or path[0] != "components" or path[2] != "values":
        return file
    component = stage.component(str(path[1]))
    if component is None or has(component.overrides, path[3:]):
        return file
    for name in reversed(value_files(component, catalogue)):
        if has(file_values(name, catalogue), path[3:]):
            return str(catalogue.files[name])
    return file


def has(data: Any, path: Path) -> bool:
    """Tell whether there is a value at a path. It may be null."""
    try:
        lookup(data, path)
    except NotFoundError:
        return False
    return True


def explain(result: RecipeResult, catalogue: Catalogue, selector: str, laid_over: Sequence[Stage] = ()) -> Explanation:
    """Return which layers set a value, in order, and what each replaced. Secrets are masked by their keys.

    The stages in `laid_over`, which a run applies to the result, come last and then have the final value.

    Raises:
        NotFoundError: the finished recipe has no such value.
    """
    path = parse_path(selector)
    if not path:
        return Explanation(path="", value=None, chains=chains(result, catalogue), mixins=result.mixins, origins=())
    final = query_shown(laid_over[-1].result if laid_over else result, catalogue, selector)
    origins: list[Origin] = []
    before: Any = _ABSENT
    reported: Any = None
    for name, file, stage in [*_watched(result, catalogue, path), *laid_over]:
        data = query_map(stage, catalogue)
        try:
            value = lookup(data, path)
        except NotFoundError:
            value = _ABSENT
        if value is not _ABSENT and (before is _ABSENT or value != before):
            source, shown_now = _source_file(stage, catalogue, path, file), shown_value(data, path)
            first = before is _ABSENT
            replaced = None if first else reported
            origins.append(Origin(layer=name, file=source, value=shown_now, replaced=replaced, first=first))
            reported = shown_now
        before = value
    default = _registry_default(result, catalogue, path)
    if default and origins and default.value != origins[0].value:
        origins[0] = replace(origins[0], replaced=default.value, first=False)
        origins.insert(0, default)
    return Explanation(
        path=shown(path),
        value=final,
        chains=chains(result, catalogue),
        mixins=result.mixins,
        origins=tuple(origins),
    )


def chains(result: RecipeResult, catalogue: Catalogue) -> tuple[tuple[str, ...], ...]:
    """Return the inheritance chain of every leaf that applied, base first. The most specific leaf comes first."""
    found = []
    for leaf in reversed(matching_leaves(result.criteria, catalogue)):
        found.append((BASE, *(layer.name for layer in chain(leaf, catalogue))))
    return tuple(found) or ((BASE,),)


def _watched(result: RecipeResult, catalogue: Catalogue, path: Path) -> list[Stage]:
    stages = _stages(result, catalogue)
    if not stages:
        return []
    last = stages[-1].result
    defaulted = tuple(with_defaults(c, catalogue) for c in last.components)
    complete = replace(last, components=defaulted, order=deployment_order(defaulted))
    stages.append(Stage("registry", _registry_file(catalogue, path), complete))
    stages.append(Stage("overrides", "", result))
    return stages


def _registry_default(result: RecipeResult, catalogue: Catalogue, path: Path) -> Origin | None:
    """Return the registry's default for a field of a component, if it is a single value. None if there is none.

    The default fills only fields that no layer sets. So where a layer sets one, no stage shows the default.
    """
    if len(path) != 3 or path[0] != "components" or (component := result.component(str(path[1]))) is None:
        return None
    bare = ComponentRef(name=component.name, type=component.type)
    data = query_map(replace(result, components=(with_defaults(bare, catalogue),)), catalogue)
    if not has(data, path) or not isinstance(value := shown_value(data, path), str) or not value:
        return None
    same = query_map(replace(result, components=(bare,)), catalogue)
    if has(same, path) and lookup(same, path) == value:
        return None
    return Origin(layer="registry", file=_registry_file(catalogue, path), value=value)


def _registry_file(catalogue: Catalogue, path: Path) -> str:
    entry = catalogue.registry.get(str(path[1])) if len(path) > 1 and path[0] == "components" else None
    return entry.file if entry is not None else ""
