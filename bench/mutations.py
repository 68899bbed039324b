# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""How many small changes of the product its unit tests find, and how soon.

    .cache/venv/bin/python bench/mutations.py --places 200 --seed 1

Each place is one comparison, condition, number or returned value of the core, drawn by the seed over all rooms and
changed in a copy of the checkout. The files of unit tests that import the changed module are
run, those of its own room first, until one fails or the budget for one place is used up. Seconds are those of the
processor, so that a machine with other work finds the same. What no test found is printed: it is found by the
integration tests and rehearsals, or by nothing. Ends with 1 if fewer are found than `--least` says.
"""

from __future__ import annotations

import argparse
import ast
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from math import ceil
from pathlib import Path
from queue import SimpleQueue
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from tools import reach, tree, unit_files

CORE = "plugins/plugin_utils/"
TESTS = "tests/unit/plugins/"
# Statuses of `timeout`, and of a shell or `timeout` whose command the kernel ended for its processor time.
_TIME_IS_UP, _CPU_IS_UP = 124, int(signal.SIGXCPU)
_OTHER = {
    ast.Lt: "<=", ast.LtE: "<", ast.Gt: ">=", ast.GtE: ">", ast.Eq: "!=", ast.NotEq: "==",
    ast.In: "not in", ast.NotIn: "in", ast.Is: "is not", ast.IsNot: "is",
}  # fmt: skip


class Place(NamedTuple):
    """One change: the file, its line, the characters that go, and what comes in their place."""

    file: str
    line: int
    begin: int
    end: int
    before: str
    after: str


class Found(NamedTuple):
    """What became of a change: the test that found it, empty if none did, and the processor's seconds until then."""

    place: Place
    by: str
    took_s: float


def places_of(file: str, text: str) -> Iterator[Place]:
    """Return every change of a file: on one line, outside of docstrings and annotations."""
    for node in ast.walk(ast.parse(text)):
        for inner, after in _changes(node, text):
            # Offsets of the parser count bytes; a line with other letters than ASCII is left out.
            line = text.splitlines()[inner.lineno - 1]
            if inner.end_lineno == inner.lineno and line.isascii():
                begin, end = inner.col_offset, inner.end_col_offset or 0
                yield Place(file, inner.lineno, begin, end, line[begin:end], after)


def _changes(node: ast.AST, text: str) -> Iterator[tuple[ast.expr, str]]:
    if isinstance(node, ast.Compare) and len(node.ops) == 1 and type(node.ops[0]) in _OTHER:
        left, right = (ast.get_source_segment(text, part) for part in (node.left, node.comparators[0]))
        yield node, f"{left} {_OTHER[type(node.ops[0])]} {right}"
    elif isinstance(node, (ast.If, ast.IfExp)):
        yield node.test, f"not ({ast.get_source_segment(text, node.test)})"
    elif isinstance(node, ast.BoolOp) and len(node.values) == 2:
        left, right = (ast.get_source_segment(text, part) for part in node.values)
        yield node, f"({left}) {'or' if isinstance(node.op, ast.And) else 'and'} ({right})"
    elif isinstance(node, ast.Return) and isinstance(node.value, (ast.Call, ast.Tuple, ast.List)):
        yield node.value, "None" if isinstance(node.value, ast.Call) else "()"
    elif isinstance(node, ast.Constant) and isinstance(node.value, int) and not isinstance(node.value, bool):
        yield node, str(node.value + 1)


def tests_of(imports: dict[str, set[str]], file: str) -> list[str]:
    """Return the files of unit tests that reach a module: those of its own room first, then the nearest."""
    far = reach.distances([file], imports)
    own = file.removeprefix("plugins/").rpartition("/")[0]
    # Not those of the checkout itself: in a copy without git some of them fail whatever was changed.
    names = [name for name in far if name.startswith(TESTS) and name.rpartition("/")[2].startswith("test_")]
    return sorted(names, key=lambda name: (own not in name, far[name], name))


