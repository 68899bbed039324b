# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The documents of a recipe tree: their kinds, API versions and shapes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from .nearest import unknown_hint
from .yaml_text import Path

# Shapes of documents: what may be written where. A check finds all differences in one pass.


@dataclass(frozen=True, slots=True)
class Finding:
    """One difference between data and shape. With `unknown_key` it is only a warning in an upstream tree."""

    path: Path
    reason: str
    hint: str = ""
    unknown_key: bool = False


@dataclass(frozen=True, slots=True)
class Text:
    """A text, one of `choices` if there are any. A number or boolean is accepted as the text that was written."""

    choices: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Flag:
    """True or false."""


@dataclass(frozen=True, slots=True)
class Count:
    """A whole number, not negative."""


@dataclass(frozen=True, slots=True)
class Anything:
    """Any data."""


@dataclass(frozen=True, slots=True)
class AnyMapping:
    """A mapping with any keys, such as chart values."""


@dataclass(frozen=True, slots=True)
class Items:
    """A list of items of one shape. `key` is the field that must be unique in it."""

    of: Any
    key: str = ""


@dataclass(frozen=True, slots=True)
class Named:
    """A mapping from names to one shape."""

    of: Any


@dataclass(frozen=True)
class Table:
    """A mapping with known keys. A missing key and null are the same, except for `required` keys.

    `elsewhere` is for keys that people expect here: how to write them in another way.
    """

    keys: Mapping[str, Any]
    required: tuple[str, ...] = ()
    elsewhere: Mapping[str, str] = field(default_factory=dict)


Shape = Text | Flag | Count | Anything | AnyMapping | Items | Named | Table


# In this order, because a boolean is an int too.
_WORDS: tuple[tuple[type, str], ...] = (
    (dict, "a mapping"),
    (list, "a list"),
    (str, "a text"),
    (bool, "true or false"),
    (int, "a number"),
    (float, "a number"),
)


def _called(value: Any) -> str:
    return next((word for kind, word in _WORDS if isinstance(value, kind)), "nothing")


class Checker:
    """Checks data against a shape. Findings and the places of texts that were written as numbers are collected."""

    def __init__(self) -> None:
        self.findings: list[Finding] = []
        self.untexted: list[Path] = []

    def _wrong(self, path: Path, expected: str, value: Any) -> None:
        self.findings.append(Finding(path, f"{_dotted(path)} must be {expected}, found {_called(value)}."))

    def check(self, data: Any, shape: Shape, path: Path = ()) -> None:
        """Collect every difference between data and shape below a path."""
        if isinstance(shape, Table):
            self._check_table(data, shape, path)
        elif isinstance(shape, Items):
            self._check_items(data, shape, path)
        elif isinstance(shape, Text):
            self._check_text(data, shape, path)
        elif isinstance(shape, Named):
            self._check_named(data, shape, path)
        elif isinstance(shape, AnyMapping) and not isinstance(data, dict):
            self._wrong(path, "a mapping", data)
        elif isinstance(shape, Flag) and not isinstance(data, bool):
            self._wrong(path, "true or false", data)
        elif isinstance(shape, Count) and (not isinstance(data, int) or isinstance(data, bool) or data < 0):
            self._wrong(path, "a whole number, 0 or more", data)

    def _check_table(self, data: Any, shape: Table, path: Path) -> None:
        if not isinstance(data, dict):
            self._wrong(path, "a mapping", data)
            return
        for key, value in data.items():
            if key not in shape.keys:
                reason = f"{_dotted((*path, key))} is not a known key."
                hint = shape.elsewhere.get(key) or unknown_hint(key, shape.keys)
                self.findings.append(Finding((*path, key), reason, hint, unknown_key=True))
            elif value is not None:
                self.check(value, shape.keys[key], (*path, key))
        for key in shape.required:
            if data.get(key) is None or data[key] == "":
                self.findings.append(Finding(path, f"{_dotted((*path, key))} is missing."))

    def _check_items(self, data: Any, shape: Items, path: Path) -> None:
        if not isinstance(data, list):
            self._wrong(path, "a list", data)
            return
        seen: set[str] = set()
        for index, value in enumerate(data):
            self.check(value, shape.of, (*path, index))
            name = value.get(shape.key) if shape.key and isinstance(value, dict) else None
            if isinstance(name, str) and name in seen:
                self.findings.append(Finding((*path, index), f"{_dotted(path)} has {shape.key} {name!r} twice."))
            elif isinstance(name, str):
                seen.add(name)

    def _check_text(self, data: Any, shape: Text, path: Path) -> None:
        if isinstance(data, (bool, int, float)):
            self.untexted.append(path)
        elif not isinstance(data, str):
            self._wrong(path, "a text", data)
        elif shape.choices and data and data not in shape.choices:
            reason = f"{_dotted(path)} is {data!r}, which is not one of {', '.join(shape.choices)}."
            self.findings.append(Finding(path, reason, unknown_hint(data, shape.choices)))

    def _check_named(self, data: Any, shape: Named, path: Path) -> None:
        if not isinstance(data, dict):
            self._wrong(path, "a mapping", data)
            return
        for key, value in data.items():
            self.check(value, shape.of, (*path, key))


