# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The first command of a user: a playbook by its name, the example inventory in an empty directory, nothing stated."""

from __future__ import annotations

from pathlib import Path

import pytest
from first_commands import Said, play

ROOT = Path(__file__).resolve().parents[2]
# Starts a whole cluster by itself; tests/rehearsal/test_installed.py starts it as a user does.
REHEARSAL = "rehearse"
PLAYBOOKS = sorted({path.stem for path in (ROOT / "playbooks").glob("*.yml")} - {REHEARSAL})
# Those whose pages or heads show --check.
IN_CHECK_MODE = (
    "baseline", "burn_in", "continuous", "converge", "fleet", "history", "remove", "rollback", "site", "waves",
)  # fmt: skip
# What a crash says, of Ansible and of ours.
CRASHES = (
    "Traceback", "is undefined", "has no attribute", "crashed with", "this is a defect", "Unexpected failure",
    "Unsupported parameters", "Validation of arguments failed", "missing required arguments", "deprecat",
)  # fmt: skip


def assert_well(said: Said) -> None:
    """It ended well, or with what to do in one sentence of ours."""
    assert [word for word in CRASHES if word in said.output] == [], said.output[-4000:]
    # Of hosts that do not answer Ansible itself says so, each by its name.
    assert said.rc == 0 or "Fix: " in said.output or said.rc == 4, said.output[-4000:]


@pytest.mark.drawn(8)
@pytest.mark.parametrize("playbook", PLAYBOOKS)
def test_a_playbook_starts_with_the_example_inventory(tmp_path: Path, playbook: str) -> None:
    assert_well(play(tmp_path, playbook))


@pytest.mark.drawn(4, of="first commands in another way")
@pytest.mark.parametrize("playbook", IN_CHECK_MODE)
def test_a_playbook_starts_in_check_mode(tmp_path: Path, playbook: str) -> None:
    assert_well(play(tmp_path, playbook, "--check"))


@pytest.mark.drawn(4, of="first commands in another way")
@pytest.mark.parametrize("playbook", PLAYBOOKS)
def test_a_playbook_starts_without_an_inventory(tmp_path: Path, playbook: str) -> None:
    assert_well(play(tmp_path, playbook, inventory=False))
