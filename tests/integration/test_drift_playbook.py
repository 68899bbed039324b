# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Playbook drift as a schedule runs it: its exit code says whether something matters that changed."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.snapshot.decode import to_text
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.snapshot.model import (
    COLLECTORS,
    Collected,
    CollectorResult,
    Host,
    Node,
    Snapshot,
)

ROOT = Path(__file__).resolve().parents[2]
SEEN = CollectorResult(state=Collected.WHOLE)
HOST = Host(kernel="6.8.0", driver="580.95.05", sysctl={"/proc/sys/vm/swappiness": "10"}, read_by="ssh")
BEFORE = Snapshot(
    taken="2026-11-22T01:00:00Z", made_by="gpufleet.bringup 0.1.0", cluster_uid="u",
    collectors=dict.fromkeys(COLLECTORS, SEEN), nodes={"gpu01": Node(ready="True", labels={"team": "a"})},
    hosts={"gpu01": HOST},
)  # fmt: skip
LOW = replace(BEFORE, nodes={"gpu01": Node(ready="True", labels={"team": "b"})})
HIGH = replace(BEFORE, hosts={"gpu01": replace(HOST, driver="570.86.15")})
BLIND = replace(BEFORE, collectors={**BEFORE.collectors, "policies": CollectorResult(state=Collected.FAILED)})


@pytest.mark.parametrize(
    ("after", "fail_on", "code", "told"),
    [
        (LOW, "medium", 0, "low: node.labels[team]: a -> b (gpu01)"),
        (HIGH, "high", 2, "high: host.driver: 580.95.05 -> 570.86.15 (gpu01)"),
        (BLIND, "critical", 2, "not everything could be compared"),
    ],
    ids=["what does not matter", "what matters", "what nobody could look at"],
)
def test_the_exit_code_is_that_of_a_check(tmp_path: Path, after: Snapshot, fail_on: str, code: int, told: str) -> None:
    (tmp_path / "before.json").write_text(to_text(BEFORE), encoding="utf-8")
    (tmp_path / "after.json").write_text(to_text(after), encoding="utf-8")
    stated = (
        f"gpufleet_drift_before={tmp_path / 'before.json'}",
        f"gpufleet_drift_after={tmp_path / 'after.json'}",
        f"gpufleet_drift_fail_on={fail_on}",
    )
    extra = [word for variable in stated for word in ("-e", variable)]
    done = subprocess.run(
        [sys.executable, "-m", "ansible", "playbook", *extra, "playbooks/drift.yml"],
        cwd=ROOT, capture_output=True, text=True, timeout=300, check=False,
        env={**os.environ, "ANSIBLE_LOCAL_TEMP": str(tmp_path / "tmp"), "ANSIBLE_CONFIG": str(ROOT / "ansible.cfg")},
    )  # fmt: skip
    assert done.returncode == code, done.stdout + done.stderr
    assert told in done.stdout
