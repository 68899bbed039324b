# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a log of the shared volume's test says: figures of a whole report, and nothing of any other."""

from __future__ import annotations

import re

import pytest
from seeds import drawing
from storage_fleet import sample

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.benchmark.plan import BenchmarkHost
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.kit.settings_layers import checked_settings
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.shared_storage.run import (
    StorageReading,
    command_of,
    read_storage,
    storage_job,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.shared_storage.settings import (
    KEY,
    PATTERNS,
    StorageSettings,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.errors import ProblemsError
from ansible_collections.gpufleet.rehearsal.plugins.plugin_utils.substitution.replacements import (
    storage_settings,
)

SETTINGS = checked_settings(StorageSettings, KEY, storage_settings(4))
CORRUPT = (
    "crc32c: verify failed at file /data/x/data.1 offset 1048576, length 1048576 (requested block: offset=1048576, "
    "length=1048576, flags=8)\n       Expected CRC: de92a56d\n       Received CRC: f45bee57\n"
    "fio: pid=7896, err=84/file:io_u.c:2152, func=io_u_sync_complete, error=Invalid or incomplete multibyte or wide\n"
)
NO_SPACE = "fio: pid=0, err=28/file:filesetup.c:240, func=write, error=No space left on device\n"
IO_ERROR = (
    "fio: io_u error on file /data/x/data.0: Input/output error: write offset=0, buflen=1048576\n"
    "fio: pid=11, err=5/file:io_u.c:1845, func=io_u error, error=Input/output error\n"
)


def read(log: str, state: str = "succeeded") -> StorageReading:
    return read_storage(state, "as it is", log, SETTINGS)


def told(said: str, code: int = 1) -> str:
    log = sample().replace("gpufleet-fio begin\n", f"gpufleet-fio begin\n{said}")
    return log.replace("gpufleet-fio end 0", f"gpufleet-fio end {code}")


def test_a_whole_report_has_rates_and_percentiles_of_every_pattern() -> None:
    found = read(sample())
    assert found.problem is None and found.version == "fio-3.33" and found.direct
    assert set(found.patterns) == set(PATTERNS)
    for item in found.patterns.values():
        assert item.mib_s > 0 and item.iops > 0
        assert 0 < item.ms["p50"] <= item.ms["p99"] <= item.ms["p99.9"]


@pytest.mark.parametrize(
    ("log", "cause", "bad"),
    [
        (told(CORRUPT), "data-corrupt", True),
        # Also where the exit code was lost.
        (told(CORRUPT, 0), "data-corrupt", True),
        (told("verify: bad magic header 0, wanted acca at file /data/x/data.0 offset 0, length 1048576\n"),
         "data-corrupt", True),
        (told(IO_ERROR), "storage-io-error", True),
        (told(NO_SPACE), "fio-failed", False),
        (told("", 1), "fio-failed", False),
        ("gpufleet-fio refused mkdir: can't create directory '/data/x': Permission denied\n", "volume-refused", False),
        ("gpufleet-fio free 100 needed 4505\n", "volume-full", False),
        ("storage.sh: 51: exec: fio: not found\n", "fio-missing", False),
        ("sh: exec: line 51: fio: not found\n", "fio-missing", False),
        ("", "output-incomplete", False),
        ("gpufleet-fio begin\n{}\n", "output-incomplete", False),
        ("gpufleet-fio begin\n\ngpufleet-fio end 127\n", "fio-failed", False),
        (sample()[: len(sample()) // 2], "output-incomplete", False),
        (sample().replace('"random-write"', '"random"'), "output-incomplete", False),
        (sample().replace('"sequential-read"', '"sequential-write"'), "output-incomplete", False),
        (re.sub(r'"total_ios" : \d+', '"total_ios" : 0', sample()), "output-incomplete", False),
        (re.sub(r'"io_bytes" : 2097152', '"io_bytes" : 1048576', sample()), "output-incomplete", False),
        (sample().replace('"99.900000"', '"99.800000"'), "output-incomplete", False),
        (sample().replace('"error" : 0', '"error" : 5', 1), "storage-io-error", True),
    ],
)  # fmt: skip
def test_anything_else_has_no_figures(log: str, cause: str, bad: bool) -> None:
    found = read(log)
    assert found.problem is not None and (found.problem.cause, found.problem.bad) == (cause, bad)
    assert not found.patterns


def test_what_was_not_written_whole_is_not_called_corrupt() -> None:
    cut = re.sub(r'"io_bytes" : 2097152', '"io_bytes" : 1048576', told(NO_SPACE + CORRUPT))
    found = read(cut)
    assert found.problem is not None and (found.problem.cause, found.problem.bad) == ("fio-failed", False)
    failed = told(NO_SPACE + CORRUPT).replace('"error" : 0', '"error" : 28', 1)
    found = read(failed)
    assert found.problem is not None and not found.problem.bad


def test_no_piece_of_a_log_that_is_missing_makes_figures_that_were_not_there() -> None:
    """Lines are taken out at random: what is left has all figures as they were, or none."""
    lines, whole, draw = sample().split("\n"), read(sample()), drawing("fio-lines")
    for _try in range(300):
        at = draw.randrange(len(lines))
        count = draw.choice((1, 1, 2, 5, 40))
        found = read("\n".join(lines[:at] + lines[at + count :]))
        if found.problem is None:
            # Rates are told twice, in bytes and in KiB.
            for name, item in whole.patterns.items():
                assert found.patterns[name].mib_s == pytest.approx(item.mib_s, rel=1e-3)
                assert (found.patterns[name].iops, found.patterns[name].ms) == (item.iops, item.ms)


def test_the_job_writes_below_a_directory_that_is_its_own() -> None:
    host = BenchmarkHost(name="gpu01", node="n-gpu01", sku="dgx-h100")
    first, second = (storage_job(f"fio-{n}", host, SETTINGS, word) for n, word in ((1, "aa"), (2, "bb")))
    assert first.env["STORAGE_RUN"] != second.env["STORAGE_RUN"] and first.env["STORAGE_NODE"] == "n-gpu01"
    assert (
        first.data == SETTINGS.volume and first.gpus_per_node == 0 and "gtod_reduce=" not in first.env["STORAGE_JOBS"]
    )
    assert all(len(word) < 40 for word in command_of(first))


@pytest.mark.parametrize("directory", ["/etc", "../x", "a/../b", "a b", "", "$(id)", ".hidden"])
def test_a_directory_that_leaves_the_volume_is_refused(directory: str) -> None:
    with pytest.raises(ProblemsError, match="no plain path"):
        checked_settings(StorageSettings, KEY, {"directory": directory})


def test_volume_and_claim_exclude_each_other_and_a_claim_is_a_volume_of_the_pod() -> None:
    claim = {"storageClassName": "shared", "accessModes": ["ReadWriteMany"]}
    with pytest.raises(ProblemsError, match="both volume and claim"):
        checked_settings(StorageSettings, KEY, {"volume": {"nfs": {}}, "claim": claim})
    found = checked_settings(StorageSettings, KEY, {"claim": claim})
    assert found.declared and found.source == {"ephemeral": {"volumeClaimTemplate": {"spec": claim}}}
    assert not checked_settings(StorageSettings, KEY, {}).declared
