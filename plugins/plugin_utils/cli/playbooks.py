# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The command plan: starts the playbook that shows what each gate does, with the Ansible of this Python."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from argparse import Namespace
from pathlib import Path

from ..outcome.errors import InputError, NotFoundError
from ..run.start_ansible import TYPED, ansible_environment

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
    typed = {TYPED: shlex.join((sys.argv[0], "plan"))}
    done = subprocess.run(command, env=os.environ | ansible_environment() | typed, check=False)
    return done.returncode


def _configured_inventory() -> bool:
    """Return whether Ansible has an inventory without -i: configured, or at its default place."""
    words = [sys.executable, "-m", "ansible", "config", "dump"]
    dumped = subprocess.run(words, capture_output=True, text=True, check=False).stdout
    found = _HOST_LIST.search(dumped)
    # Output that cannot be read is left to Ansible to report.
    if found is None or found["origin"] != "default":
        return True
    return any(Path(place).exists() for place in re.findall(r"'([^']+)'", found["places"]))
