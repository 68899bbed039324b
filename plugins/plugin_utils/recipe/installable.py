# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Whether a recipe can be installed, checked when it is resolved: what the controller needs, and what is missing."""

from __future__ import annotations

from .model import ComponentRef, RecipeResult


def _is_built(component: ComponentRef) -> bool:
    return component.type == "Kustomize"


def _is_files_only(component: ComponentRef) -> bool:
    files = component.manifest_files or component.pre_manifest_files
    return bool(files) and not (component.chart or component.version or component.source)


def needs(result: RecipeResult) -> dict[str, list[str]]:
    """Return what the controller or its mirror needs beside Helm, and for which components."""
    built = [component.name for component in result.components if component.enabled and _is_built(component)]
    return {"kustomize": built} if built else {}


def not_installable(result: RecipeResult) -> tuple[str, ...]:
    """Return a warning for every component that the installer would refuse."""
    reported = []
    for component in result.components:
        if not component.enabled:
            continue
        wanted = ["namespace"]
        if _is_built(component):
            wanted += ["source"] if component.source.startswith(("/", "~")) else ["source", "tag"]
        elif not _is_files_only(component):
            wanted += ["version"]
        missing = [name for name in wanted if not getattr(component, name)]
        if missing:
            hint = "set it in the layer or in the registry"
            reported.append(
                f"component {component.name} cannot be installed: it has no {' and no '.join(missing)}; {hint}."
            )
    return tuple(reported)
