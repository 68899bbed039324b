# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The hosts of every rack shed no more heat than its cooling takes away."""

from __future__ import annotations

from ...outcome.model import Outcome, SubjectKind
from ..spec import Check, CheckSpec, JudgeContext
from .budget import OVER_BUDGET, RACK_NOT_IN_RECORD, Budget, judge_budget
from .load import HEAT
from .observation import FacilityObservation
from .observe_facility_record import OBSERVER

SPEC = CheckSpec(
    id="facility-cooling",
    gate="facility",
    title="Heat within every rack's cooling budget",
    per=SubjectKind.RACK,
    requires=("facility_record",),
    causes=(OVER_BUDGET, RACK_NOT_IN_RECORD),
)
_BUDGET = Budget(
    quantity=HEAT,
    field="cooling_kw",
    granted=lambda rack: rack.cooling_kw,
    allowed=lambda allowance: allowance.cooling_kw,
)


def judge(seen: FacilityObservation, context: JudgeContext) -> tuple[Outcome, ...]:
    return judge_budget(SPEC, _BUDGET, seen, context)


CHECK = Check(SPEC, OBSERVER, judge)
