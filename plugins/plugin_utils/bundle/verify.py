# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Whether a directory is a bundle as it was made: exactly the files of its list, each with its bytes."""

from __future__ import annotations

import os
import re
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..outcome.errors import BringupError, InputError, NotFoundError
from ..runtime.strict import read_yaml
from .content import ABOUT, RECIPE, SCHEMA_VERSION, SUMS, digest_of

_LINE = re.compile(r"(?P<digest>[0-9a-f]{64})  (?P<path>[^\s/\\][^\s\\]*)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Verified:
    """What was found: the digest of the list, how many files it names, who applies the bundle, and every fault."""

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
    """Return what a bundle says that it is; nothing where that is no mapping."""
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
        said = f"{about.get('kind')} {about.get('schemaVersion')}"
        return [f"{ABOUT} says {said}, and this release knows Bundle {SCHEMA_VERSION}"]
    return []


def faults_of(directory: Path) -> list[str]:
    """Return everything by which a directory differs from its list of digests, by path."""
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
    """Return the digests of a list, in the one form in which it is written."""
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
    """Return the regular files of a directory as paths in it, and what else is there, with what it is."""
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
