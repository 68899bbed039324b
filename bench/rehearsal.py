# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Where the time of one rehearsal goes: start of the control plane, preflight, each gate, stop.

    python bench/rehearsal.py [--nodes 16] [--sku h100] [--gates facility,nodes] [--fleet 100]

Runs `playbooks/rehearse.yml` once in a directory of its own and takes the time at which ansible-playbook announces each
play. All figures are of that one run, so they can be held against each other; the share of the whole says more than the
seconds where others use the machine, too. With --fleet a second run with that many nodes follows, and each stage is
given as a ratio of the two.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from time import perf_counter

ROOT = Path(__file__).resolve().parent.parent
BUDGET_S, BUDGET_NODES = 180.0, 16
FLEET_RATIO = 2.5
_PLAY = re.compile(r"PLAY \[(.+?)\]")
_GATE = re.compile(r"Gate (\d), ")
# Plays that belong to a stage by their name; a gate's own play and what collects for it are named below.
_STAGES = {
    "Start the rehearsal": "start of the control plane",
    "Read the fabric, which one host sees as a whole": "gate 2",
    "Read the hosts": "gate 3",
    "End of the run": "stop",
    "Stop the rehearsal": "stop",
}
_BEFORE = "preflight and contact"


@dataclass(slots=True)
class Timings:
    """One run: seconds by stage in order, the whole, whether it passed, and what its record says."""

    stages: dict[str, float] = field(default_factory=dict)
    total_s: float = 0.0
    passed: bool = False
    verdict: str = ""
    gates: dict[str, str] = field(default_factory=dict)


def rehearse(nodes: int, sku: str, gates: str) -> Timings:
    """Run one rehearsal and return how long each stage took."""
    with tempfile.TemporaryDirectory(prefix="gpufleet-bench-") as directory:
        words = [f"rehearsal_nodes={nodes}", f"rehearsal_sku={sku}", f"run_dir={directory}/runs"]
        words += [f"rehearsal_dir={directory}/rehearsal", *([f"gates={gates}"] if gates else [])]
        command = ["ansible-playbook", "playbooks/rehearse.yml"]
        command += [word for text in words for word in ("-e", f"gpufleet_{text}")]
        timings = _followed(command)
        record = Path(directory, "runs", "latest", "run.json")
        if record.is_file():
            found = json.loads(record.read_text(encoding="utf-8"))["gates"]
            timings.gates = {
                f"gate {number}": f"{gate['gate']} {gate['status']}" for number, gate in enumerate(found, 1)
            }
        return timings


def _followed(command: list[str]) -> Timings:
    timings = Timings()
    environment = {**os.environ, "PYTHONUNBUFFERED": "1", "PYTHONPATH": str(ROOT / ".cache")}
    begun = since = perf_counter()
    stage = "start of Ansible"
    process = subprocess.Popen(
        command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    assert process.stdout is not None
    for line in process.stdout:
        play = _PLAY.match(line)
        if line.startswith("verdict"):
            timings.verdict = line.removeprefix("verdict").strip()
        if play is None:
            continue
        now = perf_counter()
        timings.stages[stage] = timings.stages.get(stage, 0.0) + now - since
        stage, since = _stage_of(play.group(1)), now
    timings.passed = process.wait() == 0
    ended = perf_counter()
    timings.stages[stage] = timings.stages.get(stage, 0.0) + ended - since
    timings.total_s = ended - begun
    return timings


def _stage_of(play: str) -> str:
    gate = _GATE.match(play)
    return f"gate {gate.group(1)}" if gate else _STAGES.get(play, _BEFORE)


def table(timings: Timings, other: Timings | None = None) -> list[str]:
    """Return the stages with their seconds and share; with another run their ratio to it, too."""
    head = f"  {'stage':36}{'seconds':>9}{'share':>8}"
    lines = [head + (f"{'fleet':>9}{'ratio':>8}" if other else "")]
    for stage, seconds in timings.stages.items():
        name = f"{stage} {timings.gates.get(stage, '')}".strip()
        line = f"  {name:36}{seconds:9.1f}{seconds / timings.total_s:8.0%}"
        if other:
            more = other.stages.get(stage, 0.0)
            line += f"{more:9.1f}{more / seconds:8.2f}" if seconds else f"{more:9.1f}{'-':>8}"
        lines.append(line)
    whole = f"  {'all':36}{timings.total_s:9.1f}{1:8.0%}"
    return [*lines, whole + (f"{other.total_s:9.1f}{other.total_s / timings.total_s:8.2f}" if other else "")]


def main() -> int:
    """Print the table; 1 if the run did not pass or is over its budget."""
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("--nodes", type=int, default=BUDGET_NODES)
    parser.add_argument("--sku", default="h100")
    parser.add_argument("--gates", default="", help="scope; all by default")
    parser.add_argument("--fleet", type=int, default=0, help="nodes of a second run")
    given = parser.parse_args()
    load = os.getloadavg()[0]
    one = rehearse(given.nodes, given.sku, given.gates)
    fleet = rehearse(given.fleet, given.sku, given.gates) if given.fleet else None
    print(f"{given.nodes} nodes of {given.sku}, {os.cpu_count()} cores, load {load:.1f} before the run: {one.verdict}")
    print("\n".join(table(one, fleet)))
    over = given.nodes == BUDGET_NODES and not given.gates and one.total_s > BUDGET_S
    print(f"  budget {BUDGET_S:g} s for {BUDGET_NODES} nodes on 2 idle cores{'   OVER' if over else ''}")
    if fleet:
        ratio = fleet.total_s / one.total_s
        over = over or (given.fleet == 1000 and ratio > FLEET_RATIO)
        print(f"  {given.fleet} nodes take {ratio:.2f} times as long; budget {FLEET_RATIO:g} for 1000")
    return int(over or not one.passed or (fleet is not None and not fleet.passed))


if __name__ == "__main__":
    sys.exit(main())
