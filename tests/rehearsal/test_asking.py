# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""A rehearsal that is only asked something: which faults there are, and what a run would do."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest
import yaml
from rehearsal_harness import ROOT, left_behind, rehearse

from ansible_collections.gpufleet.rehearsal.plugins.plugin_utils.faults.catalogue import load_catalogue

FAULTS = list(load_catalogue())


@pytest.mark.parametrize("playbook", ["rehearse.yml", "rehearse_faults.yml"])
def test_the_list_of_faults_is_printed_and_nothing_starts(tmp_path: Path, playbook: str) -> None:
    run = rehearse(tmp_path, playbook=playbook, rehearsal_faults=["list"])
    assert run.rc == 0, run.output[-3000:]
    # A playbook that starts nothing ends with the list; one that works on a rehearsal prints it below its task.
    assert [fault for fault in FAULTS if not re.search(rf"^ *{fault} ", run.output, re.MULTILINE)] == []
    assert not (tmp_path / ".run").exists()
    assert "fatal:" not in run.output and not left_behind(tmp_path)


@pytest.mark.drawn(2)
@pytest.mark.parametrize(
    ("stated", "told"),
    [
        ({"rehearsal_play": "contnuous"}, "did you mean 'continuous'"),
        ({"gates": "nonsense"}, "'nonsense' is not a gate"),
        ({"from_gate": "nonsense"}, "'nonsense' is not a gate"),
        ({"rehearsal_nodes": "abc"}, "gpufleet_rehearsal_nodes: is 'abc', expected a whole number"),
        ({"rehearsal_play": "validate", "gates": "nodes"}, "leave one of the two out"),
    ],
    ids=lambda value: "-".join(value) if isinstance(value, dict) else "",
)
def test_a_wrong_word_is_refused_before_a_cluster_starts(tmp_path: Path, stated: dict[str, str], told: str) -> None:
    run = rehearse(tmp_path, **stated)
    assert run.rc != 0 and told in run.output, run.output[-3000:]
    assert not (tmp_path / ".run/rehearsal").exists() and "argument_spec" not in run.output


def test_make_prints_the_list_and_ends_well() -> None:
    # A make that started the tests hands its own variables down.
    environment = {name: value for name, value in os.environ.items() if name not in ("MAKEFLAGS", "MAKELEVEL")}
    done = subprocess.run(
        ["make", "rehearse", "FAULTS=list"], cwd=ROOT, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert FAULTS[-1] in done.stdout


def test_the_plan_of_a_rehearsal_comes_last_starts_no_run_and_ends_well(tmp_path: Path) -> None:
    run = rehearse(tmp_path, cmdline="--tags plan", rehearsal_nodes=2)
    assert run.rc == 0, run.output[-3000:]
    assert "gpu-census" in run.output and "not declared" in run.output
    assert run.output.rstrip().splitlines()[-1].startswith("nothing was started")
    assert "verdict" not in run.output.partition("PLAY RECAP")[2]
    assert not (tmp_path / ".run/latest").exists() and not left_behind(tmp_path)


def test_a_plan_does_not_move_the_latest_run(tmp_path: Path) -> None:
    inventory = tmp_path / "hosts.yml"
    inventory.write_text(yaml.safe_dump({"gpu_nodes": {"hosts": {"n1": {"gpufleet_sku": "h100"}}}}))
    (tmp_path / ".run/before").mkdir(parents=True)
    (tmp_path / ".run/latest").symlink_to("before")
    run = rehearse(tmp_path, playbook="site.yml", inventory=inventory, cmdline="--tags plan", gates=["nodes"])
    assert run.rc == 0, run.output[-3000:]
    assert os.readlink(tmp_path / ".run/latest") == "before"
    assert sorted(path.name for path in (tmp_path / ".run").iterdir()) == ["before", "latest"]
