# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The toolchain is built on a machine that has no Go: pip brings it, the module proxy the sources."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest
from real_toolchain import alive, path_without_go

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.runtime.progress import Progress
from ansible_collections.gpufleet.rehearsal.plugins.plugin_utils.toolchain.ensure import (
    Workshop,
    ensure_toolchain,
)
from ansible_collections.gpufleet.rehearsal.plugins.plugin_utils.toolchain.store import Tool

pytestmark = pytest.mark.long("a toolchain without Go, which a fresh machine builds as well")

MODULE = "golang.org/x/example/hello"
VERSION = "v0.0.0-20250915201037-7f05d217867b"
HELLO = Tool("hello", "hello", MODULE, MODULE)
GO_MOD = f"module gpufleet.invalid/toolchain/hello\n\ngo 1.26.0\n\nrequire {MODULE} {VERSION}\n"
GO_SUM = f"""\
{MODULE} {VERSION} h1:+gZE2jOdiscYByu0606Uw8Ldir2Cecd39Vq/3IEasRA=
{MODULE} {VERSION}/go.mod h1:UhUKOXx5fMcLZxwL20DUrWWBBoRYG9Jvc8FiwZhRHCI=
"""


def test_a_module_is_built_where_no_go_is_on_path(tmp_path: Path) -> None:
    sources = tmp_path / "sources" / "hello"
    sources.mkdir(parents=True)
    (sources / "go.mod").write_text(GO_MOD)
    (sources / "go.sum").write_text(GO_SUM)
    environ = {**os.environ, "PATH": path_without_go(os.environ)}
    assert shutil.which("go", path=environ["PATH"]) is None
    said: list[str] = []
    workshop = Workshop(tmp_path / "sources", tmp_path / "cache", environ, Progress(said.append), alive)
    hello = ensure_toolchain(workshop, (HELLO,))["hello"]
    assert (hello.origin, hello.version) == ("built", VERSION)
    assert subprocess.run([hello.path], capture_output=True, text=True, check=True).stdout == "Hello, world!\n"
    assert any(line.startswith("toolchain: no Go 1.26 on PATH, installing it with pip") for line in said), said
    # The second program needs neither pip nor another download.
    said.clear()
    hello.path.unlink()
    assert ensure_toolchain(workshop, (HELLO,))["hello"].origin == "built"
    assert not any("pip" in line for line in said), said
