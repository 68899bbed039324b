# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Loads modules of the core from compiled files, which Ansible's loader of collections never reads.

docs/design/report-and-imports.md has what it saves.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.machinery import SOURCE_SUFFIXES, FileFinder, ModuleSpec, SourceFileLoader
from types import ModuleType

CORE = __name__.rpartition(".")[0].rpartition(".")[0]


class CompiledFinder:
    """Finds the modules below a package where its own path says, as Python does without Ansible."""

    def __init__(self, package: str) -> None:
        self.prefix = package + "."
        self.finders: dict[str, FileFinder] = {}

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return where a module of that package is; None leaves any other module to those who come next."""
        if not name.startswith(self.prefix):
            return None
        for folder in path or ():
            finder = self.finders.setdefault(folder, FileFinder(folder, (SourceFileLoader, SOURCE_SUFFIXES)))
            if (spec := finder.find_spec(name)) is not None and spec.loader is not None:
                return spec
        return None


@contextmanager
def compiled_files() -> Iterator[None]:
    """Import modules of the core from compiled files for a while; names, paths and errors are the same as ever.

    Where Python's own loader serves the core anyway, nothing changes.
    """
    if isinstance(getattr(sys.modules[CORE].__spec__, "loader", None), SourceFileLoader):
        yield
        return
    finder = CompiledFinder(CORE)
    sys.meta_path.insert(0, finder)
    try:
        yield
    finally:
        sys.meta_path.remove(finder)
