# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Where recipe data lies."""

from __future__ import annotations

from pathlib import Path

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.runtime.files import (
    COLLECTION_ROOT,
    RECIPES,
    recipe_directories,
    recipe_roots,
)


def test_the_collection_is_found_from_its_own_files(repository: Path) -> None:
    assert repository.resolve() == COLLECTION_ROOT
    assert (RECIPES / "registry.yaml").is_file()


def test_directories_of_the_site_come_after_the_collection_and_only_where_they_exist(tmp_path: Path) -> None:
    (tmp_path / "with" / "hardware").mkdir(parents=True)
    (tmp_path / "without").mkdir()
    extra = [str(tmp_path / "with"), tmp_path / "without"]
    assert recipe_roots(extra) == (RECIPES, tmp_path / "with", tmp_path / "without")
    assert recipe_directories("hardware", extra) == (RECIPES / "hardware", tmp_path / "with" / "hardware")


def test_no_other_file_computes_where_the_recipes_lie(repository: Path) -> None:
    # launch.py runs by its path, before anything of the collection can be imported.
    allowed = {"files.py", "launch.py"}
    files = [*(repository / "plugins").rglob("*.py"), *(repository / "tools").rglob("*.py")]
    own = [path for path in files if "__file__" in (text := path.read_text(encoding="utf-8")) and '"recipes"' in text]
    assert not {path.name for path in own} - allowed
