# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The hosts of every rack draw no more than its power budget."""

from __future__ import annotations

from ...outcome.model import Outcome, SubjectKind
from ..spec import Check, CheckSpec, JudgeContext
from .budget import OVER_BUDGET, RACK_NOT_IN_RECORD, Budget, judge_budget
from .load import POWER
from .observation import FacilityObservation
from .observe_facility_record import OBSERVER

SPEC = CheckSpec(
    id="facility-power",
    gate="facility",
    title="Power draw within every rack's budget",
    per=SubjectKind.RACK,
    requires=("facility_record",),
    causes=(OVER_BUDGET, RACK_NOT_IN_RECORD),
)
_BUDGET = Budget(
    quantity=POWER,
    field="power_kw",
    granted=lambda rack: rack.power_kw,
    allowed=lambda allowance: allowance.power_kw,
)


def judge(seen: FacilityObservation, context: JudgeContext) -> tuple[Outcome, ...]:
    return judge_budget(SPEC, _BUDGET, seen, context)


CHECK = Check(SPEC, OBSERVER, judge)