def _dotted(path: Path) -> str:
    text = ""
    for step in path:
        text += f"[{step}]" if isinstance(step, int) else f".{step}" if text else str(step)
    return text or "the document"


OWN_API = "gpufleet.bringup/v1"
_FOREIGN_GROUPS = ("aicr.nvidia.com/", "aicr.run/", "validator.nvidia.com/", "eidos.nvidia.com/")


class Kind(str, Enum):
    """The kinds of documents that are read."""

    OVERLAY = "RecipeMetadata"
    MIXIN = "RecipeMixin"
    REGISTRY = "ComponentRegistry"
    VOCABULARY = "CriteriaVocabulary"
    CHECKS = "ValidatorCatalog"
    TREE = "RecipeTree"


def is_foreign(api_version: str) -> bool:
    """Tell whether a document was written for the upstream tool."""
    return api_version.startswith(_FOREIGN_GROUPS)


_TEXTS = Items(Text())
# Kinds of workloads that a registry entry may list for its chart. They are looked for in the manifest of its release.
WORKLOADS = ("Deployment", "DaemonSet", "StatefulSet")
CONSTRAINT = Table(
    {
        "name": Text(),
        "value": Text(),
        "severity": Text(("error", "warning")),
        "remediation": Text(),
        "unit": Text(),
        "nodes": Text(("all", "any", "none")),
    },
    required=("name", "value"),
)
_EXPECTED_RESOURCE = Table({"kind": Text(), "name": Text(), "namespace": Text()}, required=("kind", "name"))
COMPONENT_REF = Table(
    {
        "name": Text(),
        "namespace": Text(),
        "chart": Text(),
        "type": Text(("Helm", "Kustomize", "helm", "kustomize")),
        "source": Text(),
        "version": Text(),
        "tag": Text(),
        "path": Text(),
        "valuesFile": Text(),
        "overrides": AnyMapping(),
        "patches": _TEXTS,
        "dependencyRefs": _TEXTS,
        "preManifestFiles": _TEXTS,
        "manifestFiles": _TEXTS,
        "cleanup": Flag(),
        "expectedResources": Items(_EXPECTED_RESOURCE),
        "healthCheckAsserts": Text(),
        "healthCheckSkip": Flag(),
    },
    required=("name",),
    elsewhere={
        "enabled": "A layer switches a component off with `overrides: {enabled: false}`.",
        "values": "Values of the chart are written below `overrides`, or in the file named by `valuesFile`.",
    },
)
_PHASE = Table(
    {
        "timeout": Text(),
        "constraints": Items(CONSTRAINT, key="name"),
        "checks": _TEXTS,
        "nodeSelection": Anything(),
        "infrastructure": Text(),
    }
)
PHASES = ("readiness", "deployment", "performance", "conformance")
_METADATA = Table({"name": Text(), "description": Text()}, required=("name",))

_PROFILE = Table(
    {
        "name": Text(),
        "description": Text(),
        "default": Text(),
        "values": Named(
            Table(
                {
                    "componentRefs": Items(COMPONENT_REF, key="name"),
                    "constraints": Items(CONSTRAINT, key="name"),
                    "readinessConstraints": Items(CONSTRAINT, key="name"),
                    "advertiser": Text(("external",)),
                    "description": Text(),
                }
            )
        ),
    },
    required=("name", "default", "values"),
)
OVERLAY = Table(
    {
        "kind": Text(),
        "apiVersion": Text(),
        "metadata": _METADATA,
        "spec": Table(
            {
                "base": Text(),
                "criteria": Anything(),
                "regardlessOf": _TEXTS,
                "mixins": _TEXTS,
                "constraints": Items(CONSTRAINT, key="name"),
                "componentRefs": Items(COMPONENT_REF, key="name"),
                "validation": Table(dict.fromkeys(PHASES, _PHASE)),
                "profile": _PROFILE,
            }
        ),
    },
    required=("kind", "apiVersion", "metadata", "spec"),
)
MIXIN = Table(
    {
        "kind": Text(),
        "apiVersion": Text(),
        "metadata": _METADATA,
        "spec": Table(
            {
                "constraints": Items(CONSTRAINT, key="name"),
                "componentRefs": Items(COMPONENT_REF, key="name"),
                "validation": Table(dict.fromkeys(PHASES, _PHASE)),
            }
        ),
    },
    required=("kind", "apiVersion", "metadata", "spec"),
)

