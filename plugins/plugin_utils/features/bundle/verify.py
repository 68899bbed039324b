# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Whether a directory is an unchanged bundle, with exactly the files of its list and their bytes; and what differs
between two bundles, by component and value, else by file."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ...component_stack.model import components_of
from ...outcome.errors import BringupError, InputError, NotFoundError
from ...recipe.difference import Difference, difference_of
from ...recipe.paths import leaves, shown
from ...recipe.query import document_map
from ...runtime.redaction import holds_mask
from ...runtime.strict import read_yaml
from .content import ABOUT, RECIPE, SCHEMA_VERSION, SUMS, digest_of

_LINE = re.compile(r"(?P<digest>[0-9a-f]{64})  (?P<path>[^\s/\\][^\s\\]*)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Verified:
    """The result: the digest of the list, how many files it names, the deployer, and every fault."""

    digest: str
    files: int
    deployer: str
    faults: tuple[str, ...]


def verify(directory: Path) -> Verified:
    """Return whether a bundle is whole.

    Raises:
        NotFoundError: there is no bundle.
        UnavailableError: it cannot be read.
    """
    if not directory.is_dir() or not (directory / SUMS).is_file():
        hint = "name the directory that gpufleet bundle wrote"
        raise NotFoundError(str(directory), f"is no bundle: it has no {SUMS}.", hint)
    faults = faults_of(directory)
    digest = digest_of((directory / SUMS).read_bytes())
    about: dict[str, Any] = {}
    if not faults:
        about = about_of(directory)
        faults = _form_faults(about)
    return Verified(
        digest=digest,
        files=len(files_in(directory)[0]),
        deployer=str(about.get("deployer") or ""),
        faults=tuple(faults),
    )


def about_of(directory: Path) -> dict[str, Any]:
    """Return the description in a bundle; empty if it is no mapping."""
    found = read_yaml(directory / ABOUT)
    return found if isinstance(found, dict) else {}


def recipe_of(directory: Path) -> dict[str, Any]:
    """Return the recipe of a bundle that is whole.

    Raises:
        NotFoundError: there is no bundle.
        InputError: it was changed since it was made.
    """
    found = verify(directory)
    if found.faults:
        hint = f"see gpufleet bundle-verify {directory}, and make it again"
        raise InputError(str(directory), f"is a bundle that was changed since it was made: {found.faults[0]}.", hint)
    recipe: dict[str, Any] = read_yaml(directory / RECIPE)
    return recipe


def _form_faults(about: dict[str, Any]) -> list[str]:
    if about.get("kind") != "Bundle" or about.get("schemaVersion") != SCHEMA_VERSION:
        reported = f"{about.get('kind')} {about.get('schemaVersion')}"
        return [f"{ABOUT} says {reported}, and this release knows Bundle {SCHEMA_VERSION}"]
    return []


def faults_of(directory: Path) -> list[str]:
    """Return every difference between a directory and its list of digests, by path."""
    paths, odd = files_in(directory)
    faults = [f"{path} is {kind}" for path, kind in odd.items()]
    try:
        listed = _listed(directory / SUMS)
    except (BringupError, OSError, UnicodeDecodeError) as error:
        return [*faults, str(error) if isinstance(error, BringupError) else f"{SUMS} cannot be read"]
    for path in sorted({*paths, *listed} - {SUMS}):
        if path not in listed:
            faults.append(f"{path} is not in {SUMS}")
        elif path not in paths:
            # A link in its place is named above.
            faults += [] if path in odd else [f"{path} is missing"]
        elif digest_of((directory / path).read_bytes()) != listed[path]:
            faults.append(f"{path} has other bytes")
    faults += [] if {ABOUT, RECIPE} <= {*listed} else [f"{SUMS} does not name {ABOUT} and {RECIPE}"]
    return faults


def _listed(path: Path) -> dict[str, str]:
    """Return the digests of a list, which has exactly one written form."""
    text = path.read_bytes().decode("utf-8")
    found: dict[str, str] = {}
    for line in text.splitlines():
        match = _LINE.fullmatch(line)
        if match is None or match["path"] in found or ".." in match["path"].split("/"):
            raise InputError(SUMS, f"has a line that sha256sum would not write: {line[:80]!r}")
        found[match["path"]] = match["digest"]
    if text != "".join(f"{found[name]}  {name}\n" for name in sorted(found)):
        raise InputError(SUMS, "is not in the form in which it was written")
    return found


def files_in(directory: Path) -> tuple[list[str], dict[str, str]]:
    """Return the regular files of a directory as paths in it, and everything else there with its kind."""
    files: list[str] = []
    odd: dict[str, str] = {}
    for place, directories, names in os.walk(directory):
        for name in sorted((*directories, *names)):
            path = Path(place, name)
            inside = path.relative_to(directory).as_posix()
            mode = path.lstat().st_mode
            if stat.S_ISLNK(mode):
                odd[inside] = "a link"
            elif stat.S_ISREG(mode):
                files.append(inside)
            elif not stat.S_ISDIR(mode):
                odd[inside] = "no regular file"
            elif not any(path.iterdir()):
                odd[inside] = "an empty directory"
    return sorted(files), odd


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """The differences: recipes, deployers (empty: the same), files, and secrets that are in neither."""

    recipe: Difference
    deployers: tuple[str, ...]
    files: tuple[str, ...]
    not_compared: tuple[str, ...]

    @property
    def same(self) -> bool:
        """Whether nothing differs."""
        return not self.files

    def lines(self) -> list[str]:
        """Return the differences as text: those of the recipes; files only where the recipes do not explain them."""
        if self.same:
            return ["nothing differs"]
        lines = [f"deployer: {' -> '.join(self.deployers)}"] if self.deployers else []
        if not self.recipe.same:
            return lines + self.recipe.lines()
        return lines or ["files", *(f"  {path}" for path in self.files)]


def compare(left: Path, right: Path) -> Compared:
    """Return what differs from one bundle to another.

    Raises:
        NotFoundError: one is no bundle.
        InputError: one was changed since it was made.
    """
    recipes = recipe_of(left), recipe_of(right)
    deployers = tuple(str(about_of(side).get("deployer")) for side in (left, right))
    return Compared(
        recipe=difference_of(*(_map(recipe) for recipe in recipes)),
        deployers=deployers if deployers[0] != deployers[1] else (),
        files=tuple(_other_files(left, right)),
        not_compared=tuple(dict.fromkeys(place for recipe in recipes for place in _masked(recipe))),
    )


def _map(recipe: Mapping[str, Any]) -> dict[str, Any]:
    """Return a recipe as a map of values, including the objects of manifests by their titles."""
    found = document_map(recipe)
    for component in components_of(recipe):
        objects = {manifest.title: manifest.body for manifest in component.manifests}
        found["components"][component.name] |= {"objects": objects} if objects else {}
    return found


def _other_files(left: Path, right: Path) -> Iterator[str]:
    """Yield the files that are not the same in both, without the list of digests, which follows from the others."""
    sides = [{*files_in(side)[0]} - {SUMS} for side in (left, right)]
    for path in sorted(sides[0] | sides[1]):
        if not (path in sides[0] and path in sides[1]) or (left / path).read_bytes() != (right / path).read_bytes():
            yield path


def _masked(recipe: Mapping[str, Any]) -> Iterator[str]:
    for entry in recipe["componentRefs"]:
        for path, value in leaves(entry["values"], scalar_lists=True):
            if holds_mask(value):
                yield f"{entry['name']}: {shown(path)}"
