# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The helm of the rehearsal's toolchain, for tests that only render."""

from __future__ import annotations

import os
from pathlib import Path

from rehearsal_harness import ROOT

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.runtime.progress import Progress, silent
from ansible_collections.gpufleet.rehearsal.plugins.plugin_utils.lifecycle.controller import (
    alive_check,
    controller_process,
)
from ansible_collections.gpufleet.rehearsal.plugins.plugin_utils.toolchain.ensure import (
    Workshop,
    ensure_toolchain,
)
from ansible_collections.gpufleet.rehearsal.plugins.plugin_utils.toolchain.store import default_cache


def helm_program() -> Path:
    """Return the program, built if need be."""
    sources = ROOT / "rehearsal" / "roles" / "rehearsal" / "files" / "toolchain"
    alive = alive_check(controller_process())
    programs = ensure_toolchain(Workshop(sources, default_cache(os.environ), os.environ, Progress(silent), alive))
    return programs["helm"].path
