# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Builds the collection's tarball with the pages of docs/reference/, which git does not keep.

It runs in a copy of the checkout, in whose directory it is started: tools/check.py, step `build`.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence

from .pages import ROOT, write_reference


def main(arguments: Sequence[str]) -> int:
    """Write the pages, then the tarball into the directory that is named; return the status of ansible-galaxy."""
    (target,) = arguments
    write_reference()
    galaxy = (sys.executable, "-m", "ansible", "galaxy", "collection", "build", "--force", "--output-path", target)
    return subprocess.call(galaxy, cwd=ROOT)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
