# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Loaded catalogues are saved in files, so that a short command need not read and check all recipe data again.

A saved catalogue is used only if it was made from the present files (their paths, sizes and times of change), by this
code and this Python, and if no other user can have written it: like a compiled Python file it is trusted by its reader.
Otherwise the recipe data is loaded.
"""

from __future__ import annotations

import marshal
import os
import pickle
import sys
import time
import zlib
from contextlib import suppress
from pathlib import Path

from ..outcome.errors import BringupError
from ..runtime.files import COLLECTION_ROOT, RECIPES
from .model import Catalogue
from .tree import Signature, signature_of

_CODE = ("constraint", "hardware", "outcome", "recipe", "runtime")
_SUFFIX = ".catalogue"
_OTHERS_WRITE = 0o022
# A file that is written twice within one tick of its file system has the same times after both.
_TICK_S = 2.0
_OLD_S = 30 * 86400.0


def kept_or_loaded(directories: tuple[Path, ...], place: Path, signature: Signature | None = None) -> Catalogue:
    """Return the catalogue of these directories, from a file in `place` or else from the recipe data, and save it.

    Args:
        directories: those of catalogue_directories.
        place: the directory of saved catalogues.
        signature: signature of these directories, if the caller has just computed it.

    Raises:
        ProblemsError: the data are wrong; such a catalogue is never saved.
    """
    state, newest = _state(directories, signature or signature_of(directories))
    file = place / f"{zlib.crc32(repr([str(path) for path in directories]).encode()):08x}{_SUFFIX}"
    found = _read(file, state)
    if found is not None:
        return found
    from .load import load_catalogue

    catalogue = load_catalogue(directories)
    if not newest <= time.time() - _TICK_S:
        return catalogue
    # If the home cannot be written to, the next command is slower, nothing else.
    with suppress(BringupError, OSError):
        _keep(catalogue, file, state)
    return catalogue


def _state(directories: tuple[Path, ...], signature: Signature) -> tuple[bytes, float]:
    """Return the state of everything that a loaded catalogue is made from, and the time of its last change."""
    own = [RECIPES, *(COLLECTION_ROOT / "plugins" / "plugin_utils" / room for room in _CODE)]
    signature += signature_of([path for path in own if path not in directories])
    whole = (sys.version, [(str(path), os.path.abspath(path)) for path in directories], signature)
    newest = max((max(changed, state) for _path, changed, state, _size in signature), default=0)
    return marshal.dumps(whole), newest / 1e9


def _read(file: Path, state: bytes) -> Catalogue | None:
    """Return the catalogue in a file of this user. None if it is of another state."""
    try:
        descriptor = os.open(file, os.O_RDONLY | os.O_NOFOLLOW)
        with os.fdopen(descriptor, "rb") as handle:
            if not all(_ours(status) for status in (os.fstat(handle.fileno()), os.stat(file.parent))):
                return None
            if handle.read(len(state)) != state:
                return None
            found = pickle.load(handle)
    except OSError:
        return None
    except Exception:  # noqa: BLE001 - whatever a torn file makes of itself, the data are there
        return None
    return found if isinstance(found, Catalogue) else None


def _keep(catalogue: Catalogue, file: Path, state: bytes) -> None:
    """Save a catalogue with the chart values that its components name. Files that are too old are removed."""
    from ..runtime.files import PRIVATE_DIR, PRIVATE_FILE, write_atomic_bytes
    from .hydrate import file_values, value_files

    fragments = [layer.fragment for layer in catalogue.layers.values()]
    fragments += [mixin.fragment for mixin in catalogue.mixins.values()]
    fragments += [
        choice for layer in catalogue.layers.values() if layer.profile for choice in layer.profile.choices.values()
    ]
    for component in (component for fragment in fragments for component in fragment.components):
        for name in value_files(component, catalogue):
            # An error in a values file is reported to the caller that reads its values.
            with suppress(BringupError):
                file_values(name, catalogue)
    file.parent.mkdir(mode=PRIVATE_DIR, parents=True, exist_ok=True)
    write_atomic_bytes(file, state + pickle.dumps(catalogue, pickle.HIGHEST_PROTOCOL), PRIVATE_FILE)
    for other in file.parent.glob(f"*{_SUFFIX}"):
        if other.stat().st_mtime < time.time() - _OLD_S:
            other.unlink()


def _ours(status: os.stat_result) -> bool:
    return status.st_uid == os.geteuid() and not status.st_mode & _OTHERS_WRITE
