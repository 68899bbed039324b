# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The first file that the command gpufleet runs: gives the collection its name without Ansible, and starts the rest."""

from __future__ import annotations

import gc
import os
import sys
from types import ModuleType

PACKAGE = "ansible_collections.gpufleet.bringup"
OLDEST = (3, 11)


def _named(root: str) -> None:
    """Make the modules of the collection in that directory importable by their names, and no others of these names."""
    name = ""
    for part in PACKAGE.split("."):
        parent, name = sys.modules.get(name), f"{name}.{part}".lstrip(".")
        module = ModuleType(name)
        module.__path__ = [root] if name == PACKAGE else []
        sys.modules[name] = module
        if parent is not None:
            setattr(parent, part, module)


def _compiled(cache: str) -> None:
    """Keep compiled files below the user's cache, never beside the sources; a directory of another user is left
    alone."""
    if sys.pycache_prefix is not None or sys.dont_write_bytecode:
        return
    try:
        os.makedirs(cache, mode=0o700, exist_ok=True)
        status = os.stat(cache)
    except OSError:
        return
    if status.st_uid == os.geteuid() and not status.st_mode & 0o022:
        sys.pycache_prefix = os.path.join(cache, "pycache")


def main() -> int:
    """Run the command with the arguments of this process and return its exit code."""
    if sys.version_info < OLDEST:
        needed, found = (".".join(str(part) for part in version[:2]) for version in (OLDEST, sys.version_info))
        sys.stderr.write(
            f"gpufleet: needs Python {needed} or newer; {sys.executable} is {found}. "
            "Fix: name another one, GPUFLEET_PYTHON=/path/to/python3\n"
        )
        return 2
    here = os.path.dirname(os.path.realpath(__file__))
    # The directory of this file is in it, with module names such as `output` that no one else may use.
    sys.path[:] = [path for path in sys.path if os.path.realpath(path) != here]
    # At this time there is no garbage, and collection would take a tenth of the time of a short command.
    gc.set_threshold(50_000)
    base = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    cache = os.path.join(base, "gpufleet")
    _compiled(cache)
    _named(os.path.dirname(os.path.dirname(os.path.dirname(here))))
    from ansible_collections.gpufleet.bringup.plugins.plugin_utils.cli.main import run

    return run(sys.argv[1:], cache)


if __name__ == "__main__":
    sys.exit(main())
