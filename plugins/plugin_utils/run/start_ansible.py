# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""How a playbook of this collection is started in a separate process: where Ansible finds the collection."""

from __future__ import annotations

import os
from pathlib import Path

from ..outcome.errors import InputError
from ..runtime.files import COLLECTION_ROOT

# The program and the verb that started a playbook, as typed.
TYPED = "GPUFLEET_TYPED"
_PATHS, _CALLBACKS = "ANSIBLE_COLLECTIONS_PATH", "ANSIBLE_CALLBACKS_ENABLED"


def ansible_environment() -> dict[str, str]:
    """Return the environment in which Ansible finds this collection, before any other one of its name.

    Raises:
        InputError: the collection is not in a place where Ansible can find it.
    """
    paths = [str(_collections()), *filter(None, [os.environ.get(_PATHS)])]
    found = {_PATHS: os.pathsep.join(paths), _CALLBACKS: os.environ.get(_CALLBACKS) or "gpufleet.bringup.gates"}
    return found | {"ANSIBLE_PYTHON_INTERPRETER": "auto_silent"}


def _collections() -> Path:
    for base in (*COLLECTION_ROOT.parents[2:3], COLLECTION_ROOT / ".cache"):
        place = base / "ansible_collections" / "gpufleet" / "bringup"
        if place.is_dir() and place.samefile(COLLECTION_ROOT):
            return base
    hint = f"make -C {COLLECTION_ROOT} setup, or install the collection"
    raise InputError(str(COLLECTION_ROOT), "is not where Ansible finds a collection by its name.", hint)
