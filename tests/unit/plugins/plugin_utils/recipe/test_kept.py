# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Loaded catalogues that are kept: taken only where nothing that they come from has changed."""

from __future__ import annotations

import os
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.errors import ProblemsError
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.recipe import kept, load
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.recipe.criteria import make_criteria
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.recipe.hydrate import hydrated
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.recipe.model import Catalogue
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.recipe.request import catalogue_of
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.recipe.resolve import resolve
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.runtime.files import RECIPES

OVERLAY = "apiVersion: gpufleet.bringup/v1\nkind: RecipeMetadata\nmetadata: {name: mine}\nspec:\n"
LAYER = OVERLAY + "  criteria: {intent: training}\n  constraints: [{name: K8s.server.version, value: '>= 1.3X'}]\n"


class Counted:
    """Counts how often a catalogue is loaded from its files."""

    def __init__(self) -> None:
        self.loads = 0
        self.load: Callable[..., Catalogue] = load.load_catalogue

    def __call__(self, directories: tuple[Path, ...]) -> Catalogue:
        self.loads += 1
        return self.load(directories)


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> Counted:
    """The loading, counted, of files that count as old enough from their first moment."""
    found = Counted()
    monkeypatch.setattr(load, "load_catalogue", found)
    monkeypatch.setattr(kept, "_TICK_S", -60.0)
    return found


@pytest.fixture
def private(tmp_path: Path) -> Path:
    """A directory of private recipe data with one layer."""
    layer = tmp_path / "mine" / "overlays" / "mine.yaml"
    layer.parent.mkdir(parents=True)
    layer.write_text(LAYER.replace("X", "4"), encoding="utf-8")
    return tmp_path / "mine"


def _version(catalogue: Catalogue) -> str:
    return next(item.value for item in catalogue.layers["mine"].fragment.constraints)


def test_a_kept_catalogue_is_the_one_that_was_loaded_and_reads_no_file(
    counted: Counted, private: Path, tmp_path: Path
) -> None:
    directories, place = (RECIPES, private), tmp_path / "kept"
    first, second = (kept.kept_or_loaded(directories, place) for _call in range(2))
    assert counted.loads == 1
    assert second == first
    criteria = make_criteria({"service": "eks", "accelerator": "h100", "intent": "training"})
    assert hydrated(resolve(criteria, second), second) == hydrated(resolve(criteria, first), first)
    assert second.values


def test_each_directory_is_looked_at_once(
    monkeypatch: pytest.MonkeyPatch, counted: Counted, private: Path, tmp_path: Path
) -> None:
    place = tmp_path / "kept"
    catalogue_of((private,), place)
    monkeypatch.setattr("ansible_collections.gpufleet.bringup.plugins.plugin_utils.recipe.request._loaded", {})
    looked: list[str] = []
    scandir = os.scandir

    def noted(path: str) -> Any:
        looked.append(path)
        return scandir(path)

    monkeypatch.setattr(os, "scandir", noted)
    assert "mine" in catalogue_of((private,), place).layers
    assert counted.loads == 1 and str(RECIPES / "overlays") in looked and str(private / "overlays") in looked
    assert sorted(looked) == sorted(set(looked))


def test_any_change_of_a_file_has_it_loaded_again(counted: Counted, private: Path, tmp_path: Path) -> None:
    directories, place = (RECIPES, private), tmp_path / "kept"
    layer = private / "overlays" / "mine.yaml"
    assert _version(kept.kept_or_loaded(directories, place)) == ">= 1.34"
    status = layer.stat()
    layer.write_text(LAYER.replace("X", "5"), encoding="utf-8")
    # Of the same size, and with the time of change that it had: what no editor does.
    os.utime(layer, ns=(status.st_atime_ns, status.st_mtime_ns))
    assert _version(kept.kept_or_loaded(directories, place)) == ">= 1.35"
    layer.unlink()
    assert "mine" not in kept.kept_or_loaded(directories, place).layers
    assert counted.loads == 3


def test_what_has_just_been_written_is_not_kept(
    monkeypatch: pytest.MonkeyPatch, counted: Counted, private: Path, tmp_path: Path
) -> None:
    monkeypatch.setattr(kept, "_TICK_S", 60.0)
    for _call in range(2):
        kept.kept_or_loaded((RECIPES, private), tmp_path / "kept")
    assert counted.loads == 2
    assert not (tmp_path / "kept").exists()


def test_other_code_and_another_python_do_not_take_it(
    monkeypatch: pytest.MonkeyPatch, counted: Counted, private: Path, tmp_path: Path
) -> None:
    directories, place = (RECIPES, private), tmp_path / "kept"
    kept.kept_or_loaded(directories, place)
    monkeypatch.setattr("sys.version", "4.0")
    kept.kept_or_loaded(directories, place)
    code = tmp_path / "collection"
    monkeypatch.setattr(kept, "COLLECTION_ROOT", code)
    (code / "plugins/plugin_utils/recipe").mkdir(parents=True)
    (code / "plugins/plugin_utils/recipe/merge.py").write_text("")
    kept.kept_or_loaded(directories, place)
    assert counted.loads == 3


@pytest.mark.parametrize("spoilt", ["torn", "not ours", "something else", "a link", "an open directory"])
def test_a_file_that_others_may_have_written_or_that_is_torn_is_not_read(
    counted: Counted, private: Path, tmp_path: Path, spoilt: str
) -> None:
    directories, place = (RECIPES, private), tmp_path / "kept"
    kept.kept_or_loaded(directories, place)
    (file,) = place.glob("*.catalogue")
    whole = file.read_bytes()
    if spoilt == "torn":
        file.write_bytes(whole[:-100])
    elif spoilt == "not ours":
        file.chmod(0o666)
    elif spoilt == "something else":
        state = whole.index(pickle.PROTO + bytes([pickle.HIGHEST_PROTOCOL]))
        file.write_bytes(whole[:state] + pickle.dumps("a text"))
    elif spoilt == "a link":
        file.rename(tmp_path / "other")
        file.symlink_to(tmp_path / "other")
    else:
        place.chmod(0o777)
    assert _version(kept.kept_or_loaded(directories, place)) == ">= 1.34"
    assert counted.loads == 2


def test_wrong_data_are_never_kept(counted: Counted, private: Path, tmp_path: Path) -> None:
    (private / "overlays" / "mine.yaml").write_text(OVERLAY + "  criterai: {}\n", encoding="utf-8")
    for _call in range(2):
        with pytest.raises(ProblemsError, match="criteria"):
            kept.kept_or_loaded((RECIPES, private), tmp_path / "kept")
    assert counted.loads == 2


def test_a_home_that_cannot_be_written_to_changes_no_answer(counted: Counted, private: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    assert _version(kept.kept_or_loaded((RECIPES, private), tmp_path / "file" / "kept")) == ">= 1.34"
