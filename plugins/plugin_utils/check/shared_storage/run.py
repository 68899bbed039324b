# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The job that measures the shared volume on one host, and how its log is read. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from ...outcome.errors import InputError
from ...probe import fio
from ...probe.fio import FioReport, FioSide
from ...runtime.files import RECIPES
from ...workload.job import DATA_DIR, JobResult, JobSpec
from ..benchmark.plan import BenchmarkHost
from ..benchmark.problem import Problem, launch_problem
from .settings import PATTERNS, StorageSettings

_PROGRAM = RECIPES / "workloads" / "fio"
_MARK = "gpufleet-fio"
_REFUSED, _NO_SPACE = (
    re.compile(rf"^{_MARK} refused (.*)$", re.M),
    re.compile(rf"^{_MARK} free (\d+) needed (\d+)$", re.M),
)
_DIRECT = re.compile(rf"^{_MARK} direct ([01])$", re.M)
_REPORT = re.compile(rf"^{_MARK} begin$(.*)^{_MARK} end (\d+)$", re.M | re.S)
_ERRNO = re.compile(r"\berr=\s*(\d+)")
_SIDES = {"sequential-write": "write", "sequential-read": "read", "random-read": "read", "random-write": "write"}
# Errors of the kernel when the storage itself fails: EIO, EROFS, ENOTCONN, ESTALE, EREMOTEIO.
_STORAGE_FAILS = (5, 30, 107, 116, 121)
_MS = 1e6
_PERCENTILES = {"p50": 50.0, "p99": 99.0, "p99.9": 99.9}

