# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Runs a module of the core in a separate process: `python launch.py workload.keeper <arguments>`.

The file is run by its path, without Ansible and without an import path. A collection can be in a checkout, in a user's
collections or in an AWX project, so `ansible_collections.gpufleet.bringup` is mapped to the location of this file. A
module of another of our collections has that collection's name as prefix, and its directory: `python launch.py
--collection=<directory> rehearsal.controllers`.
"""

from __future__ import annotations

import runpy
import sys
from pathlib import Path
from types import ModuleType

_COLLECTION = Path(__file__).resolve().parents[3]
_OURS = "ansible_collections.gpufleet"
_PACKAGES = {"ansible_collections": [], _OURS: [], f"{_OURS}.bringup": [str(_COLLECTION)]}
_OTHER = "--collection="


def python_argv(module: str, *arguments: str, collection: Path | None = None) -> tuple[str, ...]:
    """Return the command that runs a module of `plugin_utils` (`workload.keeper`) with this interpreter.

    Args:
        module: the module; of another collection with that one's name as prefix (`rehearsal.controllers`).
        arguments: its arguments.
        collection: directory of that other collection.
    """
    other = () if collection is None else (f"{_OTHER}{collection}",)
    return (sys.executable, str(Path(__file__).resolve()), *other, module, *arguments)


def main() -> None:
    """Run the module named by the first argument as `__main__`."""
    # The directory of this file has modules with common names, which must not shadow others: import them by full name
    # only.
    sys.path[:] = [entry for entry in sys.path if Path(entry or ".").resolve() != Path(__file__).resolve().parent]
    packages, collection = dict(_PACKAGES), "bringup"
    del sys.argv[0]
    if (place := sys.argv[0]).startswith(_OTHER):
        del sys.argv[0]
        collection, _dot, module = sys.argv[0].partition(".")
        packages[f"{_OURS}.{collection}"] = [place.removeprefix(_OTHER)]
    else:
        module = place
    for name, path in packages.items():
        package = ModuleType(name)
        package.__path__ = path
        sys.modules[name] = package
    runpy.run_module(f"{_OURS}.{collection}.plugins.plugin_utils.{module}", run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
