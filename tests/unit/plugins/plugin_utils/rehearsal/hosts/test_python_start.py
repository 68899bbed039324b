# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The Python of simulated hosts compiles a file of a zip once for all hosts, and never takes one file for another."""

from __future__ import annotations

import marshal
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from ansible_collections.gpufleet.rehearsal.plugins.plugin_utils.hosts import enclosure

START = Path(enclosure.__file__).resolve().parent / "python_start"
SOURCE = "WORD = 'source'\n"


@pytest.fixture
def kept(tmp_path: Path) -> Path:
    """The directory that hosts share."""
    directory = tmp_path / "compiled"
    directory.mkdir()
    return directory


def word(kept: Path, content: str) -> str:
    """Return what `lib` says where a zip has that content."""
    archive = kept.parent / "module.zip"
    with zipfile.ZipFile(archive, "w") as written:
        written.writestr("lib.py", content)
    program = f"import sys; sys.path[:0] = [{str(archive)!r}]; import lib; print(lib.WORD)"
    environment = {"PYTHONPATH": str(START), "GPUFLEET_REHEARSAL_COMPILED": str(kept)}
    command = [sys.executable, "-c", program]
    return subprocess.run(command, env=environment, check=True, stdout=subprocess.PIPE, text=True).stdout.strip()


def test_the_same_file_is_compiled_once(kept: Path) -> None:
    assert word(kept, SOURCE) == "source"
    (file,) = kept.iterdir()
    file.write_bytes(marshal.dumps(compile("WORD = 'compiled'\n", "lib.py", "exec")))
    assert word(kept, SOURCE) == "compiled"


def test_another_file_of_the_same_name_and_length_is_compiled_for_itself(kept: Path) -> None:
    assert word(kept, SOURCE) == "source"
    assert word(kept, SOURCE.replace("source", "others")) == "others"
    assert len(list(kept.iterdir())) == 2


@pytest.mark.parametrize("damage", [b"", b"\xff\xff"])
def test_a_damaged_compiled_file_is_made_again(kept: Path, damage: bytes) -> None:
    word(kept, SOURCE)
    (file,) = kept.iterdir()
    file.write_bytes(damage)
    assert word(kept, SOURCE) == "source"


def test_without_the_directory_every_file_is_compiled(kept: Path) -> None:
    kept.rmdir()
    assert word(kept, SOURCE) == "source"
