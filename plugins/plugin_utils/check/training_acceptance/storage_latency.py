# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Check: the shared volume responds to every host as fast as to its peers, at the 99th percentile too."""

from __future__ import annotations

from ...outcome.model import Outcome, SubjectKind
from ..shared_storage.analysis import LATENCY, THROUGHPUT, Results
from ..shared_storage.judging import Rule, judge_metric
from ..spec import Check, CheckSpec, Disturbance, JudgeContext, needs
from .observe_storage import OBSERVER

SPEC = CheckSpec(
    id="storage-latency",
    gate="training_acceptance",
    title="Latency of the shared volume",
    per=SubjectKind.NODE,
    disturbs=Disturbance.TEST_PODS,
    duration_s=120.0,
    applies=(needs("kubernetes", "shared_volume"),),
    causes=("late-answers", "slow-group", "late-storage"),
)
RULE = Rule(
    metric=LATENCY, slow="late-answers", all_slow="late-storage", setting="p99_ms",
    after=("storage-throughput", THROUGHPUT),
)  # fmt: skip


def judge(results: Results, context: JudgeContext) -> tuple[Outcome, ...]:
    """Return an outcome for every host."""
    return judge_metric(SPEC, RULE, results, context)


CHECK = Check(SPEC, OBSERVER, judge)
