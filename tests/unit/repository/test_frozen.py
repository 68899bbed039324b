# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""What is frozen of a saved run is the same each time, and another one as soon as a judge says something else."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tools import frozen

NAME = "0.1.0_missing_gpu"


def files(directory: Path) -> dict[str, str]:
    return {path.name: path.read_text(encoding="utf-8") for path in sorted(directory.iterdir())}


def test_a_saved_run_is_frozen_alike_until_a_judge_says_something_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    frozen.freeze_saved(NAME, tmp_path / "before")
    before = files(tmp_path / "before")
    assert "gpu-missing" in before["nodes.json"] and "not passed" in before["verdict.json"]
    judged = frozen.judged_again
    monkeypatch.setattr(
        frozen, "judged_again", lambda run, gate: [replace(o, hint=o.hint and "another") for o in judged(run, gate)]
    )
    frozen.freeze_saved(NAME, tmp_path / "after")
    after = files(tmp_path / "after")
    assert [name for name in before if before[name] != after[name]] == ["nodes.json"], "no other gate has a hint"


def test_a_directory_that_is_there_is_left_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.argv", ["frozen", str(tmp_path)])
    with pytest.raises(SystemExit):
        frozen.main()
    assert "is there already" in capsys.readouterr().err
