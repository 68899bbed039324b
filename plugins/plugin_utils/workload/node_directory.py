# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The volume of a job where no pod mounts it: a directory that the nodes have already."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from ..outcome.errors import InputError

# `:` and `,` separate mounts of Pyxis, and no path of a mount that is shared needs more than these.
_PLAIN = re.compile(r"/[A-Za-z0-9._/@+-]+")


def plain_path(path: str) -> bool:
    """Tell whether a path is absolute and of plain signs, so that it is one word for every program."""
    return bool(_PLAIN.fullmatch(path)) and ".." not in path.split("/")


def data_directory(source: Mapping[str, Any]) -> str:
    """Return the directory of the nodes that a volume source names.

    Raises:
        InputError: it names none.
    """
    path = (source.get("hostPath") or {}).get("path") if isinstance(source.get("hostPath"), Mapping) else None
    if not isinstance(path, str) or not plain_path(path):
        said = f"is {', '.join(sorted(source)) or 'empty'}, and jobs of Slurm mount nothing."
        hint = "state the directory where all nodes have it: volume={hostPath: {path: /shared}}"
        raise InputError("volume", said, hint)
    return path
