# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""How to go on with a kept rehearsal: the run that a command names is one whose gate nodes asked the hosts, or none."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.action_base.closing import Closing
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.codec import dumps
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.model import Status
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.run.run import Run
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.verdict.restart import restart
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.verdict.run import RunRecord, new_run, with_phases
from ansible_collections.gpufleet.rehearsal.plugins.plugin_utils.lifecycle.request import (
    kept_command,
    kept_lines,
)

NEW = new_run("r1", "lab", "2026-11-22T10:00:00Z", ("nodes", "gpu_stack"), rehearsal=True)


def decided(status: Status) -> RunRecord:
    return NEW.with_gate(replace(NEW.gate("nodes"), status=status))


@pytest.mark.parametrize(
    ("record", "named"),
    [
        (decided(Status.PASSED), True),
        (decided(Status.FAILED), True),
        (NEW, False),
        (decided(Status.SKIPPED), False),
        (with_phases(NEW, ("readiness",)), False),
    ],
    ids=["passed", "failed", "not reached", "taken over", "a validation"],
)
def test_the_snapshot_is_of_the_run_whose_gate_nodes_asked_the_hosts_or_of_none(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], record: RunRecord, named: bool
) -> None:
    (tmp_path / "run.json").write_text(dumps(record))
    closing = Closing()
    closing.see({"run_id": "r1", "run_dir": str(tmp_path)})
    closing.see({"kept_lines": kept_lines(tmp_path / "rehearsal", "/k")})
    closing.print()
    (line,) = (line for line in capsys.readouterr().out.splitlines() if "gpufleet.bringup.snapshot" in line)
    assert line.endswith(f"-e gpufleet_snapshot=snapshot.json -e gpufleet_run={tmp_path}") is named
    assert ("gpufleet_run" in line) is named, "latest is another run as soon as a validation ended"


@pytest.mark.parametrize("verb", ["site", "burn_in"])
def test_a_run_whose_rehearsal_stays_up_goes_on_there_from_its_gate_on_screen_and_in_its_reports(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], verb: str
) -> None:
    record = decided(Status.PASSED).with_gate(replace(NEW.gate("gpu_stack"), status=Status.FAILED))
    command = "ansible-playbook rehearse.yml -e gpufleet_rehearsal_keep=1"
    record = replace(record, history=True, command=command)
    assert restart(record) == f"{command} -e gpufleet_from_gate=gpu_stack"
    kept = kept_command(tmp_path / "rehearsal", verb)
    assert f"gpufleet.bringup.{verb} -i {tmp_path}/rehearsal/inventory.yml" in kept
    record = replace(record, kept_command=kept)
    run = Run(tmp_path)
    run.save_record(record)
    closing = Closing()
    closing.see({"run_id": "r1", "run_dir": str(tmp_path)})
    closing.print()
    again = f"{kept} -e gpufleet_from_gate=gpu_stack"
    assert f"again: {again}" in capsys.readouterr().out
    assert again in (tmp_path / "report.md").read_text(encoding="utf-8")
    assert again in (tmp_path / "report.html").read_text(encoding="utf-8")
