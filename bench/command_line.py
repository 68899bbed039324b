# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""How long `gpufleet recipe` and `gpufleet query` take to their first byte, against their budget.

    .cache/venv/bin/python bench/command_line.py [DIRECTORY ...]     directories of recipe data, default: the catalogue
    GPUFLEET_AICR=/path/to/aicr .cache/venv/bin/python bench/command_line.py

Each is a fresh process of the program that a user starts. `kept`: the catalogue that an earlier call loaded is there;
`loaded`: it is read from its files; `first`: no compiled file is there either, as for the very first call. Time to the
first byte is by the clock, the least of several runs, beside it the CPU time of the whole process, and how often both
are those of a Python that does nothing: that ratio depends less on the machine and its load.
"""

from __future__ import annotations

import os
import resource
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from time import perf_counter

ROOT = Path(__file__).resolve().parent.parent
PROGRAM = str(ROOT / "bin" / "gpufleet")
ASKED = ("--service", "eks", "--accelerator", "h100", "--intent", "training", "--os", "ubuntu")
COMMANDS = {
    "recipe": ("recipe", *ASKED),
    "recipe --format json": ("recipe", *ASKED, "--format", "json"),
    "query": ("query", "components.gpu-operator.values.driver.version", *ASKED),
}
RUNS = 12
BUDGET_MS = 150.0
# The work of a command against that of the upstream tool, which is one compiled program.
BUDGET_RATIO = 3.0


def one(command: tuple[str, ...], environment: dict[str, str]) -> tuple[float, float]:
    """Run a command; return milliseconds to its first byte, and of CPU until its end."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    begun = perf_counter()
    with subprocess.Popen(command, stdout=subprocess.PIPE, env=environment) as process:
        assert process.stdout is not None
        found = os.read(process.stdout.fileno(), 1)
        first = (perf_counter() - begun) * 1000
        process.stdout.read()
    if process.returncode or (not found and command[0] == PROGRAM):
        raise SystemExit(f"{' '.join(command)} ended with {process.returncode}")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return first, (after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime) * 1000


def least(
    command: tuple[str, ...], environment: dict[str, str], before: Callable[[], object] = lambda: None, runs: int = RUNS
) -> tuple[float, float]:
    """Return the least of both over several runs."""
    found = []
    for _run in range(runs):
        before()
        found.append(one(command, environment))
    return min(first for first, _cpu in found), min(cpu for _first, cpu in found)


def main() -> int:
    """Print every figure beside its budget; 1 if one is over it."""
    data = tuple(word for directory in sys.argv[1:] for word in ("--data", directory))
    over = False
    with tempfile.TemporaryDirectory(prefix="gpufleet-bench-") as cache:
        environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
        environment |= {"XDG_CACHE_HOME": cache, "GPUFLEET_PYTHON": sys.executable}
        place = Path(cache) / "gpufleet"
        empty = least((sys.executable, "-c", "pass"), environment)
        print(f"{'':24}{'first byte':>12}{'CPU':>8}   times an empty Python ({empty[0]:.0f} ms, CPU {empty[1]:.0f})")
        binary = os.environ.get("GPUFLEET_AICR")
        upstream = least((binary, *COMMANDS["recipe"]), environment)[1] if binary else 0.0
        for name, words in COMMANDS.items():
            command = (PROGRAM, *words, *data)
            one(command, environment)
            states: dict[str, tuple[Callable[[], object], int]] = {
                "kept": (lambda: None, RUNS),
                "loaded": (lambda: shutil.rmtree(place / "catalogues"), RUNS),
                "first": (lambda: shutil.rmtree(place), 3),
            }
            for state, (prepare, runs) in states.items():
                first, cpu = least(command, environment, prepare, runs)
                late = state == "kept" and first > BUDGET_MS
                ratio = f"{first / empty[0]:6.1f}{cpu / empty[1]:8.1f}"
                print(f"{f'{name}, {state}':28}{first:8.0f}{cpu:8.0f}{ratio}{'   OVER' if late else ''}")
                over |= late
                if upstream and state == "kept" and name == "recipe":
                    costly = cpu > BUDGET_RATIO * upstream
                    print(f"  {cpu / upstream:.1f} times the CPU of the upstream tool{'   OVER' if costly else ''}")
                    over |= costly
    return int(over)


if __name__ == "__main__":
    sys.exit(main())
