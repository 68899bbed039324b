# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The command gpufleet, as a process of a user and, where its time would be lost, within the test's own."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from gpufleet_command import Command, Ended

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.cli.main import run


@pytest.fixture(scope="session")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The cache of the user, which all tests of a session share as calls of a user do."""
    return tmp_path_factory.mktemp("cache")


@pytest.fixture
def gpufleet(kept: Path, capsys: pytest.CaptureFixture[str]) -> Command:
    """Call the command in this process."""

    def call(*argv: str) -> Ended:
        capsys.readouterr()
        code = run(argv, str(kept))
        printed = capsys.readouterr()
        return Ended(code, printed.out, printed.err)

    return call


@pytest.fixture
def program(repository: Path, kept: Path) -> Command:
    """Start the program of the checkout in a process of its own, as a shell does."""

    def call(*argv: str, cwd: Path | None = None, start: Path | None = None, **environment: str) -> Ended:
        known = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "GPUFLEET"))}
        command = [str(start or repository / "bin" / "gpufleet"), *argv]
        variables = known | {"XDG_CACHE_HOME": str(kept)} | environment
        done = subprocess.run(command, cwd=cwd, env=variables, capture_output=True, text=True, check=False)
        return Ended(done.returncode, done.stdout, done.stderr)

    return call
