# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The files of the repository, as git sees them."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def files(repository: Path) -> tuple[Path, ...]:
    """Every file that is tracked or would be, relative to the checkout."""
    if not (repository / ".git").exists():
        pytest.skip("not a git checkout")
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    names = subprocess.run(command, cwd=repository, check=True, capture_output=True, text=True).stdout.split("\0")
    return tuple(sorted(Path(name) for name in names if name and os.path.isfile(repository / name)))


@pytest.fixture(scope="session")
def python_files(files: tuple[Path, ...]) -> tuple[Path, ...]:
    return tuple(name for name in files if name.suffix == ".py")
