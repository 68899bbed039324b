# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""A recipe for the NVIDIA tool, which looks up named files in its own program unless it gets a directory.

Our values files and manifest files are not in that program, and a file of the same path has another content.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ..outcome.wording import count
from .dialect import UPSTREAM_APIS
from .hydrate import value_files
from .model import Catalogue, RecipeResult
from .tree import read_text
from .yaml_dump import dump_yaml

# Keys of a registry entry that the tool knows. It would refuse or ignore those that only we have.
_KNOWN = ("name", "displayName", "valueOverrideKeys", "helm", "kustomize", "nodeScheduling", "podScheduling")


def manifest_files(result: RecipeResult) -> tuple[str, ...]:
    """Return every manifest file that a recipe names, each once."""
    files = (file for item in result.components for file in (*item.pre_manifest_files, *item.manifest_files))
    return tuple(dict.fromkeys(files))


def data_directory(dest: Path) -> Path:
    """Return the data directory of a self-contained recipe, which is beside the recipe."""
    return dest.with_name(f"{dest.stem}-data")


def data_files(result: RecipeResult, catalogue: Catalogue, dest: Path) -> dict[Path, str]:
    """Return the files for the tool's `--data`: a registry and the manifest files. Empty without manifest files."""
    names = [name for name in manifest_files(result) if name in catalogue.files]
    if not names:
        return {}
    root = data_directory(dest)
    entries: list[dict[str, Any]] = []
    for component in result.components:
        entry = catalogue.registry.get(component.name)
        if entry is not None:
            entries.append({key: entry.data[key] for key in _KNOWN if entry.data.get(key) is not None})
    registry = {"apiVersion": UPSTREAM_APIS[result.api_version], "kind": "ComponentRegistry", "components": entries}
    texts = {root / "registry.yaml": dump_yaml(registry)}
    return texts | {root / name: read_text(catalogue.files[name]) for name in names}


def foreign_warnings(
    result: RecipeResult,
    catalogue: Catalogue,
    dest: Path | None,
    *,
    self_contained: bool,
    option: str = "self_contained",
) -> tuple[str, ...]:
    """Return warnings for the use of a recipe with the NVIDIA tool. `option` writes the recipe for that tool."""
    if dest is None:
        return ()
    files = manifest_files(result)
    if self_contained:
        if not files:
            return ()
        root = data_directory(dest)
        return (
            f"{dest} names {count(len(files), 'manifest file')}: give the NVIDIA tool --data {root}, where they are.",
        )
    values = [name for component in result.components for name in value_files(component, catalogue)]
    if not (values or files):
        return ()
    return (
        f"{dest} names {count(len(values), 'values file')} and {count(len(files), 'manifest file')} of this catalogue: "
        f"the NVIDIA tool would take its own of the same name. For that tool, write it with {option}.",
    )
