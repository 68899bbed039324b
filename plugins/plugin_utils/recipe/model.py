# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The values of recipes: layers, components, the catalogue that holds them, and what resolving one gives.

Mappings inside these values belong to the catalogue: nothing hands them out without a copy (`copied`).
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
    """Return a copy of plain data (mappings, lists, scalars) that shares nothing with it."""
    if isinstance(value, dict):
        return {key: copied(item) for key, item in value.items()}  # type: ignore[return-value]
    if isinstance(value, list):
        return [copied(item) for item in value]  # type: ignore[return-value]
    return value


# Either one says that somebody else provides a component; `install` since 1.0, as some charts read `enabled` themselves
# (NVIDIA/aicr pkg/recipe, ComponentRef.IsEnabled).
INSTALL_KEYS = ("enabled", "install")


def installs(overrides: Mapping[str, Any]) -> bool:
    """Tell whether a component with these overrides is installed."""
    return all(overrides.get(key) is not False for key in INSTALL_KEYS)


@dataclass(frozen=True, slots=True, kw_only=True)
class ComponentRef:
    """One component of a recipe, as far as a layer or all layers together say; empty means not said."""

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
        """It is to be installed: no layer says `overrides.enabled: false`, or `install: false`."""
        return installs(self.overrides)


@dataclass(frozen=True, slots=True, kw_only=True)
class Phase:
    """One validation phase; None means not said, an empty tuple says "none"."""

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
    """A choice that a layer leaves to the user, such as who owns the driver; what is chosen is merged last."""

    name: str
    default: str
    choices: Mapping[str, Fragment]
    # Its values with which somebody else's device plugin, such as GKE's own, gives out the GPUs.
    external: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class Layer:
    """One overlay. `criteria` is None for a layer that is only a parent of others; `root` is its directory's index.

    `regardless_of` names dimensions whose every value the layer is right for, so that stating one is supported.
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
    """A fragment that layers name instead of repeating it."""

    name: str
    file: str
    fragment: Fragment = Fragment()
    dialect: Dialect = Dialect.CURRENT
    foreign: bool = False
    root: int = 0
    refused: tuple[InputError, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Component:
    """One entry of the component registry; `data` is the whole entry."""

    name: str
    file: str
    data: Mapping[str, Any]
    refused: tuple[InputError, ...] = ()

    @property
    def is_kustomize(self) -> bool:
        """It is built by Kustomize: it has a default Kustomize source."""
        return bool((self.data.get("kustomize") or {}).get("defaultSource"))

    def default(self, tool: str, key: str) -> str:
        """Return a default such as `helm`, `defaultChart`; empty if there is none."""
        value = (self.data.get(tool) or {}).get(key)
        return "" if value is None else str(value)


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One entry of a check catalogue; `data` is all that it says."""

    name: str
    phase: str
    file: str
    data: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Catalogue:
    """Everything that was loaded, decoded and checked. Reading it needs no file but chart values.

    `files` maps a path inside the trees to the file that wins there; `warnings` are what was ignored in a tree
    written for the upstream tool.
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
    """One resolved recipe. Nothing in it is shared with the catalogue or with another result."""

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
        """Return a component by name."""
        return next((component for component in self.components if component.name == name), None)
