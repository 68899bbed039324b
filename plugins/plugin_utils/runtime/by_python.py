# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Lets Python's own loader import the modules of a package in programs of Ansible.

Ansible's loader of collections compiles every module from its source, in each ansible-playbook anew
(`_AnsibleCollectionPkgLoaderBase.get_code`): for some hundred modules that is a second before the first task. Python's
own loader takes what it compiled before.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.machinery import SOURCE_SUFFIXES, FileFinder, ModuleSpec, SourceFileLoader
from types import ModuleType


class _Finder:
    """Finds modules of one package by its path; sys.path and its hooks, which Ansible changes, are not asked."""

    def __init__(self, package: str) -> None:
        self.package = package
        self._directories: dict[str, FileFinder] = {}

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return where a module of the package is; None for every other one."""
        if path is None or not name.startswith(f"{self.package}."):
            return None
        for directory in path:
            if directory not in self._directories:
                self._directories[directory] = FileFinder(directory, (SourceFileLoader, SOURCE_SUFFIXES))
            if spec := self._directories[directory].find_spec(name, target):
                return spec
        return None


def import_by_python(package: str) -> None:
    """Let Python's own loader import what is below the package, in programs of Ansible; others have no other loader."""
    if "ansible.cli" in sys.modules and not any(
        isinstance(finder, _Finder) and finder.package == package for finder in sys.meta_path
    ):
        sys.meta_path.insert(0, _Finder(package))
