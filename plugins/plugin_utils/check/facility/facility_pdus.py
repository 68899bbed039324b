# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Check facility-pdus: every power distribution unit of every rack is energized, according to the record."""

from __future__ import annotations

from typing import Any

from ...outcome.errors import InputError, NotFoundError
from ...outcome.model import Basis, Expectation, Measure, Outcome, SubjectKind
from ..kit.answer import Answer
from ..spec import Check, CheckSpec, JudgeContext, needs
from .budget import RACK_NOT_IN_RECORD, judge_racks
from .load import POWER, number, rack_load
from .observation import FacilityObservation
from .observe_facility_record import OBSERVER
from .record import FacilityRecord, Pdu

SPEC = CheckSpec(
    id="facility-pdus",
    gate="facility",
    title="Power distribution units energized",
    per=SubjectKind.RACK,
    applies=(needs("facility_record"),),
    causes=("feed-not-redundant", "pdu-not-energized", "pdu-not-listed", RACK_NOT_IN_RECORD, "single-feed"),
)


def judge(observed: FacilityObservation, context: JudgeContext) -> tuple[Outcome, ...]:

    def judge_one(answer: Answer, rack: str, record: FacilityRecord) -> Outcome:
        return _judge_rack(answer, rack, record, observed)

    return judge_racks(SPEC, observed, context, judge_one)


def _judge_rack(answer: Answer, rack: str, record: FacilityRecord, observed: FacilityObservation) -> Outcome:
    pdus = record.racks[rack].pdus
    dead = [pdu.name for pdu in pdus if not pdu.energized]
    details: dict[str, Any] = {
        "measured": (Measure("energized units", len(pdus) - len(dead), "count"),),
        "expected": (Expectation("energized units", "==", len(pdus), Basis.RECORD, "count"),),
        "evidence": observed.rack_evidence(rack),
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
    if observed.settings.redundant_feeds:
        lost = _without_one_feed(answer, rack, pdus, observed, details)
        if lost is not None:
            return lost
    return answer.passed(f"{len(pdus)} of {len(pdus)} unit(s) energized: {', '.join(p.name for p in pdus)}", **details)


def _without_one_feed(
    answer: Answer, rack: str, pdus: tuple[Pdu, ...], observed: FacilityObservation, details: dict[str, Any]
) -> Outcome | None:
    """Return why a rack could not run without one of its feeds, None if it could."""
    unstated = [pdu.name for pdu in pdus if not pdu.feed or pdu.capacity_kw <= 0]
    if unstated:
        text = f"the record does not say feed and capacity_kw of {', '.join(unstated)}; redundancy is not known"
        hint = (
            "have both written into the record and sign it again, or unset gpufleet_settings facility.redundant_feeds"
        )
        return answer.unknown("feeds-not-stated", text, hint, **details)
    feeds = sorted({pdu.feed for pdu in pdus})
    if len(feeds) < 2:
        text = f"all {len(pdus)} unit(s) hang on feed {feeds[0]}"
        return answer.failed("single-feed", text, "connect the rack to a second feed", **details)
    context = answer.context
    skus = [host.sku for host in context.site.hosts if host.rack == rack]
    try:
        load = rack_load(POWER, skus, context.hardware, observed.settings.allowance(rack).power_kw)
    except (InputError, NotFoundError) as error:
        return answer.unknown("fact-not-known", f"{error.subject}: {error.reason}", error.hint, **details)
    for feed in feeds:
        rest = sum(pdu.capacity_kw for pdu in pdus if pdu.feed != feed)
        if rest < load.value:
            text = f"without feed {feed} {number(rest)} kW are left; {load.arithmetic}"
            hint = "units of more capacity, or fewer hosts in the rack"
            return answer.failed("feed-not-redundant", text, hint, **details)
    return None


CHECK = Check(SPEC, OBSERVER, judge)
