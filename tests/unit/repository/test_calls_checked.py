# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Every playbook checks first how it was called, and every page names the file of an inventory."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

IMPORT = "ansible.builtin.import_playbook"
# Publishes that nothing is passed, for whoever reads it after a refusal.
BEFORE = "Nothing is passed yet"


def plays(path: Path) -> Iterator[dict[str, Any]]:
    """Every play of a playbook in its order, with those of the playbooks that it imports by a plain name."""
    for play in yaml.safe_load(path.read_text("utf-8")):
        if IMPORT in play and "{{" not in play[IMPORT]:
            yield from plays(path.parent / play[IMPORT])
        else:
            yield play


def test_every_playbook_checks_first_how_it_was_called(repository: Path) -> None:
    (check,) = yaml.safe_load((repository / "playbooks/parts/call.yml").read_text("utf-8"))
    assert [task for task in check["tasks"] if "gpufleet.bringup.preflight_call" in task]
    paths = sorted((repository / "playbooks").glob("*.yml"))
    first = {path.stem: next(play for play in plays(path) if play["name"] != BEFORE) for path in paths}
    assert len(first) > 20 and [name for name, play in first.items() if play != check] == []


def test_a_page_names_the_file_of_an_inventory(repository: Path) -> None:
    files = [repository / "README.md", *repository.glob("docs/**/*.md"), *repository.glob("playbooks/*.yml")]
    files += [*repository.glob("inventories/**/*.md"), *repository.glob("roles/*/README.md")]
    directory = re.compile(r"-i inventory(?![/\w])")
    assert [str(path.relative_to(repository)) for path in files if directory.search(path.read_text("utf-8"))] == []
