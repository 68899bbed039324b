# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Runs the checks of the repository, several at a time, and ends with a table of what each took.

Called with names it runs those steps only, with `--but NAME ...` all others. The exit status is 1 if one step failed;
its output is shown in full.
"""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from fnmatch import fnmatch

from tools import sanity_files, tree

ROOT = tree.ROOT
CACHE = ROOT / ".cache"
# With this begins a line of a step that `make check` prints last.
END = "end: "
TREE = tree.TREE
BIN = CACHE / "venv/bin"
BUILD = str(CACHE / "build")
PACKAGES = [f"ansible_collections.gpufleet.{name}.plugins" for name in tree.COLLECTIONS]
WORKERS = max(2, len(os.sched_getaffinity(0)))


# Steps that passed, with the digest of what they read: .cache/check-passed.json.
PASSED = CACHE / "check-passed.json"


@dataclass(frozen=True)
class Step:
    """One command; `in_copy` runs it in the real copy of that collection instead of the checkout.

    A step that passed is not run again while the files that it reads are the same: `reads` are patterns of paths in the
    checkout, for a step that is slow and whose input is known. Without them a step always runs.
    """

    name: str
    command: tuple[str, ...]
    in_copy: str = ""
    reads: tuple[str, ...] = ()


@dataclass(frozen=True)
class Result:
    step: Step
    status: int
    seconds: float
    output: str
    again: bool = True


# What ansible-lint looks at: whatever is not Python, and the documentation of modules, which gives their arguments.
LINTED = (
    "*.yml",
    "*.yaml",
    "*.j2",
    "*.tpl",
    "*.cfg",
    ".ansible-lint*",
    "*plugins/modules/*.py",
    "plugins/doc_fragments/*.py",
)

ANSIBLE_LINT = ("ansible-lint", "--nocolor", "-q")

# What ansible-test says of single files has steps of its own.
SKIPPED = tuple(word for group in sanity_files.GROUPS for test in group for word in ("--skip-test", test))

# The longest first: what is left for the end is short, whatever the number of cores.
STEPS = (
    Step("unit", (str(BIN / "python"), "-m", "tools.unit_files")),
    *(
        Step(f"sanity-{group[0]}", (str(BIN / "python"), "-m", "tools.sanity_files", *group))
        for group in sanity_files.GROUPS
    ),
    Step("sanity", (str(ROOT / "tools/sanity"), *SKIPPED)),
    Step("mypy", ("mypy", *(word for package in PACKAGES for word in ("-p", package)))),
    # With a cache of its own: each of both would find the other's out of date, and read all modules again.
    Step("mypy-tools", ("mypy", "--cache-dir", str(CACHE / "mypy-tools"), "tools")),
    *(
        Step(f"ansible-lint{mark}", (*ANSIBLE_LINT, *words), in_copy=name, reads=(*LINTED, "requirements/*.txt"))
        for name, mark, words in (
            (tree.BRINGUP, "", ()),
            (tree.REHEARSAL, "-rehearsal", ("--config-file", "../bringup/.ansible-lint", "--project-dir", ".")),
        )
    ),
    Step("imports", ("lint-imports", "--cache-dir", str(CACHE / "import-linter"))),
    Step("docs", (str(BIN / "python"), "tools/docs.py")),
    Step("catalog", (str(BIN / "python"), "-m", "tools.catalog_check")),
    Step("build", (str(BIN / "python"), "-m", "tools.tarball", BUILD)),
    Step("format", ("ruff", "format", "--check", "--quiet", "--diff", ".")),
    Step("ruff", ("ruff", "check", "--quiet", "--output-format", "concise", ".")),
    Step("yamllint", ("yamllint", "--strict", ".")),
    Step("codespell", ("codespell",)),
    Step("changelog", ("antsibull-changelog", "lint")),
)


def environment(step: Step) -> dict[str, str]:
    """The venv's programs, and the collections by their names: linked, or copied for `in_copy`."""
    paths = {
        "PATH": f"{BIN}:{os.environ['PATH']}",
        "PYTHONPATH": str(CACHE),
        "PYTHONDONTWRITEBYTECODE": "1",
        "NO_COLOR": "1",
        # The copy was brought up to date before the steps; one of them may not prune what another one works with.
        "TREE_IS_FRESH": "1",
    }
    if step.in_copy:
        # With a home of its own: an older copy of the collection in the user's would be found first.
        home = str(CACHE / "ansible-home")
        paths |= {"ANSIBLE_COLLECTIONS_PATH": str(TREE), "PYTHONPATH": str(TREE), "ANSIBLE_HOME": home}
    return {**os.environ, **paths}


