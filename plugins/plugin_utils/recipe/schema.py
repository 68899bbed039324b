# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The documents of a recipe tree: their kinds, API versions and shapes."""

from __future__ import annotations

from enum import Enum

from .shape import AnyMapping, Anything, Flag, Items, Named, Table, Text

OWN_API = "gpufleet.bringup/v1"
_FOREIGN_GROUPS = ("aicr.nvidia.com/", "aicr.run/", "validator.nvidia.com/", "eidos.nvidia.com/")


class Kind(str, Enum):
    """The kinds that are read."""

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
# What a registry entry may say that its chart renders, and what is looked for in the manifest of its release.
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
        "default": Text(),
        "values": Named(
            Table(
                {
                    "componentRefs": Items(COMPONENT_REF, key="name"),
                    "constraints": Items(CONSTRAINT, key="name"),
                    "advertiser": Anything(),
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
