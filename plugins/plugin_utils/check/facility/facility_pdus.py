# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Every power distribution unit of every rack is energized, says the record."""

from __future__ import annotations

from ...outcome.model import Basis, Expectation, Measure, Outcome, SubjectKind
from ..kit.answer import Answer
from ..spec import Check, CheckSpec, JudgeContext
from .budget import RACK_NOT_IN_RECORD, judge_racks
from .observation import FacilityObservation
from .observe_facility_record import OBSERVER
from .record import FacilityRecord

SPEC = CheckSpec(
    id="facility-pdus",
    gate="facility",
    title="Power distribution units energized",
    per=SubjectKind.RACK,
    requires=("facility_record",),
    causes=("pdu-not-energized", "pdu-not-listed", RACK_NOT_IN_RECORD),
)


def judge(seen: FacilityObservation, context: JudgeContext) -> tuple[Outcome, ...]:

    def judge_one(answer: Answer, rack: str, record: FacilityRecord) -> Outcome:
        return _judge_rack(answer, rack, record, seen)

    return judge_racks(SPEC, seen, context, judge_one)


def _judge_rack(answer: Answer, rack: str, record: FacilityRecord, seen: FacilityObservation) -> Outcome:
    pdus = record.racks[rack].pdus
    dead = [pdu.name for pdu in pdus if not pdu.energized]
    details = {
        "measured": (Measure("energized units", len(pdus) - len(dead), "count"),),
        "expected": (Expectation("energized units", "==", len(pdus), Basis.RECORD, "count"),),
        "evidence": seen.rack_evidence(rack),
    }
    if not pdus:
        return answer.failed(
            "pdu-not-listed",
            f"the record lists no unit for {rack}",
            "have the units that feed the rack inspected, listed and the record signed again",
            **details,
        )
    if dead:
        return answer.failed(
            "pdu-not-energized",
            f"{len(dead)} of {len(pdus)} unit(s) not energized: {', '.join(dead)}",
            "have the units energized and inspected, and the record signed again",
            **details,
        )
    return answer.passed(f"{len(pdus)} of {len(pdus)} unit(s) energized: {', '.join(p.name for p in pdus)}", **details)


CHECK = Check(SPEC, OBSERVER, judge)
