# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Reports of fio with several jobs, percentiles and messages, and everything that is no report."""

from __future__ import annotations

import json

import pytest
from seeds import drawing
from storage_fleet import sample

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.errors import InputError
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.probe import fio

REPORT = sample().partition("gpufleet-fio begin\n")[2].partition("gpufleet-fio end")[0]


def test_all_jobs_of_a_run_with_their_percentiles() -> None:
    report = fio.parse(REPORT)
    names = [job.name for job in report.jobs]
    assert names == ["sequential-write", "sequential-read", "random-read", "random-write"]
    write = report.jobs[0].write
    assert write.io_bytes == 2 << 20 and list(write.percentiles_ns) == [50.0, 99.0, 99.9]
    assert report.jobs[0].read.total_ios == 0 and report.jobs[0].read.percentiles_ns == {}


def test_two_jobs_of_one_name_are_none() -> None:
    report = fio.read(REPORT.replace("random-write", "random-read"))
    assert report.job("random-read") is None and report.job("sequential-read") is not None


@pytest.mark.parametrize(
    ("line", "corrupt"),
    [
        ("crc32c: verify failed at file /data/x offset 0, length 4096 (requested block: offset=0, length=4096)", True),
        ("verify: bad magic header 0, wanted acca at file /data/x offset 0, length 4096", True),
        ("fio: pid=0, err=28/file:filesetup.c:240, func=write, error=No space left on device", False),
        ("fio: io_u error on file /data/x: Input/output error: write offset=0, buflen=4096", False),
    ],
)
def test_messages_of_errors_are_kept_and_no_result(line: str, corrupt: bool) -> None:
    for text in (f"{line}\n{REPORT}", f"{REPORT}\n{line}"):
        report = fio.read(text)
        assert report.errors == (line,) and bool(report.corrupt) is corrupt
        with pytest.raises(InputError, match="a run without errors"):
            fio.parse(text)


def test_other_lines_beside_the_report_do_not_matter() -> None:
    assert fio.parse(f"fio: this platform does not support process shared mutexes\n{REPORT}") == fio.parse(REPORT)


def test_without_latencies_there_are_no_percentiles_and_no_result() -> None:
    """What `gtod_reduce=1` leaves: no clat_ns at all."""
    document = json.loads(REPORT)
    for job in document["jobs"]:
        for side in ("read", "write"):
            job[side].pop("clat_ns")
    with pytest.raises(InputError, match="clat_ns"):
        fio.parse(json.dumps(document))


@pytest.mark.parametrize("value", ["-1", "1e400", "1" + "0" * 400, "null", '"12"', "true", "NaN", "[]"])
@pytest.mark.parametrize("name", ["bw_bytes", "iops", "total_ios", "io_bytes"])
def test_a_figure_that_is_none_is_refused(name: str, value: str) -> None:
    at = REPORT.index(f'"{name}" : ')
    end = REPORT.index("\n", at)
    with pytest.raises(InputError):
        fio.parse(f'{REPORT[:at]}"{name}" : {value},{REPORT[end:]}')


def test_whatever_is_changed_in_a_report_is_read_or_refused() -> None:
    draw = drawing("fio-bytes")
    for _try in range(400):
        at, count = draw.randrange(len(REPORT)), draw.choice((1, 1, 3, 50, 2000))
        put = draw.choice(("", "{", "}", "0", "-", '"', ",", "\x00", "9" * 500, "[[[["))
        try:
            fio.read(REPORT[:at] + put + REPORT[at + count :])
        except InputError:
            continue
