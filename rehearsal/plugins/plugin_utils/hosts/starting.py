# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Starts the resident program of a rehearsal's hosts."""

from __future__ import annotations

import json
from pathlib import Path

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.runtime.host_tools import load_host_tools

from ..places import DATA, python_argv
from ..processes.spec import ProcessSpec
from .enclosure import COMPILED_AT, COMPILED_VARIABLE, PYTHON_START
from .kept_answers import TOOLS

_WAVE = 0


def resident_process(root: Path) -> ProcessSpec:
    """Return the resident program, with the environment of Python on a simulated host."""
    tools = load_host_tools()
    commands = json.dumps([command for name in TOOLS for command in tools.named(name).commands])
    sudo = str(DATA / "tools" / "sudo.sh")
    argv = python_argv("rehearsal.hosts.resident", str(root), sudo, commands)
    environment = {"PYTHONPATH": PYTHON_START, COMPILED_VARIABLE: COMPILED_AT}
    return ProcessSpec(name="hosts", argv=argv, wave=_WAVE, env=environment)
