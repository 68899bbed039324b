# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Playbooks as a user starts them: by name, in an empty directory with a copy of the example inventory."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
# What a shell of a user has; the rest of the environment of the tests is none of theirs.
_OF_A_SHELL = ("PATH", "LANG", "LC_ALL", "PYTHONDONTWRITEBYTECODE", "PYTHONPYCACHEPREFIX")


@dataclass(frozen=True, slots=True)
class Said:
    """How a command ended, and what it printed."""

    rc: int
    output: str


def play(
    work: Path,
    playbook: str,
    *words: str,
    inventory: bool = True,
    environment: Mapping[str, str] | None = None,
    program: tuple[str, ...] = (sys.executable, "-m", "ansible", "playbook"),
) -> Said:
    """Run `ansible-playbook gpufleet.bringup.<playbook>` in a directory.

    Args:
        work: the directory; it is home as well, and the example inventory is copied to it.
        playbook: its name, or a path.
        words: more words of the command line.
        inventory: whether it is named.
        environment: more variables of the environment.
        program: how ansible-playbook is started.
    """
    if inventory and not (work / "inventory").exists():
        shutil.copytree(ROOT / "inventories/example", work / "inventory")
    name = playbook if "/" in playbook else f"gpufleet.bringup.{playbook}"
    own = {key: os.environ[key] for key in _OF_A_SHELL if key in os.environ}
    own |= {
        "HOME": str(work),
        "PWD": str(work),
        "ANSIBLE_COLLECTIONS_PATH": str(ROOT / ".cache"),
        "ANSIBLE_NOCOLOR": "1",
    }
    named = ("-i", "inventory/hosts.yml") if inventory else ()
    done = subprocess.run(
        [*program, name, *named, *words], cwd=work, env=own | dict(environment or {}), stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=300, check=False,
    )  # fmt: skip
    return Said(done.returncode, done.stdout)