def say(text: str) -> None:
    """One write for text and line end: the steps run side by side."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def digest(step: Step) -> str:
    """Digest over the step's command and every file that it reads; empty for a step that always runs."""
    if not step.reads:
        return ""
    found = hashlib.sha256("\0".join(step.command).encode())
    for name in sorted(tree.files_of_checkout()):
        if any(fnmatch(name.as_posix(), pattern) for pattern in step.reads):
            found.update(f"\0{name}\0".encode() + (ROOT / name).read_bytes())
    return found.hexdigest()


def passed() -> dict[str, str]:
    """Digest of each step that passed, as it was then."""
    try:
        found: dict[str, str] = json.loads(PASSED.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return found


def run(step: Step, before: Mapping[str, str]) -> Result:
    if step.reads and before.get(step.name) == digest(step):
        return Result(step, 0, 0.0, "", again=False)
    say(f"   ...  {step.name}")
    began = time.monotonic()
    done = subprocess.run(
        step.command,
        cwd=tree.COPIES / step.in_copy if step.in_copy else ROOT,
        env=environment(step),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        check=False,
    )
    return Result(step, done.returncode, time.monotonic() - began, done.stdout)


def show(result: Result) -> None:
    if result.status == 0:
        how = f"{result.seconds:.1f} s" if result.again else "passed before with the same files"
        said = [f"        {line}\n" for line in result.output.splitlines() if line.startswith("note: ")]
        say(f"    ok  {result.step.name} {how}\n{''.join(said)}".rstrip())
        return
    command = " ".join(result.step.command)
    say(f"FAILED  {result.step.name} {result.seconds:.1f} s\n$ {command}\n{result.output.rstrip()}\n")


def closing_table(results: Sequence[Result], seconds: float) -> None:
    print(f"\n{'step':<22}{'seconds':>8}")
    for result in results:
        print(f"{result.step.name:<22}{result.seconds:>8.1f}{'' if result.status == 0 else '  FAILED'}")
    print(f"{'all':<22}{seconds:>8.1f}")


def end_lines(results: Sequence[Result]) -> list[str]:
    """Return what steps that make something say of it, to be read last."""
    said = [line for result in results for line in result.output.splitlines()]
    return [line.removeprefix(END) for line in said if line.startswith(END)]


def main(names: Sequence[str]) -> int:
    steps = {step.name: step for step in STEPS}
    left_out = names[1:] if names[:1] == ["--but"] else ()
    names = [name for name in steps if name not in left_out] if left_out else names
    unknown = [name for name in (*names, *left_out) if name not in steps]
    if unknown:
        print(f"check: no step is called {', '.join(unknown)}; there are: {', '.join(steps)}", file=sys.stderr)
        return 2
    began = time.monotonic()
    tree.main()
    results, before = [], passed()
    with ThreadPoolExecutor(WORKERS) as pool:
        for future in as_completed([pool.submit(run, steps[name], before) for name in (names or steps)]):
            results.append(future.result())
            show(results[-1])
    now = {result.step.name: digest(result.step) for result in results if result.status == 0 and result.step.reads}
    failed = [result.step.name for result in results if result.status != 0]
    kept = {name: value for name, value in before.items() if name not in failed}
    PASSED.write_text(json.dumps(kept | now, indent=1), encoding="utf-8")
    closing_table(results, time.monotonic() - began)
    print(f"check: FAILED: {', '.join(failed)}" if failed else "check: passed")
    if names and not failed:
        print("".join(f"{line}\n" for line in end_lines(results)), end="")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
