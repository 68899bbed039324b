# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The catalogues that the tests of recipes read."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.recipe.load import load_catalogue
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.recipe.model import Catalogue

OWN = "gpufleet.bringup/v1"


@pytest.fixture(scope="session")
def upstream_tree(shared: Path) -> Path:
    """Upstream's recipe data, unmodified."""
    return shared / "upstream" / "aicr-0.11.1" / "recipes"


@pytest.fixture(scope="session")
def upstream(upstream_tree: Path) -> Catalogue:
    """The catalogue of upstream's data."""
    return load_catalogue([upstream_tree])


@pytest.fixture(scope="session")
def own(repository: Path) -> Catalogue:
    """Our own catalogue."""
    return load_catalogue([repository / "recipes"])


class Tree:
    """A small tree of recipe data that a test writes."""

    def __init__(self, root: Path, api: str = OWN) -> None:
        self.root = root
        self.api = api
        root.mkdir(parents=True, exist_ok=True)

    def write(self, name: str, text: str) -> Path:
        """Write a file of the tree."""
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        return path

    def overlay(self, name: str, spec: dict[str, Any], directory: str = "overlays", kind: str = "") -> Path:
        """Write an overlay or, below mixins, a mixin."""
        kind = kind or ("RecipeMixin" if directory == "mixins" else "RecipeMetadata")
        data = {"apiVersion": self.api, "kind": kind, "metadata": {"name": name}, "spec": spec}
        return self.write(f"{directory}/{name}.yaml", yaml.safe_dump(data))

    def registry(self, *names: str, **more: dict[str, Any]) -> Path:
        """Write a registry with these Helm components."""
        components = [
            {
                "name": name,
                "displayName": name,
                "helm": {
                    "defaultRepository": "https://charts.example",
                    "defaultChart": f"vendor/{name}",
                    "defaultVersion": "1.0.0",
                    "defaultNamespace": f"{name}-system",
                },
                **more.get(name.replace("-", "_"), {}),
            }
            for name in names
        ]
        data = {"apiVersion": self.api, "kind": "ComponentRegistry", "components": components}
        return self.write("registry.yaml", yaml.safe_dump(data))

    def load(self, *more: Path) -> Catalogue:
        """Load this tree, with others over it."""
        return load_catalogue([self.root, *more])


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    """An empty tree of ours."""
    return Tree(tmp_path / "tree")


@pytest.fixture
def upstream_like(tmp_path: Path) -> Tree:
    """An empty tree in upstream's first format."""
    return Tree(tmp_path / "foreign", "aicr.nvidia.com/v1alpha1")
