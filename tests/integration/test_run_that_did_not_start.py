# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A run that preflight refused: what it leaves, and what is told of it."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

HOST = {"gpufleet_sku": "h100", "gpufleet_rack": "r1", "ansible_connection": "local"}


@pytest.fixture
def inventory(tmp_path: Path) -> Path:
    path = tmp_path / "hosts.yml"
    path.write_text(yaml.safe_dump({"gpu_nodes": {"hosts": {"n1": HOST, "n2": HOST}}}))
    return path


def play(repository: Path, playbook: str, directory: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [str(Path(sys.executable).with_name("ansible-playbook")), str(repository / f"playbooks/{playbook}.yml")]
    environment = {
        **os.environ, "ANSIBLE_COLLECTIONS_PATH": str(repository / ".cache"), "ANSIBLE_HOME": str(directory),
        "ANSIBLE_NOCOLOR": "1", "PWD": str(directory),
    }  # fmt: skip
    return subprocess.run(
        [*command, *arguments], cwd=directory, env=environment, capture_output=True, text=True, timeout=300, check=False
    )


@pytest.fixture
def refused(repository: Path, inventory: Path) -> tuple[str, Path]:
    """What a run with a misspelled gate prints, and its directory."""
    words = ("-i", str(inventory), "-e", "gpufleet_gates=nonsense")
    done = play(repository, "site", inventory.parent, *words)
    assert done.returncode != 0 and "Traceback" not in done.stdout + done.stderr
    (run,) = (inventory.parent / ".run").glob("2*")
    return done.stdout + done.stderr, run


def test_it_is_not_the_latest_and_is_found_by_its_path(refused: tuple[str, Path]) -> None:
    said, run = refused
    assert not (run.parent / "latest").exists() and f"report   {run / 'report.html'}" in said
    assert json.loads((run / "run.json").read_text("utf-8"))["problem"]


@pytest.mark.parametrize("playbook", ["judge", "remove"])
def test_who_reads_it_says_that_it_did_not_start(
    repository: Path, inventory: Path, refused: tuple[str, Path], playbook: str
) -> None:
    _unused, run = refused
    done = play(repository, playbook, inventory.parent, "-e", f"gpufleet_run={run}")
    told = re.sub(r"\s+", " ", done.stdout + done.stderr)
    assert done.returncode != 0 and "Traceback" not in told
    assert "holds no checked inventory: this run did not start" in told and f"gpufleet_run={run.parent}/<run>" in told


def test_one_wrong_group_variable_is_told_once_at_the_end(repository: Path, inventory: Path) -> None:
    words = ("-i", str(inventory), "-e", "gpufleet_sku=h1000", "-e", "gpufleet_gates=nodes")
    done = play(repository, "site", inventory.parent, *words)
    said = done.stdout + done.stderr
    assert done.returncode != 0 and said.count("gpufleet_sku is 'h1000'") == 1, said
    end = said[said.index("PLAY RECAP") :]
    assert "verdict  not started: " in end and "hosts n1, n2: gpufleet_sku is 'h1000'" in end
    assert "\\n" not in said and "facility" not in end
