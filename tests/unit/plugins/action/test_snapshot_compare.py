# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The command with which a snapshot ends compares on the same cluster: a drift with the inventory that was typed."""

from __future__ import annotations

import shlex
import sys

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
    assert snapshot_info._compare() == command
