# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a Python file of the checkout reaches: the files that it imports, over any number of steps.

Steps that look at single files leave out what passed before and reaches only what is as it was then.
"""

from __future__ import annotations

import ast
import hashlib
import json
from collections import deque
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from pathlib import Path

from tools import tree

OURS = ("ansible_collections", "gpufleet")


def sources() -> dict[str, str]:
    """Return the text of every Python file, by its path in the checkout."""
    names = (name for name in tree.files_of_checkout() if name.suffix == ".py" and not (tree.ROOT / name).is_symlink())
    return {name.as_posix(): (tree.ROOT / name).read_text(encoding="utf-8") for name in names}


def digest(*texts: str) -> str:
    """Return one digest over texts."""
    return hashlib.sha256("\0".join(texts).encode()).hexdigest()


def imports_of(texts: Mapping[str, str]) -> dict[str, set[str]]:
    """Return for every file those of `texts` that it imports by itself."""
    return {name: {*_imported(name, text)} & texts.keys() for name, text in texts.items()}


def reach(name: str, imports: Mapping[str, set[str]]) -> set[str]:
    """Return a file and all that it imports, over any number of steps."""
    found, waiting = {name}, [name]
    while waiting:
        more = imports[waiting.pop()] - found
        found |= more
        waiting += more
    return found


def distances(changed: Collection[str], imports: Mapping[str, set[str]]) -> dict[str, int]:
    """Return for each file that reaches one of those that changed over how many imports it does, 0 for itself."""
    importers: dict[str, set[str]] = {}
    for name, imported in imports.items():
        for other in imported:
            importers.setdefault(other, set()).add(name)
    found = dict.fromkeys(changed, 0)
    waiting = deque(changed)
    while waiting:
        name = waiting.popleft()
        for importer in sorted(importers.get(name, ())):
            if importer not in found:
                found[importer] = found[name] + 1
                waiting.append(importer)
    return found


def run_changed(
    kept: Path,
    keys: Mapping[str, str],
    what: str,
    run: Callable[[Sequence[str]], int],
    choose: Callable[[Sequence[str]], Sequence[str]] = tuple,
) -> int:
    """Run a step over the files whose keys are not those that passed, and return its status.

    Args:
        kept: where the keys are kept that passed; a step that fails keeps the old ones.
        keys: digest of everything that the answer for a file follows from, by file.
        what: name of the step, for the line that is printed.
        run: given the changed files, returns a status.
        choose: given the changed files, returns those to run now; the others count as changed the next time.
    """
    passed = json.loads(kept.read_text(encoding="utf-8")) if kept.is_file() else {}
    changed = sorted(name for name, key in keys.items() if passed.get(name) != key)
    chosen = choose(changed)
    later = set(changed) - set(chosen)
    waits = f"; {len(later)} of them wait for the next time" if later else ""
    print(f"{what}: {len(changed)} of {len(keys)} files changed, or what they read did{waits}", flush=True)
    status = run(chosen) if chosen else 0
    if chosen and status == 0:
        left = {name: passed.get(name, "") for name in later}
        kept.write_text(json.dumps({**keys, **left}, indent=1), encoding="utf-8")
    return status


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
    if tuple(words[:2]) == OURS:
        # The second collection lies in a directory of its name, the first is the checkout.
        words = words[2:] if words[2:3] == [tree.REHEARSAL] else words[3:]
    for found in (words, *([*words, name] for name in names)):
        yield f"{'/'.join(found)}.py"
        yield f"{'/'.join([*found, '__init__'])}.py"
        # The helpers of tests and tools are imported by their bare names.
        yield f"tests/support/{'/'.join(found)}.py"
        yield f"tools/{'/'.join(found)}.py"
