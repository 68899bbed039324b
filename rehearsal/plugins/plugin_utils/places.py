# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Where this collection and its data lie, in a checkout or installed, and how its modules run as programs."""

from __future__ import annotations

from pathlib import Path

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.runtime import launch

COLLECTION_ROOT = Path(__file__).resolve().parents[2]
# What the simulated hardware is like: accelerators, its tools, its speed, worlds.
DATA = COLLECTION_ROOT / "recipes"
# What the toolchain builds, and how KWOK behaves.
FILES = COLLECTION_ROOT / "roles" / "rehearsal" / "files"


def python_argv(module: str, *arguments: str) -> tuple[str, ...]:
    """Return the command that runs a module of this collection (`rehearsal.controllers`) with this interpreter."""
    return launch.python_argv(module, *arguments, collection=COLLECTION_ROOT)
