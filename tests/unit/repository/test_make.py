# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a contributor's `make unit` and `make test` run, and what they say without the data of others."""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tools import catalog_check

PATH = "tests/unit/repository/test_make.py"


def started(repository: Path, target: str, args: str) -> list[str]:
    """Return the words behind `pytest` of what make would run, without options that it always gives."""
    argv = ["make", "--dry-run", "--silent", "-C", str(repository), target, f"ARGS={args}"]
    said = subprocess.run(argv, capture_output=True, text=True, check=True, timeout=60).stdout
    (line,) = (line for line in said.splitlines() if " pytest " in line)
    words = line.partition(" pytest ")[2].split()
    return [word for word in words if word not in ("-n", "2", "4", "--durations=40")]


@pytest.mark.parametrize(
    ("target", "args", "expected"),
    [
        ("unit", "", ["tests/unit"]),
        ("unit", "-k name", ["tests/unit", "-k", "name"]),
        ("unit", PATH, [PATH]),
        (
            "unit",
            f"tests/unit/repository {PATH}::started -k name",
            ["tests/unit/repository", f"{PATH}::started", "-k", "name"],
        ),
        ("test", "tests/unit/repository", ["tests/unit/repository"]),
        ("test", "", []),
    ],
)
def test_a_path_takes_the_place_of_what_runs_otherwise(
    repository: Path, target: str, args: str, expected: list[str]
) -> None:
    assert started(repository, target, args) == expected


def make(repository: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """Return what make answers to a person: this process may be one of another make."""
    own = {name: value for name, value in os.environ.items() if name not in ("MAKELEVEL", "MAKEFLAGS", "MFLAGS")}
    argv = ["make", "--dry-run", "-C", str(repository), *words]
    return subprocess.run(argv, env=own, capture_output=True, text=True, check=False, timeout=60)


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("rehearse", "NODE=4"), "make rehearse reads no variable NODE (did you mean NODES?), so nothing was done"),
        (("catalog-check", "DIRS=x"), "reads no variable DIRS (did you mean DIR?)"),
        (("rehearse", "nodes=4"), "(did you mean NODES?)"),
        (("rehearse-stop", "SET=x"), "make rehearse-stop reads no variable SET (it reads: PYTHON ARGS)"),
        (("NODES=4",), "make help reads no variable NODES"),
        (("rehearse", "NODES=4", "GOGC=200", "GPUFLEET_STORE_URL=x"), ""),
        (("catalog-check", "DIR=x"), ""),
        (("lint", "unit", "ARGS=-k x"), ""),
    ],
)
def test_a_variable_that_a_target_does_not_read_is_refused(
    repository: Path, words: tuple[str, ...], expected: str
) -> None:
    said = make(repository, *words)
    assert (said.returncode, expected in said.stderr) == (2 if expected else 0, True), said.stderr


def test_every_variable_that_a_recipe_of_make_reads_may_be_given(repository: Path) -> None:
    """The table at the top of the Makefile has what its targets use, and nothing else."""
    text = (repository / "Makefile").read_text("utf-8")
    table = dict(re.findall(r"^reads\.(\S+) = (.*)$", text, re.MULTILINE))
    (alike,) = re.findall(r"foreach target,([^,]+),\$\(eval reads", text)
    table |= dict.fromkeys(alike.split(), "ARGS")
    (shared,) = re.findall(r"^rehearsal_variables = ((?:.*\\\n)+.*)$", text, re.MULTILINE)
    used: dict[str, set[str]] = {}
    for target, body in re.findall(r"^([a-z][a-z-]*): .*\n((?:\t.*\n)+)", text, re.MULTILINE):
        whole = body.replace("$(rehearsal_variables)", shared)
        names = re.findall(r"\$\(([A-Z]+)\)", whole) + re.findall(r"extra,([A-Z]+),", whole)
        used[target] = {*names} - {"CURDIR", "MAKE"}
    assert {target: names for target, names in used.items() if names} == {
        target: set(names.split()) for target, names in table.items()
    }


