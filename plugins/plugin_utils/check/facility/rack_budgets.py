# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Checks of what the hosts of a rack need together: power, cooling and floor load."""

from __future__ import annotations

from ...outcome.model import Outcome, SubjectKind
from ..spec import Check, CheckSpec, JudgeContext, needs
from .budget import OVER_BUDGET, RACK_NOT_IN_RECORD, Budget, judge_budget
from .load import HEAT, POWER, WEIGHT
from .observation import FacilityObservation
from .observe_facility_record import OBSERVER


def _within(check: str, title: str, budget: Budget) -> Check[FacilityObservation]:
    spec = CheckSpec(
        id=check,
        gate="facility",
        title=title,
        per=SubjectKind.RACK,
        applies=(needs("facility_record"),),
        causes=(OVER_BUDGET, RACK_NOT_IN_RECORD),
    )

    def judge(observed: FacilityObservation, context: JudgeContext) -> tuple[Outcome, ...]:
        return judge_budget(spec, budget, observed, context)

    return Check(spec, OBSERVER, judge)


CHECKS = (
    _within(
        "facility-cooling",
        "Heat within every rack's cooling budget",
        Budget(
            quantity=HEAT,
            field="cooling_kw",
            granted=lambda rack: rack.cooling_kw,
            allowed=lambda allowance: allowance.cooling_kw,
        ),
    ),
    _within(
        "facility-floor-load",
        "Weight within every rack's floor load",
        Budget(
            quantity=WEIGHT,
            field="floor_load_kg",
            granted=lambda rack: rack.floor_load_kg,
            allowed=lambda allowance: allowance.weight_kg,
        ),
    ),
    _within(
        "facility-power",
        "Power draw within every rack's budget",
        Budget(
            quantity=POWER,
            field="power_kw",
            granted=lambda rack: rack.power_kw,
            allowed=lambda allowance: allowance.power_kw,
        ),
    ),
)
