# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Commands for a rehearsal that stays up, as a person can type them where it was started."""

from __future__ import annotations

import os
import shlex
import sys
from pathlib import Path

INVENTORY_FILE = "inventory.yml"


def kept_lines(directory: Path, kubeconfig: str) -> list[str]:
    """Return what a person needs who goes on with a rehearsal that stays up."""
    inventory = shown(directory / INVENTORY_FILE)
    rows = [
        ("validate", "-i", inventory),
        ("continuous", "-i", inventory, "--check"),
        ("snapshot", "-i", inventory, "-e", "gpufleet_snapshot=snapshot.json", "-e", "gpufleet_run=.run/latest"),
    ]
    return [
        f"the rehearsal stays up: export KUBECONFIG={shlex.quote(kubeconfig)}",
        "go on with it:",
        *(f"  {playbook_command(*row)}" for row in rows),
        f"stop it: {stop_command(directory)}",
    ]


def stop_command(directory: Path) -> str:
    """Return the command that stops the rehearsal in a directory."""
    usual = Path.cwd() / ".run" / "rehearsal" == directory
    return playbook_command("rehearse_stop", *([] if usual else ["-e", f"gpufleet_rehearsal_dir={directory}"]))


def playbook_command(name: str, *words: str) -> str:
    """Return the command that runs a playbook of the collection with this Ansible."""
    return " ".join([ansible_playbook(), f"gpufleet.bringup.{name}", *(shlex.quote(word) for word in words)])


def ansible_playbook() -> str:
    """Return the ansible-playbook of this Python, as a person can type it here."""
    # Not the file behind it: the link of a virtual environment is what knows its packages.
    program = Path(sys.executable).parent / "ansible-playbook"
    return shlex.quote(shown(program)) if program.is_file() else "ansible-playbook"


def shown(path: Path) -> str:
    """Return a path as it is typed here."""
    return os.path.relpath(path) if path.is_relative_to(Path.cwd()) else str(path)
