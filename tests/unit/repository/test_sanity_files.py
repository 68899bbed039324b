# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which files ansible-test looks at again."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tools import sanity_files

PREFIX = "from ansible_collections.gpufleet.bringup.plugins"
SOURCES = {
    "plugins/plugin_utils/a/__init__.py": "",
    "plugins/plugin_utils/a/base.py": "A = 1",
    "plugins/plugin_utils/a/middle.py": "from .base import A",
    "plugins/plugin_utils/b/__init__.py": "",
    "plugins/plugin_utils/b/top.py": "def f():\n    from ..a import middle\n",
    "plugins/plugin_utils/b/alone.py": "import os",
    "tests/support/helper.py": f"{PREFIX}.plugin_utils.b import top",
    "tests/unit/test_x.py": "import helper",
}


@pytest.mark.parametrize(
    ("changed", "again"),
    [
        ("plugins/plugin_utils/b/alone.py", {"plugins/plugin_utils/b/alone.py"}),
        ("tests/unit/test_x.py", {"tests/unit/test_x.py"}),
        (
            "plugins/plugin_utils/a/base.py",
            {
                "plugins/plugin_utils/a/base.py",
                "plugins/plugin_utils/a/middle.py",
                "plugins/plugin_utils/b/top.py",
                "tests/support/helper.py",
                "tests/unit/test_x.py",
            },
        ),
    ],
)
def test_what_changed_and_what_imports_it(changed: str, again: set[str]) -> None:
    before = sanity_files.keys_of(SOURCES)
    after = sanity_files.keys_of({**SOURCES, changed: SOURCES[changed] + "\nB = 2\n"})
    assert {name for name in SOURCES if before[name] != after[name]} == again


def test_the_tools_count() -> None:
    assert {"requirements", "tools/sanity"} <= set(sanity_files.TOOLS)
    assert all((sanity_files.tree.ROOT / name).exists() for name in sanity_files.TOOLS)


def test_no_test_of_files_is_left_out() -> None:
    """What the one step skips, another one runs."""
    from tools import check

    commands = {step.name: step.command for step in check.STEPS}
    skipped = {word for word in commands["sanity"][1:] if word != "--skip-test"}
    run = [test for name, command in commands.items() if "tools.sanity_files" in command for test in command[3:]]
    assert sorted(run) == sorted(skipped) == ["import", "pep8", "pylint"]


def test_files_of_the_last_commits_are_chosen_and_all_where_there_are_none(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def git(*words: str) -> None:
        options = ["-c", "user.name=x", "-c", "user.email=x@example.com", "-c", "init.defaultBranch=main"]
        subprocess.run(["git", "-C", tmp_path, *options, *words], check=True, capture_output=True)

    git("init")
    (tmp_path / "requirements").mkdir()
    for name in ("a.py", "requirements/python3.13.txt", "b.py", "old.py", "c.py"):
        (tmp_path / name).write_text(f"one = '{name}'\ntwo = 2\nthree = 3\n")
        git("add", name)
        git("commit", "-m", name)
    git("mv", "old.py", "new.py")
    git("commit", "-m", "Move a file")
    (tmp_path / "a.py").write_text("""'''Words.'''\n# Why.\none = 'a.py'\ntwo = 2\nthree = 3\n""")
    git("commit", "-a", "-m", "Say it in other words")
    monkeypatch.setattr(sanity_files.tree, "ROOT", tmp_path)
    names = ["a.py", "b.py", "c.py", "new.py"]
    expected = {"": names, "2": [], "3": ["c.py"], "5": ["b.py", "c.py", "new.py"], "6": names, "9": names}
    for number, chosen in expected.items():
        monkeypatch.setenv(sanity_files.VARIABLE, number)
        assert sanity_files.of_last_commits(names) == chosen
    # Of more than can be looked at beside the tests some are drawn, by the commit.
    monkeypatch.setattr(sanity_files, "_MOST_FILES", 2)
    monkeypatch.setenv(sanity_files.VARIABLE, "5")
    drawn = set()
    for seed in range(20):
        monkeypatch.setenv("GPUFLEET_TEST_SEED", str(seed))
        drawn.add(tuple(sanity_files.of_last_commits(names)))
    assert drawn == {("b.py", "c.py"), ("b.py", "new.py"), ("c.py", "new.py")}
