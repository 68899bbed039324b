# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Runs a module of the core in a process of its own: `python launch.py workload.keeper <arguments>`.

The file is run by its path, without Ansible and without an import path: a collection lies in a checkout, in a user's
collections or in an AWX project, so `ansible_collections.gpufleet.bringup` is pointed at where this file is.
"""

from __future__ import annotations

import runpy
import sys
from pathlib import Path
from types import ModuleType

_COLLECTION = Path(__file__).resolve().parents[3]
_PACKAGES = {
    "ansible_collections": [],
    "ansible_collections.gpufleet": [],
    "ansible_collections.gpufleet.bringup": [str(_COLLECTION)],
}


def python_argv(module: str, *arguments: str) -> tuple[str, ...]:
    """Return the command that runs a module of `plugin_utils` (`rehearsal.controllers`) with this interpreter."""
    return (sys.executable, str(Path(__file__).resolve()), module, *arguments)


def main() -> None:
    """Run the module named by the first argument as `__main__`."""
    # The directory of this file holds modules with everyday names; they are ours only by their full name.
    sys.path[:] = [entry for entry in sys.path if Path(entry or ".").resolve() != Path(__file__).resolve().parent]
    for name, path in _PACKAGES.items():
        package = ModuleType(name)
        package.__path__ = path
        sys.modules[name] = package
    del sys.argv[0]
    core = "ansible_collections.gpufleet.bringup.plugins.plugin_utils"
    runpy.run_module(f"{core}.{sys.argv[0]}", run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
