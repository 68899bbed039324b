# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""An independent resolver for tests: slow, obvious, and written from the documented rules on plain dictionaries.

It shares no code with the engine: documents are read by PyYAML, merged by copies through JSON, ordered by repeated
search.
"""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import yaml

Recipe = dict[str, Any]


def copy(value: Any) -> Any:
    """Return a copy through JSON."""
    return json.loads(json.dumps(value))


def stated(criteria: dict[str, Any] | None) -> dict[str, str]:
    """Return the criteria that say something."""
    return {name: value for name, value in (criteria or {}).items() if value not in ("", "any", None, 0)}


@cache
def read(path: Path) -> Any:
    """Return a YAML file's data, null if there is no file; not to be changed."""
    return yaml.load(path.read_text(encoding="utf-8"), Loader=yaml.CSafeLoader) if path.exists() else None


def deep(low: Any, high: Any) -> Any:
    """Merge mappings by key, replace everything else."""
    if not isinstance(low, dict) or not isinstance(high, dict):
        return copy(high)
    return {
        key: deep(low[key], high[key]) if key in low and key in high else copy(high[key] if key in high else low[key])
        for key in [*low, *[key for key in high if key not in low]]
    }


def over(low: Any, high: Any) -> Any:
    """As deep, but null takes away what is there (upstream's mergeValues)."""
    if not isinstance(low, dict) or not isinstance(high, dict):
        return copy(high)
    gone = {key for key in low if key in high and high[key] is None}
    return {
        key: over(low[key], high[key]) if key in low and key in high else value
        for key, value in deep(low, high).items()
        if key not in gone
    }


class Oracle:
    """One tree of recipe data; `current` are the rules since mixins."""

    def __init__(self, root: Path, *, current: bool) -> None:
        self.root = root
        self.current = current
        self.layers: dict[str, Recipe] = {}
        self.mixins: dict[str, Recipe] = {}
        for path in root.glob("overlays/*.yaml"):
            document = read(path)
            name = "base" if path.name == "base.yaml" else document["metadata"]["name"]
            self.layers[name] = document["spec"]
        for path in root.glob("mixins/*.yaml"):
            document = read(path)
            self.mixins[document["metadata"]["name"]] = document["spec"]
        registry = read(root / "registry.yaml")
        self.registry = {entry["name"]: entry for entry in registry["components"]}

    def ancestors(self, name: str) -> list[str]:
        """Return a layer and its parents, the layer first, without base."""
        found = []
        while name and name != "base":
            found.append(name)
            name = self.layers[name].get("base") or ""
        return found

    def applied(self, query: dict[str, str]) -> list[str]:
        """Return the layers to merge, in order."""
        matching = []
        for name, spec in self.layers.items():
            if name != "base" and spec.get("criteria") is not None:
                wanted = stated(spec["criteria"])
                if all(query.get(key) == value for key, value in wanted.items()):
                    matching.append((len(wanted), name))
        parents = {parent for _count, name in matching for parent in self.ancestors(name)[1:]}
        order = ["base"]
        for _count, name in sorted(matching):
            if name not in parents:
                order += [layer for layer in reversed(self.ancestors(name)) if layer not in order]
        return order

    def _component(self, low: Recipe, high: Recipe) -> Recipe:
        result = copy(low)
        for key, value in high.items():
            if value in ("", None, [], {}, False):
                continue
            if key == "overrides":
                below = low.get(key) or {}
                result[key] = deep(below, value) if self.current else {**copy(below), **copy(value)}
            elif key in ("manifestFiles", "preManifestFiles") or (key == "dependencyRefs" and self.current):
                result[key] = list(low.get(key) or [])
                result[key] += [item for item in value if item not in result[key]]
            else:
                result[key] = copy(value)
        return result

    def _phase(self, low: Recipe | None, high: Recipe) -> Recipe:
        if low is None or not self.current:
            return copy(high)
        result = {**copy(low), **{key: copy(value) for key, value in high.items() if value}}
        if "checks" in high and high["checks"] is not None:
            old = low.get("checks") or []
            result["checks"] = old + [c for c in high["checks"] if c not in old] if high["checks"] else []
        if "constraints" in high and high["constraints"] is not None:
            both = {c["name"]: c for c in [*(low.get("constraints") or []), *high["constraints"]]}
            result["constraints"] = [both[name] for name in sorted(both)] if high["constraints"] else []
        return result

    def _merge(self, draft: Recipe, spec: Recipe) -> None:
        for constraint in spec.get("constraints") or []:
            draft["constraints"][constraint["name"]] = copy(constraint)
        for reference in spec.get("componentRefs") or []:
            name = reference["name"]
            known = draft["components"].get(name)
            draft["components"][name] = self._component(known or {"name": name}, reference)
        for name, phase in (spec.get("validation") or {}).items():
            if phase is not None:
                draft["validation"][name] = self._phase(draft["validation"].get(name), phase)

    def _defaults(self, component: Recipe) -> Recipe:
        entry = self.registry.get(component["name"]) or {}
        helm = entry.get("helm") or {}
        found = copy(component)
        names = {"source": "defaultRepository", "version": "defaultVersion", "namespace": "defaultNamespace"}
        for key, default in names.items():
            found[key] = found.get(key) or helm.get(default) or ""
        found["chart"] = found.get("chart") or str(helm.get("defaultChart") or "").rsplit("/", maxsplit=1)[-1]
        manifest = entry.get("manifest") or {}
        found["namespace"] = found["namespace"] or manifest.get("defaultNamespace") or ""
        return found

    def values(self, component: Recipe) -> Any:
        """Return the merged chart values of a component."""
        merge = over if self.current else deep
        values: Any = {}
        own = f"components/{component['name']}/values.yaml"
        if component.get("valuesFile"):
            for name in dict.fromkeys([own, component["valuesFile"]]):
                values = merge(values, read(self.root / name) or {})
        return merge(values, component.get("overrides") or {})

    def resolve(self, query: dict[str, str]) -> Recipe | None:
        """Return the recipe, or None where it must be refused."""
        draft: Recipe = {"constraints": {}, "components": {}, "validation": {}}
        order = self.applied(query)
        for name in order:
            self._merge(draft, self.layers[name])
        mixins = list(dict.fromkeys(m for name in order for m in self.layers[name].get("mixins") or []))
        for name in mixins:
            for constraint in self.mixins[name].get("constraints") or []:
                known = draft["constraints"].get(constraint["name"])
                if known and known["value"] != constraint["value"]:
                    return None
            self._merge(draft, self.mixins[name])
        components = {name: self._defaults(draft["components"][name]) for name in sorted(draft["components"])}
        deployment = self._order(components)
        if deployment is None:
            return None
        return {
            "layers": order,
            "constraints": [draft["constraints"][name] for name in sorted(draft["constraints"])],
            "components": components,
            "order": deployment,
            "validation": draft["validation"],
            "values": {name: self.values(component) for name, component in components.items()},
        }

    @staticmethod
    def _order(components: dict[str, Recipe]) -> list[str] | None:
        needs = {name: set(component.get("dependencyRefs") or []) for name, component in components.items()}
        if any(need not in components for wanted in needs.values() for need in wanted):
            return None
        off = {name for name, c in components.items() if (c.get("overrides") or {}).get("enabled") is False}
        left, done = sorted(set(components) - off), []
        while left:
            ready = [name for name in left if needs[name] - off <= set(done)]
            if not ready:
                return None
            done.append(min(ready))
            left.remove(min(ready))
        return done
