# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Pinned versions, read where they are pinned: charts in the registry, images in settings and manifests, values."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..recipe.model import Catalogue, RecipeResult, installs
from ..runtime.files import RECIPES
from ..runtime.strict import read_yaml

# Settings and manifests are read line by line: parsing a dozen YAML files would take longer than the answer may.
_IMAGES = ("thresholds/*.yaml", "gpu_stack.yaml", "components/*/manifests/*.yaml")
_IMAGE = re.compile(r"^\s*(?:- )?(?:\w+_)?image:\s*[\"']?(?P<image>[^\s\"'#{]+)", re.MULTILINE)
_VERSION, _REPOSITORY = (re.compile(rf"\s*{name}:\s*[\"']?([^\s\"'#]+)") for name in ("version", "repository"))
_TAG = re.compile(r"(?P<name>[^@]+?)(?::(?P<tag>[^:/@]+))?(?:@(?P<digest>sha256:[0-9a-f]{64}))?$")


@dataclass(frozen=True, slots=True, order=True)
class Image:
    """A pinned image: its name without tag and digest, its tag or digest, and the file."""

    name: str
    tag: str
    file: str


def chart_pins(catalogue: Catalogue) -> dict[str, str]:
    """Return the version of every chart and Kustomize source of a registry, by component."""
    pins = {
        name: entry.default("kustomize", "defaultTag") or entry.default("helm", "defaultVersion")
        for name, entry in catalogue.registry.items()
    }
    return {name: version for name, version in pins.items() if version}


def recipe_pins(result: RecipeResult) -> dict[str, str]:
    """Return the version of every chart and Kustomize source that a recipe installs, by component."""
    pins = {each.name: each.version or each.tag for each in result.components if each.enabled}
    return {name: version for name, version in pins.items() if version}


def document_pins(recipe: Mapping[str, Any]) -> dict[str, str]:
    """Return the same as recipe_pins for a resolved recipe as a run saves it."""
    enabled = [each for each in recipe["componentRefs"] if installs(each.get("overrides") or {})]
    pins = {str(each["name"]): str(each.get("version") or each.get("tag") or "") for each in enabled}
    return {name: version for name, version in pins.items() if version}


def image_pins(root: Path = RECIPES) -> tuple[Image, ...]:
    """Return every image in the settings, the checks and the manifests of this release, once for each file."""
    return tuple(sorted({image for path in _files(root) for image in _images(path, root)}))


def value_pins(names: Iterable[str], root: Path = RECIPES) -> dict[str, str]:
    """Return the values of components at these places (`component path`). Empty where there is none."""
    pins = {}
    for name in names:
        component, _space, path = name.partition(" ")
        found: Any = read_yaml(root / "components" / component / "values.yaml")
        for step in path.split("."):
            found = found.get(step) if isinstance(found, dict) else None
        pins[name] = "" if found is None else str(found)
    return pins


def _files(root: Path) -> Iterator[Path]:
    for pattern in _IMAGES:
        yield from sorted(root.glob(pattern))


def _images(path: Path, root: Path) -> Iterator[Image]:
    text = path.read_text(encoding="utf-8")
    for line in _IMAGE.finditer(text):
        found = _TAG.match(line["image"])
        if found is None or line["image"] == "none":
            continue
        name, tag = found["name"], found["digest"] or found["tag"] or ""
        if not tag:
            # A custom resource has the parts of an image name in consecutive lines.
            beside = text[line.end() :].split("\n")[1:3]
            version, repository = (
                next(filter(None, map(part.match, beside)), None) for part in (_VERSION, _REPOSITORY)
            )
            if version is None:
                continue
            tag, name = version[1], f"{repository[1]}/{name}" if repository else name
        yield Image(name, tag, path.relative_to(root).as_posix())
