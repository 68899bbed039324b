# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The command with which a snapshot ends compares on the same cluster: a drift with the inventory that was typed."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path

import pytest

from ansible_collections.gpufleet.bringup.plugins.action import snapshot_info

KEPT = "-i .run/rehearsal/inventory.yml -e gpufleet_run=.run/latest"


@pytest.mark.parametrize(
    ("typed", "command"),
    [
        (
            f"ansible-playbook gpufleet.bringup.snapshot {KEPT} -e gpufleet_snapshot=s.json",
            f"ansible-playbook gpufleet.bringup.drift {KEPT}",
        ),
        (
            "ansible-playbook playbooks/snapshot.yml -e gpufleet_snapshot_format=upstream --check",
            "ansible-playbook playbooks/drift.yml",
        ),
        # A playbook of the site's own, and a rehearsal of the verb.
        ("ansible-playbook nightly.yml -i hosts", "ansible-playbook gpufleet.bringup.drift"),
        ("ansible-playbook rehearse.yml -e gpufleet_rehearsal_nodes=2", "ansible-playbook gpufleet.bringup.drift"),
    ],
)
def test_a_snapshot_is_compared_on_the_same_cluster(monkeypatch: pytest.MonkeyPatch, typed: str, command: str) -> None:
    monkeypatch.setattr(sys, "argv", shlex.split(typed))
    monkeypatch.delenv("AWX_HOST", raising=False)
    assert snapshot_info._compare("") == command


def test_the_run_that_latest_is_now_is_named_itself(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """After a validation `latest` has no hosts, and the comparison of them could not be made."""
    (tmp_path / "r1").mkdir()
    (tmp_path / "latest").symlink_to("r1")
    word = f"-e gpufleet_run={tmp_path}"
    monkeypatch.setattr(sys, "argv", shlex.split(f"ansible-playbook playbooks/snapshot.yml {word}/latest -v"))
    monkeypatch.delenv("AWX_HOST", raising=False)
    assert snapshot_info._compare(f"{tmp_path}/latest") == f"ansible-playbook playbooks/drift.yml -v {word}/r1"
    monkeypatch.setattr(sys, "argv", shlex.split(f"ansible-playbook playbooks/snapshot.yml {word}/r1 -v"))
    assert snapshot_info._compare(f"{tmp_path}/r1") == f"ansible-playbook playbooks/drift.yml {word}/r1 -v"
