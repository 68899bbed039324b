# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The differences between two recipes, value by value."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ..runtime.redaction import MASK, redact_data
from .model import Catalogue, RecipeResult
from .paths import leaves, parse_path, shown
from .query import query_map

_NOT_COMPARED = ("metadata", "criteria", "apiVersion", "kind", "deploymentOrder")


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One value that differs. `kind` is added, removed or changed."""

    path: str
    kind: str
    left: Any = None
    right: Any = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """All differences between two recipes.

    A component that is switched off counts as missing. The deployment order counts as changed only if components of
    both recipes change places, and not if one is added or removed.
    """

    components_added: tuple[str, ...]
    components_removed: tuple[str, ...]
    versions: tuple[Change, ...]
    changes: tuple[Change, ...]

    @property
    def same(self) -> bool:
        """Whether there are no differences."""
        return not (self.components_added or self.components_removed or self.changes)

    def lines(self) -> list[str]:
        """Return lines for people: added and removed components, then the values of each component, then the rest."""
        if self.same:
            return ["nothing differs"]
        lines = [f"added: {', '.join(self.components_added)}"] if self.components_added else []
        lines += [f"removed: {', '.join(self.components_removed)}"] if self.components_removed else []
        groups: dict[str, list[str]] = {}
        for change in self.changes:
            group, path = _grouped(change.path)
            groups.setdefault(group, []).append(f"  {path}: {_reported(change)}")
        for group, reported in groups.items():
            lines += [group, *reported]
        return lines


def _grouped(path: str) -> tuple[str, str]:
    """Return the heading for a value, and its path below that."""
    steps = parse_path(path)
    if len(steps) > 2 and steps[0] == "components":
        return str(steps[1]), shown(steps[2:])
    return ("constraints", shown(steps[1:])) if len(steps) > 1 and steps[0] == "constraints" else ("recipe", path)


def _reported(change: Change) -> str:
    left, right = (json.dumps(value, ensure_ascii=False, default=str) for value in (change.left, change.right))
    if isinstance(change.left, list) and isinstance(change.right, list):
        gone = [item for item in change.left if item not in change.right]
        new = [item for item in change.right if item not in change.left]
        if not gone and not new:
            return f"another order: {', '.join(str(item) for item in change.right)}"
    return {"added": f"{right} (new)", "removed": f"{left} (gone)"}.get(change.kind, f"{left} -> {right}")


def _flat(data: Mapping[str, Any], common: set[str]) -> dict[str, Any]:
    kept = {key: value for key, value in data.items() if key not in _NOT_COMPARED}
    kept["components"] = {name: value for name, value in data["components"].items() if name in common}
    kept["constraints"] = {item["name"]: item for item in data.get("constraints") or ()}
    values = {shown(path): value for path, value in leaves(kept, scalar_lists=True)}
    return {**values, "deploymentOrder": [name for name in data["deploymentOrder"] if name in common]}


def _switched_on(data: Mapping[str, Any]) -> set[str]:
    return {name for name, component in data["components"].items() if component["enabled"]}


def difference(
    left: RecipeResult, left_catalogue: Catalogue, right: RecipeResult, right_catalogue: Catalogue
) -> Difference:
    """Return the differences between two recipes: components first, then every value of those in both."""
    return difference_of(query_map(left, left_catalogue), query_map(right, right_catalogue))


def difference_of(left: Mapping[str, Any], right: Mapping[str, Any]) -> Difference:
    """Return the differences between two recipes that are maps of values (see query_map)."""
    mine, theirs = _switched_on(left), _switched_on(right)
    common = mine & theirs
    before, after = _flat(left, common), _flat(right, common)
    # Values are compared as they are, and shown with secrets masked.
    old, new = _flat(redact_data(left), common), _flat(redact_data(right), common)
    changes = []
    for path in sorted({*before, *after}):
        if path not in after:
            changes.append(Change(path=path, kind="removed", left=old.get(path, MASK)))
        elif path not in before:
            changes.append(Change(path=path, kind="added", right=new.get(path, MASK)))
        elif before[path] != after[path] or type(before[path]) is not type(after[path]):
            changes.append(Change(path=path, kind="changed", left=old.get(path, MASK), right=new.get(path, MASK)))
    return Difference(
        components_added=tuple(sorted(theirs - mine)),
        components_removed=tuple(sorted(mine - theirs)),
        versions=tuple(change for change in changes if _is_version(change.path)),
        changes=tuple(changes),
    )


def _is_version(path: str) -> bool:
    return path.startswith("components.") and path.endswith(".version") and ".values." not in path
