# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What hosts may share, as a saved run knows it: rack, leaves of the plan, driver, firmware, kernel."""

from __future__ import annotations

import json
from datetime import date
from pathlib import Path

import pytest
from archives import unpack

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.run.run import Run

DAY = date(2026, 11, 22)
ARCHIVE = Path(__file__).resolve().parents[4] / "data" / "saved_runs" / "0.1.0_healthy.tar.xz"


@pytest.fixture
def run(tmp_path: Path) -> Run:
    unpack(ARCHIVE, tmp_path)
    return Run(tmp_path)


def test_every_host_has_rack_leaves_and_software(run: Run) -> None:
    facts = run.judge_context("training_acceptance", DAY).shared
    assert set(facts) == {host.name for host in run.site.in_scope}
    for host in run.site.in_scope:
        mine = facts[host.name]
        assert mine["rack"] == host.rack
        assert "leaf" in mine["leaf"]
        assert {"driver", "GPU firmware", "adapter firmware", "kernel"} <= mine.keys()


def test_what_was_not_seen_is_left_out(run: Run) -> None:
    (run.path / "evidence" / "hosts" / "gpu01.json").unlink()
    (run.path / "cabling.json").write_text(json.dumps({"links": "none"}), encoding="utf-8")
    facts = Run(run.path).shared
    assert set(facts["gpu01"]) == {"rack"}
    assert "leaf" not in facts["gpu02"] and "driver" in facts["gpu02"]


def test_gates_that_compare_no_hosts_are_given_none(run: Run) -> None:
    assert run.judge_context("nodes", DAY).shared == {}
