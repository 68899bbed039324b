# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The operating system of a node, from the one line of its /etc/os-release that Kubernetes reports."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache

from ..runtime.files import RECIPES
from ..runtime.strict import decode, read_yaml

_VOCABULARY = RECIPES / "criteria.yaml"


@dataclass(frozen=True, slots=True, kw_only=True)
class OsImage:
    """A pattern of `nodeInfo.osImage`, its ID, and the template of its VERSION_ID (empty if it has none)."""

    id: str
    pattern: str
    version: str = ""


@cache
def os_images() -> tuple[OsImage, ...]:
    """Return the patterns of recipes/criteria.yaml.

    Raises:
        InputError: the file does not have the expected form.
    """
    data = read_yaml(_VOCABULARY)
    return decode(tuple[OsImage, ...], data.get("osImages") or [], str(_VOCABULARY))


def os_release(image: str) -> tuple[str | None, str | None]:
    """Return ID and VERSION_ID of /etc/os-release from `nodeInfo.osImage`. None if not known."""
    for known in os_images():
        match = re.search(known.pattern, image)
        if match is not None:
            return known.id, match.expand(known.version) or None
    return None, None
