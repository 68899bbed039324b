# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Runs the unit tests of those files that changed, or that read something which did; what passed is left out.

A file of tests reads what it imports, over any number of steps, and all data: recipes, roles, saved runs, what is
shared. One that looks at the tree itself or starts programs reads everything. .cache/unit-files.json keeps what passed;
without it everything runs, as in `make test` always.

What would take longer than a check may, after a change that everything rests on, is not run in one go: the files
nearest to the change come first, and those beyond the time wait for the next check. GPUFLEET_TEST_CASES=all takes all.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path, PurePosixPath
from xml.etree import ElementTree

from tools import check, reach, tree

PASSED = tree.ROOT / ".cache/unit-files.json"
# How long each file took, as pytest wrote it down.
SECONDS = tree.ROOT / ".cache/unit-seconds.json"
REPORT = tree.ROOT / ".cache/unit.xml"
# A check has two minutes for all of its steps.
BUDGET_S = 50.0
UNIT = "tests/unit"
CORE = "plugins/plugin_utils"
# A test in whose reach such a word stands may read sources or pages, or start programs that do.
_LOOKS_AROUND = re.compile(r"\b(?:subprocess|run_command|python_argv)\b|\*\.(?:py|md)[\"']|\.md[\"']|[\"']docs[\"'/]")
# A source that is read as a file.
_SOURCE = re.compile(r"([\w-]+\.py)[\"']")
# What looks at the tree by its purpose.
_WHOLE = (f"{UNIT}/repository/", f"{UNIT}/catalogue/")
# What imports by name imports checks and their parsers.
_BY_NAME = re.compile(r"\b(import_module|iter_modules)\b")
_NAMED_ROOMS = (f"{CORE}/check/", f"{CORE}/probe/")
# The name of a module that is started as a program.
_STARTED = re.compile(r'"([a-z_]+(?:\.[a-z_]+)+)"')
_EVERYWHERE = "tests/conftest.py"
_NO_DATA = ("docs/", "changelogs/", ".github/")


def main() -> int:
    """Run what is new; return the status of pytest."""
    texts = reach.sources()
    imports = reach.imports_of(texts)

    def choose(names: Sequence[str]) -> Sequence[str]:
        if os.environ.get("GPUFLEET_TEST_CASES") == "all":
            return names
        far = reach.distances(_changed_now() & texts.keys(), imports)
        return within(BUDGET_S * check.WORKERS, names, _seconds(), far)

    return reach.run_changed(PASSED, keys_of(texts, _others(), imports), "unit", _tested, choose)


def within(
    budget_s: float, names: Collection[str], seconds: Mapping[str, float], far: Mapping[str, int]
) -> tuple[str, ...]:
    """Return the files of tests to run now: the nearest to the change first, of those the shortest, one at least.

    Args:
        budget_s: seconds that they may take together, one after another.
        names: the files.
        seconds: how long each took; one of which that is not known is taken, and all where nothing is.
        far: over how many imports each reaches what changed.
    """
    if not seconds:
        return tuple(names)
    chosen: list[str] = []
    left_s = budget_s
    for name in sorted(names, key=lambda name: (far.get(name, len(far)), seconds.get(name, 0.0), name)):
        if seconds.get(name, 0.0) <= left_s or not chosen:
            chosen.append(name)
            left_s -= seconds.get(name, 0.0)
    return tuple(sorted(chosen))


def _changed_now() -> set[str]:
    """Return what is not committed, else what the last commit changed."""
    for words in (("status", "--porcelain", "--no-renames", "-uall"), ("diff", "--name-only", "HEAD~1", "HEAD")):
        done = subprocess.run(("git", *words), cwd=tree.ROOT, stdout=subprocess.PIPE, text=True, check=False)
        lines = done.stdout.splitlines()
        if lines:
            return {line[3:] for line in lines} if words[0] == "status" else set(lines)
    return set()


def _seconds() -> dict[str, float]:
    found: dict[str, float] = json.loads(SECONDS.read_text(encoding="utf-8")) if SECONDS.is_file() else {}
    return found


def _tested(names: Sequence[str]) -> int:
    # The older family of JUnit reports names the file of each test.
    report = (f"--junitxml={REPORT}", "--override-ini=junit_family=xunit1")
    words = ("pytest", "-q", "-n", str(check.WORKERS), "--hypothesis-profile=quick", *report)
    status = subprocess.run([*words, *names], cwd=tree.ROOT, check=False).returncode
    took: dict[str, float] = {}
    for case in ElementTree.parse(REPORT).iter("testcase") if REPORT.is_file() else ():
        took[case.get("file", "")] = took.get(case.get("file", ""), 0.0) + float(case.get("time", "0"))
    SECONDS.write_text(json.dumps(_seconds() | took, indent=1), encoding="utf-8")
    return status