CORRUPT, IO_ERROR = "data-corrupt", "storage-io-error"
HINTS = {
    CORRUPT: "what was read is not what was written: look at adapter, memory and mount options of this host, and at "
    "the storage's own checks of integrity; keep users' data off this mount until it is understood",
    IO_ERROR: "dmesg on the host, the state of the mount, and the storage's own log say why",
    "volume-refused": "let the user that setting `user` states write into `directory`, or state other ones",
    "volume-full": "free space on the shared volume, or lower size_mib",
    "run-hung": "the mount may hang on this host: `timeout 5 ls` on it, dmesg, the network to the storage",
    "fio-missing": "state an image with fio and a shell: image",
    "fio-failed": "the log has fio's own words",
    "output-incomplete": "the log is not whole; run the gate again",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Pattern:
    """What one access pattern reached. `ms` has the latency in milliseconds by percentile (p50, p99, p99.9)."""

    mib_s: float
    iops: float
    ms: Mapping[str, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class StorageReading:
    """What the log of a host contains: figures by pattern, or why there are none. `direct`: with direct I/O."""

    patterns: Mapping[str, Pattern] = field(default_factory=dict)
    version: str = ""
    direct: bool = False
    problem: Problem | None = None


def storage_job(name: str, host: BenchmarkHost, settings: StorageSettings, run_word: str) -> JobSpec:
    """Return the job. `run_word` names its directory and must be unique to the run."""
    script, jobs = ((_PROGRAM / file).read_text(encoding="utf-8") for file in ("storage.sh", "shared-volume.fio"))
    return JobSpec(
        name=name,
        nodes=(host.node,),
        gpus_per_node=0,
        image=settings.image,
        command=("sh", "-c", script, "storage.sh"),
        env={
            "STORAGE_VOLUME": DATA_DIR,
            "STORAGE_DIRECTORY": settings.directory,
            "STORAGE_NODE": host.node,
            "STORAGE_RUN": run_word,
            "STORAGE_NEEDED_KIB": str(settings.needed_kib),
            "STORAGE_JOBS": jobs,
            "FIO_SIZE": f"{settings.size_mib}m",
            "FIO_THREADS": str(settings.threads),
            "FIO_RATE": str(settings.rate_of_a_thread),
            "FIO_RUNTIME": f"{round(settings.seconds * 1000)}ms",
        },
        kind="plain-job",
        timeout_s=settings.timeout_s,
        pull_s=settings.pull_s,
        schedule_s=settings.schedule_s,
        gang="none",
        data=settings.source,
        user=settings.user,
    )


def command_of(spec: JobSpec) -> tuple[str, ...]:
    """Return the command for the record, without the text of the script."""
    configured = (f"{key}={spec.env[key]}" for key in ("FIO_SIZE", "FIO_THREADS", "FIO_RATE", "FIO_RUNTIME"))
    return (spec.command[-1], *configured)


def read_storage(state: str, reason: str, log: str, settings: StorageSettings) -> StorageReading:
    """Return what the log of a job contains. `state` and `reason` are those of its result."""
    launch = launch_problem(state, reason)
    if launch is not None:
        return StorageReading(problem=Problem(*launch))
    if state == "timeout":
        return StorageReading(problem=Problem("run-hung", f"fio did not end: {reason}"[:400]))
    before = _before_fio(log)
    if before is not None:
        return StorageReading(problem=before)
    found = _REPORT.search(log)
    if found is None:
        last = next((line for line in reversed(log.splitlines()) if line.strip()), "it wrote nothing")
        return StorageReading(problem=Problem("output-incomplete", f"no whole report of fio: {last}"[:400]))
    return _of_report(found[1], int(found[2]), bool((direct := _DIRECT.search(log)) and direct[1] == "1"), settings)


def read_result(result: JobResult, settings: StorageSettings) -> StorageReading:
    """Return what the result of a job contains."""
    return read_storage(result.state, result.reason, result.log, settings)


def _before_fio(log: str) -> Problem | None:
    refused = _REFUSED.search(log)
    if refused is not None:
        return Problem("volume-refused", f"the directory on the volume could not be made: {refused[1]}"[:400])
    space = _NO_SPACE.search(log)
    if space is not None and int(space[1]) < int(space[2]):
        return Problem("volume-full", f"{int(space[1]) >> 10} MiB are free on the volume, {int(space[2]) >> 10} needed")
    if re.search(r"\bfio: (?:command )?not found", log):
        return Problem("fio-missing", "the image has no fio")
    return None


def _of_report(text: str, code: int, direct: bool, settings: StorageSettings) -> StorageReading:
    try:
        report = fio.read(text)
    except InputError as error:
        return StorageReading(problem=Problem("fio-failed" if code else "output-incomplete", error.reason[:400]))
    problem = _wrong(report, code, settings)
    if problem is not None:
        return StorageReading(problem=problem, version=report.version, direct=direct)
    sides = {name: side for name in PATTERNS if (side := _side(report, name)) is not None}
    return StorageReading(
        patterns={name: _pattern(side) for name, side in sides.items()}, version=report.version, direct=direct
    )


def _wrong(report: FioReport, code: int, settings: StorageSettings) -> Problem | None:
    """Return why a report has no figures. None: it has all.

    Corrupt data are a defect only if everything had been written before.
    """
    written = _side(report, "sequential-write")
    write = report.job("sequential-write")
    whole = bool(write and written and not write.error and written.io_bytes == settings.written_bytes)
    read = report.job("sequential-read")
    if whole and (report.corrupt or (read is not None and read.error == fio.CORRUPT)):
        reported = report.corrupt or "fio ended with error 84"
        return Problem(CORRUPT, f"data that were written whole were read back otherwise: {reported}"[:400], bad=True)
    if report.errors or code or any(job.error for job in report.jobs):
        numbers = {int(number) for line in report.errors for number in _ERRNO.findall(line)}
        numbers |= {job.error for job in report.jobs if job.error}
        reported = report.errors[0] if report.errors else f"exit code {code}, errors {sorted(numbers)}"
        fails = bool(numbers & set(_STORAGE_FAILS))
        return Problem(IO_ERROR if fails else "fio-failed", reported[:400], bad=fails)
    for name in PATTERNS:
        side = _side(report, name)
        if side is None or not side.total_ios or side.bytes_per_s <= 0:
            return Problem("output-incomplete", f"the report has no {name}, or nothing was done in it")
        if name.startswith("sequential") and side.io_bytes != settings.written_bytes:
            text = f"{name}: {side.io_bytes} bytes, expected {settings.written_bytes}"
            return Problem("output-incomplete", text)
        if any(side.percentiles_ns.get(point, 0.0) <= 0 for point in _PERCENTILES.values()):
            return Problem("output-incomplete", f"{name}: the report has no percentiles of the latency")
    return None


def _side(report: FioReport, name: str) -> FioSide | None:
    job = report.job(name)
    if job is None:
        return None
    return job.write if _SIDES[name] == "write" else job.read


def _pattern(side: FioSide) -> Pattern:
    return Pattern(
        mib_s=side.bytes_per_s / (1 << 20),
        iops=side.iops,
        ms={name: side.percentiles_ns[point] / _MS for name, point in _PERCENTILES.items()},
    )
