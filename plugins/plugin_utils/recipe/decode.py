# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""From checked plain data to values: overlays, mixins, registry entries, vocabulary."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..constraint.evaluate import Constraint, Quantifier, Severity
from .advertiser import EXTERNAL
from .criteria import Dimension
from .model import ComponentRef, Fragment, Phase, Profile
from .schema import PHASES

_TYPES = {"helm": "Helm", "kustomize": "Kustomize"}


def _text(data: Mapping[str, Any], key: str) -> str:
    return data.get(key) or ""


def _texts(data: Mapping[str, Any], key: str) -> tuple[str, ...]:
    return tuple(item or "" for item in data.get(key) or ())


def constraint(data: Mapping[str, Any]) -> Constraint:
    """Return one constraint."""
    return Constraint(
        name=data["name"],
        value=data["value"],
        severity=Severity(data.get("severity") or Severity.ERROR.value),
        remediation=_text(data, "remediation"),
        unit=_text(data, "unit"),
        nodes=Quantifier(_text(data, "nodes")),
    )


def component_ref(data: Mapping[str, Any]) -> ComponentRef:
    """Return one component reference."""
    return ComponentRef(
        name=data["name"],
        namespace=_text(data, "namespace"),
        chart=_text(data, "chart"),
        type=_TYPES.get(_text(data, "type").lower(), ""),
        source=_text(data, "source"),
        version=_text(data, "version"),
        tag=_text(data, "tag"),
        path=_text(data, "path"),
        values_file=_text(data, "valuesFile"),
        overrides=data.get("overrides") or {},
        patches=_texts(data, "patches"),
        dependency_refs=_texts(data, "dependencyRefs"),
        pre_manifest_files=_texts(data, "preManifestFiles"),
        manifest_files=_texts(data, "manifestFiles"),
        cleanup=bool(data.get("cleanup")),
        expected_resources=tuple(data.get("expectedResources") or ()),
        health_check_asserts=_text(data, "healthCheckAsserts"),
        health_check_skip=bool(data.get("healthCheckSkip")),
    )


def phase(data: Mapping[str, Any]) -> Phase:
    """Return one validation phase. A missing list stays None."""
    constraints, checks = data.get("constraints"), data.get("checks")
    return Phase(
        timeout=_text(data, "timeout"),
        constraints=None if constraints is None else tuple(constraint(item) for item in constraints),
        checks=None if checks is None else _texts(data, "checks"),
        node_selection=data.get("nodeSelection") or {},
        infrastructure=_text(data, "infrastructure"),
    )


def fragment(spec: Mapping[str, Any]) -> Fragment:
    """Return what the spec of an overlay or a mixin adds."""
    validation = spec.get("validation") or {}
    return Fragment(
        constraints=tuple(constraint(item) for item in spec.get("constraints") or ()),
        components=tuple(component_ref(item) for item in spec.get("componentRefs") or ()),
        validation={name: phase(validation[name]) for name in PHASES if validation.get(name) is not None},
    )


def profile(data: Mapping[str, Any] | None) -> Profile | None:
    """Return the profile of a layer. None if it has none."""
    if data is None:
        return None
    choices = {name: _choice(choice or {}) for name, choice in data["values"].items()}
    external = (name for name, choice in data["values"].items() if (choice or {}).get("advertiser") == EXTERNAL)
    return Profile(name=data["name"], default=data["default"], choices=choices, external=frozenset(external))


def _choice(data: Mapping[str, Any]) -> Fragment:
    """Return what a value of a profile adds. Its readiness constraints apply once everything is installed."""
    later = data.get("readinessConstraints")
    return fragment({**data, "validation": {"readiness": {"constraints": later}}} if later else data)


def dimension(name: str, data: Mapping[str, Any]) -> Dimension:
    """Return one dimension of a vocabulary."""
    return Dimension(
        name=name,
        values=frozenset(_texts(data, "values")),
        aliases=dict(data.get("aliases") or {}),
        number=bool(data.get("number")),
        advisory=bool(data.get("advisory")),
        meant=dict(data.get("meant") or {}),
        unsuggested=frozenset(_texts(data, "unsuggested")),
    )
