# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The hosts of every rack weigh no more than its floor bears."""

from __future__ import annotations

from ...outcome.model import Outcome, SubjectKind
from ..spec import Check, CheckSpec, JudgeContext
from .budget import OVER_BUDGET, RACK_NOT_IN_RECORD, Budget, judge_budget
from .load import WEIGHT
from .observation import FacilityObservation
from .observe_facility_record import OBSERVER

SPEC = CheckSpec(
    id="facility-floor-load",
    gate="facility",
    title="Weight within every rack's floor load",
    per=SubjectKind.RACK,
    requires=("facility_record",),
    causes=(OVER_BUDGET, RACK_NOT_IN_RECORD),
)
_BUDGET = Budget(
    quantity=WEIGHT,
    field="floor_load_kg",
    granted=lambda rack: rack.floor_load_kg,
    allowed=lambda allowance: allowance.weight_kg,
)


def judge(seen: FacilityObservation, context: JudgeContext) -> tuple[Outcome, ...]:
    return judge_budget(SPEC, _BUDGET, seen, context)


CHECK = Check(SPEC, OBSERVER, judge)
