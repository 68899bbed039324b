# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Runs ansible-test's slow tests of single files on those that changed, and on all that import one.

What these tests say of a file follows from that file, from what it imports, and from the tools. A file that passed is
left out until one of these changes; .cache/sanity-files.json keeps what passed. Without it everything is looked at.
"""

from __future__ import annotations

import ast
import hashlib
import json
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

from tools import tree

TESTS = ("pylint", "import", "pep8")
PASSED = tree.ROOT / ".cache/sanity-files.json"
# What the verdict depends on beside the sources.
TOOLS = ("requirements", "tools/sanity", "tests/config.yml", "meta/runtime.yml", "galaxy.yml")
OWN = ("ansible_collections", "gpufleet", "bringup")


def main() -> int:
    """Test what is new; return the status of ansible-test."""
    keys = keys_of(sources())
    passed = json.loads(PASSED.read_text(encoding="utf-8")) if PASSED.is_file() else {}
    fresh = sorted(name for name, key in keys.items() if passed.get(name) != key)
    print(f"{', '.join(TESTS)}: {len(fresh)} of {len(keys)} files changed, or what they import did")
    if not fresh:
        return 0
    tests = [word for test in TESTS for word in ("--test", test)]
    status = subprocess.run([tree.ROOT / "tools/sanity", *tests, *fresh], check=False).returncode
    if status == 0:
        PASSED.write_text(json.dumps(keys, indent=1), encoding="utf-8")
    return status


def sources() -> dict[str, str]:
    """Return the text of every Python file, by its path in the checkout."""
    names = (name for name in tree.files_of_checkout() if name.suffix == ".py" and not (tree.ROOT / name).is_symlink())
    return {name.as_posix(): (tree.ROOT / name).read_text(encoding="utf-8") for name in names}


def keys_of(texts: Mapping[str, str]) -> dict[str, str]:
    """Return a digest for every file, over everything that the verdict on it follows from."""
    tools = _digest(*(path.read_text(encoding="utf-8") for path in _tool_files()))
    imports = {name: {*_imported(name, text)} & texts.keys() for name, text in texts.items()}
    digests = {name: _digest(text) for name, text in texts.items()}
    return {name: _digest(tools, *(digests[found] for found in sorted(_reach(name, imports)))) for name in texts}


def _tool_files() -> Iterator[Path]:
    for name in TOOLS:
        path = tree.ROOT / name
        yield from sorted(path.iterdir()) if path.is_dir() else [path]


def _digest(*texts: str) -> str:
    return hashlib.sha256("\0".join(texts).encode()).hexdigest()


def _reach(name: str, imports: Mapping[str, set[str]]) -> set[str]:
    """Return a file and all that it imports, over any number of steps."""
    found, waiting = {name}, [name]
    while waiting:
        more = imports[waiting.pop()] - found
        found |= more
        waiting += more
    return found


def _imported(name: str, text: str) -> Iterator[str]:
    """Return the files that a file may import; that there is no such file does not matter."""
    here = name.split("/")[:-1]
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.ImportFrom):
            words = (node.module or "").split(".") if node.module else []
            place = here[: len(here) - node.level + 1] if node.level else []
            yield from _files([*place, *words], [alias.name for alias in node.names])
        elif isinstance(node, ast.Import):
            for alias in node.names:
                yield from _files(alias.name.split("."), [])


def _files(words: list[str], names: list[str]) -> Iterator[str]:
    if tuple(words[:3]) == OWN:
        words = words[3:]
    for found in (words, *([*words, name] for name in names)):
        yield f"{'/'.join(found)}.py"
        yield f"{'/'.join([*found, '__init__'])}.py"
        # The helpers of tests and tools are imported by their bare names.
        yield f"tests/support/{'/'.join(found)}.py"
        yield f"tools/{'/'.join(found)}.py"


if __name__ == "__main__":
    sys.exit(main())
