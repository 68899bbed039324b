# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Libraries of Ansible modules, loaded once: a module that brings identical files reuses them.

A module comes with its libraries as a zip file. They are still looked up there. A library whose file in the zip is byte
for byte the loaded one is not run again. If one differs (another version of Ansible, a changed checkout), none is
reused.
"""

from __future__ import annotations

import sys
import zlib
from collections.abc import Sequence
from importlib import import_module
from importlib.abc import Loader
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from types import ModuleType
from zipfile import BadZipFile, ZipFile

_OURS = "ansible_collections.gpufleet.bringup"
_LOADED = (
    "ansible.module_utils._internal._ansiballz._loader",
    "ansible.module_utils._internal._json._profiles._module_legacy_c2m",
    "ansible.module_utils._internal._json._profiles._module_legacy_m2c",
    f"{_OURS}.plugins.module_utils.node_tools",
    f"{_OURS}.plugins.module_utils.fabric_tools",
)
_SHARED = ("ansible.module_utils.", f"{_OURS}.plugins.module_utils.")
# Imported by the wrapper of a module itself.
_WRAPPER = ("base64", "resource", "runpy", "shutil", "tempfile", "zipfile")


class _Kept:
    """A library as it was loaded: the module, size and checksum of its file."""

    __slots__ = ("file", "module")

    def __init__(self, module: ModuleType, file: tuple[int, int]) -> None:
        self.module = module
        self.file = file


_kept: dict[str, _Kept] = {}


def load() -> None:
    """Load the libraries, and put them aside."""
    for name in (*_WRAPPER, *_LOADED):
        try:
            import_module(name)
        except ImportError:
            # In another version of Ansible it may be elsewhere; then modules load it themselves.
            continue
    for name in [name for name in sys.modules if name.partition(".")[0] in ("ansible", "ansible_collections")]:
        module = sys.modules.pop(name)
        origin = getattr(module, "__file__", None)
        # Not `distro`, which replaces itself by another library.
        if name.startswith(_SHARED) and module.__name__ == name and origin:
            source = Path(origin).read_bytes()
            _kept[name] = _Kept(module, (len(source), zlib.crc32(source)))


def offer() -> None:
    """Let imports reuse the loaded libraries from here on."""
    sys.meta_path.insert(0, _Finder())


class _Finder:
    """Finds loaded libraries in a zip file."""

    def __init__(self) -> None:
        self._same: dict[str, bool] = {}

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, _target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return the spec of a library, if it is the loaded one."""
        kept = _kept.get(name)
        if kept is None:
            return None
        spec = PathFinder.find_spec(name, path)
        if spec is None or spec.origin is None or not self._is_same(str(spec.origin).partition(".zip/")[0] + ".zip"):
            return spec
        spec.loader = _Reuse(kept.module)
        return spec

    def _is_same(self, archive: str) -> bool:
        """Tell whether all loaded libraries that the zip file has are the same there."""
        if archive not in self._same:
            try:
                with ZipFile(archive) as opened:
                    entries = {entry.filename: (entry.file_size, entry.CRC) for entry in opened.infolist()}
            except (OSError, BadZipFile):
                entries = {}
            found = [(entries.get(_file_of(name, kept.module)), kept.file) for name, kept in _kept.items()]
            self._same[archive] = all(brought in (None, own) for brought, own in found)
        return self._same[archive]


def _file_of(name: str, module: ModuleType) -> str:
    return name.replace(".", "/") + ("/__init__.py" if hasattr(module, "__path__") else ".py")


class _Reuse(Loader):
    """Returns the loaded module instead of running its file."""

    def __init__(self, module: ModuleType) -> None:
        self._module = module

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        """Return the module, whose file is the one in the zip from here on."""
        self._module.__file__ = spec.origin
        if spec.submodule_search_locations is not None:
            self._module.__path__ = spec.submodule_search_locations
        return self._module

    def exec_module(self, module: ModuleType) -> None:
        """It ran already."""
