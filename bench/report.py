# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Measures how long writing every report of a run takes: .cache/venv/bin/python bench/report.py

Each size is measured in a fresh process, as a gate does it: reading the results back, drawing, and writing every file.
`first_ms` is that, with pygal's import and the compilation of the templates. `cpu_ms` is its processor time, which the
budget is about: on a machine without other work both are the same. `again_ms` is the median of more writes in the same
process. `import_ms` is what a gate has imported before: the core with all checks, and Jinja, which Ansible brings.
20 checks answer for each node, and one node in 50 fails one.
"""

from __future__ import annotations

import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from time import perf_counter, process_time

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / ".cache"), str(ROOT / "tests/support")]
CHECKS, RUNS = 20, 3
BUDGETS_MS = {16: 500.0, 1000: 5000.0}


def make(run_dir: Path, nodes: int) -> None:
    """Write a run of that many nodes over all gates."""
    from report_runs import MadeRun, failed

    from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.model import node_subject

    made = MadeRun(nodes=nodes).healthy()
    outcomes = [o for number in range(CHECKS) for o in made.every_node("nodes", f"check-{number:02}")]
    for index in range(0, len(outcomes), CHECKS * 50):
        old = outcomes[index]
        outcomes[index] = failed("nodes", old.check, node_subject(old.subjects[0].name), "gpu-missing")
    made.outcomes["nodes"] = tuple(outcomes)
    made.write(run_dir)


def measure(run_dir: Path) -> dict[str, float]:
    """Write the reports of a run several times and return the figures."""
    begun = perf_counter()
    import jinja2  # noqa: F401 - Ansible has it

    from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.registry import all_checks
    from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.codec import load
    from ansible_collections.gpufleet.bringup.plugins.plugin_utils.report.run_report import write_report
    from ansible_collections.gpufleet.bringup.plugins.plugin_utils.verdict.run import RunRecord

    all_checks()
    imported, working = perf_counter(), process_time()
    record = load(RunRecord, run_dir / "run.json")
    write_report(run_dir, record)
    first, worked = perf_counter(), process_time()
    again = []
    for _run in range(RUNS):
        start = perf_counter()
        write_report(run_dir, record)
        again.append(perf_counter() - start)
    return {
        "import_ms": (imported - begun) * 1000,
        "first_ms": (first - imported) * 1000,
        "cpu_ms": (worked - working) * 1000,
        "again_ms": statistics.median(again) * 1000,
        "page_kb": (run_dir / "report.html").stat().st_size / 1024,
        "peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    }


def main() -> int:
    """Print the figures of each size as JSON; 1 if a budget is not kept."""
    if len(sys.argv) > 1:
        print(json.dumps(measure(Path(sys.argv[1]))))
        return 0
    kept = True
    with tempfile.TemporaryDirectory() as work:
        for nodes, budget in BUDGETS_MS.items():
            run_dir = Path(work) / str(nodes)
            make(run_dir, nodes)
            done = subprocess.run(
                [sys.executable, __file__, str(run_dir)], check=True, capture_output=True, text=True, env=os.environ
            )
            figures = json.loads(done.stdout)
            kept = kept and figures["cpu_ms"] <= budget
            told = {name: round(value, 1) for name, value in figures.items()}
            print(json.dumps({"nodes": nodes, "results": nodes * CHECKS, "budget_ms": budget, **told}))
    return 0 if kept else 1


if __name__ == "__main__":
    sys.exit(main())
