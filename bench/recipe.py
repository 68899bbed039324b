# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""How fast recipes resolve, against their budgets; beside it the upstream tool where its binary is.

    python bench/recipe.py [DIRECTORY ...]          directories of recipe data, default: our own catalogue
    GPUFLEET_AICR=/path/to/aicr python bench/recipe.py ../shared/upstream/aicr-0.11.1/recipes

Every figure is the median of several runs. A cold run reads all files in a fresh process; importing the code has a
budget of its own (bench/imports.py) and is reported apart, the YAML library's import with it.

`all_combinations_ms` resolves every combination that a layer is for, and those are what `list` names. What these make
together (any platform on any accelerator on any system ...) is measured once with `--lattice`, for it takes minutes.
"""

from __future__ import annotations

import json
import os
import resource
import statistics
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from time import perf_counter, process_time

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / ".cache"))
RUNS = 7
BUDGETS = {"cold_ms": 100.0, "loaded_ms": 2.0, "hydrated_warm_ms": 10.0, "all_combinations_ms": 1000.0, "peak_mb": 60.0}


def milliseconds(work: Callable[[], object]) -> float:
    """Return how long some work takes."""
    begun = perf_counter()
    work()
    return (perf_counter() - begun) * 1000


def median(work: Callable[[], object], runs: int = RUNS) -> float:
    """Return the median of several runs."""
    return statistics.median(milliseconds(work) for _run in range(runs))


def cold(directories: list[str]) -> None:
    """Measure, in this fresh process, importing, loading, resolving and hydrating; print it as JSON."""
    begun = perf_counter()
    import yaml  # noqa: F401 - its import is part of what is measured

    from ansible_collections.gpufleet.bringup.plugins.plugin_utils.recipe.hydrate import hydrated
    from ansible_collections.gpufleet.bringup.plugins.plugin_utils.recipe.load import load_catalogue
    from ansible_collections.gpufleet.bringup.plugins.plugin_utils.recipe.resolve import resolve
    from ansible_collections.gpufleet.bringup.plugins.plugin_utils.recipe.support import supported_combinations

    imported, working = perf_counter(), process_time()
    catalogue = load_catalogue([Path(text) for text in directories])
    loaded = perf_counter()
    combinations = supported_combinations(catalogue)
    criteria = max(combinations, key=lambda item: item.specificity)
    asked = perf_counter()
    hydrated(resolve(criteria, catalogue), catalogue)
    done, worked = perf_counter(), process_time()
    single = median(lambda: resolve(criteria, catalogue), 50)
    warm = median(lambda: hydrated_answer(directories, criteria.to_dict()), 20)
    everything = median(lambda: [resolve(item, catalogue) for item in combinations])
    print(
        json.dumps(
            {
                "import_ms": (imported - begun) * 1000,
                "cold_ms": (loaded - imported + done - asked) * 1000,
                "cold_cpu_ms": (worked - working) * 1000,
                "loaded_ms": single,
                "hydrated_warm_ms": warm,
                "all_combinations_ms": everything,
                "combinations": len(combinations),
                "peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
                "criteria": criteria.to_dict(),
            }
        )
    )


def hydrated_answer(directories: list[str], criteria: dict[str, str]) -> object:
    """Answer as a module does, which looks whether a file has changed, and hydrate."""
    from ansible_collections.gpufleet.bringup.plugins.plugin_utils.recipe.hydrate import hydrated
    from ansible_collections.gpufleet.bringup.plugins.plugin_utils.recipe.request import answer, request_of

    private = [text for text in directories if Path(text).resolve() != ROOT / "recipes"]
    answered = answer(request_of({"criteria": criteria, "recipe_data": private}))
    return hydrated(answered.result, answered.catalogue)


def whole_lattice(directories: list[str]) -> None:
    """Resolve every supported question once."""
    from ansible_collections.gpufleet.bringup.plugins.plugin_utils.recipe.lattice import lattice
    from ansible_collections.gpufleet.bringup.plugins.plugin_utils.recipe.load import load_catalogue
    from ansible_collections.gpufleet.bringup.plugins.plugin_utils.recipe.resolve import resolve

    catalogue = load_catalogue([Path(text) for text in directories])
    begun = perf_counter()
    supported = lattice(catalogue)
    counted = perf_counter()
    for criteria in supported:
        resolve(criteria, catalogue)
    seconds = perf_counter() - counted
    print(f"{len(supported)} supported questions counted in {(counted - begun) * 1000:.0f} ms")
    print(f"all of them resolved in {seconds:.1f} s, {seconds / len(supported) * 1000:.2f} ms each")


def upstream_ms(binary: str, criteria: dict[str, str]) -> float:
    """Return how long the upstream tool takes for the same question, its own start included."""
    arguments = [f"--{name}={value}" for name, value in criteria.items() if name not in ("fabric", "nvlink_domain")]
    command = [binary, "recipe", *arguments]
    return median(lambda: subprocess.run(command, capture_output=True, check=True, timeout=60))


def main() -> int:
    """Print every figure beside its budget; 1 if one is over it."""
    directories = sys.argv[1:] or [str(ROOT / "recipes")]
    command = [sys.executable, __file__, "--cold", *directories]
    runs = [
        json.loads(subprocess.run(command, capture_output=True, check=True, text=True).stdout) for _run in range(RUNS)
    ]
    figures = {name: statistics.median(run[name] for run in runs) for name in [*BUDGETS, "import_ms", "cold_cpu_ms"]}
    print(f"{', '.join(directories)}: {runs[0]['combinations']} combinations, asked for {runs[0]['criteria']}")
    for name, budget in BUDGETS.items():
        print(f"  {name:22}{figures[name]:9.2f}   budget {budget:g}{'' if figures[name] <= budget else '   OVER'}")
    print(f"  {'import_ms':22}{figures['import_ms']:9.2f}   of the budget of the whole core, 150")
    print(f"  {'cold_cpu_ms':22}{figures['cold_cpu_ms']:9.2f}   what of it was work, where others use the machine, too")
    binary = os.environ.get("GPUFLEET_AICR")
    if binary:
        print(f"  {'upstream tool, ms':22}{upstream_ms(binary, runs[0]['criteria']):9.2f}")
    return int(any(figures[name] > budget for name, budget in BUDGETS.items()))


if __name__ == "__main__":
    if sys.argv[1:2] == ["--cold"]:
        cold(sys.argv[2:])
    elif sys.argv[1:2] == ["--lattice"]:
        whole_lattice(sys.argv[2:] or [str(ROOT / "recipes")])
    else:
        sys.exit(main())
