# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The Python interpreter that runs Ansible: its packages and its garbage collector."""

from __future__ import annotations

import gc
import shlex
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from ..outcome.errors import InputError
from .files import COLLECTION_ROOT

# Checks that the interpreter that runs Ansible has the Python packages of requirements.txt.

REQUIREMENTS = COLLECTION_ROOT / "requirements.txt"


def require_packages(requirements: Path = REQUIREMENTS) -> None:
    """Check that every package is installed.

    Raises:
        InputError: some are missing or too old.
    """
    wrong = list(_wrong(requirements))
    if wrong:
        raise package_error(f"needs Python packages that it lacks: {', '.join(wrong)}.", requirements)


def missing_module(name: str) -> InputError:
    """Return the error for a module of another package that cannot be imported."""
    return package_error(f"has no Python module {name.partition('.')[0]!r}.", REQUIREMENTS)


def package_error(reason: str, requirements: Path) -> InputError:
    """Return an error whose fix is to install the packages for this interpreter."""
    command = [sys.executable, "-m", "pip", "install", "-r", str(requirements)]
    return InputError(sys.executable, reason, shlex.join(command))


def _wrong(requirements: Path) -> Iterator[str]:
    # Installed with ansible-core.
    from packaging.requirements import Requirement

    for line in requirements.read_text(encoding="utf-8").splitlines():
        text = line.partition("#")[0].strip()
        if not text:
            continue
        wanted = Requirement(text)
        try:
            found = version(wanted.name)
        except PackageNotFoundError:
            yield str(wanted)
            continue
        if not wanted.specifier.contains(found, prereleases=True):
            yield f"{wanted} (found {found})"


# Garbage collector: off while much is read and nothing is freed, and kept away from memory shared with a parent
# process.


@contextmanager
def collector_held() -> Iterator[None]:
    """Switch the garbage collector off in this block, where it would scan all that was read again and again.

    Only for work that ends and waits for nothing. Objects are still freed by reference counting.
    """
    ran = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if ran:
            gc.enable()


def leave_inherited() -> None:
    """In a worker forked for one task: exclude inherited objects from garbage collection.

    None of them can be freed there, and the kernel would copy every page that the collector touches.
    """
    # Ansible has already loaded it. Without it this process was not forked by multiprocessing.
    import multiprocessing

    if multiprocessing.parent_process() is not None:
        gc.freeze()
