# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Every chart that a recipe of the catalog can ask for: what the chart mirror of a rehearsal has to hold."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from ...runtime.strict import read_yaml

_LAYERS = ("overlays", "mixins")


def charts_of(directories: Sequence[Path]) -> list[dict[str, Any]]:
    """Return a reference for every chart and Kustomize component, in every version that registries and layers name.

    The union and not one resolved recipe: whatever criteria the run has, and whatever an upgrade asks for, is there.

    Args:
        directories: recipe data directories; a later registry entry replaces an earlier one of the same name.

    Raises:
        InputError: a file is not valid YAML.
    """
    registry = {str(entry["name"]): entry for entry in _registered(directories)}
    found = {
        (name, _chart(entry), str(entry.get("helm", {}).get("defaultVersion", ""))) for name, entry in registry.items()
    }
    for reference in _references(directories):
        name = str(reference["name"])
        chart = str(reference.get("chart") or _chart(registry.get(name, {})) or name)
        found.add((name, chart, str(reference.get("version") or "")))
    rows = sorted((name, chart, version) for name, chart, version in found if chart and version)
    charts: list[dict[str, Any]] = [
        {"name": name, "chart": chart, "version": version, "type": "Helm", "workloads": _workloads(registry.get(name))}
        for name, chart, version in rows
    ]
    return charts + _built(directories, registry)


def _workloads(entry: dict[str, Any] | None) -> list[dict[str, str]]:
    """Return the workloads that a registry entry says its chart renders; a chart we do not know is given these."""
    return [dict(stated) for stated in _list(entry or {}, "workloads")]


def _built(directories: Sequence[Path], registry: dict[str, dict[str, Any]]) -> list[dict[str, str]]:
    """Return a reference for every tag of every Kustomize component."""
    found = {(name, str((entry.get("kustomize") or {}).get("defaultTag") or "")) for name, entry in registry.items()}
    found |= {(str(reference["name"]), str(reference.get("tag") or "")) for reference in _references(directories)}
    return [{"name": name, "tag": tag, "type": "Kustomize"} for name, tag in sorted(found) if tag]


def _registered(directories: Sequence[Path]) -> Iterator[dict[str, Any]]:
    for directory in directories:
        path = directory / "registry.yaml"
        document = read_yaml(path) if path.is_file() else {}
        yield from (entry for entry in _list(document, "components") if entry.get("name"))


def _references(directories: Sequence[Path]) -> Iterator[dict[str, Any]]:
    for directory in directories:
        for layer in _LAYERS:
            for path in sorted((directory / layer).glob("**/*.yaml")):
                document = read_yaml(path)
                spec = document.get("spec") if isinstance(document, dict) else None
                yield from (entry for entry in _list(spec, "componentRefs") if entry.get("name"))


def _list(document: Any, key: str) -> list[dict[str, Any]]:
    rows = document.get(key) if isinstance(document, dict) else None
    return [row for row in rows if isinstance(row, dict)] if isinstance(rows, list) else []


def _chart(entry: dict[str, Any]) -> str:
    helm = entry.get("helm")
    return str(helm.get("defaultChart") or "") if isinstance(helm, dict) else ""
