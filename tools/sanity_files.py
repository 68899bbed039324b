# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Runs ansible-test's slow tests of single files on those that changed, and on all that import one.

What these tests say of a file follows from that file, from what it imports, and from the tools. A file that passed is
left out until one of these changes; .cache/sanity-pylint.json, named after the first test, keeps what passed. Without
it everything is looked at. Called with the tests that are to be run; without one it runs all.

With GPUFLEET_SANITY_COMMITS=N only files whose code the last N commits wrote are looked at. CI asks for it, in a
checkout that keeps nothing: an older file has passed before its commit, one that was moved where it was before, words
of docstrings and comments are ruff's, and all pass again every night. Of many files, as after a renaming, some are
drawn by GPUFLEET_TEST_SEED.
"""

from __future__ import annotations

import ast
import os
import random
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from tools import reach, tree

# Each group is a step of its own of tools/check.py: side by side they take half the time.
GROUPS = (("pylint", "pep8"), ("import",))
VARIABLE = "GPUFLEET_SANITY_COMMITS"
# A quarter of the time that CI is to take, on two cores beside the tests.
_MOST_FILES = 60
# What the verdict depends on beside the sources.
PROGRAMS = "requirements"
TOOLS = (
    PROGRAMS,
    "tools/sanity",
    *(
        f"{place}{name}"
        for place in ("", "rehearsal/")
        for name in ("tests/config.yml", "meta/runtime.yml", "galaxy.yml")
    ),
)


def main(tests: Sequence[str]) -> int:
    """Run these tests, or all, on what is new; return the status of ansible-test."""
    if not tests:
        return max(main(group) for group in GROUPS)
    words = [word for test in tests for word in ("--test", test)]

    def tested(names: Sequence[str]) -> int:
        return subprocess.run([tree.ROOT / "tools/sanity", *words, *names], check=False).returncode

    passed = tree.ROOT / f".cache/sanity-{tests[0]}.json"
    return reach.run_changed(passed, keys_of(reach.sources()), ", ".join(tests), tested, of_last_commits)


def of_last_commits(names: Sequence[str]) -> Sequence[str]:
    """Return those of the files that the commits wrote which are asked for, all where git has no such commit."""
    if not (number := os.environ.get(VARIABLE)):
        return names
    since = ("--name-only", "--find-renames=70%", "-l0", "--diff-filter=AM", f"HEAD~{number}")
    asked = ["git", "-C", str(tree.ROOT), "diff", *since]
    done = subprocess.run(asked, check=False, capture_output=True, text=True)
    touched = set(done.stdout.split("\n"))
    # New programs look at all files.
    if done.returncode or any(name.startswith(f"{PROGRAMS}/") for name in touched):
        return names
    written = [name for name in names if name in touched and not _same_code(name, f"HEAD~{number}")]
    seed = os.environ.get("GPUFLEET_TEST_SEED", "")
    return written if len(written) <= _MOST_FILES else sorted(random.Random(seed).sample(written, _MOST_FILES))


def _same_code(name: str, commit: str) -> bool:
    """Whether a file differs from that of the commit in docstrings and comments alone, those for pylint apart."""
    shown = ["git", "-C", str(tree.ROOT), "show", f"{commit}:{name}"]
    done = subprocess.run(shown, check=False, capture_output=True, text=True)
    return not done.returncode and _code(done.stdout) == _code((tree.ROOT / name).read_text(encoding="utf-8"))


def _code(text: str) -> tuple[str, list[str]]:
    parsed = ast.parse(text)
    for node in ast.walk(parsed):
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)) and ast.get_docstring(
            node
        ):
            del node.body[0]
    return ast.dump(parsed), [line for line in text.splitlines() if "pylint:" in line]


def keys_of(texts: Mapping[str, str]) -> dict[str, str]:
    """Return a digest for every file, over everything that the verdict on it follows from."""
    tools = reach.digest(*(path.read_text(encoding="utf-8") for path in _tool_files()))
    imports = reach.imports_of(texts)
    digests = {name: reach.digest(text) for name, text in texts.items()}
    return {
        name: reach.digest(tools, *(digests[found] for found in sorted(reach.reach(name, imports)))) for name in texts
    }


def _tool_files() -> Iterator[Path]:
    for name in TOOLS:
        path = tree.ROOT / name
        yield from sorted(path.iterdir()) if path.is_dir() else [path]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
