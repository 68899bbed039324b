# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""A file of a user is written through links, and never over what is no regular file."""

from __future__ import annotations

import errno
import os
import socket
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.errors import BringupError, InputError
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.recipe.output import FileText, write_documents
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.runtime.files import file_to_write, write_atomic
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.store.care import back_up
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.store.export import export
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.store.service import open_service


def _write(path: Path) -> None:
    write_atomic(path, "new")


def _resolve(path: Path) -> None:
    write_documents({path: FileText(text="new")}, check_mode=False)


def _back_up(path: Path) -> None:
    store = open_service(path.parent / "history" / "history.sqlite")
    assert isinstance(store.path, Path)
    back_up(store.path, path)


def _export(path: Path) -> None:
    store = open_service(path.parent / "history" / "history.sqlite")
    (path.parent / "export").mkdir()
    (path.parent / "export" / "days.csv").symlink_to(path)
    export(store, "island-1", path.parent / "export", ("csv",), rehearsal=False)


WRITERS = pytest.mark.parametrize("write", [_write, _resolve, _back_up, _export])


@WRITERS
def test_a_link_stays_and_the_file_behind_it_is_replaced(tmp_path: Path, write: Callable[[Path], None]) -> None:
    (tmp_path / "real").mkdir()
    real, link, again = tmp_path / "real" / "real.yaml", tmp_path / "link.yaml", tmp_path / "again.yaml"
    real.write_text("old")
    link.symlink_to("real/real.yaml")
    again.symlink_to(link)
    write(again)
    assert again.is_symlink() and link.is_symlink() and not real.is_symlink()
    assert b"old" not in real.read_bytes()[:3]
    assert [path.name for path in real.parent.iterdir()] == ["real.yaml"]


def _socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as made:
        made.bind(str(path))


def _loop(path: Path) -> None:
    path.symlink_to("other.yaml")
    path.with_name("other.yaml").symlink_to(path)


PLACES: dict[str, tuple[Callable[[Path], Any], str]] = {
    "pipe": (os.mkfifo, "is a pipe"),
    "socket": (_socket, "is a socket"),
    "directory": (Path.mkdir, "is a directory"),
    "linked directory": (lambda path: path.symlink_to(path.parent), "is a directory"),
    "standard output": (lambda path: path.symlink_to("/dev/stdout"), "is a device or a file of the kernel"),
    "descriptor": (lambda path: path.symlink_to("/dev/fd/1"), "is a device or a file of the kernel"),
    "device": (lambda path: path.symlink_to("/dev/null"), "is a device or a file of the kernel"),
    "dangling link": (lambda path: path.symlink_to("gone.yaml"), "is a link to .*, which is not there"),
    "loop": (_loop, "loop of links"),
}


@WRITERS
@pytest.mark.parametrize(("make", "found"), PLACES.values(), ids=list(PLACES))
def test_what_is_no_regular_file_is_refused_in_one_sentence(
    tmp_path: Path, write: Callable[[Path], None], make: Callable[[Path], Any], found: str
) -> None:
    path = tmp_path / "recipe.yaml"
    make(path)
    before = path.lstat().st_ino
    with pytest.raises(InputError, match=found) as caught:
        write(path)
    assert path.lstat().st_ino == before
    assert caught.value.hint and caught.value.reason.count(". ") == 0 and "\n" not in str(caught.value)


def test_standard_output_is_refused_where_it_is_a_file(tmp_path: Path) -> None:
    """`ansible-playbook ... > log`: /dev/stdout leads to a regular file, which the shell is writing."""
    with (tmp_path / "log").open("w") as log, pytest.raises(InputError, match="never written") as caught:
        write_atomic(Path(f"/dev/fd/{log.fileno()}"), "new")
    assert "gpufleet recipe" in caught.value.hint
    assert (tmp_path / "log").read_text() == ""


def test_shared_memory_is_a_place_for_files() -> None:
    with tempfile.TemporaryDirectory(dir="/dev/shm") as directory:
        path = Path(directory) / "recipe.yaml"
        write_atomic(path, "new")
        assert path.read_text() == "new"


def test_a_link_to_a_directory_that_is_gone_is_named(tmp_path: Path) -> None:
    (tmp_path / "share").symlink_to("/mnt/gone")
    with pytest.raises(InputError, match=r"share is a link to /mnt/gone, which is not there"):
        write_atomic(tmp_path / "share" / "recipes" / "recipe.yaml", "new")


def test_a_directory_that_may_not_be_written_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_args: Any, **_options: Any) -> None:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))

    link = tmp_path / "link.yaml"
    (tmp_path / "real.yaml").write_text("old")
    link.symlink_to("real.yaml")
    monkeypatch.setattr(tempfile, "mkstemp", refused)
    with pytest.raises(BringupError, match=r"link\.yaml: cannot be written: Permission denied") as caught:
        write_atomic(link, "new")
    assert "ls -ld" in caught.value.hint


def test_a_relative_path_is_of_the_working_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert file_to_write(Path("recipe.yaml")) == Path(os.path.realpath(tmp_path)) / "recipe.yaml"
