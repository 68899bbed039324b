# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Startup of every Python on a simulated host: its clock, and compiled files that hosts share.

Ansible sends a module with its libraries as a zip file, and Python compiles every file of a zip at each start. On a
real host that is the host's time; here all hosts share one machine, and it takes a third of a module's time. Compiled
files are in a directory that all hosts of a rehearsal share, named by their source and by the Python that made them.
"""

from __future__ import annotations

import marshal
import os
import sys
import time
import zipimport
from _imp import source_hash
from types import CodeType
from typing import Any

# Seconds by which the clock of this host is ahead of the machine's (prepare.py).
_AHEAD = "/opt/gpu-node/out/clock-ahead.txt"
_KEPT = os.environ.get("GPUFLEET_REHEARSAL_COMPILED", "")
# Not public, so a Python without it compiles everything.
_compile: Any = getattr(zipimport, "_compile_source", None)


def _file_of(path: str, source: bytes) -> str:
    """Return the path of the compiled form: by two hashes of the source, its length and name, and the Python."""
    name = path.partition(".zip/")[2].replace("/", ".")
    hashes = "".join(source_hash(key, source).hex() for key in (1, 2))
    return f"{_KEPT}/{name}-{hashes}-{len(source)}.{sys.implementation.cache_tag}"


def _compiled(path: str, source: bytes) -> CodeType:
    kept = _file_of(path, source)
    try:
        with open(kept, "rb") as file:
            # Only code is written there, by this function below. marshal's type is Any.
            return marshal.loads(file.read())  # type: ignore[no-any-return]
    except (OSError, ValueError, EOFError, TypeError):
        # Not compiled yet.
        pass
    code: CodeType = _compile(path, source)
    own = f"{kept}.{os.uname().nodename}-{os.getpid()}"
    try:
        # Renamed once complete, since another host may read it at any time.
        with open(own, "wb") as written:
            written.write(marshal.dumps(code))
        os.rename(own, kept)
    except OSError:
        # Without space the next one compiles it again.
        pass
    return code


if _compile is not None and _KEPT:
    zipimport._compile_source = _compiled  # type: ignore[attr-defined]


def _ahead_s() -> float:
    try:
        with open(_AHEAD, encoding="ascii") as file:
            return float(file.read())
    except (OSError, ValueError):
        return 0.0


if _ahead_s():
    _machine_time = time.time
    time.time = lambda: _machine_time() + _ahead_s()
