# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What CI cannot run it says, and does not take for passed."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

NOT_RUN = 77


def fresh(repository: Path, **environ: str) -> subprocess.CompletedProcess[str]:
    argv = [str(repository / ".ci" / "fresh"), "make", "rehearse"]
    return subprocess.run(argv, env={**os.environ, **environ}, capture_output=True, text=True, check=False)


def test_without_the_tool_it_was_not_run(repository: Path, tmp_path: Path) -> None:
    done = fresh(repository, GPUFLEET_SHARED=str(tmp_path))
    assert done.returncode == NOT_RUN
    assert "**** NOT RUN on a fresh machine: make rehearse\n" in done.stderr
    assert f"there is no {tmp_path}/tools/fresh-machine" in done.stderr


def test_without_root_it_was_not_run(repository: Path, tmp_path: Path) -> None:
    for path, script in (("tools/fresh-machine", "exit 0"), ("bin/id", "echo 1000")):
        (tmp_path / path).parent.mkdir()
        (tmp_path / path).write_text(f"#!/bin/sh\n{script}\n")
        (tmp_path / path).chmod(0o755)
    done = fresh(repository, GPUFLEET_SHARED=str(tmp_path), PATH=f"{tmp_path}/bin:{os.environ['PATH']}")
    assert (done.returncode, "it needs root" in done.stderr) == (NOT_RUN, True)


def test_the_status_of_the_command_is_that_of_ci(repository: Path, tmp_path: Path) -> None:
    programs = {"tools/fresh-machine": f'echo "$@" >{tmp_path}/words; exit 3', "bin/id": "echo 0"}
    for path, script in {**programs, "bin/debootstrap": "exit 0"}.items():
        (tmp_path / path).parent.mkdir(exist_ok=True)
        (tmp_path / path).write_text(f"#!/bin/sh\n{script}\n")
        (tmp_path / path).chmod(0o755)
    cache = tmp_path / "cache" / "gpufleet" / "toolchain"
    environ = {"GPUFLEET_SHARED": str(tmp_path), "PATH": f"{tmp_path}/bin:{os.environ['PATH']}"}
    words = f"{repository.resolve()} -- make rehearse\n"
    assert fresh(repository, **environ, XDG_CACHE_HOME=str(tmp_path / "cache")).returncode == 3
    assert (tmp_path / "words").read_text() == words
    (cache / "etcd-0123456789abcdef").mkdir(parents=True)
    assert fresh(repository, **environ, XDG_CACHE_HOME=str(tmp_path / "cache")).returncode == 3
    assert (tmp_path / "words").read_text() == f"--toolchain {cache} {words}"
