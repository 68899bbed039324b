# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Location of this collection and its data, in a checkout or installed, and the command that runs a module of it."""

from __future__ import annotations

from pathlib import Path

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.runtime import launch

COLLECTION_ROOT = Path(__file__).resolve().parents[2]
# Data of the simulated hardware: accelerators, tools, speed, reference sites.
DATA = COLLECTION_ROOT / "recipes"
# Sources of the toolchain, and the behaviour of KWOK.
FILES = COLLECTION_ROOT / "roles" / "rehearsal" / "files"


def python_argv(module: str, *arguments: str) -> tuple[str, ...]:
    """Return the command that runs a module of this collection (`rehearsal.controllers`) with this interpreter."""
    return launch.python_argv(module, *arguments, collection=COLLECTION_ROOT)
