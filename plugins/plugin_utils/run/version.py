# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""This collection's name and version: from galaxy.yml in a checkout, from MANIFEST.json when installed."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from ..outcome.codec import load_json
from ..runtime.files import COLLECTION_ROOT
from ..runtime.strict import read_yaml

COLLECTION = "gpufleet.bringup"


@cache
def collection_version(root: Path = COLLECTION_ROOT) -> str:
    """Return the version of this collection, or of the one in that directory.

    Raises:
        InputError: neither file can be read.
    """
    manifest = root / "MANIFEST.json"
    if manifest.is_file():
        return str(load_json(manifest)["collection_info"]["version"])
    galaxy = read_yaml(root / "galaxy.yml")
    return str(galaxy["version"])


def software_versions(ansible_core: str) -> dict[str, str]:
    """Return the versions of the software that makes a run, for its record.

    Raises:
        InputError: the version of the collection cannot be read.
    """
    import platform

    return {COLLECTION: collection_version(), "ansible-core": ansible_core, "Python": platform.python_version()}
