# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""What stands before a verdict about bandwidth: hosts without a run, and what another check reports already. Pure."""

from __future__ import annotations

from ...outcome.model import Outcome
from ..kit.answer import Answer
from .analysis import SkuCohort
from .model import PlannedHost


def not_possible(answer: Answer, cohort: SkuCohort | None, host: PlannedHost) -> Outcome | None:
    """Return the outcome for a host of which no run can say anything; its reason is told by check nccl-results."""
    if cohort is None:
        return answer.unknown("sku-unknown", f"no hardware facts for SKU {host.sku!r}", "correct gpufleet_sku")
    if host.closed:
        return answer.blocked(by="nccl-results", because=f"no run was possible: {host.closed}")
    return None


def not_paired(answer: Answer, cohort: SkuCohort, name: str) -> Outcome | None:
    """Return the outcome for a host that was not run with another one, None if it was."""
    if any(name in result.hosts for result in cohort.pairs):
        return None
    alone = cohort.alone.find((name,))
    if alone is None or alone.problem is not None:
        return answer.blocked(by="nccl-results", because=f"{name} gave no result by itself")
    if name in cohort.without_rdma:
        return answer.blocked(by="nccl-transport", because="its pods get no network adapter")
    if name not in cohort.usable:
        return answer.blocked(by="nccl-intra-node-bw", because=f"{name} is slow by itself")
    text = (
        f"{name} was run with no other host: {len(cohort.usable)} of {len(cohort.hosts)} {cohort.sku_name} are usable"
    )
    return answer.unknown("no-partner", text, "mend or add hosts of that kind, then run the gate again")
