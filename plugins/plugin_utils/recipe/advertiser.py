# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Which component advertises the GPUs. With a profile whose advertiser is external, no component of the recipe may.

A profile value with `advertiser: external` leaves that to the platform's own device plugin, such as GKE's.
`devicePlugin.enabled` of the GPU operator and `resources.gpus.enabled` of the DRA driver, both true in their charts,
are refused then (NVIDIA/aicr, docs/contributor/data.md and pkg/allocpolicy).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ..outcome.errors import InputError
from .model import Catalogue, ComponentRef, RecipeResult

EXTERNAL = "external"
_GIVES_OUT = {
    "gpu-operator": ("devicePlugin", "enabled"),
    "gpu-operator-ocp": ("devicePlugin", "enabled"),
    "nvidia-dra-driver-gpu": ("resources", "gpus", "enabled"),
    "nvidia-dra-driver-gpu-ocp": ("resources", "gpus", "enabled"),
}


def external_profiles(result: RecipeResult, catalogue: Catalogue) -> tuple[str, ...]:
    """Return the profiles of a recipe, as name=value, whose chosen value leaves the GPUs to an external advertiser."""
    layers = (catalogue.layers[name] for name in result.layers)
    profiles = (layer.profile for layer in layers if layer.profile is not None)
    chosen = ((profile, result.profiles.get(profile.name, profile.default)) for profile in profiles)
    return tuple(f"{profile.name}={value}" for profile, value in chosen if value in profile.external)


def require_one_advertiser(
    result: RecipeResult, catalogue: Catalogue, values_of: Callable[[ComponentRef, Catalogue], Mapping[str, Any]]
) -> None:
    """Check that no component advertises GPUs beside an external advertiser.

    Args:
        result: the recipe.
        catalogue: the catalogue with its layers.
        values_of: returns the merged chart values of a component.

    Raises:
        InputError: there is such a component.
    """
    external = external_profiles(result, catalogue)
    if not external:
        return
    for component in result.components:
        steps = _GIVES_OUT.get(component.name)
        if steps is None or not component.enabled:
            continue
        found: Any = values_of(component, catalogue)
        for step in steps:
            found = found.get(step) if isinstance(found, Mapping) else None
        if found is not False:
            reason = f"would give out GPUs beside the platform, which does with profile {external[0]}."
            hint = f"Set {'.'.join(steps)} of it to false, or choose another value of the profile."
            raise InputError(f"component {component.name}", reason, hint)
