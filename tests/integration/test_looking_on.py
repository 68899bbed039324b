# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""A run that stops at a gate reads on: what else is wrong is observed, and proves nothing."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

pytestmark = pytest.mark.drawn(1, of="runs that go on behind a gate", whole=True)

HOST = {"gpufleet_sku": "h100", "gpufleet_rack": "r1", "ansible_connection": "local"}


@pytest.fixture
def inventory(tmp_path: Path) -> Path:
    """Two hosts without GPUs, and a facility record that is not there."""
    path = tmp_path / "hosts.yml"
    variables = {"gpufleet_settings": {"facility": {"record": "/nowhere"}}, "gpufleet_gates": ["facility", "nodes"]}
    path.write_text(yaml.safe_dump({"all": {"vars": variables}, "gpu_nodes": {"hosts": {"n1": HOST, "n2": HOST}}}))
    return path


def run_site(repository: Path, inventory: Path, *arguments: str) -> tuple[int, str, Path]:
    """Run site.yml; return its exit code, what it printed and the run directory."""
    command = [str(Path(sys.executable).with_name("ansible-playbook")), str(repository / "playbooks/site.yml")]
    environment = {**os.environ, "ANSIBLE_CONFIG": str(repository / "ansible.cfg"), "ANSIBLE_NOCOLOR": "1"}
    environment |= {"ANSIBLE_COLLECTIONS_PATH": str(repository / ".cache"), "ANSIBLE_HOME": str(inventory.parent)}
    done = subprocess.run(
        [*command, "-i", str(inventory), "-e", f"gpufleet_run_dir={inventory.parent / 'runs'}", *arguments],
        env=environment, capture_output=True, text=True, timeout=600, check=False,
    )  # fmt: skip
    return done.returncode, done.stdout + done.stderr, inventory.parent / "runs" / "latest"


def results_of(path: Path) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(path.read_text(encoding="utf-8"))["results"]["tests"]
    return found


def test_what_is_wrong_behind_a_failed_gate_is_observed_and_not_proven(repository: Path, inventory: Path) -> None:
    code, said, run_dir = run_site(repository, inventory)
    assert code == 2, said
    assert "observed, not proven: gate nodes was read without tests" in said
    record = json.loads((run_dir / "run.json").read_text(encoding="utf-8"))
    assert {gate["gate"] for gate in record["gates"] if gate["status"] != "pending"} == {"facility"}
    assert {test["status"] for test in results_of(run_dir / "ctrf" / "nodes.json")} == {"pending"}
    observed = results_of(run_dir / "looks" / "nodes.json")
    assert {test["status"] for test in observed} <= {"failed", "other"}
    assert {subject for test in observed for subject in test["labels"]["subject"]} >= {"n1", "n2"}
    assert not any("dcgm-diag" in test["name"] for test in observed), "nothing loads a GPU here"
    for name in ("report.md", "report.html"):
        assert "Observed, not proven" in (run_dir / name).read_text(encoding="utf-8")
    assert "run without --tags" not in said
    assert not (run_dir / "evidence" / "hosts").exists(), "what is read on lies in a directory of its own"


def test_a_run_that_is_not_to_read_on_ends_at_its_gate(repository: Path, inventory: Path) -> None:
    code, said, run_dir = run_site(repository, inventory, "-e", "gpufleet_look_on=false")
    assert code == 2, said
    assert "observed, not proven" not in said and not (run_dir / "looks").exists()
