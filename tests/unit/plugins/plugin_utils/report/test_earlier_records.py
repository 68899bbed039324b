# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Reports of runs of earlier releases, whose records name subjects only as text."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.codec import from_plain, to_plain
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.decisions import Waiver
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.model import (
    Measure,
    Subject,
    SubjectKind,
    node_subject,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.report.cases import case_groups
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.report.facts import load_facts
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.report.matrix import matrix
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.verdict.run import RunRecord
from tests.support.report_runs import MadeRun, failed

GPU = Subject(SubjectKind.GPU, "gpu01/gpu3", "gpu01")


def as_earlier(record: RunRecord) -> RunRecord:
    """The record as a release before `subjects` and `blocked_by` wrote and read it."""
    plain: dict[str, Any] = json.loads(json.dumps(to_plain(record)))
    for gate in plain["gates"]:
        for name in ("blocking", "waived", "accepted", "expired"):
            for entry in gate[name]:
                for added in ("subjects", "blocked_by"):
                    entry.pop(added, None)
    return from_plain(RunRecord, plain, "an earlier release")


def test_results_find_their_figures_and_decisions_again(tmp_path: Path) -> None:
    made = MadeRun(
        nodes=3, waivers=(Waiver(check="c", subject="gpu02", reason="r", who="w", until="2026-12-31"),)
    ).healthy()
    made.outcomes["nodes"] = (
        failed("nodes", "c", node_subject("gpu01"), "gpu-missing", subjects=(node_subject("gpu01"), GPU),
               measured=(Measure("gpus", 7, "count"),)),
        failed("nodes", "c", node_subject("gpu02"), "gpu-missing"),
    )  # fmt: skip
    record = made.write(tmp_path)
    now, then = load_facts(tmp_path, record), load_facts(tmp_path, as_earlier(record))
    assert then.record == now.record
    assert case_groups(then) == case_groups(now) and matrix(then) == matrix(now)
    (first, *_rest) = (entry for group in case_groups(then) for entry in group.whole)
    assert first.subject == "gpu01/gpu3" and first.measured
