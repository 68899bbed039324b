# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Keys of upstream trees that this release does not know: what is lost, and which may change what is installed.

Upstream adds keys with every release, and its loaders ignore those of a later one, so such a tree is no error. A key
that may change what is installed is an error for every recipe with its layer or component (`refuse`).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ..outcome.errors import InputError
from .model import Catalogue, ComponentRef, Layer, Mixin
from .schema import Kind
from .yaml_text import Path

NOT_KNOWN = "this release does not know it"
_HINT = "Install it as the tool of that tree does, or take the key out of a copy of the tree."
# Keys of releases after 0.11 (NVIDIA/aicr pkg/recipe/components.go, pkg/validator/catalog/catalog.go) whose effect is
# known, and does not change what is installed.
_LOST = {
    "dependencyAffinity": "the validator runs where the scheduler puts it, not beside the pods that are named",
    "upgrades": "what it says of an upgrade is not asked; recipes/upgrades.yaml is",
    "mixinSafeOverridePaths": "a mixin may set any value of the component",
}


def lost_with(path: Path) -> str:
    """Return what is lost with an unknown key."""
    return _LOST.get(str(path[-1]), "what it says has no effect here")


def changes_installation(kind: Kind, path: Path, value: Any) -> bool:
    """Tell whether an unknown key has a value and is at a place where it may change what is installed."""
    if value in (None, "", [], {}) or path[-1] in _LOST:
        return False
    if kind is Kind.REGISTRY:
        return path[0] == "components" and "validations" not in path
    if kind in (Kind.OVERLAY, Kind.MIXIN):
        return path[0] == "spec" and path[1] not in ("validation", "constraints")
    return False


def refusal(at: str, reason: str, hint: str) -> InputError:
    """Return the error for something with such a key, of which nothing is installed."""
    return InputError(at, f"{reason.rstrip('.')}: {NOT_KNOWN}, and it may change what is installed.", hint or _HINT)


def refuse(
    layers: Iterable[Layer], mixins: Iterable[Mixin], components: Iterable[ComponentRef], catalogue: Catalogue
) -> None:
    """Check that no layer, mixin or installed component of a recipe has a key that may change what is installed.

    Raises:
        InputError: there is one, with file and line.
    """
    owners: tuple[Layer | Mixin, ...] = (*layers, *mixins)
    for owner in owners:
        for problem in owner.refused:
            raise problem
    for component in components:
        entry = catalogue.registry.get(component.name)
        for problem in entry.refused if entry is not None and component.enabled else ():
            raise problem
