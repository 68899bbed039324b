# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Where the time of one rehearsal goes: start of the control plane, preflight, each gate, stop.

    python bench/rehearsal.py [--nodes 16] [--sku h100] [--gates facility,nodes] [--fleet 100]

Runs `playbooks/rehearse.yml` once in a directory of its own and takes the time at which ansible-playbook announces each
play. Beside the seconds of the clock stand those of the CPU, of all processes that the rehearsal started: others on the
machine hardly change these. A second table says whose they are: Ansible's main process, its forks, each process of the
simulated cluster with what it starts. With --fleet a second run with that many nodes follows, and each stage is given
as a ratio of the two.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import os
import re
import resource
import subprocess
import sys
import tempfile
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from time import perf_counter

ROOT = Path(__file__).resolve().parent.parent
BUDGET_S, BUDGET_NODES = 180.0, 16
FLEET_RATIO = 2.5
_PLAY = re.compile(r"PLAY \[(.+?)\]")
_GATE = re.compile(r"Gate (\d), ")
_READING = re.compile(r"Read the (?:hosts|adapters)")
# Plays that belong to a stage by their name; a gate's own play and what collects for it are named below.
_STAGES = {
    "Start the rehearsal": "start of the control plane",
    "Read the fabric, which one host sees as a whole": "gate 2",
    "Read the hosts": "gate 3",
    "End of the run": "stop",
    "Stop the rehearsal": "stop",
}
_BEFORE = "preflight and contact"
_LAUNCHER = str(ROOT / "plugins/plugin_utils/runtime/process.py")
_SUPERVISOR, _ANSIBLE = "rehearsal.lifecycle.supervisor", "ansible-playbook"
_FORKS = f"{_ANSIBLE}, forks and what they start"
_ENDED = "what has ended"
_ADOPT_ORPHANS = 36
_SHOWN_S = 0.5