def test_a_directory_that_is_none_is_one_sentence(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert catalog_check.main([str(tmp_path / "none")]) == 3
    (line,) = capsys.readouterr().out.splitlines()
    assert line.startswith("catalog-check: ") and f"{tmp_path}/none: is not a directory." in line


def test_tests_without_the_data_of_others_are_told_in_one_line(
    request: pytest.FixtureRequest, repository: Path
) -> None:
    plugin: Any = request.config.pluginmanager.get_plugin(str(repository / "tests/conftest.py"))
    skipped = SimpleNamespace(skipped=True, longrepr=("tests/x.py", 1, "Skipped: no shared data"))
    other = SimpleNamespace(skipped=True, longrepr=("tests/x.py", 1, "Skipped: no device"))
    kind, letter, _word = plugin.pytest_report_teststatus(skipped)
    # A kind of its own: pytest's list of reasons (-r) has those of kind `skipped`.
    assert (kind, letter) == ("no shared data", "s") and plugin.pytest_report_teststatus(other) is None
    lines: list[str] = []
    reporter = SimpleNamespace(stats={kind: [skipped] * 122}, write_line=lambda line, **_how: lines.append(line))
    plugin.pytest_terminal_summary(reporter)
    (line,) = lines
    assert line.startswith("122 tests were not run") and "GPUFLEET_SHARED" in line
    named = next(word for word in line.split() if word.endswith(".md"))
    assert "GPUFLEET_SHARED" in (repository / named).read_text("utf-8")


def _conftest(repository: Path) -> Any:
    spec = importlib.util.spec_from_file_location("tests_conftest", repository / "tests" / "conftest.py")
    assert spec is not None and spec.loader is not None
    conftest = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(conftest)
    return conftest


def _chosen(repository: Path, args: list[str], keyword: str = "") -> set[str]:
    """Return which of three tests are run: one of each schedule, and one that is drawn as well."""
    conftest = _conftest(repository)
    marks = {"a.py::short": {}, "a.py::long": {"long": ()}, "b.py::drawn": {"drawn": (1,)}}
    items: list[Any] = [
        SimpleNamespace(
            nodeid=name,
            get_closest_marker=lambda mark, known=known: mark in known,
            iter_markers=lambda mark, known=known: (
                [SimpleNamespace(args=known[mark], kwargs={})] if mark in known else []
            ),
        )
        for name, known in marks.items()
    ]
    options = {"--hypothesis-profile": "patient", "keyword": keyword}
    hook = SimpleNamespace(pytest_deselected=lambda items: None)
    conftest.pytest_collection_modifyitems(SimpleNamespace(getoption=options.get, args=args, hook=hook), items)
    return {item.nodeid.partition("::")[2] for item in items}


def test_long_tests_have_a_schedule_of_their_own(repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("GPUFLEET_TEST_LONG", raising=False)
    assert _chosen(repository, ["tests"]) == {"short", "drawn"}
    # Who names a file or a test gets it.
    assert _chosen(repository, ["tests/rehearsal/a.py"]) == {"short", "long", "drawn"}
    assert _chosen(repository, ["tests"], "long") == {"short", "long", "drawn"}
    monkeypatch.setenv("GPUFLEET_TEST_LONG", "1")
    assert _chosen(repository, ["tests"]) == {"long"}


def test_files_are_drawn_whole_and_then_the_tests_of_those_that_are_left(repository: Path) -> None:
    conftest = _conftest(repository)
    whole = SimpleNamespace(args=(1,), kwargs={"of": "files", "whole": True})
    one = SimpleNamespace(args=(1,), kwargs={"of": "tests of a file"})
    items: list[Any] = [
        SimpleNamespace(nodeid=f"{file}.py::{test}", iter_markers=lambda _mark, marks=marks: marks)
        for file in "ab"
        for test, marks in (("always", [whole]), ("first", [one, whole]), ("second", [one, whole]))
    ]
    left_out = conftest._not_drawn(items, "drawn")
    kept = sorted(item.nodeid for item in items if item.nodeid not in left_out)
    (file,) = {name.partition(".")[0] for name in kept}
    assert kept in ([f"{file}.py::always", f"{file}.py::{test}"] for test in ("first", "second"))
