# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Check facility-expiry: the record is valid on the day of the run: issued, not expired, not about to expire."""

from __future__ import annotations

from ...outcome.model import Basis, Expectation, Measure, Outcome, SubjectKind
from ..kit.answer import Answer
from ..spec import Check, CheckSpec, JudgeContext, needs
from .budget import judge_record
from .observation import FacilityObservation
from .observe_facility_record import OBSERVER
from .record import FacilityRecord

SPEC = CheckSpec(
    id="facility-expiry",
    gate="facility",
    title="Facility record in force",
    per=SubjectKind.SITE,
    applies=(needs("facility_record"),),
    causes=("expired", "expires-soon", "issued-in-future"),
)
_RENEW = "have the room's owner check the budgets, set new days and sign the record again (docs/facility.md)"


def judge(observed: FacilityObservation, context: JudgeContext) -> tuple[Outcome, ...]:
    return judge_record(SPEC, observed, context, lambda answer, record: _judge(answer, record, observed))


def _judge(answer: Answer, record: FacilityRecord, observed: FacilityObservation) -> Outcome:
    today, warning_days = answer.context.today, observed.settings.expiry_warning_days
    left_days = (record.expires_on - today).days
    arithmetic = f"issued {record.issued}, expires {record.expires}, today {today.isoformat()}: {left_days} day(s) left"
    details = {
        "measured": (Measure("days left", left_days, "d"),),
        "expected": (Expectation("days left", ">", warning_days, Basis.RULE, "d", arithmetic),),
        "evidence": observed.evidence(),
    }
    if record.issued_on > today:
        hint = "correct the day of issue and sign again, or correct the controller's clock"
        return answer.failed("issued-in-future", f"not yet in force: {arithmetic}", hint, **details)
    if left_days < 0:
        return answer.failed("expired", f"expired: {arithmetic}", _RENEW, **details)
    if left_days <= warning_days:
        return answer.marginal("expires-soon", f"about to expire: {arithmetic}", _RENEW, **details)
    return answer.passed(arithmetic, **details)


CHECK = Check(SPEC, OBSERVER, judge)
