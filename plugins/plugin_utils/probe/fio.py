# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Parser of `fio --output-format=json`: bandwidth, operations and latency of every job, and the errors that it had.

Lines around the document are fio's own messages: errors of the kernel, and blocks that are not as they were written
(log_verify_failure of its verify.c). `read` keeps them, for `parse` they are no result.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from .json_output import a_list, amount, an_object, read_json, words
from .text import plain, unreadable

TOOL = "fio"
# EILSEQ: what a job ends with that has read other data than were written.
CORRUPT = 84
_ERROR = re.compile(r"fio: pid=\d{1,10}, err=\d{1,6}|fio: io_u error|verify failed at|verify: bad |\berror=", re.I)
_CORRUPT = re.compile(r"verify failed at|verify: bad |\berr=84\b", re.I)
_PERCENTILE = re.compile(r"\d{1,3}\.\d{1,6}")
_KIB = 1024


@dataclass(frozen=True, slots=True)
class FioSide:
    """Reads or writes of a job: bytes and operations a second, mean completion latency in ns; 0 without any.

    `percentiles_ns` are those of the completion latency (of the whole latency where fio was asked for that).
    """

    bytes_per_s: float
    iops: float
    latency_ns: float
    total_ios: int
    io_bytes: int = 0
    percentiles_ns: Mapping[float, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class FioJob:
    """One job; `error` is the number that the kernel gave it, 0 for none."""

    name: str
    error: int
    read: FioSide
    write: FioSide


@dataclass(frozen=True, slots=True)
class FioReport:
    """All jobs of a run, the version of fio, and its messages of errors.

    `corrupt` is the first of them that says that data were read which had not been written.
    """

    version: str
    jobs: tuple[FioJob, ...]
    errors: tuple[str, ...] = ()
    corrupt: str = ""

    def job(self, name: str) -> FioJob | None:
        """Return the job of that name, None unless there is exactly one."""
        found = [job for job in self.jobs if job.name == name]
        return found[0] if len(found) == 1 else None


def parse(text: str) -> FioReport:
    """Return the report of a run without errors.

    Raises:
        InputError: no JSON, no job, a missing figure, or a message of an error beside the document.
    """
    start, end = _bounds(text)
    if errors := _errors(text, start, end):
        raise unreadable(TOOL, errors[0], "a run without errors")
    return read(text)


def read(text: str) -> FioReport:
    """Return the report with the errors that are told beside it.

    Raises:
        InputError: no JSON, no job, or a missing figure.
    """
    start, end = _bounds(text)
    errors = _errors(text, start, end)
    root = an_object(read_json(text[start : end + 1], TOOL), TOOL, "the document")
    jobs = tuple(_job(entry) for entry in a_list(root.get("jobs"), TOOL, "jobs"))
    if not jobs:
        raise unreadable(TOOL, "no job", "at least one job")
    corrupt = next((line for line in errors if _CORRUPT.search(line)), "")
    return FioReport(words(root, "fio version", TOOL), jobs, errors, corrupt)


def _bounds(text: str) -> tuple[int, int]:
    start = text.find("{")
    return (start, text.rfind("}")) if start >= 0 else (len(text), len(text) - 1)


def _errors(text: str, start: int, end: int) -> tuple[str, ...]:
    around = plain(f"{text[:start]}\n{text[end + 1 :]}")
    return tuple(line.strip() for line in around.splitlines() if _ERROR.search(line))


def _job(value: Any) -> FioJob:
    job = an_object(value, TOOL, "a job")
    sides = [_side(an_object(job.get(name), TOOL, name)) for name in ("read", "write")]
    return FioJob(words(job, "jobname", TOOL), int(amount(job, "error", TOOL)), *sides)


def _side(side: dict[str, Any]) -> FioSide:
    # Versions before 3 give latencies in microseconds, as `clat`; they are not read.
    latency = an_object(side.get("clat_ns"), TOOL, "clat_ns")
    rate = _figure(side, "bw_bytes") if "bw_bytes" in side else _figure(side, "bw") * _KIB
    found = _percentiles(latency) or _percentiles(an_object(side.get("lat_ns", {}), TOOL, "lat_ns"))
    written = int(_figure(side, "io_bytes")) if "io_bytes" in side else 0
    return FioSide(
        rate, _figure(side, "iops"), _figure(latency, "mean"), int(_figure(side, "total_ios")), written, found
    )


def _figure(entry: dict[str, Any], name: str) -> float:
    found = amount(entry, name, TOOL)
    if found < 0:
        raise unreadable(TOOL, f"{name} is {found:g}", f"no negative number for {name}")
    return found


def _percentiles(latency: dict[str, Any]) -> dict[float, float]:
    configured = latency.get("percentile")
    if configured is None:
        return {}
    table = an_object(configured, TOOL, "percentile")
    wrong = next((name for name in table if not _PERCENTILE.fullmatch(name)), None)
    if wrong is not None:
        raise unreadable(TOOL, f"percentile {wrong!r}", "percentiles such as 99.000000")
    return {float(name): _figure(table, name) for name in table}
