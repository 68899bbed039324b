# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Recipes that bundles are made of, and how a bundle is read back by somebody who does not know how it was made."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.component_stack.render import Renderer, rendered
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.features.bundle.app import bundle_for, files_of
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.features.bundle.parts import ChartRepository
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.recipe.hydrate import hydrated
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.recipe.model import Catalogue
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.recipe.request import Request, answer, catalogue_of
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.recipe.support import supported_combinations
from ansible_collections.gpufleet.rehearsal.plugins.plugin_utils.charts.mirror import build_mirror

Json = dict[str, Any]
IN_GIT = ChartRepository(url="https://git.example/fleet.git", revision="main", path="clusters/one/gpu-stack")
ASKED = "service=generic,accelerator=h100,intent=training"


@cache
def catalogue() -> Catalogue:
    """Return the catalogue of the release."""
    return catalogue_of(())


@cache
def questions() -> tuple[str, ...]:
    """Return every question that a layer of the catalogue is for."""
    found = (",".join(f"{key}={value}" for key, value in one.stated) for one in supported_combinations(catalogue()))
    return tuple(sorted(found))


def asked(question: str) -> dict[str, str]:
    """Return a question as criteria."""
    return dict(part.split("=", 1) for part in question.split(","))


def recipe_for(question: str, mirror: Path, overrides: Mapping[str, Any] | None = None) -> Json:
    """Return the recipe of a question as gate 4 installs it; what Kustomize builds is a stand-in of the rehearsal."""
    found = answer(Request(criteria=asked(question), overrides=overrides or {}, check_overrides=False))
    recipe = hydrated(found.result, found.catalogue)
    built = [entry for entry in recipe["componentRefs"] if entry.get("type") == "Kustomize"]
    build_mirror(mirror, built)
    return rendered(recipe, Renderer(mirror=str(mirror)))


def bundle_files(recipe: Json, deployer: str = "helm") -> dict[str, str]:
    """Return the files of a recipe's bundle."""
    return files_of(bundle_for(recipe, deployer, ChartRepository() if deployer in ("helm", "helmfile") else IN_GIT))


def env(text: str) -> dict[str, str]:
    """Return the NAME=VALUE lines of a file."""
    return dict(line.split("=", 1) for line in text.splitlines())


def loaded(text: str) -> list[Any]:
    """Return the documents of a YAML file."""
    return [document for document in yaml.safe_load_all(text) if document is not None]


def objects_in(files: Mapping[str, str], folder: str) -> list[Json]:
    """Return the objects of a folder's own chart: definitions first, each in the order of its names."""
    paths = [path for place in ("crds", "objects") for path in sorted(files) if path.startswith(f"{folder}/{place}/")]
    return [body for path in paths for body in loaded(files[path])]
