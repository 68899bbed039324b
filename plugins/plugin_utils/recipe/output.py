# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Files of a resolved recipe: the recipe itself, and the hydrated one that the run directory holds."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..outcome.errors import InputError
from ..runtime.files import write_atomic
from ..runtime.secret_keys import redact_data
from .hydrate import hydrated, plain, self_contained
from .model import Catalogue, RecipeResult
from .pools import PooledRecipe, pooled_data
from .yaml_dump import dump_yaml

RUN_FILE = "recipe.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """One file that was, or in check mode would be, written."""

    path: Path
    before: str
    after: str

    @property
    def changed(self) -> bool:
        """Its content is new."""
        return self.before != self.after


def summary(result: RecipeResult) -> dict[str, Any]:
    """Return the little that a task's result shows of a recipe."""
    return {
        "criteria": result.criteria.to_dict(),
        "overlays": list(result.layers),
        "mixins": list(result.mixins),
        "components": {component.name: component.version for component in result.components if component.enabled},
        "order": list(result.order),
        "constraints": {constraint.name: constraint.value for constraint in result.constraints},
    }


def dump(data: Any, path: Path) -> str:
    """Return plain data as the text of a file: JSON if its name says so, else YAML; always the same bytes."""
    if path.suffix == ".json":
        return json.dumps(data, indent=1, sort_keys=True, ensure_ascii=False, allow_nan=False) + "\n"
    return dump_yaml(data)


def _places(options: Mapping[str, Any]) -> tuple[Path | None, list[Path]]:
    """Return where the recipe goes and where the hydrated recipe goes."""
    dest = Path(options["dest"]).expanduser() if options.get("dest") else None
    full = [Path(options["hydrated_dest"]).expanduser()] if options.get("hydrated_dest") else []
    if options.get("run_dir"):
        full.append(Path(options["run_dir"]).expanduser() / RUN_FILE)
    return dest, full


def documents(result: RecipeResult, catalogue: Catalogue, options: Mapping[str, Any]) -> dict[Path, str]:
    """Return the text of every file that the options ask for."""
    dest, full = _places(options)
    texts = {path: dump(_for(path, hydrated(result, catalogue), options), path) for path in full}
    if dest is not None:
        data = self_contained(result, catalogue) if options.get("self_contained") else plain(result)
        texts[dest] = dump(data, dest)
    return texts


def _for(path: Path, data: dict[str, Any], options: Mapping[str, Any]) -> Any:
    """Return what a file gets: the run directory is given to others, so its recipe has no secrets."""
    run_dir = options.get("run_dir")
    return redact_data(data) if run_dir and path == Path(run_dir).expanduser() / RUN_FILE else data


def pool_documents(recipe: PooledRecipe, catalogue: Catalogue, options: Mapping[str, Any]) -> dict[Path, str]:
    """Return the same for several pools, whose parts only the hydrated recipe holds."""
    dest, full = _places(options)
    texts = {path: dump(_for(path, pooled_data(recipe, catalogue), options), path) for path in full}
    if dest is not None:
        texts[dest] = dump(plain(recipe.result), dest)
    return texts


def write_documents(texts: Mapping[Path, str], *, check_mode: bool) -> tuple[Written, ...]:
    """Write the files that differ, none in check mode, and return what each was and is.

    Raises:
        InputError: a file cannot be read.
        UnavailableError: a file cannot be written.
    """
    written = []
    for path, text in texts.items():
        try:
            before = path.read_text(encoding="utf-8") if path.exists() else ""
        except (OSError, UnicodeDecodeError) as error:
            raise InputError(str(path), f"cannot be written: {error}.", "Choose another place.") from None
        if before != text and not check_mode:
            write_atomic(path, text)
        written.append(Written(path=path, before=before, after=text))
    return tuple(written)
