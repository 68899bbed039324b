# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Events that ended: a rack that was just cabled leaves pairs in every log (DMTF DSP0268, LogEntry EntryCode)."""

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.facility.system_event_log import without_ended
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.probe.redfish_log import LogEntry, parse_entry


def entry(number: int, code: str = "Assert", **more: Any) -> LogEntry:
    body = {
        "Id": str(number), "Created": f"2026-11-20T10:{number:02d}:00+00:00", "EntryCode": code,
        "SensorType": "Power Supply / Converter", "SensorNumber": 37,
        "Severity": "Critical" if code == "Assert" else "OK",
        "Message": f"Power supply input lost (AC/DC) {code}ed", "MessageId": "",
    }  # fmt: skip
    return parse_entry(body | more, "SEL")


def left(*entries: LogEntry) -> list[str]:
    return [kept.id for kept in without_ended(entries)]


def test_what_was_asserted_and_deasserted_has_ended() -> None:
    assert left(entry(1), entry(2, "Deassert")) == []
    assert left(entry(1), entry(2, "Deassert"), entry(3)) == ["3"]
    assert left(entry(1), entry(2), entry(3, "Deassert")) == []


@pytest.mark.parametrize(
    "end",
    [
        entry(2, "Deassert", SensorNumber=38), entry(2, "Deassert", SensorType="Fan"),
        entry(2, "Deassert", Message="Predictive failure Deasserted"), entry(2, "Deassert", MessageId="other"),
        entry(2, "Deassert", Created="1970-01-01T00:00:01+00:00"), entry(2, "Deassert", SensorNumber=None),
    ],
)  # fmt: skip
def test_another_sensor_or_fault_and_what_has_no_time_end_nothing(end: LogEntry) -> None:
    assert left(entry(1), end) == ["1"]
    assert left(entry(3), entry(2, "Deassert")) == ["3"]


def test_an_event_without_a_code_stays() -> None:
    assert left(entry(1, "", Severity="Critical"), entry(2, "Deassert")) == ["1"]
