# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Files of a resolved recipe: the recipe itself, and the hydrated one in the run directory."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..outcome.errors import InputError
from ..outcome.wording import first_of
from ..runtime.files import PRIVATE_FILE, file_to_write, write_atomic
from ..runtime.redaction import redact_data
from .effect import without_effect
from .foreign_data import data_files
from .hydrate import hydrated, in_api, plain, self_contained
from .installable import needs
from .model import Catalogue, RecipeResult
from .pools import PooledRecipe, pooled_data
from .secret_places import secret_places
from .yaml_dump import dump_yaml

RUN_FILE = "recipe.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class FileText:
    """The text of a file, and the paths of secrets in it. A file with secrets is readable by its owner alone."""

    text: str
    secrets: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """One file that was written, or would be in check mode."""

    path: Path
    before: str
    after: str
    secrets: tuple[str, ...] = ()

    @property
    def changed(self) -> bool:
        """Whether its content changed."""
        return self.before != self.after

    @property
    def warnings(self) -> list[str]:
        """Warning to the reader if it has secrets, which the installer needs."""
        if not self.secrets:
            return []
        places = first_of(self.secrets, 3)
        text = f"{self.path} holds secrets ({places}), so its owner alone may read it (mode 0600): keep it out of "
        return [text + "version control, or let the values name a Secret of the cluster (docs/recipes.md)"]


def summary(result: RecipeResult, catalogue: Catalogue) -> dict[str, Any]:
    """Return the short form of a recipe for the result of a task."""
    return {
        "criteria": result.criteria.to_dict(),
        "without_effect": list(without_effect(result, catalogue)),
        "overlays": list(result.layers),
        "mixins": list(result.mixins),
        "components": {
            component.name: component.version or component.tag for component in result.components if component.enabled
        },
        "needs": needs(result),
        "order": list(result.order),
        "constraints": {constraint.name: constraint.value for constraint in result.constraints},
    }


def dump(data: Any, path: Path) -> str:
    """Return plain data as the text of a file: JSON by its suffix, else YAML. The bytes are always the same."""
    if path.suffix == ".json":
        return json.dumps(data, indent=1, sort_keys=True, ensure_ascii=False, allow_nan=False) + "\n"
    return dump_yaml(data)


def _places(options: Mapping[str, Any]) -> tuple[Path | None, list[Path]]:
    """Return the path of the recipe and the paths of the hydrated recipe."""
    dest = Path(options["dest"]).expanduser() if options.get("dest") else None
    full = [Path(options["hydrated_dest"]).expanduser()] if options.get("hydrated_dest") else []
    if options.get("run_dir"):
        full.append(Path(options["run_dir"]).expanduser() / RUN_FILE)
    return dest, full


def documents(result: RecipeResult, catalogue: Catalogue, options: Mapping[str, Any]) -> dict[Path, FileText]:
    """Return every file that the options request."""
    dest, full = _places(options)
    texts = {path: _document(path, hydrated(result, catalogue), options) for path in full}
    if dest is not None:
        result = in_api(result, options.get("api"))
        data = self_contained(result, catalogue) if options.get("self_contained") else plain(result)
        texts[dest] = _document(dest, data, options)
        if options.get("self_contained"):
            files = data_files(result, catalogue, dest)
            texts |= {path: FileText(text=text) for path, text in files.items()}
    return texts


def _document(path: Path, data: dict[str, Any], options: Mapping[str, Any]) -> FileText:
    """Return the text of a file.

    The recipe in the run directory has no secrets, because run directories are passed on. All other files are for
    installation and have them.
    """
    run_dir = options.get("run_dir")
    if run_dir and path == Path(run_dir).expanduser() / RUN_FILE:
        return FileText(text=dump(redact_data(data), path))
    return FileText(text=dump(data, path), secrets=secret_places(data))


def pool_documents(recipe: PooledRecipe, catalogue: Catalogue, options: Mapping[str, Any]) -> dict[Path, FileText]:
    """Return every requested file for several pools. Only the hydrated recipe has the parts of the pools."""
    dest, full = _places(options)
    texts = {path: _document(path, pooled_data(recipe, catalogue), options) for path in full}
    if dest is not None:
        texts[dest] = _document(dest, plain(in_api(recipe.result, options.get("api"))), options)
    return texts


def write_documents(texts: Mapping[Path, FileText], *, check_mode: bool) -> tuple[Written, ...]:
    """Write the files that differ, or none in check mode. Return each with its text before and after.

    A file with secrets gets mode 0600, also if it existed before.

    Raises:
        InputError: a file cannot be read, or is no place for a file (see file_to_write).
        UnavailableError: a file cannot be written.
    """
    written = []
    for path, document in texts.items():
        file_to_write(path)
        try:
            before = path.read_text(encoding="utf-8") if path.exists() else ""
            open_to_others = bool(document.secrets and path.exists() and path.stat().st_mode & 0o077)
        except (OSError, UnicodeDecodeError) as error:
            raise InputError(str(path), f"cannot be written: {error}.", "Choose another place.") from None
        if (before != document.text or open_to_others) and not check_mode:
            write_atomic(path, document.text, PRIVATE_FILE if document.secrets else None)
        written.append(Written(path=path, before=before, after=document.text, secrets=document.secrets))
    return tuple(written)
