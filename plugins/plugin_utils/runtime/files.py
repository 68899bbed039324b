# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Files that are whole or absent."""

from __future__ import annotations

import errno
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ..outcome.errors import UnavailableError

_FULL = (errno.ENOSPC, errno.EDQUOT)


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


def write_atomic(path: Path, text: str, mode: int = 0o644) -> None:
    """Write text so that a reader sees the old file or the new one, never half of it.

    Raises:
        UnavailableError: it cannot be written, a full disk among the reasons.
    """
    with writing(path):
        _write(path, text, mode)


def _write(path: Path, text: str, mode: int) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as handle:
            handle.write(text)
            handle.flush()
            os.fsync(handle.fileno())
        os.chmod(name, mode)
        os.replace(name, path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
