# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Starts the resident program of a rehearsal's hosts."""

from __future__ import annotations

import json
from pathlib import Path

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.runtime.host_tools import HostTool, load_host_tools

from ..places import DATA, python_argv
from ..processes.spec import ProcessSpec
from .enclosure import COMPILED_AT, COMPILED_VARIABLE, PYTHON_START
from .kept_answers import NOT_KEPT

_WAVE = 0


def kept_tools() -> tuple[HostTool, ...]:
    """Return the tools of hosts whose output may be reused (see kept_answers.py)."""
    return tuple(tool for tool in load_host_tools().used_by("host_probe") if tool.name not in NOT_KEPT)


def resident_process(root: Path) -> ProcessSpec:
    """Return the resident program, with the environment of Python on a simulated host."""
    commands = json.dumps([command for tool in kept_tools() for command in tool.commands])
    sudo = str(DATA / "tools" / "sudo.sh")
    argv = python_argv("rehearsal.hosts.resident", str(root), sudo, commands)
    environment = {"PYTHONPATH": PYTHON_START, COMPILED_VARIABLE: COMPILED_AT}
    return ProcessSpec(name="hosts", argv=argv, wave=_WAVE, env=environment)
