# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The tutorial from start to end, as typed, in a copy of the checkout: `make setup`, two rehearsals, all its steps.

The blocks that test_documented_commands.py leaves out of the page, for they start and stop clusters, run here as well.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from documented import Command, blocks_of
from installed import KEPT, copied_checkout
from rehearsal_harness import ROOT

PAGE = "docs/tutorial.md"
# The slowest builds the tools of a rehearsal where they are not there yet.
LIMIT_S = 1800
CRASHES = ("Traceback", "is undefined", "this is a defect", "Unexpected failure")


@pytest.fixture
def clone(tmp_path: Path) -> Iterator[Path]:
    """A copy of the checkout, with no environment of its own; what its rehearsals leave is stopped."""
    directory = copied_checkout(tmp_path / "bringup")
    subprocess.run(["git", "init", "-q"], cwd=directory, check=True)
    yield directory
    _type("make rehearse-stop", directory)


@pytest.mark.long("two rehearsals and an environment of its own")
def test_every_step_of_the_tutorial_works_as_typed(clone: Path) -> None:
    blocks = blocks_of(ROOT, PAGE)
    assert "make setup" in blocks[0].text and blocks[-1].text.strip() == "make rehearse-stop"
    for block in blocks:
        done = _type(block.text, clone)
        said = done.stdout + done.stderr
        assert (done.returncode, [word for word in CRASHES if word in said]) == (block.status, []), _told(block, said)
    assert (clone / ".run" / "latest" / "report.html").is_file()
    assert not (clone / ".run" / "rehearsal" / "inventory.yml").exists()


def _told(block: Command, said: str) -> str:
    return f"{block}\nannounced is {block.status}\n{said[-4000:]}"


def _type(text: str, clone: Path) -> subprocess.CompletedProcess[str]:
    """Run the lines of a block in a shell in which the environment of the first step is active, once it is there."""
    active = "" if "make setup" in text else "source .cache/venv/bin/activate\n"
    environ = {name: os.environ[name] for name in KEPT if name in os.environ} | {"PWD": str(clone)}
    return subprocess.run(
        ["timeout", "--kill-after=30", str(LIMIT_S), "bash", "-ec", active + text], cwd=clone, env=environ,
        capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL,
    )  # fmt: skip
