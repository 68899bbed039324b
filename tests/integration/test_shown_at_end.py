# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Answers of playbooks are their last lines, as they can be copied."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import yaml


def test_lines_and_a_value_stand_below_the_recap(repository: Path, tmp_path: Path) -> None:
    shown = {"lines": ['driver: "580.1"'], "value": {"b": [1, "two"], "a": "yes"}}
    play = {
        "hosts": "localhost",
        "connection": "local",
        "gather_facts": False,
        "tasks": [{"gpufleet.bringup.show_at_end": shown}],
    }
    (tmp_path / "play.yml").write_text(yaml.safe_dump([play]))
    done = run(repository, tmp_path, "play.yml")
    assert [line for line in done.partition("PLAY RECAP")[2].splitlines()[2:] if line] == [
        'driver: "580.1"',
        "a: 'yes'",
        "b:",
        "- 1",
        "- two",
    ]


def test_a_value_of_a_recipe_is_the_last_line(repository: Path, tmp_path: Path) -> None:
    words = [
        "gpufleet_criteria=service=eks,accelerator=h100,intent=training",
        "gpufleet_recipe_command=query",
        "gpufleet_recipe_selector=criteria.service",
    ]
    words = [part for word in words for part in ("-e", word)]
    assert run(repository, tmp_path, str(repository / "playbooks/recipe.yml"), *words).splitlines()[-2:] == ["", "eks"]


def run(repository: Path, directory: Path, *words: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "ansible", "playbook", "-i", "localhost,", *words],
        cwd=directory, capture_output=True, text=True, check=False,
        env={**os.environ, "ANSIBLE_COLLECTIONS_PATH": str(repository / ".cache"), "ANSIBLE_NOCOLOR": "1"},
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout
