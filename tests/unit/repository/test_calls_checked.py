# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Every playbook checks first how it was called, and every page names the file of an inventory."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml
from both import of_both

IMPORT = "ansible.builtin.import_playbook"
ROOT = Path(__file__).resolve().parents[3]
# Two collections call each other's playbooks by their names.
PLACES = {"gpufleet.bringup.": ROOT / "playbooks", "gpufleet.rehearsal.": ROOT / "rehearsal/playbooks"}
REHEARSAL = re.compile(r"\{\{ lookup\('gpufleet\.bringup\.rehearsal', '(\w+)'\) }}")
MISSING = "gpufleet.bringup.parts.rehearsal_missing"
# Publishes that nothing is passed, for whoever reads it after a refusal.
BEFORE = "Nothing is passed yet"


def plays(path: Path) -> Iterator[dict[str, Any]]:
    """Every play of a playbook in its order, with those of the playbooks that it imports by a plain name."""
    for play in yaml.safe_load(path.read_text("utf-8")):
        rehearsal = REHEARSAL.fullmatch(play.get(IMPORT, ""))
        if rehearsal:
            yield from plays(place_of(f"gpufleet.rehearsal.{rehearsal[1]}", path))
        elif IMPORT in play and "{{" not in play[IMPORT]:
            yield from plays(place_of(play[IMPORT], path))
        else:
            yield play


def place_of(name: str, importer: Path) -> Path:
    """The file of a playbook that is imported by its path or by its name."""
    for prefix, place in PLACES.items():
        if name.startswith(prefix):
            return place / f"{name.removeprefix(prefix).replace('.', '/')}.yml"
    return importer.parent / name


def test_every_playbook_checks_first_how_it_was_called(repository: Path) -> None:
    (check,) = yaml.safe_load((repository / "playbooks/parts/call.yml").read_text("utf-8"))
    assert [task for task in check["tasks"] if "gpufleet.bringup.preflight_call" in task]
    paths = sorted((repository / "playbooks").glob("*.yml"))
    first = {path.stem: next(play for play in plays(path) if play["name"] != BEFORE) for path in paths}
    first |= {name: next(plays(place_of(name, PLACES["gpufleet.bringup."]))) for name in (MISSING,)}
    assert len(first) > 20 and [name for name, play in first.items() if play != check] == []


def test_every_playbook_of_a_rehearsal_is_started_by_one_of_its_name(repository: Path) -> None:
    there = {path.name for path in (repository / "rehearsal/playbooks").glob("*.yml")}
    assert there and there == {path.name for path in (repository / "playbooks").glob("rehearse*.yml")}
    for name in there:
        (play,) = yaml.safe_load((repository / "playbooks" / name).read_text("utf-8"))
        found = REHEARSAL.fullmatch(play[IMPORT])
        assert found is not None and f"{found[1]}.yml" == name


def test_a_page_names_the_file_of_an_inventory(repository: Path) -> None:
    files = [repository / "README.md", *repository.glob("docs/**/*.md"), *of_both("playbooks/*.yml")]
    files += [*repository.glob("inventories/**/*.md"), *repository.glob("roles/*/README.md")]
    directory = re.compile(r"-i inventory(?![/\w])")
    assert [str(path.relative_to(repository)) for path in files if directory.search(path.read_text("utf-8"))] == []