@dataclass(slots=True)
class Timings:
    """One run: seconds by stage in order, on the clock and on CPUs; CPU seconds by whose they are; what it says."""

    stages: dict[str, float] = field(default_factory=dict)
    cpu: dict[str, float] = field(default_factory=dict)
    whose: dict[str, Counter[str]] = field(default_factory=dict)
    total_s: float = 0.0
    kernel_s: float = 0.0
    switches: int = 0
    memory: Counter[str] = field(default_factory=Counter)
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
    # What outlives its parent becomes ours, and is counted.
    ctypes.CDLL(None).prctl(_ADOPT_ORPHANS, 1, 0, 0, 0)
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    begun = since = perf_counter()
    stage, spent = "start of Ansible", cpu_by_owner()
    process = subprocess.Popen(
        command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    assert process.stdout is not None

    def end_stage() -> None:
        nonlocal since, spent
        now, used = perf_counter(), cpu_by_owner()
        timings.stages[stage] = timings.stages.get(stage, 0.0) + now - since
        for owner in used.keys() - {_ENDED}:
            # What ended in this stage is not told apart: its figures are its parent's now.
            timings.whose.setdefault(owner, Counter())[stage] += max(used[owner] - spent[owner], 0.0)
        timings.cpu[stage] = timings.cpu.get(stage, 0.0) + used.total() - spent.total()
        print(
            f"    {stage}: {now - since:.1f} s, CPU {used.total() - spent.total():.1f} s", file=sys.stderr, flush=True
        )
        timings.memory = max(timings.memory, memory_by_owner(), key=Counter.total)
        since, spent = now, used

    for line in process.stdout:
        play = _PLAY.match(line)
        if line.startswith("verdict"):
            timings.verdict = line.removeprefix("verdict").strip()
        if play is None:
            continue
        end_stage()
        stage = _stage_of(play.group(1))
    timings.passed = process.wait() == 0
    _reap()
    end_stage()
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    timings.kernel_s = after.ru_stime - before.ru_stime
    timings.switches = after.ru_nvcsw + after.ru_nivcsw - before.ru_nvcsw - before.ru_nivcsw
    timings.total_s = perf_counter() - begun
    return timings


def _reap() -> None:
    while True:
        try:
            if os.waitpid(-1, os.WNOHANG)[0] == 0:
                return
        except ChildProcessError:
            return


@dataclass(frozen=True, slots=True)
class Process:
    """One process: its parent, CPU seconds of itself and of its ended children, and its command line."""

    parent: int
    own_s: float
    ended_s: float
    words: tuple[str, ...]


def cpu_by_owner() -> Counter[str]:
    """Return the CPU seconds so far of all that this process started, by whose they are."""
    spent: Counter[str] = Counter()
    ended = resource.getrusage(resource.RUSAGE_CHILDREN)
    spent[_ENDED] = ended.ru_utime + ended.ru_stime
    for owner, processes in _processes_by_owner().items():
        own_s = sum(process.own_s for process in processes.values())
        ended_s = sum(process.ended_s for process in processes.values())
        heir = {f"{_ANSIBLE}, main process": _FORKS, _SUPERVISOR: _ENDED}.get(owner, owner)
        spent[owner] += own_s
        spent[heir] += ended_s
    return spent


def _processes_by_owner() -> dict[str, dict[int, Process]]:
    """Return what this process started and what that started, by whose it is and its pid."""
    table = {int(entry): found for entry in os.listdir("/proc") if entry.isdigit() and (found := _process(entry))}
    found: dict[str, dict[int, Process]] = {}
    for pid, process in table.items():
        line = [pid]
        while line[-1] in table and line[-1] != os.getpid():
            line.append(table[line[-1]].parent)
        if line[-1] != os.getpid() or len(line) < 2:
            continue
        # From the top: what we started, then, below the supervisor, what that started.
        top = table[line[-2]]
        if _name(top) == _SUPERVISOR and len(line) > 2:
            top = table[line[-3]]
        name = _name(top)
        if name == _ANSIBLE:
            name = _FORKS if pid != line[-2] else f"{name}, main process"
        found.setdefault(name, {})[pid] = process
    return found


def _process(pid: str) -> Process | None:
    try:
        text = Path("/proc", pid, "stat").read_text(encoding="utf-8", errors="replace")
        words = Path("/proc", pid, "cmdline").read_bytes().decode(errors="replace").split("\0")
    except OSError:
        return None
    fields = text.rpartition(")")[2].split()
    tick = os.sysconf("SC_CLK_TCK")
    times = [int(value) / tick for value in fields[11:15]]
    return Process(int(fields[1]), times[0] + times[1], times[2] + times[3], tuple(words))


def _name(process: Process) -> str:
    """Return what a person calls a program: the module or script that Python runs, or the file."""
    words = [word for word in process.words if word]
    if not words:
        return _ENDED
    after = words.index(_LAUNCHER) if _LAUNCHER in words else 0
    if after:
        return words[after + 1]
    script = words[0].rpartition("/")[2].startswith("python") and len(words) > 1
    return words[script].rpartition("/")[2]


def memory_by_owner() -> Counter[str]:
    """Return the megabytes of all that this process started (proportional set size), by whose they are."""
    return Counter({owner: sum(_pss_mb(pid) for pid in pids) for owner, pids in _processes_by_owner().items()})


def _pss_mb(pid: int) -> float:
    try:
        lines = Path("/proc", str(pid), "smaps_rollup").read_text(encoding="ascii").splitlines()
    except OSError:
        return 0.0
    return next((int(line.split()[1]) / 1024 for line in lines if line.startswith("Pss:")), 0.0)


def _stage_of(play: str) -> str:
    gate = _GATE.match(play)
    reading = "reading the hosts around loads" if _READING.match(play) else _BEFORE
    return f"gate {gate.group(1)}" if gate else _STAGES.get(play, reading)


def table(timings: Timings, other: Timings | None = None) -> list[str]:
    """Return the stages with their seconds and share; with another run their ratio to it, too."""
    head = f"  {'stage':36}{'seconds':>9}{'share':>8}{'CPU s':>9}"
    lines = [head + (f"{'fleet':>9}{'ratio':>8}{'CPU s':>9}{'ratio':>8}" if other else "")]
    for stage, seconds in timings.stages.items():
        name = f"{stage} {timings.gates.get(stage, '')}".strip()
        line = f"  {name:36}{seconds:9.1f}{seconds / timings.total_s:8.0%}{timings.cpu[stage]:9.1f}"
        if other:
            line += _beside(seconds, other.stages.get(stage, 0.0))
            line += _beside(timings.cpu[stage], other.cpu.get(stage, 0.0))
        lines.append(line)
    whole = f"  {'all':36}{timings.total_s:9.1f}{1:8.0%}{sum(timings.cpu.values()):9.1f}"
    if other:
        whole += _beside(timings.total_s, other.total_s)
        whole += _beside(sum(timings.cpu.values()), sum(other.cpu.values()))
    return [*lines, whole]


def _beside(one: float, more: float) -> str:
    return f"{more:9.1f}" + (f"{more / one:8.2f}" if one else f"{'-':>8}")


def owners(timings: Timings) -> list[str]:
    """Return the CPU seconds by whose they are, the largest first, with the stages where most of them went."""
    lines = [f"  {'CPU seconds of':44}{'all':>9}  most in"]
    for owner, stages in sorted(timings.whose.items(), key=lambda item: -item[1].total()):
        if stages.total() >= _SHOWN_S:
            most = ", ".join(f"{stage} {spent:.1f}" for stage, spent in stages.most_common(4) if spent >= _SHOWN_S)
            lines.append(f"  {owner:44}{stages.total():9.1f}  {most}")
    lines.append(f"  in the kernel {timings.kernel_s:.1f} s, {timings.switches} context switches of what has ended")
    most = ", ".join(f"{owner} {size:.0f}" for owner, size in timings.memory.most_common(6))
    lines.append(f"  most memory at the end of a stage {timings.memory.total():.0f} MB: {most}")
    return lines


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
    print("\n".join([*table(one, fleet), "", *owners(fleet or one)]))
    over = given.nodes == BUDGET_NODES and not given.gates and one.total_s > BUDGET_S
    print(f"  budget {BUDGET_S:g} s for {BUDGET_NODES} nodes on 2 idle cores{'   OVER' if over else ''}")
    if fleet:
        ratio = fleet.total_s / one.total_s
        over = over or (given.fleet == 1000 and ratio > FLEET_RATIO)
        print(f"  {given.fleet} nodes take {ratio:.2f} times as long; budget {FLEET_RATIO:g} for 1000")
    return int(over or not one.passed or (fleet is not None and not fleet.passed))


if __name__ == "__main__":
    sys.exit(main())
