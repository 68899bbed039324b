# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a contributor's `make unit` and `make test` run, and what they say without the data of others."""

from __future__ import annotations

import importlib.util
import subprocess
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

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


def _chosen(repository: Path, args: list[str], keyword: str = "") -> set[str]:
    """Return which of three tests are run: one of each schedule, and one that is drawn as well."""
    spec = importlib.util.spec_from_file_location("tests_conftest", repository / "tests" / "conftest.py")
    assert spec is not None and spec.loader is not None
    conftest = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(conftest)
    marks = {"a.py::short": {}, "a.py::long": {"long": ()}, "b.py::drawn": {"drawn": (1,)}}
    items: list[Any] = [
        SimpleNamespace(
            nodeid=name,
            get_closest_marker=lambda mark, known=known: (
                SimpleNamespace(args=known[mark], kwargs={}) if mark in known else None
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
