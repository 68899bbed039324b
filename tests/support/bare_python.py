# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""An interpreter whose packages are those of this one without some: as a user has it who forgot to install them."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.metadata import distribution, distributions
from pathlib import Path

_BARE = """\
import runpy, sys
sys.path[:] = [{packages!r}, *(path for path in sys.path if "site-packages" not in path)]
sys.argv[0] = "ansible-playbook"
runpy.run_module("ansible", run_name="__main__", alter_sys=False)
"""


def bare_python(directory: Path, *, without: Sequence[str]) -> tuple[str, ...]:
    """Return the words that start ansible-playbook there.

    Args:
        directory: where to make its site-packages, of links.
        without: names of the distributions that it lacks.
    """
    directory.mkdir(parents=True)
    left_out = {word for name in without for word in _top_level(name)}
    for place in {
        Path(str(found.locate_file(""))) for found in distributions() if "site-packages" in str(found.locate_file(""))
    }:
        for entry in place.iterdir():
            if entry.name not in left_out and not entry.name.endswith(".pth") and not (directory / entry.name).exists():
                (directory / entry.name).symlink_to(entry)
    code = _BARE.format(packages=str(directory))
    return (sys.executable, "-S", "-c", code, "playbook")


def _top_level(name: str) -> set[str]:
    return {str(path).partition("/")[0] for path in distribution(name).files or () if not str(path).startswith("..")}
