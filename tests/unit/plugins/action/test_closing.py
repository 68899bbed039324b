# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a playbook ends with is printed once, after everything else: with the callback, and as an installed collection
without any setting, also where the playbook fails."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from waiting import eventually

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

LISTS = """
- hosts: localhost
  gather_facts: false
  tasks:
    - name: Ask for the list of faults
      gpufleet.rehearsal.rehearsal_start:
        directory: {directory}
        faults: [list]
"""


OF_NO_REHEARSAL = """
- hosts: localhost
  gather_facts: false
  tasks:
    - name: Ask for a rehearsal that is not there
      gpufleet.rehearsal.{module}:
        directory: {directory}/rehearsal
"""


def environment_of(directory: Path, repository: Path, enabled: str) -> dict[str, str]:
    """Return what a user's environment has who set nothing, or enabled a callback."""
    return {
        "PATH": os.environ["PATH"], "HOME": str(directory), "LC_ALL": "C.UTF-8",
        "ANSIBLE_COLLECTIONS_PATH": str(repository / ".cache"),
    } | ({"ANSIBLE_CALLBACKS_ENABLED": enabled} if enabled else {})  # fmt: skip


def played(
    directory: Path, repository: Path, enabled: str = "", *arguments: str, breaks: bool = False, verb: str = "''",
    play: str = "",
) -> str:  # fmt: skip
    """Run a playbook as with an installed collection, which has no ansible.cfg; return what it prints."""
    playbook = directory / "site.yml"
    text = play or PLAY.format(base=directory / "runs", breaks=breaks, verb=verb)
    playbook.write_text(text, encoding="utf-8")
    environment = environment_of(directory, repository, enabled)
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
    assert "verdict  roll: not passed: it has not come to its end" in said and "key figure" not in said


@pytest.mark.parametrize("enabled", ["", "gpufleet.bringup.gates"])
def test_a_list_that_was_asked_for_is_the_last_that_is_printed(tmp_path: Path, repository: Path, enabled: str) -> None:
    lists = LISTS.format(directory=tmp_path / "rehearsal")
    said = played(tmp_path, repository, enabled, play=lists)
    assert said.index("PLAY RECAP") < said.index("gpu-missing ") and said.count("gpu-missing ") == 1


@pytest.mark.parametrize("enabled", ["", "gpufleet.bringup.gates"])
def test_a_stop_says_at_the_end_what_it_found(tmp_path: Path, repository: Path, enabled: str) -> None:
    stop = OF_NO_REHEARSAL.format(module="rehearsal_stop", directory=tmp_path)
    last = [line for line in played(tmp_path, repository, enabled, play=stop).splitlines() if line][-1]
    assert last == f"no rehearsal is up in {tmp_path}/rehearsal"


def test_a_list_of_faults_without_a_rehearsal_says_that_none_is_up(tmp_path: Path, repository: Path) -> None:
    said = played(tmp_path, repository, play=OF_NO_REHEARSAL.format(module="rehearsal_faults", directory=tmp_path))
    assert "gpu-missing " in said and f"no rehearsal is up in {tmp_path}/rehearsal, so none of them is set" in said
    assert "faults of the rehearsal in" not in said


@pytest.mark.parametrize("enabled", ["", "gpufleet.bringup.gates"])
def test_a_run_that_is_interrupted_ends_with_its_table(tmp_path: Path, repository: Path, enabled: str) -> None:
    waiting, playbook = tmp_path / "waiting", tmp_path / "site.yml"
    task = f"    - name: Wait\n      ansible.builtin.command: sh -c 'touch {waiting}; sleep 60'\n"
    text = PLAY.format(base=tmp_path / "runs", breaks=False, verb="''")
    playbook.write_text(text.replace("    - name: Break off", f"{task}    - name: Break off"), encoding="utf-8")
    argv = [sys.executable, "-m", "ansible", "playbook", str(playbook)]
    environment = environment_of(tmp_path, repository, enabled)
    with subprocess.Popen(
        argv, cwd=tmp_path, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        start_new_session=True,
    ) as process:  # fmt: skip
        eventually(waiting.exists)
        os.killpg(process.pid, signal.SIGINT)
        said, _nothing = process.communicate(timeout=60)
    assert process.returncode != 0 and said.count("key figure") == said.count("verdict  ") == 1, said[-3000:]
    assert "verdict  not passed: interrupted in gate facility\n" in said
    assert said.rstrip().splitlines()[-1].startswith("again: ")
    (report,) = (tmp_path / "runs").glob("*T*/report.md")
    assert "interrupted in gate facility" in report.read_text("utf-8")
