# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The one report of a drift, and its alerts: each reason is told, and every metric in a rule is one that is written."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import replace
from typing import Any

import pytest

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.features.snapshot.difference import Importance
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.features.snapshot.report import (
    DriftFacts,
    FigureDrift,
    SnapshotDrift,
    drift_verdict,
    next_step,
    render_drift_markdown,
    render_drift_metrics,
    report_lines,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.runtime.files import RECIPES
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.runtime.strict import read_yaml

MONITORING = RECIPES / "monitoring"
_METRIC = re.compile(r"\b(gpufleet_drift_\w+)\{([^}]*)\}")
_SAMPLE = re.compile(r"^(\w+)\{(.*)\} \S+$", re.MULTILINE)
_LABEL = re.compile(r'(\w+)\s*=~?\s*"')
SAME = SnapshotDrift(importances=(), important=False, complete=True, lines=("nothing differs",))
KEPT = FigureDrift(compared=Counter({"mfu": 1, "tpot": 2}), worse=(), lines=("mfu: as good",))
QUIET = DriftFacts(site="lab", rehearsal=False, now_s=1.5, written="2026-11-23T10:00:00Z", snapshot=SAME, figures=KEPT)
HIGH = replace(SAME, importances=(Importance.HIGH,), important=True, lines=("high: host.driver: 1 -> 2 (gpu01)",))
LOW = replace(SAME, importances=(Importance.LOW,))
WORSE = replace(KEPT, worse=("tpot",), lines=("tpot: worse",))


@pytest.mark.parametrize(
    ("facts", "reasons"),
    [
        (QUIET, ()),
        (replace(QUIET, figures=None), ()),
        (replace(QUIET, snapshot=LOW), ()),
        (replace(QUIET, snapshot=HIGH), ("snapshot: 1 change",)),
        (replace(QUIET, snapshot=replace(SAME, important=True, complete=False)), ("snapshot: not everything",)),
        (
            replace(QUIET, snapshot=replace(HIGH, importances=(Importance.LOW, Importance.CRITICAL), complete=False)),
            ("snapshot: not everything could be compared; 2 changes, the most important critical",),
        ),
        # fail_on: never.
        (replace(QUIET, snapshot=replace(SAME, complete=False)), ()),
        (replace(QUIET, figures=WORSE), ("figures: tpot is worse",)),
        (replace(QUIET, figures=FigureDrift(compared=Counter(), worse=(), lines=())), ("figures: not one figure",)),
        (replace(QUIET, snapshot=HIGH, figures=WORSE), ("snapshot: 1 change", "figures: tpot is worse")),
    ],
)
def test_every_reason_is_told_and_nothing_else(facts: DriftFacts, reasons: tuple[str, ...]) -> None:
    assert [found.startswith(text) for found, text in zip(facts.reasons, reasons, strict=True)] == [True] * len(reasons)
    page, lines = render_drift_markdown(facts), report_lines(facts)
    assert all(reason in page and reason in lines for reason in facts.reasons)
    assert ("Nothing that matters changed." in page) == (not reasons)
    assert (lines[0] == "nothing that matters changed") == (not reasons)
    assert all(line in page for line in (*facts.snapshot.lines, *(facts.figures.lines if facts.figures else ())))


def test_a_part_that_one_snapshot_does_not_have_is_in_the_verdict_and_no_plain_pass() -> None:
    """A cluster of which no host was compared was told as one of which nothing that matters changed."""
    blind = replace(QUIET, snapshot=replace(SAME, one_sided=("hosts",)))
    said = "not compared, as one of the two snapshots does not have them: hosts"
    assert drift_verdict(blind) == f"drift of lab: nothing that matters changed in what was compared; {said}"
    assert (blind.passed, blind.reasons, QUIET.passed) == (False, (), True)
    assert said in render_drift_markdown(blind) and said in report_lines(blind)
    assert drift_verdict(QUIET) == "drift of lab: nothing that matters changed"
    assert drift_verdict(replace(blind, figures=WORSE)).endswith(f"tpot is worse than accepted; {said}")


def test_a_run_that_did_not_read_the_hosts_is_not_the_one_to_compare_again() -> None:
    line = "not compared: boot of 4 hosts (gpu01, gpu02, gpu03, gpu04): not given in the second snapshot"
    blind = replace(QUIET, snapshot=replace(SAME, important=True, complete=False, lines=(line,)), hosts_run="r/latest")
    assert blind.hosts_missed and "r/latest did not read all of the hosts: name a run" in next_step(blind)
    other = replace(blind, snapshot=replace(blind.snapshot, lines=("not compared: releases: no answer",)))
    assert not other.hosts_missed and "name a run" not in next_step(other)
    assert not replace(blind, hosts_run="").hosts_missed


def test_a_rehearsal_says_so() -> None:
    told = replace(QUIET, rehearsal=True)
    assert "This is a rehearsal" in render_drift_markdown(told) and "rehearsal" not in render_drift_markdown(QUIET)
    assert 'rehearsal="true"' in render_drift_metrics(told)


def expressions() -> list[str]:
    return [rule["expr"] for rule in read_yaml(MONITORING / "drift-rules.yaml")["groups"][0]["rules"]]


def test_every_metric_in_the_rules_is_written_and_the_other_way_round() -> None:
    known = {name: set(_LABEL.findall(labels)) for name, labels in _SAMPLE.findall(render_drift_metrics(QUIET))}
    used = {name: set(_LABEL.findall(labels)) for text in expressions() for name, labels in _METRIC.findall(text)}
    assert used.keys() == known.keys()
    assert not {name: labels - known[name] for name, labels in used.items() if labels - known[name]}


def test_the_resource_of_the_operator_has_the_same_rules() -> None:
    resource: dict[str, Any] = read_yaml(MONITORING / "drift-prometheus-rule.yaml")
    assert resource["kind"] == "PrometheusRule"
    assert resource["spec"]["groups"] == read_yaml(MONITORING / "drift-rules.yaml")["groups"]


def test_no_alert_is_about_a_rehearsal() -> None:
    for text in expressions():
        assert text.count('rehearsal="false"') == len(_METRIC.findall(text))


@pytest.mark.parametrize(
    ("facts", "done"),
    [
        (replace(QUIET, snapshot=HIGH, figures=WORSE), "undo what was not planned"),
        (replace(QUIET, snapshot=replace(HIGH, complete=False)), "let it look at what it could not"),
        (replace(QUIET, figures=WORSE), "run the gate that measures the figure again"),
        (replace(QUIET, figures=FigureDrift(compared=Counter(), worse=(), lines=())), "name a run"),
        (replace(QUIET, snapshot=replace(SAME, one_sided=("hosts",))), "compare hosts too"),
    ],
)
def test_what_is_done_about_it_is_said_by_its_first_reason(facts: DriftFacts, done: str) -> None:
    assert next_step(facts).startswith(done)


def test_nothing_is_left_to_do_where_nothing_changed_and_a_run_that_read_the_hosts_is_named() -> None:
    assert next_step(QUIET) == next_step(replace(QUIET, snapshot=LOW)) == ""
    changed = replace(QUIET, snapshot=HIGH)
    assert "gate nodes" not in next_step(changed)
    assert next_step(replace(changed, hosts_run=".run/latest")).endswith(
        "then let gate nodes read the hosts again, for .run/latest is as it was"
    )
