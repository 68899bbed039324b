# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Writes what is judged today of every saved run, of every world and of every fault in one world that it fits, so that
a refactoring is proven by `diff -r` of the two directories, before and after:

    python -m tools.frozen .cache/before
    python -m tools.frozen .cache/after && diff -r .cache/before .cache/after

Written are the CTRF of each gate and, of saved runs, the verdict and the reports. What follows from the moment or from
the place is left out. Gates that need a control plane are in the saved runs alone. Saved runs take seconds, worlds and
faults ten minutes each; `--each 10` takes every tenth world and fault.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.features.judge.app import judged_again, rejudge
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.codec import to_plain
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.model import Outcome
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.report.ctrf import suite_of
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.run.run import Run
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.runtime.files import REPORTS
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.verdict.run import run_summary
from ansible_collections.gpufleet.rehearsal.plugins.plugin_utils.places import DATA
from ansible_collections.gpufleet.rehearsal.plugins.plugin_utils.worlds.catalogue import load_worlds
from tests.support.archives import unpack

from .world_bench.draws import Drawn, each_fault, until_found
from .world_bench.judge import judge_gates, judged_gates

ROOT = Path(__file__).resolve().parent.parent
ARCHIVES = ROOT / "tests" / "data" / "saved_runs"
PARTS = ("saved", "worlds", "faults")
_PLACE = "<directory>"


def freeze_saved(name: str, target: Path) -> None:
    """Write what is judged of a saved run, by the name of its archive, with its verdict and its reports."""
    with tempfile.TemporaryDirectory(prefix="frozen-") as directory:
        unpack(ARCHIVES / f"{name}.tar.xz", Path(directory))
        run = Run(Path(directory))
        record, differences = rejudge(run)
        for verdict in record.gates:
            if verdict.status.value != "pending":
                _write_suite(target, verdict.gate, judged_again(run, verdict.gate), directory)
        verdict_of_run = {
            "summary": run_summary(record), "gates": to_plain(record.gates), "phases": to_plain(record.phases),
            "differences": differences, "notes": list(record.notes),
        }  # fmt: skip
        _write(target / "verdict.json", _text(verdict_of_run), directory)
        run.write_report(record)
        for report in REPORTS:
            _write(target / report, (run.path / report).read_text(encoding="utf-8"), directory)


def freeze_world(name: str, target: Path) -> None:
    """Write what the gates that need no control plane say of a world."""
    with tempfile.TemporaryDirectory(prefix="frozen-") as directory:
        for gate, outcomes in judge_gates(load_worlds(DATA)[name], Path(directory)):
            _write_suite(target, gate, _timeless(outcomes), directory)


def freeze_fault(drawn: Drawn, target: Path) -> None:
    """Write what the gates say of a fault in a world, up to the one that finds it."""
    with tempfile.TemporaryDirectory(prefix="frozen-") as directory:
        for gate, outcomes in until_found(drawn, Path(directory)):
            _write_suite(target, gate, _timeless(outcomes), directory)


def _timeless(outcomes: Iterable[Outcome]) -> list[Outcome]:
    return [replace(outcome, started="", duration_s=0.0) for outcome in outcomes]


def _write_suite(target: Path, gate: str, outcomes: Sequence[Outcome], directory: str) -> None:
    suite = suite_of(gate, outcomes, run_id="", rehearsal=True, version="")
    # Of tests that say no time these are the moment of writing.
    for key in ("start", "stop"):
        del suite["results"]["summary"][key]
    _write(target / f"{gate}.json", _text(suite), directory)


def _text(data: Any) -> str:
    return json.dumps(data, indent=1, sort_keys=True, ensure_ascii=False) + "\n"


def _write(path: Path, text: str, directory: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text.replace(directory, _PLACE), encoding="utf-8")


def _work(into: Path, parts: Sequence[str], each: int) -> list[tuple[Callable[[Any, Path], None], Any, Path]]:
    """Return what is to be written: who writes it, about what, and where."""
    found: list[tuple[Callable[[Any, Path], None], Any, Path]] = []
    if "saved" in parts:
        names = sorted(path.name.removesuffix(".tar.xz") for path in ARCHIVES.glob("*.tar.xz"))
        found += [(freeze_saved, name, into / "saved" / name) for name in names]
    if "worlds" in parts:
        worlds = [name for name, world in sorted(load_worlds(DATA).items()) if judged_gates(world)]
        found += [(freeze_world, name, into / "worlds" / name) for name in worlds[::each]]
    if "faults" in parts:
        with tempfile.TemporaryDirectory(prefix="frozen-") as scratch:
            faults = each_fault(Path(scratch))[::each]
        found += [(freeze_fault, drawn, into / "faults" / drawn.fault) for drawn in faults]
    return found


def main() -> int:
    """Write the directory; end with 1 if one of its parts could not be judged."""
    parser = argparse.ArgumentParser(prog="python -m tools.frozen", description=__doc__)
    parser.add_argument("into", type=Path, help="a directory that is not there yet")
    parser.add_argument("--only", choices=PARTS, nargs="+", default=PARTS, help="what is judged")
    parser.add_argument("--each", type=int, default=1, metavar="N", help="every Nth world and fault alone")
    parser.add_argument("--workers", type=int, default=2)
    options = parser.parse_args()
    if options.into.exists():
        parser.error(f"{options.into} is there already: remove it, or name another directory")
    work, failed = _work(options.into, options.only, options.each), 0
    with ProcessPoolExecutor(options.workers) as pool:
        done = [(target, pool.submit(write, about, target)) for write, about, target in work]
        for target, future in done:
            if problem := future.exception():
                failed += 1
                print(f"{target.relative_to(options.into)}: {type(problem).__name__}: {problem}", file=sys.stderr)
    print(f"{len(work) - failed} of {len(work)} are in {options.into}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
