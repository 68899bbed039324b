# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The toolchain of this machine for tests that need it at once, and Go for those that build themselves."""

from __future__ import annotations

import os
from collections.abc import Mapping
from functools import cache
from pathlib import Path

from rehearsal_harness import ROOT

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.runtime.progress import Progress
from ansible_collections.gpufleet.rehearsal.plugins.plugin_utils.toolchain.ensure import (
    Workshop,
    ensure_toolchain,
)
from ansible_collections.gpufleet.rehearsal.plugins.plugin_utils.toolchain.golang import ensure_go
from ansible_collections.gpufleet.rehearsal.plugins.plugin_utils.toolchain.store import (
    cache_lock,
    default_cache,
)


def alive() -> None:
    """Say that the controller lives."""


@cache
def build_toolchain() -> None:
    """Build what this machine has not built yet, so that a rehearsal starts within seconds."""
    sources = ROOT / "rehearsal" / "roles" / "rehearsal" / "files" / "toolchain"
    ensure_toolchain(Workshop(sources, default_cache(os.environ), os.environ, Progress(print), alive))


@cache
def real_go() -> Path:
    """Return the program; where PATH has none it is installed into the user's cache, once."""
    place, progress = default_cache(os.environ), Progress(print)
    with cache_lock(place, progress, alive):
        return ensure_go(place, os.environ, progress, alive).program


def path_with(go: Path, environ: Mapping[str, str]) -> str:
    """Return a PATH on which this Go is the first."""
    return os.pathsep.join([str(go.parent), environ.get("PATH", "")])


def path_without_go(environ: Mapping[str, str]) -> str:
    """Return the PATH of this machine less every directory that has a Go."""
    places = environ.get("PATH", "").split(os.pathsep)
    return os.pathsep.join(place for place in places if not (Path(place) / "go").exists())
