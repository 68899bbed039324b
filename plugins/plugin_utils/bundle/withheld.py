# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Chart values in two parts: what a bundle holds, and secrets, which it never does. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import takewhile
from typing import Any

from ..recipe.merge import merged_values
from ..recipe.model import copied
from ..recipe.paths import leaves, lookup, shown
from ..recipe.secret_places import secret_paths
from ..runtime.redaction import holds_mask

Json = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Withheld:
    """Values that are written, those that are not, and the places of these; `masked`: what is not written is not known
    either, because the recipe itself has it masked. Both laid over each other are the component's values."""

    written: Json = field(default_factory=dict)
    secret: Json = field(default_factory=dict)
    places: tuple[str, ...] = ()
    masked: bool = False


def withheld(values: Mapping[str, Any]) -> Withheld:
    """Return the values with their secrets apart.

    A list is one value to Helm: with one secret in it the whole of it is held back.
    """
    data: Json = copied(dict(values))
    masked = [path for path, value in leaves(data, scalar_lists=True) if holds_mask(value)]
    found = {tuple(takewhile(lambda step: isinstance(step, str), path)) for path in (*secret_paths(data), *masked)}
    secret: Json = {}
    # A list in a secret is known by its own path.
    paths = sorted(path for path in found if not any(path[:end] in found for end in range(1, len(path))))
    for path in paths:
        value: Any = lookup(data, path)
        for step in reversed(path):
            value = {step: value}
        secret = merged_values(secret, value)
        above = lookup(data, path[:-1])
        del above[path[-1]]
    return Withheld(written=data, secret=secret, places=tuple(shown(path) for path in paths), masked=bool(masked))
