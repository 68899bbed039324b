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
    hosts = {"n1": here, "n2": here | {"gpufleet_converge": {"drver": {"version": "580"}}}}
    (tmp_path / "hosts.yml").write_text(yaml.safe_dump({"gpu_nodes": {"hosts": hosts}}))
    playbook = str(repository / "playbooks/converge.yml")
    done = subprocess.run(
        [sys.executable, "-m", "ansible", "playbook", playbook, "-i", "hosts.yml", "--check"],
        cwd=tmp_path, capture_output=True, text=True, check=False,
        env={**os.environ, "ANSIBLE_COLLECTIONS_PATH": str(repository / ".cache"), "ANSIBLE_NOCOLOR": "1"},
    )  # fmt: skip
    said = done.stdout + done.stderr
    assert done.returncode == 2 and "Traceback" not in said, said
    assert "n1  0 changes would be made" in said and "n2  not as declared: " in said, said
    assert "verdict  CHECK MODE: nothing was changed; converge: 1 of 2 hosts planned" in said