_SCHEDULING = Table(
    {
        "nodeSelectorPaths": _TEXTS,
        "tolerationPaths": _TEXTS,
        "taintPaths": _TEXTS,
        "taintStrPaths": _TEXTS,
        "requireNodeSelector": Flag(),
        "requireNodeSelectorIfStorageClassSet": Flag(),
    }
)
_COMPONENT = Table(
    {
        "name": Text(),
        "displayName": Text(),
        "description": Text(),
        "valueOverrideKeys": _TEXTS,
        "knownPaths": _TEXTS,
        "helm": Table(
            {
                "defaultRepository": Text(),
                "defaultChart": Text(),
                "defaultVersion": Text(),
                "defaultNamespace": Text(),
            }
        ),
        "kustomize": Table({"defaultSource": Text(), "defaultPath": Text(), "defaultTag": Text()}),
        "manifest": Table({"defaultNamespace": Text()}),
        "nodeScheduling": Table({"system": _SCHEDULING, "accelerated": _SCHEDULING, "nodeCountPaths": _TEXTS}),
        "podScheduling": Table({"workload": Table({"workloadSelectorPaths": _TEXTS})}),
        "validations": Items(
            Table(
                {"function": Text(), "severity": Text(), "conditions": Named(_TEXTS), "message": Text()},
                required=("function",),
            )
        ),
        "healthCheck": Table({"assertFile": Text()}),
        "manifestFiles": _TEXTS,
        "storageClassPaths": _TEXTS,
        "sharedStorageClassPaths": _TEXTS,
        "gkeCriticalPriority": Flag(),
        # How helmfile and Flux of the upstream tool install a chart's CRDs. Gate 4 applies them itself.
        "hasSelfRefCRDs": Flag(),
        "manifestsUseChartCRDs": Flag(),
        "ownsCRDs": Flag(),
        # The test lane that the upstream tool runs for a component.
        "testTier": Text(),
        "workloads": Items(Table({"kind": Text(WORKLOADS), "name": Text()}, required=("kind", "name"))),
    },
    required=("name", "displayName"),
)
REGISTRY = Table(
    {"kind": Text(), "apiVersion": Text(), "metadata": Anything(), "components": Items(_COMPONENT, key="name")},
    required=("kind", "apiVersion", "components"),
)

_DIMENSION = Table(
    {
        "values": _TEXTS,
        "aliases": Named(Text()),
        "meant": Named(Text()),
        "unsuggested": _TEXTS,
        "number": Flag(),
        "advisory": Flag(),
        "description": Text(),
    },
)
_CONTRADICTION = Table({"fact": Text(), "pattern": Text()}, required=("fact", "pattern"))
_DETECTION = Table(
    {"dimension": Text(), "value": Text(), "fact": Text(), "pattern": Text(), "unless": Items(_CONTRADICTION)},
    required=("dimension", "value", "fact", "pattern"),
)
_OS_IMAGE = Table({"id": Text(), "pattern": Text(), "version": Text()}, required=("id", "pattern"))
VOCABULARY = Table(
    {
        "kind": Text(),
        "apiVersion": Text(),
        "dimensions": Named(_DIMENSION),
        "legacyAliases": Named(Named(Text())),
        "queryKeys": Named(Text()),
        "detection": Items(_DETECTION),
        "osImages": Items(_OS_IMAGE),
    },
    required=("kind", "apiVersion", "dimensions"),
)

_CHECK = Table(
    {
        "name": Text(),
        "phase": Text(PHASES),
        "description": Text(),
        "image": Text(),
        "timeout": Text(),
        "args": _TEXTS,
        "checks": _TEXTS,
        "env": Anything(),
        "resources": Anything(),
        "rules": Anything(),
        "disturbs": Flag(),
        "only_with": Text(),
        "not_with": Text(),
    },
    required=("name", "phase"),
)
CHECKS = Table(
    {
        "kind": Text(),
        "apiVersion": Text(),
        "metadata": Anything(),
        "validators": Items(_CHECK, key="name"),
    },
    required=("kind", "apiVersion", "validators"),
)

TREE = Table(
    {"kind": Text(), "apiVersion": Text(), "dialect": Text(("first", "current")), "description": Text()},
    required=("kind", "apiVersion", "dialect"),
)

SHAPES: dict[Kind, Table] = {
    Kind.OVERLAY: OVERLAY,
    Kind.MIXIN: MIXIN,
    Kind.REGISTRY: REGISTRY,
    Kind.VOCABULARY: VOCABULARY,
    Kind.CHECKS: CHECKS,
    Kind.TREE: TREE,
}
