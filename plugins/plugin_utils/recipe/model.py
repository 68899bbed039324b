# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The values of recipes: layers, components, the catalogue, and the result of resolving a recipe.

Mappings inside these values belong to the catalogue. They are never passed on without a copy (`copied`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from ..constraint.evaluate import Constraint
from ..outcome.errors import InputError
from .criteria import Criteria, Vocabulary
from .dialect import RESULT_API, Dialect

T = TypeVar("T")


def copied(value: T) -> T:
    """Return a deep copy of plain data (mappings, lists, scalars)."""
    if isinstance(value, dict):
        return {key: copied(item) for key, item in value.items()}  # type: ignore[return-value]
    if isinstance(value, list):
        return [copied(item) for item in value]  # type: ignore[return-value]
    return value


# Each of these set to false means that a component is provided from outside. `install` is used since 1.0, because some
# charts read `enabled` themselves (NVIDIA/aicr pkg/recipe, ComponentRef.IsEnabled).
INSTALL_KEYS = ("enabled", "install")


def installs(overrides: Mapping[str, Any]) -> bool:
    """Tell whether a component with these overrides is installed."""
    return all(overrides.get(key) is not False for key in INSTALL_KEYS)


@dataclass(frozen=True, slots=True, kw_only=True)
class ComponentRef:
    """One component of a recipe, as one layer or all layers together define it. An empty field is not defined."""

    name: str
    namespace: str = ""
    chart: str = ""
    type: str = ""
    source: str = ""
    version: str = ""
    tag: str = ""
    path: str = ""
    values_file: str = ""
    overrides: Mapping[str, Any] = field(default_factory=dict)
    patches: tuple[str, ...] = ()
    dependency_refs: tuple[str, ...] = ()
    pre_manifest_files: tuple[str, ...] = ()
    manifest_files: tuple[str, ...] = ()
    cleanup: bool = False
    expected_resources: tuple[Mapping[str, str], ...] = ()
    health_check_asserts: str = ""
    health_check_skip: bool = False

    @property
    def enabled(self) -> bool:
        """Whether it is to be installed: no layer has `overrides.enabled: false` or `install: false`."""
        return installs(self.overrides)


@dataclass(frozen=True, slots=True, kw_only=True)
class Phase:
    """One validation phase. None is not defined, an empty tuple is explicitly none."""

    timeout: str = ""
    constraints: tuple[Constraint, ...] | None = None
    checks: tuple[str, ...] | None = None
    node_selection: Mapping[str, Any] = field(default_factory=dict)
    infrastructure: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fragment:
    """What one file adds: constraints, components, validation."""

    constraints: tuple[Constraint, ...] = ()
    components: tuple[ComponentRef, ...] = ()
    validation: Mapping[str, Phase] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """A choice that a layer leaves to the user, such as what owns the driver. The chosen fragment is merged last."""

    name: str
    default: str
    choices: Mapping[str, Fragment]
    # Values with which a device plugin outside of the recipe, such as GKE's, advertises the GPUs.
    external: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class Layer:
    """One overlay. `criteria` is None for a layer that is only a parent of others. `root` is its directory's index.

    `regardless_of` are dimensions for whose every value the layer is right, so that stating one is supported.
    `refused` are its keys that this release does not know and that may change what is installed.
    """

    name: str
    file: str
    base: str = ""
    criteria: Criteria | None = None
    regardless_of: tuple[str, ...] = ()
    mixins: tuple[str, ...] = ()
    fragment: Fragment = Fragment()
    profile: Profile | None = None
    dialect: Dialect = Dialect.CURRENT
    foreign: bool = False
    root: int = 0
    refused: tuple[InputError, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Mixin:
    """A fragment that several layers name in place of repeating it."""

    name: str
    file: str
    fragment: Fragment = Fragment()
    dialect: Dialect = Dialect.CURRENT
    foreign: bool = False
    root: int = 0
    refused: tuple[InputError, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Component:
    """One entry of the component registry. `data` is the whole entry."""

    name: str
    file: str
    data: Mapping[str, Any]
    refused: tuple[InputError, ...] = ()

    @property
    def is_kustomize(self) -> bool:
        """Whether it is built by Kustomize, that is, has a default Kustomize source."""
        return bool((self.data.get("kustomize") or {}).get("defaultSource"))

    def default(self, tool: str, key: str) -> str:
        """Return a default such as `helm`, `defaultChart`. Empty if there is none."""
        value = (self.data.get(tool) or {}).get(key)
        return "" if value is None else str(value)


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One entry of a check catalogue. `data` is the whole entry."""

    name: str
    phase: str
    file: str
    data: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Catalogue:
    """Everything that was loaded, decoded and checked. Reading it needs no file but chart values.

    `files` maps a path inside the trees to the file that takes precedence. `warnings` are what was ignored in a tree
    that was written for the upstream tool.
    """

    layers: Mapping[str, Layer]
    mixins: Mapping[str, Mixin]
    registry: Mapping[str, Component]
    vocabulary: Vocabulary
    checks: Mapping[str, Check] = field(default_factory=dict)
    files: Mapping[str, Path] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()
    dialect: Dialect = Dialect.CURRENT
    values: dict[str, Mapping[str, Any]] = field(default_factory=dict)
    texts: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class RecipeResult:
    """One resolved recipe. It shares nothing with the catalogue or with another result."""

    criteria: Criteria
    components: tuple[ComponentRef, ...]
    constraints: tuple[Constraint, ...]
    order: tuple[str, ...]
    validation: Mapping[str, Phase]
    layers: tuple[str, ...]
    mixins: tuple[str, ...] = ()
    profiles: Mapping[str, str] = field(default_factory=dict)
    api_version: str = RESULT_API

    def component(self, name: str) -> ComponentRef | None:
        """Return a component by name. None if there is none."""
        return next((component for component in self.components if component.name == name), None)
