# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The catalogue that is shipped, and a copy of it that a test may spoil."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.recipe.criteria import parse_criteria
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.recipe.hydrate import hydrated
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.recipe.load import load_catalogue
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.recipe.model import Catalogue
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.recipe.resolve import resolve
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.recipe.support import not_honoured

Recipe = dict[str, Any]

# The tools are no part of the collection: they are modules of the checkout.
sys.path.insert(0, str(Path(__file__).resolve().parents[3]))


@pytest.fixture(scope="session")
def catalogue(repository: Path) -> Catalogue:
    """Our own catalogue."""
    return load_catalogue([repository / "recipes"])


@pytest.fixture(scope="session")
def recipe(catalogue: Catalogue) -> Callable[..., Recipe]:
    """Resolve a question that must be supported; components by name, with their values."""

    def resolved(**stated: str) -> Recipe:
        criteria = parse_criteria(stated, catalogue.vocabulary)
        assert not_honoured(criteria, catalogue) == ()
        data = hydrated(resolve(criteria, catalogue), catalogue)
        data["components"] = {entry["name"]: entry for entry in data["componentRefs"]}
        return data

    return resolved


class Spoiled:
    """A copy of the catalogue in which a test changes files."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def path(self, name: str) -> Path:
        """The file of a layer or mixin by its name, or any file by its path."""
        found = [*self.root.glob(f"overlays/**/{name}.yaml"), *self.root.glob(f"mixins/{name}.yaml")]
        return found[0] if found else self.root / name

    def change(self, name: str, change: Callable[[Any], None]) -> Path:
        """Load a document, let it be changed, and write it again."""
        path = self.path(name)
        data = yaml.safe_load(path.read_text(encoding="utf-8"))
        change(data)
        path.write_text(yaml.safe_dump(data, sort_keys=False), encoding="utf-8")
        return path

    def layer(self, name: str, **spec: Any) -> Path:
        """Write a new layer."""
        return self.document("RecipeMetadata", f"overlays/{name}.yaml", name, spec)

    def document(self, kind: str, file: str, name: str, spec: dict[str, Any]) -> Path:
        """Write a new document."""
        data = {"apiVersion": "gpufleet.bringup/v1", "kind": kind, "metadata": {"name": name}, "spec": spec}
        path = self.root / file
        path.write_text(yaml.safe_dump(data, sort_keys=False), encoding="utf-8")
        return path


@pytest.fixture
def spoiled(repository: Path, tmp_path: Path) -> Spoiled:
    """A copy of our catalogue."""
    root = tmp_path / "recipes"
    for name in ("overlays", "mixins", "components", "validators"):
        shutil.copytree(repository / "recipes" / name, root / name)
    for name in ("registry.yaml", "criteria.yaml"):
        shutil.copy(repository / "recipes" / name, root / name)
    return Spoiled(root)
