# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Playbook converge ends with a line for each host and a verdict, also where a host is refused."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import yaml


def test_a_host_that_is_refused_is_in_the_list_and_the_playbook_fails(repository: Path, tmp_path: Path) -> None:
    here = {"ansible_connection": "local", "ansible_python_interpreter": sys.executable, "gpufleet_sku": "h100"}
    here |= {"gpufleet_converge": {}}
    silent = {"ansible_host": "127.0.0.1", "ansible_port": 1, "ansible_ssh_retries": 0}
    unlike = {"gpufleet_converge": {"driver": {"version": "580.105.08"}}}
    python = {"ansible_python_interpreter": "/no/python"}
    hosts = {"n1": here, "n2": here | unlike, "n3": silent, "n4": here | python}
    code, said = converge(repository, tmp_path, hosts)
    assert code == 2 and "Traceback" not in said, said
    assert "n1  0 changes would be made: gpufleet_converge declares nothing" in said, said
    assert "n2  not as declared: " in said, said
    assert "n3  not reached as root: " in said, said
    assert "/no/python" in next(line for line in said.splitlines() if line.startswith("n4  not as declared: ")), said
    assert "verdict  CHECK MODE: nothing was changed; converge: 1 of 4 hosts planned" in said


def test_hosts_that_do_not_answer_are_each_in_the_list_with_what_to_try(repository: Path, tmp_path: Path) -> None:
    """Ansible ends a play of hosts that are all unreachable without another task."""
    silent = {"ansible_host": "127.0.0.1", "ansible_port": 1, "ansible_ssh_retries": 0, "gpufleet_converge": {}}
    code, said = converge(repository, tmp_path, {"n1": silent, "n2": silent})
    assert code == 2 and "UNREACHABLE" not in said, said
    assert "n1  not reached as root: " in said and "n2  not reached as root: " in said, said
    assert "verdict  CHECK MODE: nothing was changed; converge: 0 of 2 hosts planned" in said
    assert said.splitlines()[-2:] == [
        f"do: try ansible n1 -i {tmp_path / 'hosts.yml'} -b -m raw -a 'id -u'",
        "then: the same command with --limit n1,n2",
    ]


def test_an_inventory_that_declares_nothing_is_refused_before_a_host_is_reached(
    repository: Path, tmp_path: Path
) -> None:
    code, said = converge(repository, tmp_path, {"n1": {"ansible_host": "127.0.0.1", "ansible_port": 1}})
    assert code == 2 and "UNREACHABLE" not in said and "not reached" not in said
    assert "error    gpufleet_converge: is declared for no host of the inventory" in said
    assert "Fix: declare it for a host or a group; `gpufleet_converge: {}` takes back" in said


def test_what_is_wrong_with_a_declaration_is_refused_before_a_host_is_reached(repository: Path, tmp_path: Path) -> None:
    wrong = {"gpufleet_converge": {"drver": {"version": "580"}}}
    code, said = converge(repository, tmp_path, {"n1": {"ansible_host": "127.0.0.1", "ansible_port": 1} | wrong})
    assert code == 2 and "UNREACHABLE" not in said and "not reached" not in said
    assert "error    gpufleet_converge of n1: drver: unknown key" in said, said


def converge(repository: Path, directory: Path, hosts: dict[str, dict[str, object]]) -> tuple[int, str]:
    """Return how the playbook in check mode ends over these hosts, and what it says."""
    (directory / "hosts.yml").write_text(yaml.safe_dump({"gpu_nodes": {"hosts": hosts}}))
    playbook = str(repository / "playbooks/converge.yml")
    done = subprocess.run(
        [sys.executable, "-m", "ansible", "playbook", playbook, "-i", "hosts.yml", "--check"],
        cwd=directory, capture_output=True, text=True, check=False,
        env={**os.environ, "ANSIBLE_COLLECTIONS_PATH": str(repository / ".cache"), "ANSIBLE_NOCOLOR": "1"},
    )  # fmt: skip
    return done.returncode, done.stdout + done.stderr
