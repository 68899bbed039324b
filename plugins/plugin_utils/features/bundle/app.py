# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""From a recipe to a bundle: the deployers, what each of them requires, and writing the files.

The files are written whole or not at all, and replace nothing but a bundle that is unchanged since we wrote it. Secrets
are written beside it.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from ...outcome.errors import InputError
from ...recipe.nearest import unknown_hint
from ...recipe.yaml_dump import dump_yaml
from ...run.version import collection_version
from ...runtime.files import PRIVATE_DIR, PRIVATE_FILE, make_dirs, write_atomic, writing
from . import argocd, flux, helm, helmfile
from .content import ABOUT, SUMS, Files, about, common, sums_of
from .parts import Bundle, ChartRepository, bundle_of
from .verify import faults_of, files_in

DEPLOYERS: Mapping[str, Callable[[Bundle], Files]] = {
    "helm": helm.files_of,
    "argocd": argocd.files_of,
    "flux": flux.files_of,
    "helmfile": helmfile.files_of,
}
# An engine reads the bundle from Git, so it has to know from where.
_FROM_GIT = ("argocd", "flux")


def bundle_for(recipe: Mapping[str, Any], deployer: str, repository: ChartRepository, mirror: str = "") -> Bundle:
    """Return the bundle of a hydrated recipe with plain manifests.

    Raises:
        InputError: no such deployer, a repository that it needs or does not take, or see bundle_of.
    """
    if deployer not in DEPLOYERS:
        raise InputError(f"--deployer {deployer}", "is no deployer.", unknown_hint(deployer, DEPLOYERS))
    if deployer in _FROM_GIT and not (repository.url and repository.revision):
        hint = "add --repo URL and --revision BRANCH, of the Git repository that the bundle is put into"
        raise InputError(f"--deployer {deployer}", "reads the bundle from Git, and no repository is given.", hint)
    if deployer not in _FROM_GIT and repository != ChartRepository():
        reason = "takes no --repo, --revision and --path: it reads the directory itself."
        raise InputError(f"--deployer {deployer}", reason, "leave them out")
    if ".." in repository.path.split("/"):
        raise InputError(f"--path {repository.path}", "leads out of the repository.", "name a directory in it")
    return bundle_of(recipe, deployer, repository, mirror)


def files_of(bundle: Bundle) -> Files:
    """Return every file of a bundle by its path, including the list of digests."""
    files = common(bundle) | DEPLOYERS[bundle.deployer](bundle)
    files[ABOUT] = about(bundle, collection_version())
    return files | {SUMS: sums_of(files)}


_SCRIPT, _FILE, _DIR = 0o755, 0o644, 0o755


def write_bundle(directory: Path, files: Files) -> bool:
    """Write the files into a separate directory and return whether anything changed.

    An existing bundle is replaced in one step. One that was edited is not, because the edit would be lost.

    Raises:
        InputError: the directory has other content than an unchanged bundle, or is no place for one.
        UnavailableError: it cannot be written.
    """
    target = Path(os.path.realpath(directory))
    with writing(target):
        old = _replaceable(target)
        if old is not None and old == {path: text.encode() for path, text in files.items()}:
            return False
        make_dirs(target.parent)
        fresh = Path(tempfile.mkdtemp(dir=target.parent, prefix=f".{target.name}."))
        try:
            _fill(fresh, files)
            _put(fresh, target)
        finally:
            shutil.rmtree(fresh, ignore_errors=True)
    return True


def _replaceable(target: Path) -> dict[str, bytes] | None:
    """Return the files of the existing bundle, empty for an empty directory, None where there is nothing."""
    if not target.exists():
        return None
    if not target.is_dir():
        raise InputError(str(target), "is a file.", "name a directory with --into")
    if not any(target.iterdir()):
        return {}
    if not (target / ABOUT).is_file():
        raise InputError(
            str(target), f"is no bundle: it has files, and no {ABOUT}.", "name a new directory with --into"
        )
    found = faults_of(target)
    if found:
        hint = f"gpufleet bundle-verify {target} names everything; move what is to stay away, or name another directory"
        raise InputError(str(target), f"is a bundle that was changed since it was made: {found[0]}.", hint)
    return {path: (target / path).read_bytes() for path in files_in(target)[0]}


def _fill(directory: Path, files: Mapping[str, str]) -> None:
    for path, text in files.items():
        place = directory / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(text.encode())
        place.chmod(_SCRIPT if text.startswith("#!") else _FILE)
    for place in (directory, *(path for path in directory.rglob("*") if path.is_dir())):
        place.chmod(_DIR)


def _put(fresh: Path, target: Path) -> None:
    """Put the new directory in the place of the old one. If that fails, the old one is restored."""
    old: Path | None = None
    if target.exists():
        old = Path(tempfile.mkdtemp(dir=target.parent, prefix=f".{target.name}.old."))
        os.replace(target, old)
    try:
        os.replace(fresh, target)
    except OSError:
        if old is not None:
            os.replace(old, target)
        raise
    if old is not None:
        shutil.rmtree(old)


def write_secrets(directory: Path, bundle: Bundle, target: Path) -> tuple[Path, ...]:
    """Write the values that the bundle does not have, one file for each component, readable only by the owner.

    Args:
        directory: where; it is created with mode 0700.
        bundle: the bundle.
        target: the directory of the bundle, which must not have secrets.

    Raises:
        InputError: the directory is in the bundle, or the recipe has the values masked.
        UnavailableError: a file cannot be written.
    """
    place = Path(os.path.realpath(directory))
    if place.is_relative_to(os.path.realpath(target)):
        raise InputError(f"--secrets-into {directory}", "lies in the bundle.", "name a directory beside it")
    for part in bundle.withholding:
        if part.values.masked:
            reason = f"has {part.values.places[0]} masked in this recipe, so its value is not known."
            hint = "name the criteria, --data and --set, or the file that `gpufleet recipe --hydrated -o FILE` writes"
            raise InputError(f"component {part.component}", reason, hint)
    with writing(place):
        place.mkdir(parents=True, exist_ok=True)
        place.chmod(PRIVATE_DIR)
    written = []
    for part in bundle.withholding:
        path = place / f"{part.component}.yaml"
        write_atomic(path, dump_yaml(part.values.secret), PRIVATE_FILE)
        written.append(path)
    return tuple(written)
