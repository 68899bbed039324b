# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Resolution: the layers that match a query, merged in order, with registry defaults and deployment order."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType

from ..outcome.errors import InputError
from .advertiser import require_one_advertiser
from .criteria import Criteria
from .health_checks import registry_asserts
from .hydrate import component_values
from .merge import Draft
from .model import Catalogue, ComponentRef, Layer, Mixin, Phase, RecipeResult, copied
from .nearest import unknown_hint
from .newer import refuse
from .order import DependencyError, deployment_order

BASE = "base"


class MixinError(InputError):
    """A mixin sets a constraint that already has another value."""

    def __init__(self, mixin: str, constraint: str, reason: str) -> None:
        super().__init__(f"mixin {mixin}", reason, "Say it in one place: the layer or the mixin.")
        self.mixin, self.constraint = mixin, constraint


def chain(layer: Layer, catalogue: Catalogue) -> tuple[Layer, ...]:
    """Return a layer's ancestors and the layer itself, root first, without the base layer."""
    found: list[Layer] = []
    current = layer
    while current.name != BASE:
        found.append(current)
        if current.base in ("", BASE):
            break
        current = catalogue.layers[current.base]
    return tuple(reversed(found))


def matching_leaves(criteria: Criteria, catalogue: Catalogue) -> tuple[Layer, ...]:
    """Return the matching layers that no other matching layer inherits from, in the order of merging.

    The least specific comes first. Of equally specific ones that of the earlier directory comes first, so that a later
    directory takes precedence. Within a directory they are sorted by name.
    """
    # The same as Criteria.matches() for all layers, with the query turned into a set once.
    configured = frozenset(criteria.stated)
    matches = [
        layer
        for layer in catalogue.layers.values()
        if layer.criteria is not None and layer.name != BASE and configured.issuperset(layer.criteria.stated)
    ]
    inherited = {ancestor.name for layer in matches for ancestor in chain(layer, catalogue)[:-1]}
    leaves = [layer for layer in matches if layer.name not in inherited]
    return tuple(sorted(leaves, key=lambda layer: (specificity(layer), layer.root, layer.name)))


def specificity(layer: Layer) -> int:
    """Return how many criteria a layer states."""
    return layer.criteria.specificity if layer.criteria is not None else 0


def applied_layers(criteria: Criteria, catalogue: Catalogue) -> tuple[Layer, ...]:
    """Return the layers for a query in the order of merging, base first, each once."""
    layers: dict[str, Layer] = {BASE: catalogue.layers[BASE]}
    for leaf in matching_leaves(criteria, catalogue):
        for layer in chain(leaf, catalogue):
            layers.setdefault(layer.name, layer)
    return tuple(layers.values())


def applied_mixins(layers: tuple[Layer, ...], catalogue: Catalogue) -> tuple[Mixin, ...]:
    """Return the mixins of these layers, each once, in the order in which they are named."""
    names = dict.fromkeys(name for layer in layers for name in layer.mixins)
    return tuple(catalogue.mixins[name] for name in names)


def with_mixin(draft: Draft, mixin: Mixin) -> Draft:
    """Return the draft with one mixin. A mixin adds constraints and never changes one.

    Raises:
        InputError: the mixin has a constraint that a layer or another mixin has with another value.
    """
    for constraint in mixin.fragment.constraints:
        known = draft.constraints.get(constraint.name)
        if known is not None and known.value != constraint.value:
            reason = f"its constraint {constraint.name} ({constraint.value}) is already set to {known.value}."
            raise MixinError(mixin.name, constraint.name, reason)
    return draft.with_fragment(mixin.fragment, mixin.dialect)


def chosen_profiles(layers: tuple[Layer, ...], profiles: Mapping[str, str]) -> dict[str, str]:
    """Return the value of each profile of the layers: the chosen one, else its default.

    Raises:
        InputError: an unknown profile or value is chosen.
    """
    known = {layer.profile.name: layer.profile for layer in layers if layer.profile is not None}
    for name, value in profiles.items():
        if name not in known:
            raise InputError(f"profile {name}", "is not a profile of this recipe.", unknown_hint(name, known))
        if value not in known[name].choices:
            hint = unknown_hint(value, known[name].choices)
            raise InputError(f"profile {name}", f"has no value {value!r}.", hint)
    return {name: profiles.get(name, profile.default) for name, profile in known.items()}


def with_profiles(draft: Draft, layers: tuple[Layer, ...], chosen: Mapping[str, str]) -> Draft:
    """Return the draft with the chosen values of the layers' profiles merged in."""
    for layer in layers:
        if layer.profile is not None:
            fragment = layer.profile.choices.get(chosen[layer.profile.name])
            draft = draft.with_fragment(fragment, layer.dialect) if fragment is not None else draft
    return draft


def merged(layers: tuple[Layer, ...], mixins: tuple[Mixin, ...]) -> Draft:
    """Merge layers and then mixins into a draft."""
    draft = Draft()
    for layer in layers:
        draft = draft.with_fragment(layer.fragment, layer.dialect)
    for mixin in mixins:
        draft = with_mixin(draft, mixin)
    return draft


