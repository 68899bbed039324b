# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""After a cycle: classes are stored, Slurm's nodes are drained and resumed by our reason, a report is written."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from service_rows import SITE, cycle, node_result
from slurm_files import SCONTROL

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.features.continuous.service import (
    ContinuousService,
    CycleEnd,
    after_cycle,
    classified,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.features.remediation.app import RemediationPolicy
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.errors import BringupError
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.model import Status
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.store.records import Figure
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.store.service import ServiceStore, open_service

# The day before the first cycle of service_rows, at the same hour.
NOW, DAY = 1793440800.0, 86400.0
NODES = tuple(f"gpu{number:02d}" for number in range(1, 9))
BAD = "gpu03"
EVIL = '<img src=x onerror="alert(1)">'


class Bench:
    """A site with a history and a Slurm of files; `test` adds results of a cycle and ends it."""

    def __init__(self, path: Path) -> None:
        self.path, self.day = path, 0
        self.store: ServiceStore = open_service(path / "history.sqlite")
        (path / "scontrol").write_text(SCONTROL.format(state=path))
        (path / "scontrol").chmod(0o755)
        for node in NODES:
            self.put(node, "IDLE")

    def put(self, node: str, state: str, reason: str = "") -> None:
        (self.path / f"{node}.state").write_text(state)
        (self.path / f"{node}.reason").write_text(reason)

    def slurm(self, node: str) -> str:
        state, reason = ((self.path / f"{node}.{kind}").read_text().strip() for kind in ("state", "reason"))
        return f"{state} {reason}".strip()

    def test(self, policy: RemediationPolicy, bad: dict[str, Any] | None = None, **options: Any) -> CycleEnd:
        """One cycle a day in which every node is tested, the bad one with this result."""
        self.day += 1
        name = f"c{self.day}"
        now_s = NOW + self.day * DAY
        ours = cycle(name, day=self.day)
        self.store.begin_cycle(ours)
        for index, node in enumerate(NODES):
            known: dict[str, Any] = {
                "started_s": now_s - 3600, "digests": {},
                "figures": (Figure(name="gemm_bf16", number=600 + index % 3, unit="TFLOP/s", part="GPU-a"),),
            }  # fmt: skip
            self.store.add_result(node_result(name, node, **(known | ((bad or {}) if node == BAD else {}))))
        return self.end(policy, now_s, ours, **options)

    def end(self, policy: RemediationPolicy, now_s: float, ours: Any, **options: Any) -> CycleEnd:
        return after_cycle(self.store, ours, self.service(policy), now_s=now_s, **options)

    def service(self, policy: RemediationPolicy) -> ContinuousService:
        return ContinuousService(
            nodes={node: node for node in NODES}, tests=("dl",), directory=self.path / "report", policy=policy
        )


WRONG = {
    "status": Status.FAILED,
    "cause": "wrong-results",
    "summary": f"7 wrong, token=hvs.0123456789abcdefghij {EVIL}",
}


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


@pytest.fixture
def drain(bench: Bench) -> RemediationPolicy:
    return RemediationPolicy(acts=("slurm_drain",), scontrol=str(bench.path / "scontrol"), breaker_percent=20)


def word(end: CycleEnd, node: str = BAD) -> str:
    return next(entry.word for entry in end.classes if entry.node == node)


def test_by_default_it_reports_and_touches_nothing(bench: Bench) -> None:
    end = bench.test(RemediationPolicy(), WRONG)
    assert word(end) == "bad" and word(end, "gpu01") == "healthy" and not end.actions
    assert {bench.slurm(node) for node in NODES} == {"IDLE"}
    stored = {entry.node: entry.word for entry in bench.store.classes(SITE, rehearsal=False)}
    assert stored == {node: "bad" if node == BAD else "healthy" for node in NODES}
    # The result is of an hour ago: another one now would be the same event.
    assert end.repeats == ()
    later_s = NOW + DAY + 5 * 3600
    assert classified(bench.store, cycle("c1"), bench.service(RemediationPolicy()), later_s).repeats == ((BAD, "dl"),)


def test_a_bad_node_is_drained_with_our_reason_and_returns_after_three_good_results(
    bench: Bench, drain: RemediationPolicy
) -> None:
    end = bench.test(drain, WRONG)
    assert "was taken out of service" in end.actions[0]
    assert bench.slurm(BAD).startswith("IDLE+DRAIN gpufleet.bringup:continuous-validation held: dl: wrong-results")
    assert "hvs.0123" not in bench.slurm(BAD)
    assert set(bench.store.open_cordons(SITE, rehearsal=False)) == {BAD}
    for _cycle in range(2):
        assert word(bench.test(drain)) == "bad" and bench.slurm(BAD).startswith("IDLE+DRAIN")
    end = bench.test(drain)
    assert word(end) == "healthy" and bench.slurm(BAD) == "IDLE" and f"{BAD}: was given back" in end.actions
    assert not bench.store.open_cordons(SITE, rehearsal=False)
    assert len(bench.store.cordons(SITE, rehearsal=False)) == 1


def test_a_drain_of_somebody_else_is_neither_taken_over_nor_lifted(bench: Bench, drain: RemediationPolicy) -> None:
    bench.put(BAD, "IDLE+DRAIN", "cooling")
    bench.put("gpu05", "IDLE+DRAIN", "gpufleet.bringup:driver-roll held: other")
    end = bench.test(drain, WRONG)
    assert "was not taken out of service" in end.actions[0] and "cooling" in end.actions[0]
    for _cycle in range(3):
        bench.test(drain)
    assert bench.slurm(BAD) == "IDLE+DRAIN cooling" and "driver-roll" in bench.slurm("gpu05")
    assert not bench.store.cordons(SITE, rehearsal=False)


def test_check_mode_changes_and_records_nothing(bench: Bench, drain: RemediationPolicy) -> None:
    end = bench.test(drain, WRONG, check_mode=True)
    assert end.actions == (f"{BAD}: would be taken out of service",) and bench.slurm(BAD) == "IDLE"
    assert not bench.store.classes(SITE, rehearsal=False) and not bench.store.cordons(SITE, rehearsal=False)
    assert "CHECK MODE" in end.files["html"].read_text() and "CHECK MODE" in end.files["markdown"].read_text()


def test_what_cannot_be_done_is_told_and_the_report_is_written(bench: Bench) -> None:
    broken = RemediationPolicy(acts=("slurm_drain",), scontrol=str(bench.path / "missing"))
    end = bench.test(broken, WRONG)
    assert "could not be carried out" in end.actions[0]
    assert "could not be carried out" in end.files["html"].read_text()
    assert word(end) == "bad"
    with pytest.raises(BringupError, match="there is no cluster"):
        bench.test(RemediationPolicy(acts=("cordon",)))


def test_the_report_shows_everything_escaped_and_needs_no_other_file(bench: Bench) -> None:
    bench.test(RemediationPolicy())
    end = bench.test(RemediationPolicy(), WRONG)
    page, brief, metrics = (end.files[kind].read_text() for kind in ("html", "markdown", "metrics"))
    assert EVIL not in page and "&lt;img" in page and EVIL not in brief and "hvs.0123" not in page + brief + metrics
    assert not re.search(r"<[^>]*(src|href)=|https?://|<script", page)
    assert f'<tr><td class="id" data-label="node">{BAD}' in page and "·B" in page and "8 of 8" in page
    assert f"| {BAD} | bad |" in brief and "8 of 8 (100.0%)" in brief
    assert 'gpufleet_continuous_nodes{site="island",rehearsal="false",class="bad"} 1' in metrics
    assert 'gpufleet_continuous_coverage_ratio{site="island",rehearsal="false",test="dl"} 1' in metrics
    assert not any(node in metrics for node in NODES)


def test_a_node_that_was_never_tested_lowers_the_coverage(bench: Bench) -> None:
    ours = cycle("c1")
    bench.store.begin_cycle(ours)
    bench.store.add_result(node_result("c1", "gpu01", started_s=NOW - 9 * DAY))
    metrics = bench.end(RemediationPolicy(), NOW, ours).files["metrics"].read_text()
    assert 'never_tested_nodes{site="island",rehearsal="false",test="dl"} 7' in metrics
    assert 'coverage_ratio{site="island",rehearsal="false",test="dl"} 0' in metrics
    assert 'oldest_result_age_seconds{site="island",rehearsal="false",test="dl"} 777600' in metrics
    assert 'nodes{site="island",rehearsal="false",class="unknown"} 8' in metrics
