# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""References inside a catalogue: parents, mixins, components, files and checks that must exist."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property

from ..constraint.declared import unknown_name, wrong_value
from ..constraint.evaluate import Constraint
from ..outcome.errors import BringupError, InputError
from ..runtime.files import RECIPES
from .document import Document
from .health_checks import assert_file
from .hydrate import file_values, value_files
from .model import INSTALL_KEYS, Catalogue, ComponentRef, Fragment, Layer, Mixin, Profile
from .nearest import unknown_hint
from .order import find_cycle
from .resolve import applied_layers, finished
from .tree import unsafe_reason
from .yaml_text import Path

BASE = "base"
_OWN_TREE = RECIPES.resolve()


@dataclass
class _Verifier:
    """Collects the unresolved references of every layer and mixin."""

    catalogue: Catalogue
    documents: Mapping[str, Document]
    problems: list[BringupError]
    warnings: list[str] = field(default_factory=list)

    def _report(self, document: Document | None, path: Path, reason: str, hint: str) -> None:
        if document is not None:
            self.problems.append(document.problem(path, reason, hint))

    @cached_property
    def components(self) -> frozenset[str]:
        """Every component of a layer or a mixin."""
        owners: tuple[Layer | Mixin, ...] = (*self.catalogue.layers.values(), *self.catalogue.mixins.values())
        return frozenset(ref.name for owner in owners for ref in owner.fragment.components)

    def _judge(self, owner: Layer | Mixin, document: Document | None, path: Path, reason: str, hint: str) -> None:
        """Report a problem. In an upstream tree it is a warning, because its tool loads the tree."""
        if not owner.foreign:
            self._report(document, path, reason, hint)
        elif document is not None:
            self.warnings.append(f"{document.at(path)}: {reason} {hint}".rstrip())

    def _constraints(self, owner: Layer | Mixin, document: Document | None) -> None:
        for index, constraint in enumerate(owner.fragment.constraints):
            at: Path = ("spec", "constraints", index)
            self._name(owner, document, (*at, "name"), constraint, "")
            self._value(owner, document, (*at, "value"), constraint)
        for name, phase in owner.fragment.validation.items():
            for index, constraint in enumerate(phase.constraints or ()):
                at = ("spec", "validation", name, "constraints", index)
                self._name(owner, document, (*at, "name"), constraint, name)
                self._value(owner, document, (*at, "value"), constraint)

    def _name(
        self, owner: Layer | Mixin, document: Document | None, at: Path, constraint: Constraint, phase: str
    ) -> None:
        hint = unknown_name(constraint.name, phase)
        if hint:
            reason = f"the constraint {constraint.name!r} is about nothing that is measured."
            self._judge(owner, document, at, reason, hint)

    def _value(self, owner: Layer | Mixin, document: Document | None, at: Path, constraint: Constraint) -> None:
        wrong = wrong_value(constraint)
        if wrong:
            self._judge(owner, document, at, f"the constraint {constraint.name}: {wrong}", "")

    def layer(self, layer: Layer) -> None:
        """Check one layer."""
        document = self.documents.get(f"overlay {layer.name}")
        layers = self.catalogue.layers
        if layer.base and layer.base not in layers:
            reason = f"the parent {layer.base!r} of {layer.name} does not exist."
            self._report(document, ("spec", "base"), reason, unknown_hint(layer.base, layers))
        for index, name in enumerate(layer.mixins):
            if name not in self.catalogue.mixins:
                reason = f"the mixin {name!r} of {layer.name} does not exist."
                self._report(document, ("spec", "mixins", index), reason, unknown_hint(name, self.catalogue.mixins))
        dimensions = self.catalogue.vocabulary.dimensions
        for index, name in enumerate(layer.regardless_of):
            if name not in dimensions:
                reason = f"{name!r} in regardlessOf of {layer.name} is not a criterion."
                self._report(document, ("spec", "regardlessOf", index), reason, unknown_hint(name, dimensions))
        self.fragment(layer, document)
        if layer.profile is not None:
            self.profile(layer, layer.profile, document)

    def profile(self, layer: Layer, profile: Profile, document: Document | None) -> None:
        """Check a layer's profile: its default is one of its values, and all references exist."""
        if profile.default not in profile.choices:
            reason = f"the default {profile.default!r} of profile {profile.name} is none of its values."
            hint = unknown_hint(profile.default, profile.choices)
            self._report(document, ("spec", "profile", "default"), reason, hint)
        for name, choice in profile.choices.items():
            for index, component in enumerate(choice.components):
                at = ("spec", "profile", "values", name, "componentRefs", index)
                self._component(layer, component, document, at)

    def fragment(self, owner: Layer | Mixin, document: Document | None) -> None:
        """Check what a layer or a mixin adds."""
        for index, component in enumerate(owner.fragment.components):
            self._component(owner, component, document, ("spec", "componentRefs", index))
        self._checks(owner, owner.fragment, document)
        self._constraints(owner, document)

    def _component(self, owner: Layer | Mixin, component: ComponentRef, document: Document | None, at: Path) -> None:
        registry = self.catalogue.registry
        if component.name not in registry:
            reason = f"the component {component.name!r} is not in the registry."
            if owner.foreign:
                self.warnings.append(f"{owner.file}: {reason}")
            else:
                self._report(document, (*at, "name"), reason, unknown_hint(component.name, registry))
        for key in INSTALL_KEYS:
            reported = component.overrides.get(key)
            if reported is not None and not isinstance(reported, bool):
                reason = f"overrides.{key} of {component.name} must be true or false."
                self._report(document, (*at, "overrides", key), reason, "It decides whether it is installed.")
        files = [("valuesFile", component.values_file)] if component.values_file else []
        files += [("preManifestFiles", name) for name in component.pre_manifest_files]
        files += [("manifestFiles", name) for name in component.manifest_files]
        for key, name in files:
            self._file(document, (*at, key), key, name)
        for name in component.dependency_refs:
            if name not in registry and name not in self.components:
                reason = f"{component.name} depends on {name!r}, which is no component of any layer."
                hint = unknown_hint(name, {*registry, *self.components})
                self._judge(owner, document, (*at, "dependencyRefs"), reason, hint)

    def _file(self, document: Document | None, at: Path, key: str, name: str) -> None:
        unsafe = unsafe_reason(name)
        if unsafe:
            self._report(document, at, f"{key} {name!r} {unsafe}.", "Name a file inside the tree.")
        elif name not in self.catalogue.files:
            near = [known for known in self.catalogue.files if known.startswith("components/")]
            self._report(document, at, f"{key} {name!r} does not exist in any tree.", unknown_hint(name, near)[:300])

    def values_files(self) -> None:
        """Check that the chart values of other trees can be read. Our own tree is checked by its tests."""
        owners: tuple[Layer | Mixin, ...] = (*self.catalogue.layers.values(), *self.catalogue.mixins.values())
        refs = [(owner.foreign, ref) for owner in owners for ref in owner.fragment.components]
        for layer in self.catalogue.layers.values():
            choices = layer.profile.choices.values() if layer.profile is not None else ()
            refs += [(layer.foreign, ref) for choice in choices for ref in choice.components]
        named = {file: foreign for foreign, ref in refs for file in value_files(ref, self.catalogue)}
        for file, foreign in named.items():
            path = self.catalogue.files.get(file)
            if path is None or path.is_relative_to(_OWN_TREE):
                continue
            try:
                file_values(file, self.catalogue)
            except InputError as error:
                if foreign:
                    self.warnings.append(str(error))
                else:
                    self.problems.append(error)

    def override_keys(self) -> None:
        """Check that no component name for `--set` means two components."""
        meant: dict[str, str] = {}
        entries = self.catalogue.registry.items()
        roots = {name: self.documents[f"component {name}"].file.root for name, _entry in entries}
        for name, entry in sorted(entries, key=lambda item: roots[item[0]]):
            for key in (name, *(entry.data.get("valueOverrideKeys") or ())):
                other = meant.setdefault(key, name)
                if other != name:
                    document = self.documents[f"component {name}"]
                    index = [data["name"] for data in document.data["components"]].index(name)
                    reason = f"{key!r} of {name} is also what --set calls {other}."
                    self._report(document, ("components", index, "valueOverrideKeys"), reason, "Take another word.")

    def registry(self) -> None:
        """Check that the manifest files and health checks of registry entries exist."""
        for name, entry in self.catalogue.registry.items():
            document = self.documents.get(f"component {name}")
            names = [data.get("name") for data in document.data["components"]] if document is not None else []
            checked = assert_file(name, self.catalogue)
            files: list[tuple[tuple[str, ...], str]] = [
                (("manifestFiles",), file) for file in entry.data.get("manifestFiles") or ()
            ]
            files += [(("healthCheck", "assertFile"), checked)] if checked else []
            for steps, file in files:
                self._file(document, ("components", names.index(name), *steps), steps[-1], file)

    def _checks(self, owner: Layer | Mixin, fragment: Fragment, document: Document | None) -> None:
        known = self.catalogue.checks
        for phase_name, phase in fragment.validation.items():
            for index, name in enumerate(phase.checks or ()):
                if not known or name in known:
                    continue
                reason = f"the check {name!r} of phase {phase_name} is in no check catalogue."
                if owner.foreign:
                    self.warnings.append(f"{owner.file}: {reason}")
                else:
                    at = ("spec", "validation", phase_name, "checks", index)
                    self._report(document, at, reason, unknown_hint(name, known))

    def cycles(self) -> None:
        """Check that no layer is its own ancestor."""
        parents = {layer.name: [layer.base] if layer.base else [] for layer in self.catalogue.layers.values()}
        cycle = find_cycle(parents)
        if cycle:
            reason = f"the parents form a cycle: {' -> '.join(cycle)}."
            self._report(self.documents.get(f"overlay {cycle[0]}"), ("spec", "base"), reason, "Remove one of them.")


def unresolvable(catalogue: Catalogue, private: Collection[int]) -> Iterator[tuple[Layer, InputError]]:
    """Yield the layers of these directories whose own criteria resolve to no recipe, each with the reason."""
    for layer in catalogue.layers.values():
        if layer.root in private and layer.criteria is not None and layer.name != BASE:
            try:
                finished(layer.criteria, catalogue, applied_layers(layer.criteria, catalogue), {})
            except InputError as error:
                yield layer, error


def verify(catalogue: Catalogue, documents: Mapping[str, Document], problems: list[BringupError]) -> tuple[str, ...]:
    """Add every unresolved reference to the problems. Return those that are only warnings."""
    verifier = _Verifier(catalogue, documents, problems)
    for layer in catalogue.layers.values():
        verifier.layer(layer)
    for mixin in catalogue.mixins.values():
        verifier.fragment(mixin, documents.get(f"mixin {mixin.name}"))
    verifier.registry()
    verifier.override_keys()
    verifier.values_files()
    verifier.cycles()
    return tuple(verifier.warnings)
