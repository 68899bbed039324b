# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Events of a BMC count since somebody answered for the room, where a record says when (findings T230)."""

from __future__ import annotations

from dataclasses import replace
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import pytest
from bmc_fleet import HARDWARE, fleet

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.facility import observe_bmcs, system_event_log
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.facility.observe_bmcs import SeenBmcs
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.spec import JudgeContext, ObserveContext
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.model import Outcome, Status
from ansible_collections.gpufleet.rehearsal.plugins.plugin_utils.model.bmc import Event, bmc_of

from .conftest import TODAY


def days_ago(today: date, number: int | None) -> str:
    return (today - timedelta(days=number)).isoformat() if number is not None else ""


@pytest.mark.parametrize(
    ("issued", "since", "held"),
    [
        (None, None, True),
        # Racked ten days ago, signed five days ago: the entry of the seventh is of cabling.
        (5, None, False),
        (20, None, True),
        # A record of tomorrow hides nothing, and what a site states counts more than any record.
        (-1, None, True),
        (5, 9, True),
    ],
)
def test_events_from_before_the_record_are_history(
    tmp_path: Path, issued: int | None, since: int | None, held: bool
) -> None:
    # The day may change between the collection of the tests and this one.
    today = date.today()
    event = Event(severity="Critical", message="AC lost", days_ago=7)
    bmc = replace(bmc_of(HARDWARE["dgx-h100"], 0), events=(event,))
    with fleet(tmp_path, a=bmc, b=bmc_of(HARDWARE["dgx-h100"], 0)) as hosts:
        context = ObserveContext(site=hosts.site, run_dir=tmp_path, today=today, hardware=HARDWARE)
        seen: SeenBmcs = replace(observe_bmcs.observe(context), record_issued=days_ago(today, issued))
    site = replace(hosts.site, settings={**hosts.site.settings, "system-event-log": {"since": days_ago(today, since)}})
    around = JudgeContext(gate="facility", site=site, today=today, hardware=HARDWARE)
    found: dict[str, Outcome] = {o.subjects[0].name: o for o in system_event_log.judge(seen, around)}
    assert (found["a"].status is not Status.PASSED) is held and found["b"].status is Status.PASSED


def test_the_day_is_read_from_the_record_and_missing_where_it_cannot_be_read(make_room: Any) -> None:
    room = make_room()
    context = ObserveContext(site=room.site, run_dir=room.directory, today=TODAY)
    assert date.fromisoformat(observe_bmcs._record_issued(context)) <= TODAY
    room.record.write_text("no record", encoding="utf-8")
    assert observe_bmcs._record_issued(context) == ""
    room.record.unlink()
    assert observe_bmcs._record_issued(context) == ""
