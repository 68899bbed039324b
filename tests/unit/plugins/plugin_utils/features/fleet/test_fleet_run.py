# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Processes of a run over a fleet: verdicts from records, the ends of processes, locks, and going on after a kill."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest
from cluster_files import write_run
from small_fleet import OPTIONS, Fleet
from waiting import eventually

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.features.fleet import app as fleet_run
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.features.fleet.app import (
    FleetPlace,
    drift_result,
    fleet_lock,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.errors import InputError, UnavailableError
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.runtime.progress import silent


@pytest.fixture
def fleet(tmp_path: Path) -> Fleet:
    return Fleet(tmp_path)


def statuses(place: FleetPlace) -> dict[str, str]:
    return {name: result.status.value for name, result in place.state.results.items()}


def test_verdicts_are_those_of_records_and_one_failure_hides_no_other(fleet: Fleet) -> None:
    fleet.cluster("a", "good")
    fleet.cluster("b", "bad", status=2)
    fleet.cluster("c", "")
    fleet.cluster("d", "good", status=4)
    fleet.cluster("e", "good")
    fleet.asked["e"] = replace(fleet.asked["e"], argv=("/nowhere/ansible",))
    place = fleet.run([["a", "b", "c", "d", "e"]])
    assert statuses(place) == {"a": "passed", "b": "failed", "c": "other", "d": "other", "e": "other"}
    state = place.state
    assert state.ended and not state.stopped and not state.running
    assert state.results["a"].gates == "8 of 8" and Path(state.results["a"].run_dir).parent == fleet.path / "runs/a"
    assert "left no record" in state.results["c"].sentence and place.log("a").is_file()


def test_a_run_that_was_there_before_is_no_verdict(fleet: Fleet) -> None:
    fleet.cluster("a", "")
    write_run(fleet.path / "runs/a/old", "a", "2026-11-01T10:00:00Z")
    assert statuses(fleet.run([["a"]])) == {"a": "other"}


def test_an_exceeded_budget_stops_the_next_ring_and_the_run_can_go_on(fleet: Fleet) -> None:
    fleet.cluster("a", "good")
    fleet.cluster("b", "bad", status=2)
    fleet.cluster("c", "good")
    place = fleet.run([["a"], ["b"], ["c"]])
    assert statuses(place) == {"a": "passed", "b": "failed"} and place.state.stopped
    # The next start begins a new one; asked to go on, it keeps what passed.
    fleet.cluster("b", "good")
    again = fleet.run([["a"], ["b"], ["c"]], how="failed")
    assert again.path == place.path and statuses(again) == {"a": "passed", "b": "passed", "c": "passed"}
    assert [fleet.begun(name) for name in "abc"] == [1, 2, 1]
    new = fleet.run([["a"], ["b"], ["c"]])
    assert new.path != place.path and [fleet.begun(name) for name in "abc"] == [2, 3, 2]


def test_within_the_budget_the_next_ring_begins(fleet: Fleet) -> None:
    fleet.cluster("a", "bad", status=2)
    fleet.cluster("b", "good")
    assert statuses(fleet.run([["a"], ["b"]], replace(OPTIONS, budget=1))) == {"a": "failed", "b": "passed"}


def test_a_run_that_was_interrupted_goes_on_with_clusters_that_have_no_result(fleet: Fleet) -> None:
    fleet.cluster("a", "good")
    fleet.cluster("b", "good")
    fleet.cluster("c", "good")
    place = fleet.run([["a"], ["b"], ["c"]])
    state = place.state
    left = {name: result for name, result in state.results.items() if name == "a"}
    place.save(replace(state, results=left, running={"b": "then"}, ended=""))
    assert fleet.run([["a"], ["b"], ["c"]]).path == place.path
    assert [fleet.begun(name) for name in "abc"] == [1, 2, 2]
    # A cluster that is asked something else is run again, and another playbook is refused.
    place.save(replace(place.state, ended=""))
    fleet.cluster("a", "good", digest="other")
    assert fleet.run([["a"], ["b"], ["c"]]).path == place.path
    assert [fleet.begun(name) for name in "abc"] == [2, 2, 2]
    place.save(replace(place.state, ended="", play="validate"))
    with pytest.raises(InputError, match="is a run of validate over the fleet that did not end; asked is site"):
        fleet.run([["a"]])
    assert fleet.run([["a"]], how="new").path != place.path


def test_a_cluster_whose_time_is_over_is_not_known_and_is_ended(fleet: Fleet) -> None:
    fleet.cluster("a", "good", seconds=60)
    place = fleet.run([["a"]], replace(OPTIONS, timeout_s=1))
    assert statuses(place) == {"a": "other"} and "its time of 1.0 s was over" in place.state.results["a"].sentence
    assert (fleet.path / "runs/a/ended").is_file()


def test_as_many_run_at_a_time_as_are_wanted(fleet: Fleet) -> None:
    for name in "abcd":
        fleet.cluster(name, "good", seconds=0.3)
    began = time.monotonic()
    fleet.run([list("abcd")], replace(OPTIONS, concurrency=1))
    alone = time.monotonic() - began
    began = time.monotonic()
    place = fleet.run([list("abcd")], replace(OPTIONS, concurrency=4))
    assert alone > 1.2 and time.monotonic() - began < alone
    assert set(statuses(place).values()) == {"passed"}


def test_two_runs_over_a_fleet_or_on_a_cluster_are_refused(fleet: Fleet, monkeypatch: pytest.MonkeyPatch) -> None:
    fleet.cluster("a", "good", seconds=3)
    fleet.cluster("b", "good")
    with (
        fleet_lock(fleet.base, "fleet", silent),
        pytest.raises(UnavailableError, match=f"another run over a fleet .ansible-playbook with pid {os.getpid()}"),
    ):
        fleet.run([["a"]])
    # A process of a fleet in another directory works on the cluster.
    child = fleet_run._Child.start(fleet.asked["a"], fleet.path / "log")
    assert child is not None
    monkeypatch.setattr(fleet_run, "_LEFTOVER_S", 0.5)
    place = fleet.run([["a", "b"]])
    assert statuses(place) == {"a": "other", "b": "passed"}
    assert "another run over a fleet still works on it" in place.state.results["a"].sentence
    assert child.process.wait(20) == 0


_KILLED = """
from pathlib import Path
import sys
from small_fleet import Fleet
fleet = Fleet(Path(sys.argv[1]))
fleet.cluster("a", "good")
fleet.cluster("b", "good", seconds=60)
fleet.run([["a"], ["b"]])
"""


def test_processes_end_with_the_one_that_started_them(fleet: Fleet, tmp_path: Path) -> None:
    """Killed without a word, as by the kernel out of memory; then the same command goes on."""
    path = os.pathsep.join(sys.path)
    started = subprocess.Popen([sys.executable, "-c", _KILLED, str(tmp_path)], env={**os.environ, "PYTHONPATH": path})
    try:
        assert eventually(lambda: fleet.begun("b") == 1)
    finally:
        started.kill()
        started.wait()
    assert eventually((tmp_path / "runs/b/ended").is_file)
    fleet.cluster("a", "good")
    fleet.cluster("b", "good")
    place = fleet.run([["a"], ["b"]])
    assert statuses(place) == {"a": "passed", "b": "passed"} and fleet.begun("a") == 1 and fleet.begun("b") == 2


METRICS = (
    'gpufleet_drift_timestamp_seconds{site="a"} %s\ngpufleet_drift_complete{site="a"} %s\n'
    'gpufleet_drift_important{site="a"} %s\n'
)


@pytest.mark.parametrize(
    ("text", "status", "wanted"),
    [
        (METRICS % (100, 1, 0), 0, "passed"),
        (METRICS % (100, 1, 1), 2, "failed"),
        (METRICS % (100, 0, 0), 2, "other"),
        (METRICS % (100, 0, 1), 2, "other"),
        (METRICS % (100, 1, 0), 2, "other"),
        (METRICS % (50, 1, 0), 0, "other"),
        (METRICS % (100, 1, 0) + 'gpufleet_drift_figure_worse{figure="x"} 1\n', 2, "failed"),
        (METRICS % (100, 1, "x"), 0, "other"),
        ('gpufleet_drift_timestamp_seconds{site="a"} 100\n', 0, "other"),
        ("", 0, "other"),
    ],
    ids=["same", "changed", "incomplete", "blind", "status", "old", "figure", "no number", "half", "none"],
)
def test_a_drift_is_what_its_report_says(tmp_path: Path, text: str, status: int, wanted: str) -> None:
    if text:
        (tmp_path / "drift.prom").write_text(text, "utf-8")
    assert drift_result(tmp_path, 100.0, status).status.value == wanted
