# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The alerts on drift, evaluated by Prometheus' own tool on what the report of playbook drift writes."""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest
import yaml
from real_toolchain import build_toolchain
from rehearsal_harness import ROOT

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.features.snapshot.difference import Importance
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.features.snapshot.report import (
    DriftFacts,
    FigureDrift,
    SnapshotDrift,
    render_drift_metrics,
)
from ansible_collections.gpufleet.rehearsal.plugins.plugin_utils.toolchain.store import default_cache

RULES = ROOT / "recipes" / "monitoring" / "drift-rules.yaml"
_SAMPLE = re.compile(r"^(\w+\{.*\}) (\S+)$", re.MULTILINE)
_DAY_MIN = 24 * 60
SAME = SnapshotDrift(importances=(Importance.LOW,), important=False, complete=True, lines=())
HIGH = replace(SAME, importances=(Importance.HIGH, Importance.LOW), important=True)
KEPT = FigureDrift(compared=Counter({"mfu": 1, "tpot": 2}), worse=(), lines=())
# Tests of promtool begin at the second 0.
QUIET = DriftFacts(site="lab", rehearsal=False, now_s=0, written="", snapshot=SAME, figures=KEPT)
BOTH = replace(QUIET, snapshot=HIGH, figures=replace(KEPT, worse=("tpot",)))


@pytest.fixture(scope="module")
def promtool() -> Path:
    build_toolchain()
    return next(default_cache(os.environ).glob("telemetry*/**/promtool"))


@pytest.mark.parametrize(
    ("facts", "minutes", "called"),
    [
        (QUIET, 60, {}),
        (replace(QUIET, figures=None), 60, {}),
        (replace(QUIET, snapshot=HIGH), 60, {"GpufleetDriftOfSnapshot": {"site": "lab"}}),
        (replace(QUIET, figures=BOTH.figures), 60, {"GpufleetDriftOfFigures": {"site": "lab", "figure": "tpot"}}),
        (BOTH, 60, {"GpufleetDriftOfSnapshot": {"site": "lab"},
                    "GpufleetDriftOfFigures": {"site": "lab", "figure": "tpot"}}),
        (replace(QUIET, snapshot=replace(SAME, complete=False)), 60, {"GpufleetDriftIncomplete": {"site": "lab"}}),
        (replace(QUIET, figures=replace(KEPT, compared=Counter())), 60,
         {"GpufleetDriftFiguresNotCompared": {"site": "lab"}}),
        (QUIET, 2 * _DAY_MIN - 5, {}),
        (QUIET, 2 * _DAY_MIN + 5, {"GpufleetDriftNotLookedAt": {"site": "lab"}}),
        (replace(BOTH, rehearsal=True), 3 * _DAY_MIN, {}),
    ],
)  # fmt: skip
def test_who_is_called(
    facts: DriftFacts, minutes: int, called: dict[str, dict[str, str]], promtool: Path, tmp_path: Path
) -> None:
    assert _said(promtool, tmp_path, facts, minutes, called) == ""


def test_an_alert_that_nobody_expects_is_seen(promtool: Path, tmp_path: Path) -> None:
    """Otherwise the cases above would say nothing."""
    assert "GpufleetDriftOfSnapshot" in _said(promtool, tmp_path, BOTH, 60, {})


def _said(promtool: Path, place: Path, facts: DriftFacts, minutes: int, called: dict[str, dict[str, str]]) -> str:
    """Return what promtool has against those alerts, and no others, that many minutes after the report."""
    rules = yaml.safe_load(RULES.read_text(encoding="utf-8"))["groups"][0]["rules"]
    samples = [
        {"series": name, "values": f"{value}x{minutes + 1}"}
        for name, value in _SAMPLE.findall(render_drift_metrics(facts))
    ]
    asked = []
    for alert in (rule["alert"] for rule in rules):
        labels = {"alertname": alert, **called.get(alert, {})}
        pairs = ",".join(f'{key}="{value}"' for key, value in labels.items())
        expected = [{"labels": f"{{{pairs}}}", "value": 1}] if alert in called else []
        firing = f'count by (alertname, site, figure) (ALERTS{{alertname="{alert}"}})'
        asked.append({"eval_time": f"{minutes}m", "expr": firing, "exp_samples": expected})
    test = {"interval": "1m", "input_series": samples, "promql_expr_test": asked}
    said = {"rule_files": [str(RULES)], "evaluation_interval": "1m", "tests": [test]}
    (place / "test.json").write_text(json.dumps(said), encoding="utf-8")
    argv = [str(promtool), "test", "rules", "test.json"]
    done = subprocess.run(argv, cwd=place, capture_output=True, text=True, check=False)
    return "" if done.returncode == 0 else done.stdout + done.stderr
