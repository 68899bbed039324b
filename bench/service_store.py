# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""How long the history of a large cluster in service takes to ask: .cache/venv/bin/python bench/service_store.py

    python bench/service_store.py [--nodes 10000] [--days 365] [--tests 4] [--at DIRECTORY]

A file is filled in SQL with one result a node, test and day, each with eight GPUs, their digests and nine figures (as
many as `--figures` says); a year of 10,000 nodes is 14.6 million rows and takes some minutes, which is not measured.
Then the newest result of every node and test, those of a week for 100 nodes, and a result to write are measured by the
clock, each in a history that is opened anew.
"""

from __future__ import annotations

import argparse
import json
import resource
import sqlite3
import sys
import tempfile
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from time import monotonic, process_time
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / ".cache"), str(ROOT / "tests/support")]

from service_rows import SITE, cycle, node_result

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.store.records import Figure
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.store.rows import keep_facts
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.store.service import ServiceStore, open_service

LATEST_S, TIMES_S, WEEK_S, WRITE_S = 2.0, 1.0, 1.0, 0.05
DAY_S = 86400
TESTS = ("dl", "nccl", "fio", "rates")


def fill(path: Path, nodes: int, days: int, tests: int, count: int) -> None:
    """Make the file and write the results of all days but the last, with what the store derives from them."""
    store = open_service(path)
    for day in range(days):
        store.begin_cycle(replace(cycle(f"day{day:04d}"), started=f"day {day:04d}"))
    gpus = {f"gpu{n}": f"GPU-{n:08d}-0000-0000-0000-000000000000" for n in range(8)}
    whole = json.dumps([["gemm_bf16", 612.5 + n, "TFLOP/s", f"GPU-{n:08d}"] for n in range(count)])
    digests = dict.fromkeys(gpus.values(), "0f" * 32)
    with store.engine.begin() as begun:
        keep_facts(begun, {"parts": gpus, "digests": digests})
    with closing(sqlite3.connect(path)) as opened, opened as connection:
        connection.execute("PRAGMA synchronous = OFF")
        names = " UNION ALL ".join(f"SELECT '{name}' AS test, {n} AS n" for n, name in enumerate(TESTS[:tests]))
        connection.execute(
            "WITH RECURSIVE day(d) AS (SELECT 0 UNION ALL SELECT d + 1 FROM day WHERE d + 1 < :days),"
            " node(k) AS (SELECT 0 UNION ALL SELECT k + 1 FROM node WHERE k + 1 < :nodes),"
            f" test AS ({names})"
            " INSERT INTO node_result (cycle_id, node, test, attempt, started_s, duration_s, status, rating, cause,"
            " summary, cohort, parts, digests, figures, log)"
            " SELECT printf('day%04d', d), printf('gpu%06d', k), test, 0, d * 86400.0 + k + n / 8.0, 61.5, 'passed',"
            " 'good', '', 'as expected', 'h100/580.95.05', 'parts', 'digests', :figures, 'a/log' FROM day, node, test",
            {"days": days, "nodes": nodes, "figures": whole},
        )
        for kind in ("tried", "passed"):
            connection.execute(
                "INSERT INTO node_last (site, rehearsal, kind, node, test, result_id, started_s)"
                " SELECT ?, 0, ?, node, test, id, started_s FROM node_result WHERE cycle_id = ?",
                (SITE, kind, f"day{days - 1:04d}"),
            )


def timed(name: str, budget_s: float, act: Callable[[], Any], times: int = 1) -> bool:
    """Run it, print how long once took, and tell whether that is within its budget."""
    began, began_cpu = monotonic(), process_time()
    said = act()
    taken, cpu = (monotonic() - began) / times, (process_time() - began_cpu) / times
    print(f"{name:42} {taken * 1000:10.1f} ms  cpu {cpu * 1000:8.1f} ms  budget {budget_s * 1000:6.0f} ms  {said}")
    return taken <= budget_s


def write(store: ServiceStore, nodes: int) -> str:
    """Write a hundred results of a cycle that is new."""
    store.begin_cycle(replace(cycle("now"), started="now"))
    figures = tuple(Figure(name="gemm_bf16", number=612.5, unit="TFLOP/s", part=f"GPU-{n}") for n in range(8))
    parts = {f"gpu{n}": f"GPU-{n}" for n in range(8)}
    for number in range(100):
        node = f"gpu{number * nodes // 100:06d}"
        store.add_result(node_result("now", node=node, started_s=1e9, figures=figures, parts=parts, digests={}))
    return "100 results"


def main() -> int:
    """Fill, measure, print; 1 if a figure is over its budget."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--nodes", type=int, default=10_000)
    parser.add_argument("--days", type=int, default=365)
    parser.add_argument("--tests", type=int, default=len(TESTS))
    parser.add_argument("--figures", type=int, default=9)
    parser.add_argument("--at", type=Path)
    words = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=words.at) as directory:
        path = Path(directory) / "history.sqlite"
        began = monotonic()
        fill(path, words.nodes, words.days, words.tests, words.figures)
        rows = words.nodes * words.days * words.tests
        print(f"{rows} results, {path.stat().st_size / 1e9:.2f} GB, filled in {monotonic() - began:.0f} s")
        some = [f"gpu{number * words.nodes // 100:06d}" for number in range(100)]
        since_s = (words.days - 7) * DAY_S

        def latest() -> int:
            return len(open_service(path).latest(SITE, rehearsal=False))

        def times() -> int:
            return len(open_service(path).latest(SITE, rehearsal=False, whole=False))

        def week() -> int:
            return len(open_service(path).results(SITE, rehearsal=False, since_s=since_s, nodes=some))

        good = [
            timed("newest of every node and test", LATEST_S, latest),
            timed("the same without figures", TIMES_S, times),
            timed("a week of 100 nodes", WEEK_S, week),
            timed("one result written", WRITE_S, lambda: write(open_service(path), words.nodes), 100),
        ]
        print(f"memory {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:.0f} MB")
    return 0 if all(good) else 1


if __name__ == "__main__":
    sys.exit(main())
