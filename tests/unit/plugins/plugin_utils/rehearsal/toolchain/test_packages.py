# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is the base system, and what the loader says."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

import pytest

from ansible_collections.gpufleet.rehearsal.plugins.plugin_utils.toolchain.packages import (
    base_packages,
    library_path,
    loader_of,
    missing_libraries,
)

STATUS = """\
Package: bash
Essential: yes
Status: install ok installed
Pre-Depends: libc6 (>= 2.36), libtinfo6 (>= 6)
Depends: base-files (>= 2.1.12), cdebconf | debconf:any

Package: base-files
Essential: yes
Status: install ok installed
Pre-Depends: awk
Description: base
 Depends: opensm

Package: gawk
Priority: optional
Status: install ok installed
Provides: awk
Depends: libreadline8

Package: mawk
Priority: required
Status: install ok installed
Provides: awk (= 1)

Package: debconf
Status: install ok installed

Package: libreadline8
Status: install ok installed

Package: libc6
Status: install ok installed
Depends: libgone | libgcc-s1

Package: libgcc-s1
Status: deinstall ok config-files

Package: libtinfo6
Status: install ok installed

Package: libibumad3
Status: install ok installed
Depends: libc6 (>= 2.14)
"""


def test_the_base_system_is_what_is_essential_and_what_that_needs() -> None:
    base = base_packages(STATUS)
    # Neither the other awk with its library nor what somebody installed by hand.
    assert list(base) == ["base-files", "bash", "debconf", "libc6", "libtinfo6", "mawk"]
    assert base["mawk"].startswith("Package: mawk\n") and base["mawk"].endswith("Provides: awk (= 1)")


def test_the_base_system_of_this_machine_has_its_c_library() -> None:
    status = Path("/var/lib/dpkg/status")
    if not status.exists():
        pytest.skip("no dpkg")
    base = base_packages(status.read_text(errors="replace"))
    assert {"bash", "libc6", "zlib1g"} <= set(base)
    assert len(base) < 120


def test_the_loader_tells_what_a_program_misses(tmp_path: Path) -> None:
    shell = os.path.realpath("/bin/sh")
    assert loader_of(Path(shell)).startswith("/lib")
    assert missing_libraries(shell, os.environ) == []
    broken = tmp_path / "sh"
    # The name of a library in the program is another one of the same length.
    broken.write_bytes(Path(shell).read_bytes().replace(b"libc.so.6\0", b"libc.so.9\0"))
    broken.chmod(0o755)
    assert "libc.so.9" in " ".join(missing_libraries(str(broken), os.environ))


def test_a_library_that_cannot_be_preloaded_is_missing() -> None:
    (line,) = missing_libraries(os.path.realpath("/bin/sh"), {**os.environ, "LD_PRELOAD": "/nowhere/libumad2sim.so"})
    assert "/nowhere/libumad2sim.so" in line


def test_a_script_needs_no_loader(tmp_path: Path) -> None:
    script = tmp_path / "script"
    script.write_text(f"#!{sys.executable}\n")
    assert missing_libraries(str(script), os.environ) == []
    assert loader_of(Path(shutil.which("env") or "")) != ""


def test_libraries_are_sought_where_distributions_put_them(tmp_path: Path) -> None:
    for place in ("usr/lib/x86_64-linux-gnu", "lib/x86_64-linux-gnu", "usr/share"):
        (tmp_path / place).mkdir(parents=True)
    places = library_path(tmp_path).split(os.pathsep)
    wanted = ("usr/lib/x86_64-linux-gnu", "lib/x86_64-linux-gnu", "usr/lib", "lib")
    assert places == [str(tmp_path / place) for place in wanted]