def with_defaults(component: ComponentRef, catalogue: Catalogue) -> ComponentRef:
    """Return a component with the registry's defaults for fields that no layer sets.

    Raises:
        InputError: the file of its health check cannot be read.
    """
    entry = catalogue.registry.get(component.name)
    if entry is None:
        return component
    asserts = registry_asserts(component, catalogue)
    kind = component.type or ("Kustomize" if entry.is_kustomize else "Helm")
    # The registry's list applies if no layer has one (NVIDIA/aicr, docs/contributor/recipe.md: manifestFiles).
    manifests = component.manifest_files or tuple(entry.data.get("manifestFiles") or ())
    if kind == "Kustomize":
        return replace(
            component,
            manifest_files=manifests,
            health_check_asserts=asserts,
            type=kind,
            source=component.source or entry.default("kustomize", "defaultSource"),
            tag=component.tag or entry.default("kustomize", "defaultTag"),
            path=component.path or entry.default("kustomize", "defaultPath"),
        )
    manifest_namespace = entry.default("manifest", "defaultNamespace")
    return replace(
        component,
        manifest_files=manifests,
        health_check_asserts=asserts,
        type=kind,
        source=component.source or entry.default("helm", "defaultRepository"),
        version=component.version or entry.default("helm", "defaultVersion"),
        namespace=component.namespace or entry.default("helm", "defaultNamespace") or manifest_namespace,
        chart=component.chart or entry.default("helm", "defaultChart").rpartition("/")[2],
    )


def _own(component: ComponentRef) -> ComponentRef:
    """Return a component that shares no mapping with the catalogue."""
    resources = tuple(dict(item) for item in component.expected_resources)
    return replace(component, overrides=copied(dict(component.overrides)), expected_resources=resources)


def _own_phase(phase: Phase) -> Phase:
    return replace(phase, node_selection=copied(dict(phase.node_selection)))


def located_mixin(error: MixinError, mixins: tuple[Mixin, ...]) -> InputError:
    """Return the error with file and line of the constraint."""
    from .document import place_of

    mixin = next(mixin for mixin in mixins if mixin.name == error.mixin)
    names = [constraint.name for constraint in mixin.fragment.constraints]
    at = place_of(mixin.file, ("spec", "constraints", names.index(error.constraint)))
    return InputError(at, f"{error.subject}: {error.reason}", error.hint)


def _ordered(
    components: tuple[ComponentRef, ...], layers: tuple[Layer, ...], mixins: tuple[Mixin, ...]
) -> tuple[str, ...]:
    try:
        return deployment_order(components)
    except DependencyError as error:
        from .document import place_of

        # Report the dependency of the last directory: a site's own before those of the catalogue.
        owners: list[Layer | Mixin] = sorted((*layers, *mixins), key=lambda owner: owner.root)
        for owner in reversed(owners):
            for index, ref in enumerate(owner.fragment.components):
                if any(ref.name == name and need in ref.dependency_refs for name, need in error.edges):
                    at = place_of(owner.file, ("spec", "componentRefs", index, "dependencyRefs"))
                    raise InputError(at, f"{error.subject}: {error.reason}", error.hint) from None
        raise


def finished(
    criteria: Criteria, catalogue: Catalogue, layers: tuple[Layer, ...], profiles: Mapping[str, str]
) -> RecipeResult:
    """Return the recipe of layers and profiles that were already chosen."""
    mixins = applied_mixins(layers, catalogue)
    chosen = chosen_profiles(layers, profiles)
    try:
        draft = with_profiles(merged(layers, mixins), layers, chosen)
    except MixinError as error:
        raise located_mixin(error, mixins) from None
    components = tuple(_own(with_defaults(draft.components[name], catalogue)) for name in sorted(draft.components))
    refuse(layers, mixins, components, catalogue)
    result = RecipeResult(
        criteria=criteria,
        components=components,
        constraints=tuple(draft.constraints[name] for name in sorted(draft.constraints)),
        order=_ordered(components, layers, mixins),
        validation={name: _own_phase(phase) for name, phase in draft.validation.items()},
        layers=tuple(layer.name for layer in layers),
        mixins=tuple(mixin.name for mixin in mixins),
        profiles=chosen,
    )
    require_one_advertiser(result, catalogue, component_values)
    return result


def resolve(
    criteria: Criteria, catalogue: Catalogue, profiles: Mapping[str, str] = MappingProxyType({})
) -> RecipeResult:
    """Return the recipe for a query. It is the base layer if no other one matches (see policy.require_supported).

    Raises:
        InputError: no criterion is stated, a dependency is missing or cyclic, a mixin changes a constraint, or an
            unknown profile is chosen.
    """
    if not criteria.stated:
        raise InputError("criteria", "none is stated.", "State at least one, such as service or accelerator.")
    return finished(criteria, catalogue, applied_layers(criteria, catalogue), profiles)
