# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The command plan: starts the playbook that tells what each gate does, with the Ansible of this Python."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from argparse import Namespace
from pathlib import Path

from ..outcome.errors import InputError, NotFoundError
from ..runtime.files import COLLECTION_ROOT

_PATHS, _CALLBACKS = "ANSIBLE_COLLECTIONS_PATH", "ANSIBLE_CALLBACKS_ENABLED"
_HOST_LIST = re.compile(r"^DEFAULT_HOST_LIST\((?P<origin>.*?)\) = (?P<places>.*)$", re.MULTILINE)


def plan(arguments: Namespace) -> int:
    """Print what each gate would do at a site, how long it takes and what it disturbs; the exit code is Ansible's.

    Raises:
        NotFoundError: the inventory is not there.
        InputError: no inventory is named; or the collection is not where Ansible finds it.
    """
    if not arguments.inventory and not _configured_inventory():
        raise InputError("gpufleet plan", "an inventory is missing.", "gpufleet plan -i INVENTORY")
    for inventory in arguments.inventory or ():
        if "," not in inventory and not Path(inventory).expanduser().exists():
            raise NotFoundError(f"--inventory {inventory}", "does not exist.", "name the file of the hosts")
    options = [word for inventory in arguments.inventory or () for word in ("-i", inventory)]
    options += [word for variable in arguments.extra_vars or () for word in ("-e", variable)]
    command = [sys.executable, "-m", "ansible", "playbook", "gpufleet.bringup.site", "--tags", "plan", *options]
    done = subprocess.run(command, env=os.environ | _environment(), check=False)
    return done.returncode


def _configured_inventory() -> bool:
    """Tell whether Ansible has an inventory without -i: configured, or at the place where it looks by itself."""
    words = [sys.executable, "-m", "ansible", "config", "dump"]
    dumped = subprocess.run(words, capture_output=True, text=True, check=False).stdout
    found = _HOST_LIST.search(dumped)
    # What cannot be read is left to Ansible to say.
    if found is None or found["origin"] != "default":
        return True
    return any(Path(place).exists() for place in re.findall(r"'([^']+)'", found["places"]))


def _environment() -> dict[str, str]:
    """Return where Ansible finds this collection, before any other one of its name."""
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
