# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The files of recipe trees: several directories over each other, in which later ones take precedence."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from ..outcome.errors import BringupError, InputError, NotFoundError
from ..runtime.files import RECIPES

# For every file: path, times of change of content and of status, and size.
Signature = tuple[tuple[str, int, int, int], ...]
BASE_FILE = "overlays/base.yaml"
MAX_BYTES = 10 * 1024 * 1024
# Directories without recipe documents: chart values and manifests, health checks, SKU facts, kinds of GPU,
# expectations, templates, simulators, tools and faults of gates.
_NOT_DOCUMENTS = ("components", "checks", "hardware", "accelerators", "thresholds", "workloads", "gates")
# JSON is YAML too.
_YAML = (".yaml", ".yml", ".json")

# Hint for a file that a recipe names and that is in none of the directories.
OTHER_TREE = "name the directory of recipes that has it: --data DIR, in a playbook gpufleet_recipe_data"


@dataclass(frozen=True, slots=True)
class TreeFile:
    """One file: its path inside its tree, where it is, and the index of its directory (later takes precedence)."""

    name: str
    path: Path
    root: int


def _walk(root: Path, index: int, problems: list[BringupError]) -> dict[str, TreeFile]:
    files: dict[str, TreeFile] = {}
    pending = [str(root)]
    while pending:
        with os.scandir(pending.pop()) as entries:
            found = sorted(entries, key=lambda entry: entry.name)
        for entry in found:
            if entry.is_symlink():
                hint = "Put the file itself there."
                problems.append(InputError(entry.path, "is a symbolic link, which could leave the tree.", hint))
            elif entry.is_dir():
                # Directories of tools beside the data (.git, .github) are no part of it.
                if not entry.name.startswith("."):
                    pending.append(entry.path)
            elif not entry.is_file(follow_symlinks=False):
                problems.append(InputError(entry.path, "is neither a file nor a directory.", "Remove it."))
            elif (size := entry.stat(follow_symlinks=False).st_size) > MAX_BYTES:
                problems.append(InputError(entry.path, f"has {size} bytes; at most {MAX_BYTES} are read."))
            else:
                name = entry.path[len(str(root)) + 1 :].replace(os.sep, "/")
                files[name] = TreeFile(name, Path(entry.path), index)
    return dict(sorted(files.items()))


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


def signature_of(directories: Sequence[Path]) -> Signature:
    """Return a value that changes whenever a file of the trees does. A missing directory adds nothing."""
    found = []
    pending = [str(directory.expanduser()) for directory in directories]
    while pending:
        directory = pending.pop()
        if not os.path.isdir(directory):
            continue
        with os.scandir(directory) as entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    pending += [] if entry.name.startswith(".") else [entry.path]
                else:
                    stat = entry.stat(follow_symlinks=False)
                    found.append((entry.path, stat.st_mtime_ns, stat.st_ctime_ns, stat.st_size))
    return tuple(sorted(found))


def catalogue_directories(extra: Sequence[Path], own: Path = RECIPES) -> tuple[Path, ...]:
    """Return the directories to load: our own catalogue with the extra ones over it.

    An extra directory with a base layer is a whole catalogue, such as that of the upstream tool. It is used alone with
    those after it, because a mixture of two catalogues would be neither.
    """
    whole = [number for number, path in enumerate(extra) if (path.expanduser() / BASE_FILE).is_file()]
    return tuple(extra[whole[-1] :]) if whole else (own, *extra)


def is_document(name: str) -> bool:
    """Tell whether a file at this path inside a tree may be a recipe document."""
    top, slash, _rest = name.partition("/")
    return name.casefold().endswith(_YAML) and not (slash and top in _NOT_DOCUMENTS)


def read_text(path: Path) -> str:
    """Return a file as text.

    Raises:
        InputError: it cannot be read or is not UTF-8.
    """
    try:
        # A byte order mark is no part of the text.
        return path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError:
        raise InputError(str(path), "is not UTF-8 text.", "Save it as UTF-8.") from None
    except OSError as error:
        raise InputError(str(path), f"cannot be read: {error.strerror}.") from None


def unsafe_reason(reference: str) -> str:
    """Return why a path named in a recipe is refused. Empty if it is safe."""
    path = PurePosixPath(reference)
    if path.is_absolute() or "\\" in reference:
        return "is not a relative path with forward slashes"
    if ".." in path.parts:
        return "leaves the tree with '..'"
    return ""
