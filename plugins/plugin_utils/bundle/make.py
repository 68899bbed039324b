# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""From a recipe to the files of a bundle: which deployers there are, and what each needs to be said."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ..outcome.errors import InputError
from ..recipe.nearest import unknown_hint
from ..run.version import collection_version
from . import argocd, flux, helm, helmfile
from .content import ABOUT, SUMS, Files, about, common, sums_of
from .model import Bundle, Repository, bundle_of

DEPLOYERS: Mapping[str, Callable[[Bundle], Files]] = {
    "helm": helm.files_of,
    "argocd": argocd.files_of,
    "flux": flux.files_of,
    "helmfile": helmfile.files_of,
}
# An engine reads the bundle from Git, so it has to know where.
_FROM_GIT = ("argocd", "flux")


def bundle_for(recipe: Mapping[str, Any], deployer: str, repository: Repository, mirror: str = "") -> Bundle:
    """Return the bundle of a hydrated recipe with plain manifests.

    Raises:
        InputError: no such deployer, a repository that it needs or does not take, or see bundle_of.
    """
    if deployer not in DEPLOYERS:
        raise InputError(f"--deployer {deployer}", "is no deployer.", unknown_hint(deployer, DEPLOYERS))
    if deployer in _FROM_GIT and not (repository.url and repository.revision):
        hint = "add --repo URL and --revision BRANCH, of the Git repository that the bundle is put into"
        raise InputError(f"--deployer {deployer}", "reads the bundle from Git, and no repository is given.", hint)
    if deployer not in _FROM_GIT and repository != Repository():
        reason = "takes no --repo, --revision and --path: it reads the directory itself."
        raise InputError(f"--deployer {deployer}", reason, "leave them out")
    if ".." in repository.path.split("/"):
        raise InputError(f"--path {repository.path}", "leads out of the repository.", "name a directory in it")
    return bundle_of(recipe, deployer, repository, mirror)


def files_of(bundle: Bundle) -> Files:
    """Return every file of a bundle by its path, the list of digests among them."""
    files = common(bundle) | DEPLOYERS[bundle.deployer](bundle)
    files[ABOUT] = about(bundle, collection_version())
    return files | {SUMS: sums_of(files)}
