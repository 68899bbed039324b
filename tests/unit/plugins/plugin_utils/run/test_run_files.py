# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the directory of a run has, and what is said where it lacks a file."""

from __future__ import annotations

from pathlib import Path

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.run.run import Run, no_recipe


def test_a_run_without_a_recipe_is_refused_with_the_newest_that_has_one(tmp_path: Path) -> None:
    for name in ("20261103T100000Z-aa", "20261105T100000Z-bb", "20261107T100000Z-cc"):
        (tmp_path / name).mkdir()
    run = Run(tmp_path / "20261107T100000Z-cc")
    assert no_recipe(run).hint.startswith("run gate gpu_stack")
    for name in ("20261103T100000Z-aa", "20261105T100000Z-bb"):
        (tmp_path / name / "recipe.json").write_text("{}", "utf-8")
    assert no_recipe(run).hint == f"-e gpufleet_run={tmp_path}/20261105T100000Z-bb"
