# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The version of this collection, from galaxy.yml in a checkout or MANIFEST.json when installed."""

from __future__ import annotations

from functools import cache

from ..outcome.codec import load_json
from ..runtime.strict import read_yaml
from .verb import collection_root


@cache
def collection_version() -> str:
    """Return the version.

    Raises:
        InputError: neither file can be read.
    """
    manifest = collection_root() / "MANIFEST.json"
    if manifest.is_file():
        return str(load_json(manifest)["collection_info"]["version"])
    galaxy = read_yaml(collection_root() / "galaxy.yml")
    return str(galaxy["version"])
