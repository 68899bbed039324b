# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Parser of nvbandwidth, as text (0.6) or JSON (`-j`): copies between GPUs and host, and between GPUs."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Literal

from .json_output import a_list, amount, an_object, read_json, words
from .text import plain, unreadable

TOOL = "nvbandwidth"
Status = Literal["passed", "waived", "failed"]
_VERSION = re.compile(r"nvbandwidth Version: (\S{1,40})")
_DRIVER = re.compile(r"Driver Version: (\S{1,40})")
_RUNNING = re.compile(r"Running (\w{1,80})\.")
_SUM = re.compile(r"SUM (\w{1,80}) (\d{1,9}(?:\.\d{1,9})?)")
_UNIT = re.compile(r"\((GB/s|ns)\)")
_STATUS: dict[str, Status] = {"Passed": "passed", "Waived": "waived", "Error": "failed", "Not Found": "failed"}
_ROOT = "nvbandwidth"


@dataclass(frozen=True, slots=True)
class BandwidthTest:
    """One test. `total` is the sum over all pairs, in `unit` (GB/s, or ns of a test of latency); None where it was
    waived, for hosts without what it measures, or failed."""

    name: str
    status: Status
    total: float | None = None
    unit: str = "GB/s"


@dataclass(frozen=True, slots=True)
class BandwidthReport:
    """All tests of a run; of text, waived tests have no name and are only counted."""

    version: str
    driver: str
    tests: tuple[BandwidthTest, ...]
    waived: int = 0


def parse(text: str) -> BandwidthReport:
    """Return the report.

    Raises:
        InputError: neither form, no test, a test twice, or one without its sum.
    """
    start = text.find("{")
    json_form = start >= 0 and _ROOT in text[start : start + 200]
    report = _from_json(text[start:]) if json_form else _from_text(text)
    if not report.tests:
        raise unreadable(TOOL, text[:80], "at least one test")
    if len({test.name for test in report.tests}) < len(report.tests):
        raise unreadable(TOOL, "a test twice", "every test once")
    return report


def _from_json(text: str) -> BandwidthReport:
    body = an_object(an_object(read_json(text, TOOL), TOOL, "the document").get(_ROOT), TOOL, _ROOT)
    if error := words(body, "error", TOOL):
        raise unreadable(TOOL, error, "a run without an error")
    tests = tuple(_test(entry) for entry in a_list(body.get("testcases"), TOOL, "testcases"))
    waived = sum(test.status == "waived" for test in tests)
    return BandwidthReport(words(body, "git_version", TOOL), words(body, "Driver Version", TOOL), tests, waived)


def _test(value: Any) -> BandwidthTest:
    entry = an_object(value, TOOL, "a test")
    name, status = words(entry, "name", TOOL), _STATUS.get(words(entry, "status", TOOL))
    if not name or status is None:
        raise unreadable(TOOL, f"test {name!r} with status {entry.get('status')!r}"[:120], ", ".join(_STATUS))
    unit = _UNIT.search(words(entry, "bandwidth_description", TOOL))
    total = amount(entry, "sum", TOOL) if status == "passed" else None
    return BandwidthTest(name, status, total, unit.group(1) if unit else "GB/s")


def _from_text(text: str) -> BandwidthReport:
    lines = plain(text).splitlines()
    versions = [match.group(1) for line in lines if (match := _VERSION.fullmatch(line.strip()))]
    drivers = [match.group(1) for line in lines if (match := _DRIVER.fullmatch(line.strip()))]
    if not versions:
        raise unreadable(TOOL, text[:80], "`nvbandwidth Version:` or JSON")
    running, unit, waived = "", "GB/s", 0
    tests: list[BandwidthTest] = []
    for line in (line.strip() for line in lines):
        if begun := _RUNNING.fullmatch(line):
            if running:
                raise unreadable(TOOL, f"{running} without a sum", "`SUM` of every test that ran")
            running, unit = begun.group(1), "GB/s"
        elif running and (said := _UNIT.search(line)):
            unit = said.group(1)
        elif done := _SUM.fullmatch(line):
            if done.group(1) != running:
                raise unreadable(TOOL, line, f"the sum of {running or 'a test'}")
            tests.append(BandwidthTest(running, "passed", float(done.group(2)), unit))
            running = ""
        elif line.startswith("Waived:"):
            waived += 1
            running = ""
    if running:
        raise unreadable(TOOL, f"{running} without a sum", "`SUM` of every test that ran")
    return BandwidthReport(versions[0], drivers[0] if drivers else "", tuple(tests), waived)
