# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Parser of `fio --output-format=json`: bandwidth, operations and latency of every job, and the errors that it had.

Lines before the document are fio's own messages; errors and failed verifications among them fail the reading.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from .json_output import a_list, amount, an_object, read_json, words
from .text import plain, unreadable

TOOL = "fio"
_ERROR = re.compile(r"fio: pid=\d{1,10}, err=\d{1,6}|verify failed at|\berror=", re.I)
_KIB = 1024


@dataclass(frozen=True, slots=True)
class FioSide:
    """Reads or writes of a job: bytes and operations a second, mean completion latency in ns; 0 without any."""

    bytes_per_s: float
    iops: float
    latency_ns: float
    total_ios: int


@dataclass(frozen=True, slots=True)
class FioJob:
    """One job; `error` is the number that the kernel gave it, 0 for none."""

    name: str
    error: int
    read: FioSide
    write: FioSide


@dataclass(frozen=True, slots=True)
class FioReport:
    """All jobs of a run, and the version of fio."""

    version: str
    jobs: tuple[FioJob, ...]


def parse(text: str) -> FioReport:
    """Return the report.

    Raises:
        InputError: no JSON, no job, a missing figure, or a message of an error beside the document.
    """
    start, end = text.find("{"), text.rfind("}")
    around = plain(text[:start] + text[end + 1 :]) if start >= 0 else plain(text)
    if wrong := _ERROR.search(around):
        line = next((line for line in around.splitlines() if wrong.group(0) in line), wrong.group(0))
        raise unreadable(TOOL, line, "a run without errors")
    root = an_object(read_json(text[start : end + 1], TOOL), TOOL, "the document")
    jobs = tuple(_job(entry) for entry in a_list(root.get("jobs"), TOOL, "jobs"))
    if not jobs:
        raise unreadable(TOOL, "no job", "at least one job")
    return FioReport(words(root, "fio version", TOOL), jobs)


def _job(value: Any) -> FioJob:
    job = an_object(value, TOOL, "a job")
    read, write = (_side(an_object(job.get(name), TOOL, name)) for name in ("read", "write"))
    return FioJob(words(job, "jobname", TOOL), int(amount(job, "error", TOOL)), read, write)


def _side(side: dict[str, Any]) -> FioSide:
    # Versions before 3 give latencies in microseconds, as `clat`; they are not read.
    latency = an_object(side.get("clat_ns"), TOOL, "clat_ns")
    rate = amount(side, "bw_bytes", TOOL) if "bw_bytes" in side else amount(side, "bw", TOOL) * _KIB
    return FioSide(
        rate, amount(side, "iops", TOOL), amount(latency, "mean", TOOL), int(amount(side, "total_ios", TOOL))
    )
