# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The cache of built programs: one directory per pinned module, checksums verified on every use."""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from time import sleep
from typing import Any

from ...outcome.errors import UnavailableError
from ...runtime.files import write_atomic
from ...runtime.progress import Progress
from .tools import ModuleSource

_MANIFEST = "manifest.json"
_SCHEMA = 1
_WORK = ".build-"


def default_cache(environ: Mapping[str, str]) -> Path:
    """Return the user's cache directory for the toolchain (outside the checkout: a second clone is fast)."""
    base = environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    return Path(base) / "gpufleet" / "toolchain"


def build_digest(source: ModuleSource, flags: Mapping[str, str], platform: str) -> str:
    """Return what identifies a build: pinned sources, flags and platform.

    The Go release is recorded beside the programs but is no part of the digest: a machine with a filled cache needs
    no Go, and a Go patch release is no reason to build for ten minutes (`go.mod` states the language version).
    """
    digest = hashlib.sha256()
    for part in (source.go_mod, source.go_sum, json.dumps(dict(flags), sort_keys=True), platform):
        digest.update(part.encode() + b"\0")
    return digest.hexdigest()[:16]


def sha256_of(path: Path) -> str:
    with path.open("rb") as handle:
        return hashlib.file_digest(handle, "sha256").hexdigest()


@dataclass(frozen=True, slots=True)
class ModuleStore:
    """The directory that holds the programs of one build."""

    directory: Path

    def path_of(self, tool: str) -> Path:
        """Return where a program lies or will lie."""
        return self.directory / tool

    def problem(self, tool: str) -> str:
        """Return why a stored program cannot be used: `missing`, `checksum` or, when it can, nothing."""
        expected = self._checksums().get(tool, "")
        path = self.path_of(tool)
        if not expected or not path.is_file():
            return "missing"
        return "" if sha256_of(path) == expected else "checksum"

    def record(self, tool: str, go_version: str) -> None:
        """Record the checksum of a program just built."""
        checksums = self._checksums() | {tool: sha256_of(self.path_of(tool))}
        document = {"schema_version": _SCHEMA, "go": go_version, "sha256": checksums}
        write_atomic(self.directory / _MANIFEST, json.dumps(document, indent=2) + "\n")

    def _checksums(self) -> dict[str, str]:
        try:
            document: Any = json.loads((self.directory / _MANIFEST).read_text())
        except (OSError, ValueError):
            return {}
        if not isinstance(document, dict) or document.get("schema_version") != _SCHEMA:
            return {}
        checksums = document.get("sha256")
        return {str(k): str(v) for k, v in checksums.items()} if isinstance(checksums, dict) else {}


@contextmanager
def workplace(cache: Path) -> Iterator[Path]:
    """Make a directory for work in progress within the cache, removed at the end."""
    # What is still dying may write into it.
    with tempfile.TemporaryDirectory(dir=cache, prefix=_WORK, ignore_cleanup_errors=True) as name:
        yield Path(name)


def sweep(cache: Path) -> None:
    """Remove the work in progress of those that were killed; hold the cache for it."""
    for left in cache.glob(f"{_WORK}*"):
        shutil.rmtree(left, ignore_errors=True)


@contextmanager
def cache_lock(cache: Path, progress: Progress, alive: Callable[[], None]) -> Iterator[None]:
    """Hold the cache: two builds at once would do the same work twice and overwrite each other.

    Raises:
        UnavailableError: the directory cannot be written.
    """
    try:
        cache.mkdir(parents=True, exist_ok=True)
        handle = (cache / ".lock").open("w")
    except OSError as error:
        hint = "set gpufleet_rehearsal_cache to a directory that you can write"
        raise UnavailableError(f"toolchain cache {cache}", f"cannot be written: {error}.", hint) from error
    with handle:
        while True:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                progress.tick("toolchain: another build holds the cache, waiting")
                alive()
                sleep(0.5)
        yield
