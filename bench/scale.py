# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""How the work of judging and reporting grows with the fleet: .cache/venv/bin/python bench/scale.py

    python bench/scale.py [--hosts 16,128,1000,5000] [--gates nodes,telemetry]

For each gate and size a run of a healthy fleet is made (tests/support/big_runs.py), and the gate is decided as its role
does it: evidence read and parsed, judged, CTRF and JUnit written and read back, verdict, every report. Measured is the
time of the process on a CPU, in a fresh process each, so that others on the machine hardly matter; making the evidence
is not measured, except where an observer looks at evidence alone (`observing`). `runs to make` is the part of gate
fabric_validation that asks, step by step, what to run next. A gate that does not pass is no figure of a healthy fleet:
the benchmark ends with 1.
The exponent is the slope of a line through the logarithms (least squares): 1 is linear, 2 is quadratic. What a gate
costs with any fleet makes it smaller, so the exponent of the two largest sizes stands beside it, and both count.
"""

from __future__ import annotations

import argparse
import json
import math
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from time import process_time

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / ".cache"), str(ROOT / "tests/support")]
SIZES = (16, 128, 1000, 5000)
BUDGET = 1.1
Figures = dict[str, float]


def measure(gate: str, hosts: int) -> dict[str, object]:
    """Return the CPU seconds of each part, and how many results were not passed."""
    import resource
    from dataclasses import replace

    from big_runs import BigRun

    from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.fabric_validation.observe_nccl import next_runs
    from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.registry import all_checks
    from ansible_collections.gpufleet.bringup.plugins.plugin_utils.report import run_report
    from ansible_collections.gpufleet.bringup.plugins.plugin_utils.run.decision import decide_gate

    all_checks()
    assert run_report
    with tempfile.TemporaryDirectory(prefix="gpufleet-scale-") as directory:
        made = BigRun(Path(directory), gate, hosts)
        run, spent = made.make(), {}
        if made.observing_s:
            spent[f"{gate}: observing"] = made.observing_s
        if made.steps:
            steps = [replace(results) for results in made.steps]
            begun = process_time()
            for results in steps:
                next_runs(results, made.hardware)
            spent["runs to make"] = process_time() - begun
            steps.clear()
            made.steps.clear()
        begun = process_time()
        verdict = decide_gate(run, gate)
        spent[gate] = process_time() - begun
    peak_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return {"spent": spent, "counts": verdict.counts, "peak_mb": round(peak_mb)}


def exponent(figures: Figures) -> float:
    """Return the slope of a line through the logarithms of hosts and seconds."""
    xs, ys = [math.log(float(size)) for size in figures], [math.log(max(s, 1e-4)) for s in figures.values()]
    mean_x, mean_y = sum(xs) / len(xs), sum(ys) / len(ys)
    return sum((x - mean_x) * (y - mean_y) for x, y in zip(xs, ys, strict=True)) / sum((x - mean_x) ** 2 for x in xs)


def told(part: str, figures: Figures) -> bool:
    """Print the line of a part; return whether it keeps the budget."""
    whole = exponent(figures)
    last = exponent(dict(list(figures.items())[-2:]))
    kept = max(whole, last) <= BUDGET
    seconds = "".join(f"{value:10.2f}" for value in figures.values())
    print(f"  {part:22}{seconds}{whole:11.2f}{last:11.2f}{'' if kept else '   OVER'}", flush=True)
    return kept


def _measured(gate: str, hosts: int) -> tuple[dict[str, Figures], bool]:
    """Return the seconds of each part, and whether all checks of the gate passed."""
    command = [sys.executable, __file__, "--one", gate, "--hosts", str(hosts)]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    found = json.loads(done.stdout.splitlines()[-1])
    counts = ", ".join(f"{count} {word}" for word, count in found["counts"].items() if count)
    print(f"    {gate}, {hosts} hosts: {counts or 'no result'}; {found['peak_mb']} MB", file=sys.stderr, flush=True)
    spent: dict[str, Figures] = {part: {str(hosts): seconds} for part, seconds in found["spent"].items()}
    counted: dict[str, int] = found["counts"]
    return spent, counted.get("passed", 0) > 0 and not any(counted[word] for word in counted if word != "passed")


def main(arguments: Sequence[str]) -> int:
    """Print CPU seconds and exponents; 1 if one is over the budget or a gate did not pass."""
    from big_runs import GATES

    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("--hosts", default=",".join(map(str, SIZES)))
    parser.add_argument("--gates", default=",".join(GATES))
    parser.add_argument("--one", default="", help=argparse.SUPPRESS)
    given = parser.parse_args(arguments)
    sizes = [int(word) for word in given.hosts.split(",")]
    if given.one:
        print(json.dumps(measure(given.one, sizes[0])))
        return 0
    if len(sizes) < 2:
        parser.error("an exponent needs two sizes")
    print(f"  {'CPU seconds at':22}{''.join(f'{size:10}' for size in sizes)}{'exponent':>11}{'at the end':>11}")
    kept = True
    for gate in given.gates.split(","):
        parts: dict[str, Figures] = {}
        for size in sizes:
            spent, passed = _measured(gate, size)
            if not passed:
                print(f"  {gate} of {size} hosts did not pass   NOT HEALTHY", flush=True)
                kept = False
            for part, figures in spent.items():
                parts.setdefault(part, {}).update(figures)
        for part, figures in parts.items():
            kept = told(part, figures) and kept
    print(f"  budget of the exponent: {BUDGET:g}")
    return 0 if kept else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
