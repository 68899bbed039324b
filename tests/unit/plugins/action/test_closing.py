# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a playbook ends with is printed once, after everything else: with the callback, and as an installed collection
without any setting, also where the playbook fails."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

PLAY = """
- hosts: localhost
  gather_facts: false
  tasks:
    - name: Start
      gpufleet.bringup.run_start:
        base: {base}
        verb: {verb}
    - name: Break off
      ansible.builtin.fail:
        msg: something else is wrong
      when: {breaks}
- name: Something that follows
  hosts: localhost
  gather_facts: false
  tasks: []
"""


def played(
    directory: Path, repository: Path, enabled: str = "", *arguments: str, breaks: bool = False, verb: str = "''"
) -> str:
    """Run a playbook as with an installed collection, which has no ansible.cfg; return what it prints."""
    playbook = directory / "site.yml"
    playbook.write_text(PLAY.format(base=directory / "runs", breaks=breaks, verb=verb), encoding="utf-8")
    environment = {
        "PATH": os.environ["PATH"], "HOME": str(directory), "LC_ALL": "C.UTF-8",
        "ANSIBLE_COLLECTIONS_PATH": str(repository / ".cache"),
    } | ({"ANSIBLE_CALLBACKS_ENABLED": enabled} if enabled else {})  # fmt: skip
    done = subprocess.run(
        [sys.executable, "-m", "ansible", "playbook", str(playbook), *arguments],
        cwd=directory, env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == (2 if breaks else 0), done.stdout + done.stderr
    return done.stdout


@pytest.mark.parametrize("breaks", [False, True])
@pytest.mark.parametrize("enabled", ["", "gpufleet.bringup.gates"])
def test_the_table_and_the_verdict_are_the_last_that_is_printed_and_printed_once(
    tmp_path: Path, repository: Path, enabled: str, breaks: bool
) -> None:
    said = played(tmp_path, repository, enabled, breaks=breaks)
    assert said.count("key figure") == 1 and said.count("verdict  ") == 1
    assert said.index("PLAY RECAP") < said.index("key figure") < said.index("verdict  ")
    assert f"report   {tmp_path}/runs/" in said


def test_what_never_starts_a_run_prints_nothing_more(tmp_path: Path, repository: Path) -> None:
    said = played(tmp_path, repository, "", "--start-at-task", "Break off")
    assert said.rstrip().splitlines()[-1].startswith("localhost") and "verdict" not in said


def test_a_verb_without_gates_prints_none(tmp_path: Path, repository: Path) -> None:
    said = played(tmp_path, repository, verb="roll")
    assert "verdict  roll: not passed: it did not come to its end" in said and "key figure" not in said
