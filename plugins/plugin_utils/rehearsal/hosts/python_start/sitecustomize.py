# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""What every Python on a simulated host starts with: files of zips that are installed as well are not compiled again.

Ansible sends a module with its libraries as a zip file, and Python compiles every file of a zip at each start. On a
real host that is the host's time; here all hosts share one machine, and it is a third of what a module costs. A file
that is the same, byte for byte, as an installed one is taken as compiled for that; any other is compiled as usual.
"""

from __future__ import annotations

import sys
import zipimport
from importlib.machinery import SourceFileLoader
from typing import Any

# Not public, so a Python that has it no more compiles everything.
_compile: Any = getattr(zipimport, "_compile_source", None)


def _compiled(path: str, source: bytes) -> Any:
    inside = path.partition(".zip/")[2]
    for directory in sys.path if inside else ():
        if not directory.endswith("site-packages"):
            continue
        installed = f"{directory}/{inside}"
        try:
            with open(installed, "rb") as file:
                same = file.read() == source
        except OSError:
            continue
        if same:
            return SourceFileLoader("installed", installed).get_code("installed")
    return _compile(path, source)


if _compile is not None:
    zipimport._compile_source = _compiled  # type: ignore[attr-defined]
