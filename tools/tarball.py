# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Builds the tarballs of both collections: what git tracks, and the pages of docs/reference/, which it does not.

What else lies in a checkout is its owner's: an inventory with a facility record, a snapshot, a recipe.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.runtime.strict import read_yaml

from . import tree
from .check import END
from .pages import write_reference


def main(arguments: Sequence[str]) -> int:
    """Build the tarballs in the directory that is named; return the first status of ansible-galaxy that is not 0."""
    target = Path(*arguments).absolute()
    tracked = tree.tracked_files()
    if left_out := sorted(tree.files_of_checkout() - tracked):
        names = ", ".join(map(str, left_out[:5])) + (" ..." if len(left_out) > 5 else "")
        print(f"build: left out, because git does not track them: {len(left_out)} files: {names}")
    with tempfile.TemporaryDirectory(prefix="gpufleet-build-") as directory:
        copy = Path(directory)
        tree.update(tracked, copy)
        write_reference(copy / tree.BRINGUP)
        galaxy = (sys.executable, "-m", "ansible", "galaxy", "collection", "build", "--force")
        built = (subprocess.call((*galaxy, "--output-path", str(target)), cwd=copy / name) for name in tree.COLLECTIONS)
        if status := next(filter(None, built), 0):
            return status
        print("\n".join(_end_lines(copy, target)))
        return 0


def _end_lines(copy: Path, target: Path) -> list[str]:
    """Return where the tarballs are, and what installs them."""
    shown = []
    for name in tree.COLLECTIONS:
        named = read_yaml(copy / name / "galaxy.yml")
        path = target / f"{named['namespace']}-{named['name']}-{named['version']}.tar.gz"
        shown.append(str(path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path))
    install = f"{END}next     ansible-galaxy collection install {' '.join(shown)} --force"
    return [*(f"{END}tarball  {path}" for path in shown), install]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
