# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""A gate that was read without tests behind one that failed is not called one that was not looked at."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.model import Status
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.report.console import closing_lines
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.report.ctrf import write_suite
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.report.facts import look_path
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.runtime.files import make_dirs
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.verdict.gate import GateVerdict
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.verdict.run import new_run

SCOPE = ("fabric", "nodes", "gpu_stack")


def test_what_was_read_is_not_said_to_be_not_looked_at(tmp_path: Path) -> None:
    record = new_run("r1", "lab", "2026-11-22T10:00:00Z", SCOPE, rehearsal=False)
    record = replace(record.with_gate(GateVerdict(gate="fabric", status=Status.FAILED, message="m")), command="c")
    assert "not looked at: nodes, gpu_stack" in closing_lines(record, tmp_path)
    way_on = "         do: -e gpufleet_look_on=true reads on without tests, so that one visit mends all of it"
    assert way_on in closing_lines(record, tmp_path)
    path = look_path(tmp_path, "nodes")
    make_dirs(path.parent)
    write_suite(path, "nodes", (), run_id="r1", rehearsal=False, version="0.1.0")
    lines = closing_lines(record, tmp_path)
    assert "read, not tested: nodes" in lines and "not looked at: gpu_stack" in lines
    assert way_on not in lines
    assert any("gate nodes was read without tests" in line for line in lines)
