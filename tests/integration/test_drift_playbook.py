# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Playbook drift as a schedule runs it: its exit code says whether something matters that changed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from archives import unpack
from old_runs import without_unrecorded

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.features.baseline.app import accept_run
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.run.run import Run
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.snapshot.formats import to_text
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.snapshot.model import (
    COLLECTORS,
    Collected,
    CollectorResult,
    Host,
    Node,
    Snapshot,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.store.baselines import open_baselines

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


ARCHIVE = ROOT / "tests" / "data" / "saved_runs" / "0.1.0_healthy.tar.xz"
SLOWER = "gpu03"


def drift(directory: Path, after: Snapshot, **stated: str) -> subprocess.CompletedProcess[str]:
    """Run the playbook between the snapshot of before and another one; `gpufleet_` is put before each variable."""
    (directory / "before.json").write_text(to_text(BEFORE), encoding="utf-8")
    (directory / "after.json").write_text(to_text(after), encoding="utf-8")
    variables = {
        "drift_before": str(directory / "before.json"), "drift_after": str(directory / "after.json"),
        "drift_report": str(directory / "report"), **stated,
    }  # fmt: skip
    extra = [word for name, value in variables.items() for word in ("-e", f"gpufleet_{name}={value}")]
    return subprocess.run(
        [sys.executable, "-m", "ansible", "playbook", *extra, "playbooks/drift.yml"],
        cwd=ROOT, capture_output=True, text=True, timeout=300, check=False,
        env={**os.environ, "ANSIBLE_LOCAL_TEMP": str(directory / "tmp"), "ANSIBLE_CONFIG": str(ROOT / "ansible.cfg")},
    )  # fmt: skip


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A run of a healthy site, whose figures between the GPUs of a host a person accepted."""
    path = tmp_path / "runs" / "r-1"
    unpack(ARCHIVE, path)
    without_unrecorded(path)
    store = open_baselines(tmp_path / "history.sqlite")
    accept_run(Run(path), store, ["fabric_validation"], "ada", "ticket 1", check_mode=False)
    return path


def slow_down(run: Path) -> None:
    """One host reaches four fifths of what was accepted of it."""
    path = run / "ctrf" / "fabric_validation.json"
    suite = json.loads(path.read_text(encoding="utf-8"))
    outcomes = [test["extra"]["outcome"] for test in suite["results"]["tests"]]
    (own,) = [o for o in outcomes if o["check"] == "nccl-intra-node-bw" and o["subjects"][0]["name"] == SLOWER]
    (busbw,) = [measure for measure in own["measured"] if measure["name"] == "busbw"]
    busbw["value"] *= 0.8
    path.write_text(json.dumps(suite), encoding="utf-8")


@pytest.mark.drawn(4, of="comparisons by playbook")
@pytest.mark.parametrize(
    ("after", "slower", "code", "reasons"),
    [
        (BEFORE, False, 0, ()),
        (LOW, False, 0, ()),
        (HIGH, False, 2, ("snapshot: 1 change",)),
        (BEFORE, True, 2, ("figures: intra-node-busbw is worse",)),
        (HIGH, True, 2, ("snapshot: 1 change", "figures: intra-node-busbw is worse")),
    ],
    ids=["nothing changed", "what does not matter", "the snapshot", "the baseline", "both"],
)
def test_snapshot_and_baseline_are_told_in_one_report(
    tmp_path: Path, run: Path, after: Snapshot, slower: bool, code: int, reasons: tuple[str, ...]
) -> None:
    if slower:
        slow_down(run)
    store = str(tmp_path / "history.sqlite")
    done = drift(tmp_path, after, drift_figures=str(run), store=store, site_name="lab")
    assert done.returncode == code, done.stdout + done.stderr
    page = (tmp_path / "report" / "drift.md").read_text(encoding="utf-8")
    told = [line.removeprefix("- ") for line in page.partition("## Snapshot")[0].splitlines() if line.startswith("- ")]
    assert [found.startswith(text) for found, text in zip(told, reasons, strict=True)] == [True] * len(reasons)
    assert ("Nothing that matters changed." in page) == (not reasons)
    assert ("host.driver: 580.95.05 -> 570.86.15 (gpu01)" in page) == (after is HIGH)
    assert (f"intra-node-busbw: worse; 4 compared, worst {SLOWER} -20.0%" in page) == slower
    metrics = (tmp_path / "report" / "drift.prom").read_text(encoding="utf-8")
    # The run was a rehearsal, so nobody is called for it.
    about = 'site="lab",rehearsal="true"'
    assert f'gpufleet_drift_figure_worse{{{about},figure="intra-node-busbw"}} {int(slower)}' in metrics
    assert f"gpufleet_drift_important{{{about}}} {int(after is HIGH)}" in metrics


@pytest.mark.drawn(4, of="comparisons by playbook")
def test_figures_of_which_nothing_was_accepted_are_not_as_good(tmp_path: Path, run: Path) -> None:
    store = tmp_path / "other.sqlite"
    open_baselines(store)
    done = drift(tmp_path, BEFORE, drift_figures=str(run), store=str(store))
    assert done.returncode == 2 and "not one figure could be compared" in done.stdout, done.stdout + done.stderr


@pytest.mark.drawn(4, of="comparisons by playbook")
@pytest.mark.parametrize(
    ("after", "fail_on", "code", "told"),
    [
        (LOW, "medium", 0, "low: node.labels[team]: a -> b (gpu01)"),
        (HIGH, "high", 2, "high: host.driver: 580.95.05 -> 570.86.15 (gpu01)"),
        (BLIND, "critical", 2, "not everything could be compared"),
        (BLIND, "never", 0, "not everything could be compared"),
    ],
    ids=["what does not matter", "what matters", "what nobody could look at", "what was asked for without failure"],
)
def test_the_exit_code_is_that_of_a_check(tmp_path: Path, after: Snapshot, fail_on: str, code: int, told: str) -> None:
    done = drift(tmp_path, after, drift_fail_on=fail_on)
    assert done.returncode == code, done.stdout + done.stderr
    assert told in done.stdout
    # The last lines are a verdict of its own, printed once.
    end = done.stdout[done.stdout.index("PLAY RECAP") :]
    assert done.stdout.count("verdict  ") == 1 and "verdict  drift of cluster: " in end and "drift.md" in end
    assert ("nothing that matters changed" in end) is (code == 0)
    # What to do, and the command as it was typed.
    assert ("do: " in end) is (code != 0) and (f"-e gpufleet_drift_fail_on={fail_on}" in end) is (code != 0)


@pytest.mark.drawn(4, of="comparisons by playbook")
@pytest.mark.parametrize(("said", "label"), [(True, "true"), (False, "false"), (None, "false")])
def test_the_report_of_two_snapshots_of_a_rehearsal_says_so(tmp_path: Path, said: bool | None, label: str) -> None:
    done = drift(tmp_path, replace(BEFORE, rehearsal=said), drift_fail_on="never")
    assert done.returncode == 0, done.stdout + done.stderr
    metrics = (tmp_path / "report" / "drift.prom").read_text(encoding="utf-8")
    assert f'gpufleet_drift_important{{site="cluster",rehearsal="{label}"}}' in metrics
    page = (tmp_path / "report" / "drift.md").read_text(encoding="utf-8")
    assert ("This is a rehearsal" in page) == bool(said)


@pytest.mark.drawn(4, of="comparisons by playbook")
def test_figures_of_a_rehearsal_are_not_told_of_a_cluster_that_is_none(tmp_path: Path, run: Path) -> None:
    """Its drift would bear the mark for which nobody is called."""
    store = str(tmp_path / "history.sqlite")
    done = drift(tmp_path, replace(HIGH, rehearsal=False), drift_figures=str(run), store=store)
    assert done.returncode == 2 and "is a run of a rehearsal, and the cluster" in done.stdout, done.stdout + done.stderr
    assert not (tmp_path / "report").exists()