def tried(copy: Path, place: Place, tests: list[str], budget_s: float) -> Found:
    """Change one place in a copy of the checkout, run its tests, and change it back."""
    path = copy / place.file
    text = path.read_text(encoding="utf-8")
    lines = text.splitlines(keepends=True)
    line = lines[place.line - 1]
    lines[place.line - 1] = f"{line[: place.begin]}{place.after}{line[place.end :]}"
    path.write_text("".join(lines), encoding="utf-8")
    used_s = 0.0
    try:
        for start in range(0, len(tests), 4):
            if used_s >= budget_s:
                break
            by, took_s = _failed(copy, tests[start : start + 4], budget_s - used_s)
            used_s += took_s
            if by:
                return Found(place, by, used_s)
    finally:
        path.write_text(text, encoding="utf-8")
    return Found(place, "", used_s)


def _failed(copy: Path, tests: list[str], limit_s: float) -> tuple[str, float]:
    """Return the test that failed first, and the seconds used; who ran out of time, or hangs, found nothing."""
    words = [sys.executable, "-m", "pytest", "-x", "-q", "-n", "0", "--hypothesis-profile=quick", "-p", "no:randomly"]
    env = os.environ | {"PYTHONPATH": str(copy / ".cache"), "GPUFLEET_TEST_SEED": "1"}
    limited = ["prlimit", f"--cpu={ceil(limit_s)}", "timeout", str(ceil(10 * limit_s)), *words, *tests]
    with tempfile.TemporaryFile(mode="w+") as output:
        process = subprocess.Popen(limited, cwd=copy, env=env, stdout=output, stderr=subprocess.DEVNULL)
        _pid, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        output.seek(0)
        named = [text for text in output if text.startswith(("FAILED ", "ERROR "))]
    took_s = used.ru_utime + used.ru_stime
    if process.returncode in (0, 5, _TIME_IS_UP, 128 + _CPU_IS_UP) or process.returncode < 0:
        return "", took_s
    return (named[0].split()[1] if named else tests[0]), took_s


def _copy(place: Path) -> Path:
    for name in tree.files_of_checkout():
        target = place / name
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / name, target, follow_symlinks=False)
    link = place / ".cache/ansible_collections/gpufleet/bringup"
    link.parent.mkdir(parents=True)
    link.symlink_to(place)
    return place


def main() -> int:
    """Print what found each change, and the shares by room."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--places", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--budget-s", type=float, default=60.0, help="of the processor, for the tests of one place")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--least", type=float, default=0.0, help="share that has to be found")
    parser.add_argument("--into", type=Path, help="write what became of each place, JSON lines")
    given = parser.parse_args()
    texts = reach.sources()
    imports = unit_files.with_names(texts, reach.imports_of(texts))
    core = {name: text for name, text in texts.items() if name.startswith(CORE)}
    known = [place for name, text in sorted(core.items()) for place in places_of(name, text)]
    drawn = random.Random(given.seed).sample(known, min(given.places, len(known)))
    results: list[Found] = []
    with tempfile.TemporaryDirectory(prefix="mutations-") as scratch:
        copies: SimpleQueue[Path] = SimpleQueue()
        for number in range(given.workers):
            copies.put(_copy(Path(scratch, str(number), "checkout")))

        def one(place: Place) -> Found:
            copy = copies.get()
            try:
                return tried(copy, place, tests_of(imports, place.file), given.budget_s)
            finally:
                copies.put(copy)

        with ThreadPoolExecutor(given.workers) as pool:
            for found in pool.map(one, drawn):
                results.append(found)
                _print(found, given.into)
    return _summary(results, len(known), given.least)


def _print(found: Found, into: Path | None) -> None:
    place = found.place
    said = f"found by {found.by}" if found.by else "NOT FOUND"
    print(f"{place.file}:{place.line}: {place.before!r} -> {place.after!r}: {said} ({found.took_s:.0f} s)", flush=True)
    if into is not None:
        with into.open("a", encoding="utf-8") as file:
            file.write(json.dumps({**place._asdict(), "by": found.by, "took_s": round(found.took_s, 1)}) + "\n")


def _summary(results: list[Found], known: int, least: float) -> int:
    rooms = Counter(found.place.file.removeprefix(CORE).partition("/")[0] for found in results)
    hits = Counter(found.place.file.removeprefix(CORE).partition("/")[0] for found in results if found.by)
    for room in sorted(rooms):
        print(f"{room:20} {hits[room]:4} of {rooms[room]}")
    share = hits.total() / len(results) if results else 0.0
    print(f"{hits.total()} of {len(results)} changes found ({share:.0%}), drawn of {known} places")
    return int(share < least)


if __name__ == "__main__":
    sys.exit(main())
