# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Loads modules of a package from compiled files, which Ansible's collection loader never does: it compiles each from
its source, in every process.

docs/design/report-and-imports.md has the time that this saves.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.machinery import SOURCE_SUFFIXES, FileFinder, ModuleSpec, SourceFileLoader
from types import ModuleType

PROGRAMS = "ansible.cli"


class CompiledFinder:
    """Finds the modules of a package on the package's own path, as Python does without Ansible."""

    def __init__(self, package: str) -> None:
        self.prefix = package + "."
        self.finders: dict[str, FileFinder] = {}

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return the spec of a module of that package; None leaves all other modules to the next finders."""
        if not name.startswith(self.prefix):
            return None
        for folder in path or ():
            finder = self.finders.setdefault(folder, FileFinder(folder, (SourceFileLoader, SOURCE_SUFFIXES)))
            if (spec := finder.find_spec(name)) is not None and spec.loader is not None:
                return spec
        return None


def import_compiled(package: str) -> None:
    """Import modules below that package from compiled files, in programs of Ansible. Names, paths and errors stay the
    same.

    Without a program of Ansible another loader is at work, or one that lets nobody be before it (`ansible-test`).
    """
    if PROGRAMS in sys.modules and not any(
        isinstance(finder, CompiledFinder) and finder.prefix == f"{package}." for finder in sys.meta_path
    ):
        sys.meta_path.insert(0, CompiledFinder(package))
