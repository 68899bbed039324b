# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The command fleet-status: what it finds in directories of runs, prints and ends with."""

from __future__ import annotations

import fcntl
import json
from dataclasses import replace
from pathlib import Path

import pytest
from archives import unpack
from cluster_files import write_run
from gpufleet_command import Command
from old_runs import without_unrecorded

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.codec import to_plain
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.gates import GATE_IDS
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.model import Status
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.run.run import Run
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.runtime.files import KEEPER_LOCK
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.verdict.run import new_run

SAVED = Path(__file__).resolve().parents[4] / "data" / "saved_runs"


@pytest.fixture
def fleet(tmp_path: Path) -> Path:
    """A directory with a checkout for each of two clusters: one accepted, with an older run that was not; one not."""
    first = write_run(tmp_path / "east" / ".run" / "2", "east", "2026-11-02T10:00:00Z")
    write_run(tmp_path / "east" / ".run" / "1", "east", "2026-11-01T10:00:00Z", passed=False)
    write_run(tmp_path / "west" / ".run" / "1", "west", "2026-11-01T10:00:00Z", passed=False)
    first.with_name("latest").symlink_to(first.name)
    return tmp_path


def test_a_fleet_is_a_row_for_each_cluster_and_one_sentence(gpufleet: Command, fleet: Path) -> None:
    said = gpufleet("fleet-status", str(fleet))
    assert said.code == 0
    rows = {line.split()[0]: " ".join(line.split()) for line in said.out.splitlines()[2:4]}
    east = fleet / "east" / ".run" / "2"
    assert rows["east"] == f"east accepted 8 of 8 8 580.105.08 2026-11-02 {east.resolve()}"
    assert rows["west"].startswith("west not passed 2 of 8 8 ")
    assert said.out.splitlines()[-1] == (
        "fleet: 1 of 2 clusters accepted, with 8 of 16 hosts; not: west (not passed); oldest proof 2026-11-02 (east)"
    )
    assert gpufleet("fleet-status", str(fleet), "--exit-code").code == 8
    # Every form of place: a run, its link, a site's .run.
    for place in (east, east.with_name("latest"), east.parent):
        assert gpufleet("fleet-status", str(place), "--exit-code").code == 0


def test_an_edited_or_unreadable_run_is_not_accepted(gpufleet: Command, fleet: Path) -> None:
    east = fleet / "east" / ".run" / "2"
    (east / "settings.json").write_text('{"x": 1}', "utf-8")
    said = gpufleet("fleet-status", str(east), "--exit-code")
    assert said.code == 8 and "NOT CONFIRMED: settings.json: " in said.out and "east     not known" in said.out
    (east / "run.json").write_text("{", "utf-8")
    said = gpufleet("fleet-status", str(fleet), "--exit-code")
    assert said.code == 8 and "its record cannot be read: " in said.out and " accepted, with 0 of " in said.out


def test_what_a_run_read_behind_a_gate_is_no_run_of_its_own(gpufleet: Command, fleet: Path) -> None:
    rows = gpufleet("fleet-status", str(fleet)).out
    write_run(fleet / "west" / ".run" / "1" / "looks", "west", "2026-11-01T11:00:00Z")
    for place in (fleet, fleet / "west" / ".run", fleet / "west" / ".run" / "1"):
        assert "looks" not in gpufleet("fleet-status", str(place)).out
    assert gpufleet("fleet-status", str(fleet)).out == rows


def test_verdicts_are_computed_again_on_demand(gpufleet: Command, fleet: Path) -> None:
    """A record that was written by hand has no results behind it."""
    said = gpufleet("fleet-status", str(fleet / "east"), "--confirm", "--exit-code")
    assert said.code == 8 and "NOT CONFIRMED" in said.out
    unpack(SAVED / "0.1.0_healthy.tar.xz", fleet / "healthy")
    run = next((fleet / "healthy").rglob("run.json")).parent
    without_unrecorded(run)
    said = gpufleet("fleet-status", str(run), "--confirm")
    assert "NOT CONFIRMED" not in said.out and said.out.splitlines()[-1].endswith("not: rehearsal")


def test_a_run_is_at_work_while_its_keeper_lives(gpufleet: Command, fleet: Path) -> None:
    base = fleet / "east" / ".run"
    later = write_run(base / "3", "east", "2026-11-03T10:00:00Z", passed=False)
    running = later / KEEPER_LOCK
    # The file stays when its run is killed, with the pid of a process that may be another's by now.
    running.write_text("1", "utf-8")
    said = gpufleet("fleet-status", str(base), "--exit-code")
    assert said.code == 8 and "east: not passed: " in said.out and "running" not in said.out
    with running.open() as keeper:
        fcntl.flock(keeper, fcntl.LOCK_EX)
        said = gpufleet("fleet-status", str(base), "--exit-code")
        assert said.code == 0 and "east: running since 2026-11-03 10:00 UTC (gate nodes) (" in said.out
        (plain,) = json.loads(gpufleet("fleet-status", str(base), "--format", "json").out)["clusters"]
        assert plain["accepted"] and len(plain["running"]) == 1
    assert gpufleet("fleet-status", str(base), "--exit-code").code == 8


def test_a_later_judgement_that_did_not_confirm_a_run_counts(gpufleet: Command, fleet: Path) -> None:
    east = fleet / "east" / ".run" / "2"
    record = new_run("2", "east", "2026-11-02T10:00:00Z", GATE_IDS, rehearsal=False)
    (east / "report.json").write_text(json.dumps(to_plain(replace(record, unconfirmed=2))), "utf-8")
    assert gpufleet("fleet-status", str(east), "--exit-code").code == 8


def test_metrics_are_one_sample_for_each_cluster_and_gate(gpufleet: Command, fleet: Path) -> None:
    lines = gpufleet("fleet-status", str(fleet), "--format", "prometheus").out.splitlines()
    assert 'gpufleet_cluster_accepted{cluster="east"} 1' in lines
    assert 'gpufleet_cluster_accepted{cluster="west"} 0' in lines
    assert 'gpufleet_cluster_gate_opened{cluster="west",gate="nodes"} 0' in lines
    assert sum(line.startswith("gpufleet_cluster_gate_opened{") for line in lines) == 2 * len(GATE_IDS)


def test_a_place_without_runs_is_refused(gpufleet: Command, tmp_path: Path) -> None:
    said = gpufleet("fleet-status", str(tmp_path))
    assert said.code == 3 and said.out == "" and "holds no run" in said.err and "Traceback" not in said.err


def test_files_of_a_run_at_work_are_no_edit(gpufleet: Command, tmp_path: Path) -> None:
    run_dir = write_run(tmp_path / "a" / ".run" / "1", "a", "2026-11-03T10:00:00Z")
    record = Run(run_dir).record
    begun = record.with_gate(replace(record.gate("inference_acceptance"), status=Status.PENDING))
    (run_dir / "run.json").write_text(json.dumps(to_plain(begun)), "utf-8")
    (run_dir / "settings.json").write_text('{"x": 1}', "utf-8")
    assert "NOT CONFIRMED: settings.json" in gpufleet("fleet-status", str(run_dir)).out
    with (run_dir / KEEPER_LOCK).open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        shown = gpufleet("fleet-status", str(run_dir), "--exit-code")
        assert "NOT CONFIRMED" not in shown.out and "a        running" in shown.out and shown.code == 8