def keys_of(texts: Mapping[str, str], others: Mapping[str, str], imports: Mapping[str, set[str]]) -> dict[str, str]:
    """Return a digest for every file of unit tests, over everything that it reads.

    Args:
        texts: the Python files, by their paths in the checkout.
        others: digests of all other files, by path; what is outside the checkout by its absolute path.
        imports: what each of the Python files imports, by their paths.
    """
    reached = with_names(texts, imports)
    digests = {name: reach.digest(text) for name, text in texts.items()}
    data = reach.digest(sys.version, *(f"{k} {v}" for k, v in sorted(others.items()) if _is_data(k)))
    whole = reach.digest(data, *(f"{name} {value}" for name, value in sorted([*digests.items(), *others.items()])))
    return {name: _key(name, texts, reached, digests, (data, whole)) for name in texts if _is_test(name)}


def with_names(texts: Mapping[str, str], imports: Mapping[str, set[str]]) -> dict[str, set[str]]:
    """Return what each of the Python files imports, with what it imports or starts by a name in a text."""
    places: dict[str, set[str]] = {}
    for name in texts:
        places.setdefault(name.rpartition("/")[2], set()).add(name)
    return {name: imports[name] | _by_name(name, text, places) for name, text in texts.items()}


def _key(
    name: str,
    texts: Mapping[str, str],
    imports: Mapping[str, set[str]],
    digests: Mapping[str, str],
    common: tuple[str, str],
) -> str:
    data, whole = common
    found: set[str] = set()
    for start in (name, *_conftests(name, texts)):
        found |= reach.reach(start, imports)
    # What every test has is looked at here, not found by its words: it prepares the run and reads no sources.
    common_to_all = reach.reach(_EVERYWHERE, imports) if _EVERYWHERE in texts else set()
    own = (texts[read] for read in found - common_to_all if read.startswith("tests/"))
    if name.startswith(_WHOLE) or any(_LOOKS_AROUND.search(text) for text in own):
        return whole
    return reach.digest(data, *(f"{read} {digests[read]}" for read in sorted(found)))


def _is_test(name: str) -> bool:
    return name.startswith(f"{UNIT}/") and PurePosixPath(name).name.startswith("test_")


def _is_data(name: str) -> bool:
    return not name.startswith(_NO_DATA) and not name.endswith(".md")


def _conftests(name: str, texts: Mapping[str, str]) -> Iterator[str]:
    for folder in PurePosixPath(name).parents:
        if (found := f"{folder}/conftest.py") in texts:
            yield found


def _by_name(name: str, text: str, places: Mapping[str, set[str]]) -> set[str]:
    """Return the sources that a module names in a text, or finds in a room.

    Args:
        name: path of the module.
        text: its text.
        places: the paths of all sources, by the name of the file.
    """
    looks = _BY_NAME.search(text)
    rooms = {path for paths in places.values() for path in paths if path.startswith(_NAMED_ROOMS)} if looks else set()
    if name.startswith(("plugins/", f"{tree.REHEARSAL}/plugins/")):
        started = (_module(word.split(".")) for word in _STARTED.findall(text))
        return rooms | {path for path in started if path in places.get(path.rpartition("/")[2], ())}
    return rooms.union(*(places.get(file, ()) for file in _SOURCE.findall(text)))


def _module(words: Sequence[str]) -> str:
    """Return the path of a module of the core, of the second collection where its name is the first word."""
    other = words[0] == tree.REHEARSAL
    return f"{tree.REHEARSAL}/{CORE}/{'/'.join(words[1:])}.py" if other else f"{CORE}/{'/'.join(words)}.py"


def _others() -> dict[str, str]:
    """Return digests of what is no Python file, and sizes and times of what is shared with other projects."""
    found = {}
    for name in tree.files_of_checkout():
        path = tree.ROOT / name
        if name.suffix != ".py" and path.is_file():
            found[name.as_posix()] = reach.digest(path.read_bytes().hex())
    shared = Path(os.environ.get("GPUFLEET_SHARED") or tree.ROOT.parent / "shared")
    for folder, _names, files in os.walk(shared):
        for file in files:
            path = Path(folder, file)
            found[str(path)] = f"{path.stat().st_size} {path.stat().st_mtime_ns}"
    return found


if __name__ == "__main__":
    sys.exit(main())
