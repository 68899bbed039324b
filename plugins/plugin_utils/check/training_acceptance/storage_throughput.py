# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Check: every host reads and writes the shared volume with the throughput of its peers."""

from __future__ import annotations

from ...outcome.model import Outcome, SubjectKind
from ..shared_storage.analysis import THROUGHPUT, Results
from ..shared_storage.judging import Rule, judge_metric
from ..spec import Check, CheckSpec, Disturbance, JudgeContext, needs
from .observe_storage import OBSERVER

SPEC = CheckSpec(
    id="storage-throughput",
    gate="training_acceptance",
    title="Throughput of the shared volume",
    per=SubjectKind.NODE,
    disturbs=Disturbance.TEST_PODS,
    duration_s=120.0,
    applies=(needs("kubernetes", "shared_volume"),),
    causes=("slow-mount", "slow-group", "slow-storage"),
)
RULE = Rule(metric=THROUGHPUT, slow="slow-mount", all_slow="slow-storage", setting="floor_mib_s")


def judge(results: Results, context: JudgeContext) -> tuple[Outcome, ...]:
    """Return an outcome for every host."""
    return judge_metric(SPEC, RULE, results, context)


CHECK = Check(SPEC, OBSERVER, judge)
