# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The files of recipe trees: several directories laid over each other, the later one wins."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from ..outcome.errors import BringupError, InputError, NotFoundError

MAX_BYTES = 10 * 1024 * 1024
# Not recipes: chart values and manifests, health checks, SKU facts, templates.
_NOT_DOCUMENTS = ("components", "checks", "hardware", "workloads")
_YAML = (".yaml", ".yml")


@dataclass(frozen=True, slots=True)
class TreeFile:
    """One file: its path inside its tree, where it is, and the index of its directory (later wins)."""

    name: str
    path: Path
    root: int


def _walk(root: Path, index: int, problems: list[BringupError]) -> dict[str, TreeFile]:
    files: dict[str, TreeFile] = {}
    for directory, subdirectories, names in os.walk(root, followlinks=False):
        subdirectories.sort()
        for entry in [*subdirectories, *sorted(names)]:
            path = Path(directory, entry)
            if path.is_symlink():
                hint = "Put the file itself there."
                problems.append(InputError(str(path), "is a symbolic link, which could leave the tree.", hint))
                continue
            if entry in subdirectories:
                continue
            size = path.lstat().st_size
            if size > MAX_BYTES:
                problems.append(InputError(str(path), f"has {size} bytes; at most {MAX_BYTES} are read."))
                continue
            name = path.relative_to(root).as_posix()
            files[name] = TreeFile(name, path, index)
    return files


def tree_files(directories: Sequence[Path], problems: list[BringupError]) -> list[dict[str, TreeFile]]:
    """Return the files of each directory by their path inside it.

    Raises:
        NotFoundError: a directory does not exist.
    """
    trees = []
    for index, directory in enumerate(directories):
        root = directory.expanduser()
        if not root.is_dir():
            raise NotFoundError(f"recipe_data {directory}", "is not a directory.", "Give directories of recipe data.")
        trees.append(_walk(root.resolve(), index, problems))
    return trees


def is_document(name: str) -> bool:
    """Tell whether a path inside a tree may hold a recipe document."""
    path = PurePosixPath(name)
    return path.suffix in _YAML and not any(part in _NOT_DOCUMENTS for part in path.parts[:-1])


def read_text(path: Path) -> str:
    """Return a file as text.

    Raises:
        InputError: it cannot be read or is not UTF-8.
    """
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise InputError(str(path), "is not UTF-8 text.") from None
    except OSError as error:
        raise InputError(str(path), f"cannot be read: {error.strerror}.") from None


def unsafe_reason(reference: str) -> str:
    """Return why a path named in a recipe is refused, or an empty text."""
    path = PurePosixPath(reference)
    if path.is_absolute() or "\\" in reference:
        return "is not a relative path with forward slashes"
    if ".." in path.parts:
        return "leaves the tree with '..'"
    return ""
