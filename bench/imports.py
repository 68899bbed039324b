# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""How long the import of the core takes in a fresh process, against its budget.

    python bench/imports.py

The core is every module of plugins/plugin_utils but action_base (which needs Ansible) and rehearsal (which no product
run imports). Third-party packages are imported inside functions, so none of them is in the figure. Compiled files are
used, as in production. The figure is the median of several fresh processes; below it stand the rooms that took most.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path
from time import perf_counter, process_time

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = "ansible_collections.gpufleet.bringup.plugins.plugin_utils"
LEFT_OUT = ("action_base", "rehearsal")
BUDGET_MS = 150.0
RUNS = 7


def modules() -> list[str]:
    """Return the name of every module of the core."""
    base = ROOT / "plugins" / "plugin_utils"
    found = [path.relative_to(base).with_suffix("") for path in sorted(base.rglob("*.py"))]
    mine = [path for path in found if path.parts[0] not in LEFT_OUT and path.name != "__init__"]
    return [".".join((PACKAGE, *path.parts)) for path in mine]


def measure() -> None:
    """Import everything in this process and print the time, the work and the time of each room."""
    from importlib import import_module

    rooms: dict[str, float] = {}
    names = modules()
    begun, working = perf_counter(), process_time()
    for name in names:
        before = perf_counter()
        import_module(name)
        room = name.removeprefix(f"{PACKAGE}.").split(".")[0]
        rooms[room] = rooms.get(room, 0.0) + (perf_counter() - before) * 1000
    third_party = {"yaml", "kubernetes", "cattrs", "sqlalchemy", "jinja2", "jsonschema"} & set(sys.modules)
    told = {"ms": (perf_counter() - begun) * 1000, "cpu_ms": (process_time() - working) * 1000}
    print(json.dumps(told | {"modules": len(names), "rooms": rooms, "third_party": sorted(third_party)}))


def main() -> int:
    """Print the figure beside its budget; 1 if it is over it."""
    with tempfile.TemporaryDirectory(prefix="gpufleet-bench-") as cache:
        environment = {key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}
        environment |= {"PYTHONPATH": str(ROOT / ".cache"), "PYTHONPYCACHEPREFIX": cache}
        command = [sys.executable, __file__, "--measure"]
        # The first one writes the compiled files.
        runs = [
            json.loads(subprocess.run(command, capture_output=True, check=True, text=True, env=environment).stdout)
            for _run in range(RUNS + 1)
        ][1:]
    figures = {name: statistics.median(run[name] for run in runs) for name in ("ms", "cpu_ms")}
    over = figures["ms"] > BUDGET_MS
    print(f"import of {runs[0]['modules']} modules in a fresh process, median of {RUNS}")
    print(f"  {'import_ms':22}{figures['ms']:9.2f}   budget {BUDGET_MS:g}{'   OVER' if over else ''}")
    print(f"  {'cpu_ms':22}{figures['cpu_ms']:9.2f}   what of it was work, where others use the machine, too")
    for room, ms in Counter(runs[-1]["rooms"]).most_common(5):
        print(f"  {room:22}{ms:9.2f}   of one run; a room that comes later finds shared modules there")
    if runs[0]["third_party"]:
        print(f"  third-party packages were imported: {', '.join(runs[0]['third_party'])}")
    return int(over or bool(runs[0]["third_party"]))


if __name__ == "__main__":
    if sys.argv[1:2] == ["--measure"]:
        measure()
    else:
        sys.exit(main())
