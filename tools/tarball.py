# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Builds the collection's tarball: the files that git tracks, and the pages of docs/reference/, which it does not.

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
    """Build the tarball in the directory that is named; return the status of ansible-galaxy."""
    target = Path(*arguments).absolute()
    tracked = tree.tracked_files()
    if left_out := sorted(tree.files_of_checkout() - tracked):
        names = ", ".join(map(str, left_out[:5])) + (" ..." if len(left_out) > 5 else "")
        print(f"build: left out, because git does not track them: {len(left_out)} files: {names}")
    with tempfile.TemporaryDirectory(prefix="gpufleet-build-") as directory:
        copy = Path(directory)
        tree.update(tracked, copy)
        write_reference(copy)
        galaxy = (sys.executable, "-m", "ansible", "galaxy", "collection", "build", "--force")
        status = subprocess.call((*galaxy, "--output-path", str(target)), cwd=copy)
        if status == 0:
            print("\n".join(_end_lines(copy, target)))
        return status


def _end_lines(copy: Path, target: Path) -> list[str]:
    """Return where the tarball is, and what installs it."""
    named = read_yaml(copy / "galaxy.yml")
    path = target / f"{named['namespace']}-{named['name']}-{named['version']}.tar.gz"
    shown = path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path
    return [f"{END}tarball  {shown}", f"{END}next     ansible-galaxy collection install {shown} --force"]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
