# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The Python of simulated hosts takes installed files as compiled, and only where the zip has the very same file."""

from __future__ import annotations

import importlib.util
import marshal
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.rehearsal.hosts import enclosure

START = Path(enclosure.__file__).resolve().parent / "python_start"


@pytest.fixture
def installed(tmp_path: Path) -> Path:
    """A directory of installed files: `lib.py` says `source`, and its compiled form says `compiled`."""
    directory = tmp_path / "site-packages"
    directory.mkdir()
    source = directory / "lib.py"
    source.write_text("WORD = 'source'\n")
    cache = Path(importlib.util.cache_from_source(str(source)))
    cache.parent.mkdir()
    stat = source.stat()
    head = importlib.util.MAGIC_NUMBER + bytes(4) + int(stat.st_mtime).to_bytes(4, "little")
    code = compile("WORD = 'compiled'\n", "lib.py", "exec")
    cache.write_bytes(head + stat.st_size.to_bytes(4, "little") + marshal.dumps(code))
    return directory


def word(installed: Path, content: str) -> str:
    """Return what `lib` says where a zip with that content comes first."""
    archive = installed.parent / "module.zip"
    with zipfile.ZipFile(archive, "w") as written:
        written.writestr("lib.py", content)
    program = f"import sys; sys.path[:0] = [{str(archive)!r}, {str(installed)!r}]; import lib; print(lib.WORD)"
    command = [sys.executable, "-c", program]
    return subprocess.run(
        command, env={"PYTHONPATH": str(START)}, check=True, stdout=subprocess.PIPE, text=True
    ).stdout.strip()


def test_the_same_file_is_not_compiled_again(installed: Path) -> None:
    assert word(installed, "WORD = 'source'\n") == "compiled"


def test_another_file_of_the_same_name_is_taken_as_it_is(installed: Path) -> None:
    assert word(installed, "WORD = 'another'\n") == "another"


def test_a_file_that_nobody_installed_is_taken_as_it_is(installed: Path) -> None:
    (installed / "lib.py").unlink()
    assert word(installed, "WORD = 'source'\n") == "source"
