# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""`make check`: a slow step is left out only while every file that it reads is the same."""

from __future__ import annotations

from pathlib import Path

import pytest

from tools import check, tree


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A checkout with one file that the step reads and one that it does not."""
    (tmp_path / "roles").mkdir()
    (tmp_path / "roles/main.yml").write_text("a: 1\n")
    (tmp_path / "code.py").write_text("A = 1\n")
    monkeypatch.setattr(check, "ROOT", tmp_path)
    monkeypatch.setattr(tree, "files_of_checkout", lambda: {Path("roles/main.yml"), Path("code.py")})
    return tmp_path


def step(status: int = 0) -> check.Step:
    return check.Step("lint", ("sh", "-c", f"exit {status}"), reads=("*.yml",))


def test_a_step_that_passed_is_left_out_until_a_file_that_it_reads_changes(checkout: Path) -> None:
    before = {"lint": check.digest(step())}
    assert not check.run(step(), before).again
    (checkout / "code.py").write_text("A = 2\n")
    assert not check.run(step(), before).again
    (checkout / "roles/main.yml").write_text("a: 2\n")
    assert check.run(step(), before).again
    assert check.run(step(), {}).again


def test_another_command_runs_again(checkout: Path) -> None:
    assert check.run(step(1), {"lint": check.digest(step())}).status == 1


def test_a_step_without_a_list_of_files_always_runs(checkout: Path) -> None:
    always = check.Step("unit", ("true",))
    assert check.digest(always) == ""
    assert check.run(always, {"unit": ""}).again


def test_notes_of_a_step_that_passed_are_said(capsys: pytest.CaptureFixture[str]) -> None:
    check.show(check.Result(step(), 0, 1.0, "note: one chart is not proven\npassed: all\n"))
    check.show(check.Result(step(), 0, 2.0, "passed: all\n"))
    told = "    ok  lint 1.0 s\n        note: one chart is not proven\n    ok  lint 2.0 s\n"
    assert capsys.readouterr().out == told


def test_what_a_step_made_is_said_last() -> None:
    made = check.Result(
        check.Step("build", ("true",)), 0, 1.0, "copied\nend: tarball  a.tar.gz\nend: next     install\n"
    )
    assert check.end_lines([check.Result(step(), 0, 1.0, "passed: all\n"), made]) == [
        "tarball  a.tar.gz",
        "next     install",
    ]
