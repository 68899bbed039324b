# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Merging: how a later fragment changes earlier ones, field by field. Arguments are never modified."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from ..constraint.evaluate import Constraint
from .dialect import Dialect
from .model import ComponentRef, Fragment, Phase, copied


def merged_values(low: Mapping[str, Any], high: Mapping[str, Any]) -> dict[str, Any]:
    """Return chart values merged deep: mappings by key, everything else (lists, null) replaced as a whole."""
    result = {key: copied(value) for key, value in low.items()}
    for key, value in high.items():
        below = result.get(key)
        if isinstance(value, dict) and isinstance(below, dict):
            result[key] = merged_values(below, value)
        else:
            result[key] = copied(value)
    return result


def over_values(low: Mapping[str, Any], high: Mapping[str, Any], dialect: Dialect) -> dict[str, Any]:
    """Return the chart values of a file merged with those over it. A null removes a key of the file.

    The chart's default applies then. A null for a key that the file does not have is kept, because it removes the
    chart's default. The first dialect keeps every null (NVIDIA/aicr, pkg/recipe/adapter.go: mergeValues).
    """
    if dialect is not Dialect.CURRENT:
        return merged_values(low, high)
    result = {key: copied(value) for key, value in low.items() if key not in high or high[key] is not None}
    for key, value in high.items():
        below = low.get(key)
        if isinstance(value, dict) and isinstance(below, dict):
            result[key] = over_values(below, value, dialect)
        elif value is not None or key not in low:
            result[key] = copied(value)
    return result


def _united(low: tuple[str, ...], high: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(dict.fromkeys((*low, *high)))


def _merged_overrides(low: Mapping[str, Any], high: Mapping[str, Any], dialect: Dialect) -> dict[str, Any]:
    if dialect is Dialect.CURRENT:
        return merged_values(low, high)
    return {**copied(dict(low)), **copied(dict(high))}


def merged_component(low: ComponentRef, high: ComponentRef, dialect: Dialect) -> ComponentRef:
    """Return a component as a later layer changes it. Fields of the later layer win, others are inherited."""
    dependencies = high.dependency_refs or low.dependency_refs
    if dialect is Dialect.CURRENT:
        dependencies = _united(low.dependency_refs, high.dependency_refs)
    return ComponentRef(
        name=low.name,
        namespace=high.namespace or low.namespace,
        chart=high.chart or low.chart,
        type=high.type or low.type,
        source=high.source or low.source,
        version=high.version or low.version,
        tag=high.tag or low.tag,
        path=high.path or low.path,
        values_file=high.values_file or low.values_file,
        overrides=_merged_overrides(low.overrides, high.overrides, dialect),
        patches=high.patches or low.patches,
        dependency_refs=dependencies,
        pre_manifest_files=_united(low.pre_manifest_files, high.pre_manifest_files),
        manifest_files=_united(low.manifest_files, high.manifest_files),
        cleanup=low.cleanup or high.cleanup,
        expected_resources=high.expected_resources or low.expected_resources,
        health_check_asserts=high.health_check_asserts or low.health_check_asserts,
        health_check_skip=low.health_check_skip or high.health_check_skip,
    )


def _by_name(low: Iterable[Constraint], high: Iterable[Constraint]) -> tuple[Constraint, ...]:
    named = {item.name: item for item in low}
    named.update({item.name: item for item in high})
    return tuple(named[name] for name in sorted(named))


def merged_phase(low: Phase | None, high: Phase, dialect: Dialect) -> Phase:
    """Return a validation phase as a later layer changes it. An explicitly empty list clears the earlier one."""
    if low is None or dialect is Dialect.FIRST:
        return high
    constraints, checks = low.constraints, low.checks
    if high.constraints is not None:
        constraints = _by_name(low.constraints or (), high.constraints) if high.constraints else ()
    if high.checks is not None:
        checks = _united(low.checks or (), high.checks) if high.checks else ()
    return Phase(
        timeout=high.timeout or low.timeout,
        constraints=constraints,
        checks=checks,
        node_selection=high.node_selection or low.node_selection,
        infrastructure=high.infrastructure or low.infrastructure,
    )


@dataclass(frozen=True, slots=True)
class Draft:
    """The merged content of the layers so far."""

    constraints: Mapping[str, Constraint] = field(default_factory=dict)
    components: Mapping[str, ComponentRef] = field(default_factory=dict)
    validation: Mapping[str, Phase] = field(default_factory=dict)

    def with_fragment(self, fragment: Fragment, dialect: Dialect) -> Draft:
        """Return the draft with one more fragment merged in."""
        components = dict(self.components)
        for component in fragment.components:
            below = components.get(component.name)
            if below is None:
                components[component.name] = replace(component, overrides=copied(dict(component.overrides)))
            else:
                components[component.name] = merged_component(below, component, dialect)
        validation = dict(self.validation)
        for name, phase in fragment.validation.items():
            validation[name] = merged_phase(validation.get(name), phase, dialect)
        constraints = {**self.constraints, **{item.name: item for item in fragment.constraints}}
        return Draft(constraints, components, validation)
