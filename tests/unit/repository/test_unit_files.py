# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which files of unit tests `make check` runs again."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from tools import unit_files

PREFIX = "from ansible_collections.gpufleet.bringup.plugins.plugin_utils"
CORE, TESTS = "plugins/plugin_utils", "tests/unit/plugins/plugin_utils"
SOURCES = {
    f"{CORE}/a/base.py": "A = 1",
    f"{CORE}/a/middle.py": "from .base import A",
    f"{CORE}/a/program.py": "from ..probe import tool",
    f"{CORE}/a/starts.py": 'argv = python_argv("a.program")',
    f"{CORE}/check/judge.py": "B = 1",
    f"{CORE}/probe/tool.py": "C = 1",
    f"{CORE}/registry.py": "import_module(name)",
    f"rehearsal/{CORE}/b/program.py": "D = 1",
    f"rehearsal/{CORE}/b/starts.py": 'argv = python_argv("rehearsal.b.program")',
    "roles/train/files/train.py": "print()",
    "tests/conftest.py": "import seeds",
    "tests/support/seeds.py": "import subprocess",
    "tests/support/helper.py": f"{PREFIX}.a import middle",
    f"{TESTS}/conftest.py": f"{PREFIX}.a import base",
    f"{TESTS}/test_alone.py": "import os",
    f"{TESTS}/test_helped.py": "import helper",
    f"{TESTS}/test_starts.py": f"{PREFIX}.a import starts",
    f"{TESTS}/test_second.py": "from ansible_collections.gpufleet.rehearsal.plugins.plugin_utils.b import starts",
    f"{TESTS}/test_registry.py": f"{PREFIX} import registry",
    f"{TESTS}/test_train.py": 'path = ROOT / "roles/train/files/train.py"',
    f"{TESTS}/test_runs.py": 'import subprocess\nsubprocess.run("true")',
    "tests/unit/repository/test_layout.py": "",
}
OTHERS = {"recipes/registry.yaml": "1", "docs/index.md": "2", "changelogs/fragments/x.yml": "3", "/shared/capture": "4"}
ALL = {name.rpartition("/")[2] for name in SOURCES if "/test_" in name}
LOOK_AROUND = {"test_runs.py", "test_layout.py"}


def keys(texts: dict[str, str], others: dict[str, str]) -> dict[str, str]:
    return unit_files.keys_of(texts, others, unit_files.reach.imports_of(texts))


@pytest.mark.parametrize(
    ("changed", "again"),
    [
        (f"{TESTS}/test_alone.py", {"test_alone.py"}),
        (f"{CORE}/a/middle.py", {"test_helped.py"}),
        (f"{CORE}/a/base.py", ALL),
        (f"{CORE}/a/program.py", {"test_starts.py"}),
        (f"rehearsal/{CORE}/b/program.py", {"test_second.py"}),
        (f"{CORE}/probe/tool.py", {"test_starts.py", "test_registry.py"}),
        (f"{CORE}/check/judge.py", {"test_registry.py"}),
        ("roles/train/files/train.py", {"test_train.py"}),
        ("tests/support/seeds.py", ALL),
        ("recipes/registry.yaml", ALL),
        ("/shared/capture", ALL),
        ("docs/index.md", set()),
        ("changelogs/fragments/x.yml", set()),
    ],
)
def test_what_changed_what_reads_it_and_what_looks_around(changed: str, again: set[str]) -> None:
    before = keys(SOURCES, OTHERS)
    after = keys(
        {name: f"{text}\nZ = 2\n" if name == changed else text for name, text in SOURCES.items()},
        {name: f"{value}0" if name == changed else value for name, value in OTHERS.items()},
    )
    assert {name.rpartition("/")[2] for name in before if before[name] != after[name]} == again | LOOK_AROUND


def test_every_file_of_tests_has_a_key() -> None:
    root = Path(__file__).resolve().parents[3]
    known = keys(unit_files.reach.sources(), {})
    assert known.keys() == {str(path.relative_to(root)) for path in (root / "tests/unit").rglob("test_*.py")}


SECONDS = {"near": 5.0, "next": 4.0, "far": 3.0, "short": 1.0}
FAR = {"near": 1, "next": 2, "far": 7, "short": 7}


def test_the_nearest_to_a_change_come_first_and_the_rest_waits() -> None:
    assert unit_files.within(100.0, SECONDS, SECONDS, FAR) == ("far", "near", "next", "short")
    assert unit_files.within(10.0, SECONDS, SECONDS, FAR) == ("near", "next", "short")
    assert unit_files.within(5.0, SECONDS, SECONDS, FAR) == ("near",)


def test_one_file_is_run_whatever_it_takes_and_all_where_no_time_is_known() -> None:
    assert unit_files.within(1.0, SECONDS, SECONDS, FAR) == ("near",)
    assert unit_files.within(1.0, SECONDS, {}, FAR) == tuple(SECONDS)
    assert "new" in unit_files.within(6.0, [*SECONDS, "new"], SECONDS, FAR)


def test_distance_is_counted_over_imports() -> None:
    imports = unit_files.reach.imports_of(SOURCES)
    found = unit_files.reach.distances({f"{CORE}/a/base.py"}, imports)
    assert found[f"{CORE}/a/base.py"] == 0 and found[f"{CORE}/a/middle.py"] == 1
    assert found["tests/support/helper.py"] == 2 and found[f"{TESTS}/test_helped.py"] == 3
    assert f"{TESTS}/test_alone.py" not in found


def test_what_waits_counts_as_changed_the_next_time(tmp_path: Path) -> None:
    kept, ran = tmp_path / "kept.json", []

    def run(names: Sequence[str]) -> int:
        ran.append(tuple(names))
        return 0

    keys = {"a": "1", "b": "1"}
    assert unit_files.reach.run_changed(kept, keys, "unit", run, lambda names: names[:1]) == 0
    assert unit_files.reach.run_changed(kept, keys, "unit", run) == 0
    assert unit_files.reach.run_changed(kept, keys, "unit", run) == 0
    assert ran == [("a",), ("b",)]
