# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""How long the plan of a batch takes, and how it grows with the fleet: .cache/venv/bin/python bench/fleet.py

    python bench/fleet.py [--nodes 1000,10000,100000] [--days 365] [--tests 3]

A history of one result a node, test and week over `--days` is filled in SQL, which is not measured (`--at` says where;
100,000 nodes take 3 GB). Measured is the time of the process on a CPU, in a fresh process for each size: `history`
opens it and reads what the queue needs, `plan` makes of that and of all nodes the plan of a batch, `lines` tells it for
people. A hundredth of the nodes failed, said nothing or is at work. The budget is that of both together for 10,000
nodes; the exponent is the slope of a line through the logarithms, as in scale.py.
"""

from __future__ import annotations

import argparse
import json
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from time import process_time

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / ".cache"), str(ROOT / "tests/support"), str(ROOT / "bench")]

from scale import Figures, told
from service_rows import SITE, cycle

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.features.continuous.node_history import (
    BatchLimits,
    Demand,
    histories_by_test,
    parts_now,
    saved_state,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.features.continuous.queue import QueueNode, plan_batch
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.store.rows import keep_facts
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.store.service import open_service

BUDGET_S, BUDGET_NODES = 1.0, 10_000
SIZES = (1000, 10_000, 100_000)
TESTS = ("dl", "nccl", "fio", "rates")
WEEK_S, RACK = 7 * 86400, 8


def fill(path: Path, nodes: int, weeks: int, tests: int) -> None:
    """Write the results of all weeks; what is newest lies between no and eight days back."""
    store = open_service(path)
    for week in range(weeks):
        store.begin_cycle(replace(cycle(f"week{week:03d}"), started=f"week {week:03d}"))
    gpus = {f"gpu{n}": f"GPU-{n:08d}" for n in range(8)}
    with store.engine.begin() as begun:
        keep_facts(begun, {"parts": gpus, "none": {}})
    names = " UNION ALL ".join(f"SELECT '{name}' AS test, {n} AS n" for n, name in enumerate(TESTS[:tests]))
    with closing(sqlite3.connect(path)) as opened, opened as connection:
        connection.execute("PRAGMA synchronous = OFF")
        connection.execute(
            "WITH RECURSIVE week(w) AS (SELECT 0 UNION ALL SELECT w + 1 FROM week WHERE w + 1 < :weeks),"
            " node(k) AS (SELECT 0 UNION ALL SELECT k + 1 FROM node WHERE k + 1 < :nodes),"
            f" test AS ({names})"
            " INSERT INTO node_result (cycle_id, node, test, attempt, started_s, duration_s, status, rating, cause,"
            " summary, cohort, parts, digests, figures, log)"
            " SELECT printf('week%03d', w), printf('gpu%06d', k), test, 0, w * :week + k * 7919 % 691200, 61.5,"
            " CASE WHEN k % 100 = 1 THEN 'failed' WHEN k % 100 = 2 THEN 'other' ELSE 'passed' END,"
            " 'good', '', 'as expected', 'h100/580.95.05', 'parts', 'none', '[]', 'a/log' FROM week, node, test",
            {"weeks": weeks, "nodes": nodes, "week": WEEK_S},
        )
        for kind, words in (("tried", ("passed", "failed", "other")), ("passed", ("passed",)), ("failed", ("failed",))):
            marks = ", ".join("?" * len(words))
            connection.execute(
                "INSERT INTO node_last (site, rehearsal, kind, node, test, result_id, started_s)"
                " SELECT ?, 0, ?, node, test, id, started_s FROM node_result"
                f" WHERE cycle_id = ? AND status IN ({marks})",
                (SITE, kind, f"week{weeks - 1:03d}", *words),
            )


def measure(nodes: int, weeks: int, tests: int, directory: str | None) -> dict[str, object]:
    """Return the CPU seconds of each part, and what the plan says."""
    import resource

    with tempfile.TemporaryDirectory(prefix="gpufleet-fleet-", dir=directory) as made:
        path = Path(made) / "history.sqlite"
        fill(path, nodes, weeks, tests)
        now_s, spent, begun = weeks * WEEK_S + 86400.0, dict[str, float](), process_time()
        store = open_service(path)
        results, leases = saved_state(store, SITE, rehearsal=False, now_s=now_s), store.leases(SITE, rehearsal=False)
        spent["history"], begun = process_time() - begun, process_time()
    parts = parts_now(results, now_s)
    fleet = [
        QueueNode(
            name=f"gpu{n:06d}", rack=f"r{n // RACK}", rail=f"s{n // 32}", parts=parts.get(f"gpu{n:06d}", {}),
            not_free="pod team/train holds GPUs" if n % 100 == 3 else "",
        )
        for n in range(nodes)
    ]  # fmt: skip
    demands = [Demand(test=name, max_age_days=7.0) for name in TESTS[:tests]]
    limits = BatchLimits(size=max(8, nodes // 100), per_rack=2, per_rail=4)
    plan = plan_batch(fleet, demands, histories_by_test(results, now_s), leases, limits, now_s)
    spent["plan"], begun = process_time() - begun, process_time()
    lines = len(plan.lines())
    spent["lines"] = process_time() - begun
    assert len(results) >= nodes * tests and lines == nodes
    told_of = (
        f"{len(plan.batch)} now, {len(plan.positions)} due, {len(plan.not_due)} not due, {len(results)} results read"
    )
    return {
        "spent": spent,
        "told": told_of,
        "peak_mb": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024),
    }


def main(arguments: Sequence[str]) -> int:
    """Print CPU seconds and exponents; 1 if one is over its budget."""
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("--nodes", default=",".join(map(str, SIZES)))
    parser.add_argument("--days", type=int, default=365)
    parser.add_argument("--tests", type=int, default=3)
    parser.add_argument("--at")
    parser.add_argument("--one", type=int, default=0, help=argparse.SUPPRESS)
    given = parser.parse_args(arguments)
    weeks = max(1, given.days // 7)
    if given.one:
        print(json.dumps(measure(given.one, weeks, given.tests, given.at)))
        return 0
    sizes = [int(word) for word in given.nodes.split(",")]
    if len(sizes) < 2:
        parser.error("an exponent needs two sizes")
    parts: dict[str, Figures] = {}
    for size in sizes:
        command = [sys.executable, __file__, "--one", str(size), *arguments]
        done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
        found = json.loads(done.stdout.splitlines()[-1])
        print(f"    {size} nodes: {found['told']}; {found['peak_mb']} MB", file=sys.stderr, flush=True)
        for part, seconds in found["spent"].items():
            parts.setdefault(part, {})[str(size)] = seconds
    parts["history and plan"] = {
        size: parts["history"][size] + parts["plan"][size] for size in parts["plan"]
    }  # fmt: skip
    print(f"  {'CPU seconds at':22}{''.join(f'{size:10}' for size in sizes)}{'exponent':>11}{'at the end':>11}")
    kept = True
    for part, figures in parts.items():
        kept = told(part, figures) and kept
    taken = parts["history and plan"].get(str(BUDGET_NODES))
    if taken is not None:
        print(f"  {BUDGET_NODES} nodes: {taken:.2f} s of {BUDGET_S:g} s{'' if taken <= BUDGET_S else '   OVER'}")
        kept = kept and taken <= BUDGET_S
    return 0 if kept else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
