# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Files that are whole or absent, and as private as the directory that they are in."""

from __future__ import annotations

import errno
import os
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ..outcome.errors import InputError, UnavailableError

PRIVATE_DIR, PRIVATE_FILE = 0o700, 0o600
_FULL = (errno.ENOSPC, errno.EDQUOT)
# What the kernel shows as files, among them /dev/stdout and /dev/fd/1, which may lead to a regular file.
_KERNEL, _IN_MEMORY = (Path("/dev"), Path("/proc"), Path("/sys")), Path("/dev/shm")
_OTHER_KINDS = (
    (stat.S_ISDIR, "a directory", "name a file in it"),
    (stat.S_ISFIFO, "a pipe", "name a regular file, and read that"),
    (stat.S_ISSOCK, "a socket", "name a regular file"),
    (lambda _mode: True, "a device", "name a regular file"),
)
_MOST_LINKS = 40


def write_problem(path: Path, error: OSError) -> UnavailableError:
    """Return the error for a file that this machine would not write: it names the path, and what to look at."""
    reason = error.strerror or str(error)
    place = next((parent for parent in (path, *path.parents) if parent.is_dir()), Path("/"))
    full = f"make room there: df -h '{place}' (and df -i, for files can run out before bytes do)"
    hint = full if error.errno in _FULL else f"see who may write there: ls -ld '{place}'"
    return UnavailableError(str(path), f"cannot be written: {reason}.", hint)


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Turn errors of the operating system while a file is written into ours.

    Raises:
        UnavailableError: see write_problem.
    """
    try:
        yield
    except OSError as error:
        raise write_problem(path, error) from None


def file_to_write(path: Path) -> Path:
    """Return the file that is replaced where this path is written: links stay, the file that they lead to is meant.

    Raises:
        InputError: it is no place for a file: a device, a pipe, a socket, a directory, or a link that leads nowhere.
        UnavailableError: it cannot be looked at.
    """
    with writing(path):
        meant = _behind_links(path)
        _refuse_other_kinds(path, meant)
    return meant


def _behind_links(path: Path) -> Path:
    meant = path
    for _link in range(_MOST_LINKS):
        # realpath, for Path.resolve raises on loops in some releases of Python only.
        meant = Path(os.path.realpath(meant.parent), meant.name)
        if any(meant.is_relative_to(place) for place in _KERNEL) and not meant.is_relative_to(_IN_MEMORY):
            hint = "name a regular file; `gpufleet recipe` prints a recipe to standard output"
            raise InputError(str(path), "is a device or a file of the kernel, which is never written.", hint)
        if not meant.is_symlink():
            break
        meant = meant.parent / os.readlink(meant)
    else:
        raise InputError(str(path), "is a link in a loop of links.", f"see where it leads: namei '{path}'")
    for place in (path, *path.parents):
        if place.is_symlink() and not place.exists():
            reason = f"cannot be written: {place} is a link to {os.readlink(place)}, which is not there."
            raise InputError(str(path), reason, f"make what it leads to, or remove the link: rm '{place}'")
    return meant


def _refuse_other_kinds(path: Path, meant: Path) -> None:
    try:
        mode = meant.stat().st_mode
    except FileNotFoundError:
        return
    if not stat.S_ISREG(mode):
        kind, hint = next((kind, hint) for matches, kind, hint in _OTHER_KINDS if matches(mode))
        raise InputError(str(path), f"is {kind}, no place for a file.", hint)


def write_atomic(path: Path, text: str, mode: int | None = None) -> None:
    """Write text so that a reader sees the old file or the new one, never half of it; see file_to_write for links.

    Args:
        path: the file; directories that lack are made, with the mode of the one above them.
        text: what it holds.
        mode: its mode; without it whoever may read the directory may read the file.

    Raises:
        InputError: see file_to_write.
        UnavailableError: it cannot be written, a full disk among the reasons.
    """
    write_atomic_bytes(path, text.encode("utf-8"), mode)


def write_atomic_bytes(path: Path, content: bytes, mode: int | None = None) -> None:
    """Write bytes in the way of write_atomic.

    Raises:
        InputError: see file_to_write.
        UnavailableError: it cannot be written.
    """
    meant = file_to_write(path)
    with writing(path):
        _write(meant, content, mode)


def _write(path: Path, content: bytes, mode: int | None) -> None:
    make_dirs(path.parent)
    descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(descriptor, "wb") as handle:
            handle.write(content)
            handle.flush()
            os.fsync(handle.fileno())
        os.chmod(name, file_mode(path.parent) if mode is None else mode)
        os.replace(name, path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def file_mode(directory: Path) -> int:
    """Return the mode of files in a directory: 0600 in one of 0700, 0640 in one of 0750."""
    return PRIVATE_FILE | (directory.stat().st_mode & 0o044)


def make_dirs(path: Path) -> None:
    """Make a directory and those above it that lack, each as private as the one that was there.

    Raises:
        OSError: one cannot be made.
    """
    if path.is_dir():
        return
    make_dirs(path.parent)
    mode = PRIVATE_DIR | (path.parent.stat().st_mode & 0o055)
    try:
        # As private as it will be from the first moment: what another thread makes below it takes its mode.
        path.mkdir(mode=mode)
    except FileExistsError:
        return
    # The umask may have taken away what others are to see.
    path.chmod(mode)
