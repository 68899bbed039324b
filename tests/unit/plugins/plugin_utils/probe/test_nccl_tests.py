# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""nccl-tests: every fact of the captures, every way of printing it, and nothing that is not whole."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.errors import InputError
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.probe import nccl_tests, nccl_tests_json
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.probe.nccl_tests import NcclTest

G = 1 << 30

# File, rows, largest size, busbw out of place and in place, average, out of bounds, its word.
CAPTURES = [
    ("allreduce-1gpu-mock-out-of-bounds-FAILED.txt", 1, 33554432, 0.0, 0.0, 0.0, 2, False),
    ("allreduce-1gpu-mock-pass-iters-col.txt", 1, 33554432, 0.0, 0.0, 0.0, 0, True),
    ("allreduce-1node-8gpu-old-format-novalidation.log", 34, 8 * G, 235.26, 235.03, 68.4048, 0, True),
    ("allreduce-2node-h100-oci-roce.txt", 5, 16 * G, 471.22, 470.75, 464.075, 0, True),
    ("allreduce-2node-nd96-ipoib-SLOW.txt", 16, 8 * G, 3.15, 3.09, 1.38997, 0, True),
    ("allreduce-2node-nd96-sriov-ib-wrong-NA.txt", 16, 8 * G, 187.22, 187.05, 56.3994, 0, True),
    ("allreduce-2node-p4de-efa-srun-labelled.txt", 29, 2 * G, 78.33, 78.33, None, None, None),
    ("allreduce-2node-p5-efa-mpi-tagged-elided.txt", 7, 2 * G, 437.79, 437.89, 52.9753, 0, True),
    ("allreduce-2node-roce-old-format-error-col.txt", 29, 2 * G, 22.92, 22.85, 7.76739, 0, True),
    ("allreduce-gb200-20racks-1440gpu.txt", 6, 16 * G, 405.74, 404.77, 297.808, 0, True),
    ("allreduce-gb200-nvl72-1rack.txt", 5, 8 * G, 834.57, 846.82, 745.53, 0, True),
    ("alltoall-1node-8gpu-old-format.log", 34, 8 * G, 224.31, 226.16, 58.6481, 0, True),
]


def read(shared: Path, name: str) -> NcclTest:
    return nccl_tests.parse((shared / "captures/nccl-tests" / name).read_text())


@pytest.mark.parametrize(("name", "rows", "size", "out", "within", "average", "bounds", "okay"), CAPTURES)
def test_captures(
    shared: Path, name: str, rows: int, size: int, out: float, within: float, average: float | None,
    bounds: int | None, okay: bool | None,
) -> None:  # fmt: skip
    run = read(shared, name)
    top = run.largest
    assert top.out_of_place is not None
    assert top.in_place is not None
    assert (len(run.rows), top.size) == (rows, size)
    assert (top.out_of_place.busbw_gbps, top.in_place.busbw_gbps) == (out, within)
    assert (run.average_gbps, run.out_of_bounds, run.out_of_bounds_ok) == (average, bounds, okay)


def test_every_capture_is_listed(shared: Path) -> None:
    assert {path.name for path in (shared / "captures/nccl-tests").iterdir()} == {entry[0] for entry in CAPTURES}


def test_wrong_values(shared: Path) -> None:
    run = read(shared, "allreduce-1gpu-mock-out-of-bounds-FAILED.txt")
    assert (run.wrong, run.correct, run.concluded, run.complete) == (2, False, True, False)
    assert run.failures == ("Test failure common.cu:1127",)
    assert run.rank_count == 1
    assert run.ranks[0].bus == "0000:1b:00"


def test_not_validated_is_not_correct(shared: Path) -> None:
    for name in (
        "allreduce-2node-nd96-sriov-ib-wrong-NA.txt",
        "allreduce-1node-8gpu-old-format-novalidation.log",
        "alltoall-1node-8gpu-old-format.log",
    ):
        run = read(shared, name)
        assert (run.validated, run.correct, run.out_of_bounds_ok) == (False, False, True)
    assert read(shared, "allreduce-1node-8gpu-old-format-novalidation.log").validation is False


def test_old_error_column_is_no_count(shared: Path) -> None:
    run = read(shared, "allreduce-2node-roce-old-format-error-col.txt")
    first = run.rows[0].out_of_place
    assert first is not None
    assert (first.wrong, first.error) == (None, 2e-07)
    assert run.correct


def test_devices_and_versions(shared: Path) -> None:
    oci = read(shared, "allreduce-2node-h100-oci-roce.txt")
    assert (oci.rank_count, len({line.host for line in oci.ranks}), oci.nccl_version) == (16, 2, "2.23.4+cuda12.6")
    assert oci.ranks[0].bus == "0x0f"
    racks = read(shared, "allreduce-gb200-20racks-1440gpu.txt")
    assert (racks.ranks[0].rank, racks.rank_count, racks.ranks[0].product) == (1439, None, "NVIDIA GB200")
    assert read(shared, "allreduce-gb200-nvl72-1rack.txt").ranks[0].product == "NVIDIA Graphics Device"
    old = read(shared, "allreduce-1node-8gpu-old-format-novalidation.log")
    assert (old.rank_count, old.min_bytes, old.max_bytes) == (8, 1, 8 * G)


def test_blank_operation(shared: Path) -> None:
    row = read(shared, "alltoall-1node-8gpu-old-format.log").largest
    assert (row.redop, row.type, row.count) == ("", "float", 268435456)


def test_incomplete_runs(shared: Path) -> None:
    assert not read(shared, "allreduce-2node-p4de-efa-srun-labelled.txt").complete
    elided = read(shared, "allreduce-2node-p5-efa-mpi-tagged-elided.txt")
    assert elided.complete
    assert elided.missing_sizes(8, 2 * G)[0] == 8
    assert not read(shared, "allreduce-2node-p4de-efa-srun-labelled.txt").missing_sizes(8, 2 * G)


HEAD = (
    "# nThread 1 nGpus 1 minBytes 8 maxBytes 16 step: 2(factor) warmup iters: 1 iters: 20 agg iters: 1 validation: 1\n"
    "#   size     count      type   redop    root     time   algbw   busbw  #wrong     time   algbw   busbw  #wrong\n"
)
ROW = (
    "    {size}    {count}    float     sum      -1    25.66  1307.8    {bw}       0     0.11  291905    {bw}      0\n"
)
FOOT = "# Out of bounds values : 0 OK\n# Avg bus bandwidth    : 9.5 \n#\n# Collective test concluded: all_reduce_perf\n"


def table(*bandwidths: float) -> str:
    return HEAD + "".join(ROW.format(size=8 << n, count=2 << n, bw=bw) for n, bw in enumerate(bandwidths)) + FOOT


def test_per_iteration_and_time_stamp_columns() -> None:
    text = (
        "#  size  count  type  redop  root  time  algbw  busbw  #wrong  min  max  p50  p99  time  algbw  busbw  #wrong "
        " min  max  p50  p99  timestamp\n"
        "  8  2  float  sum  -1  1.2e+06 0.1 0.2 0 1 2 1.5 2  9.5 0.3 0.4 0 1 2 1.5 2  2026-01-31 10:00:00\n"
    )
    row = nccl_tests.parse(text + FOOT).rows[0]
    assert row.out_of_place is not None
    assert row.in_place is not None
    assert (row.out_of_place.time_us, row.out_of_place.busbw_gbps, row.in_place.busbw_gbps) == (1.2e06, 0.2, 0.4)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "no table"),
        ("mpirun: command not found\n", "no table"),
        (HEAD, "a table without rows"),
        (HEAD + ROW.format(size=8, count=2, bw=1).rstrip()[:-20] + "\n", "columns"),
        (ROW.format(size=8, count=2, bw=1), "header"),
        (table(1.0) + table(1.0), "second table"),
        (table(1.0).replace("25.66", "-nan"), "time"),
        (table(1.0).replace("25.66", "nan"), "time"),
        (HEAD + "  8  2  float  sum  -1gpu01:12:12 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[1] via P2P/IPC\n", "mixed"),
    ],
)
def test_what_is_not_whole_is_refused(text: str, words: str) -> None:
    with pytest.raises(InputError, match=r"(?s).*") as error:
        nccl_tests.parse(text)
    assert words in str(error.value)


def test_failures_are_the_evidence_of_a_run_without_rows() -> None:
    text = HEAD + " .. gpu01 pid 7: Test NCCL failure common.cu:1023 'unhandled system error / '\n"
    with pytest.raises(InputError) as error:
        nccl_tests.parse(text)
    assert "Test NCCL failure common.cu:1023" in error.value.evidence[0]


@settings(max_examples=60, deadline=None)
@given(st.lists(st.floats(0.01, 900).map(lambda x: round(x, 2)), min_size=1, max_size=6), st.data())
def test_labels_and_foreign_lines_change_nothing(bandwidths: list[float], data: st.DataObject) -> None:
    plain = table(*bandwidths)
    label = data.draw(st.sampled_from(["0: ", "[1,0]<stdout>:", "   [1,0]<stdout>: "]))
    noise = ["gpu02:7:9 [3] NCCL INFO Channel 00/0 : 1[1] -> 8[0] [send] via NET/IB/1/GDRDMA", "", "MACHINEFILE"]
    lines = []
    for line in plain.splitlines():
        lines += [label + line, *data.draw(st.lists(st.sampled_from(noise), max_size=2))]
    assert nccl_tests.parse("\n".join(lines)) == nccl_tests.parse(plain)


@settings(max_examples=60, deadline=None)
@given(st.integers(0, len(table(1.0, 2.0, 3.0)) - 1))
def test_a_cut_log_is_never_complete(length: int) -> None:
    text = table(1.0, 2.0, 3.0)
    if "Avg bus bandwidth    : 9.5" in text[:length]:
        return
    try:
        run = nccl_tests.parse(text[:length])
    except InputError:
        return
    assert not run.complete or "Avg bus bandwidth    : 9" in text[:length]


def document() -> dict[str, object]:
    half = {"time": 10.5, "alg_bw": 100.0, "bus_bw": 187.5, "nwrong": 0}
    return {
        "version": "2.17.6",
        "start_time": "2026-01-31T10:00:00",
        "end_time": "2026-01-31T10:01:00",
        "args": ["/opt/bin/all_reduce_perf", "-b", "8"],
        "env": ["AWS_SECRET_ACCESS_KEY=geheim", "PATH=/bin"],
        "nccl_version": 22809,
        "config": {"minimum_bytes": 8, "maximum_bytes": 16},
        "devices": [{"rank": 0, "hostname": "a", "device": 0, "device_hex": "0x1b", "device_info": "NVIDIA H100"}],
        "results": [
            {"size": 8, "count": 2, "type": "float", "redop": "sum", "root": "   -1", "out_of_place": half,
             "in_place": None, "out_of_place_per_iter": {"per_process_max_times_us": [[1.0, 2.0], [1.5, 9.0]]}},
        ],
        "out_of_bounds": {"count": 0, "okay": "true"},
        "average_bus_bandwidth": {"bandwidth": 187.5, "okay": "true"},
    }  # fmt: skip


def test_json() -> None:
    run = nccl_tests_json.parse(json.dumps(document()))
    row = run.rows[0]
    assert (run.nccl_version, run.collective, run.complete, run.correct) == ("2.28.9", "all_reduce_perf", True, True)
    assert (row.root, row.in_place, row.busbw_gbps) == (-1, None, 187.5)
    assert row.out_of_place is not None
    assert row.out_of_place.per_process_us == ((1.0, 2.0), (1.5, 9.0))


def test_json_environment_is_never_kept() -> None:
    text = json.dumps(document())
    assert "geheim" not in repr(nccl_tests_json.parse(text))
    kept = nccl_tests_json.without_environment(text)
    assert "geheim" not in kept
    assert nccl_tests_json.parse(kept) == nccl_tests_json.parse(text)


@pytest.mark.parametrize(
    "change",
    [
        {"results": []},
        {"results": None},
        {"results": [{"size": 8, "count": 2, "out_of_place": None, "in_place": None}]},
        {"results": [{"size": 8, "count": 2, "out_of_place": {"time": "nan", "alg_bw": 1, "bus_bw": 1, "nwrong": 0}}]},
        {"average_bus_bandwidth": {"bandwidth": "nan", "okay": "false"}},
        {"out_of_bounds": {"count": 0, "okay": "perhaps"}},
        {"config": []},
    ],
)
def test_json_that_is_not_whole_is_refused(change: dict[str, object]) -> None:
    with pytest.raises(InputError):
        nccl_tests_json.parse(json.dumps({**document(), **change}))


def test_json_booleans_are_text() -> None:
    run = nccl_tests_json.parse(json.dumps({**document(), "out_of_bounds": {"count": 0, "okay": "false"}}))
    assert run.out_of_bounds_ok is False
    assert not run.correct


@pytest.mark.parametrize("text", ["", "[]", "null", "{", '"x"', "[" * 100_000])
def test_no_json(text: str) -> None:
    with pytest.raises(InputError):
        nccl_tests_json.parse(text)


WHOLE = """# nThread 1 nGpus 1 minBytes 8 maxBytes 8 step: 2(factor) warmup iters: 5 iters: 20 validation: 1
#  Rank  0 Group  0 Pid     42 on      gpu01 device  0 [0x1b] NVIDIA H100
#  Rank  1 Group  1 Pid     43 on      gpu01 device  1 [0x3a] NVIDIA H100
#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw #wrong
           8             2     float     sum      -1    10.0   1.00    2.00      0    10.0   1.00    2.00      0
# Out of bounds values : 0 OK
# Avg bus bandwidth    : 2
"""


@pytest.mark.parametrize("label", ["{}", "[0] {}", "0: {}", "[0]: {}", "[1,0]<stdout>:{}"])
def test_labels_of_every_launcher_are_taken_off(label: str) -> None:
    run = nccl_tests.parse("".join(label.format(line) for line in WHOLE.splitlines(keepends=True)))
    assert (run.rank_count, run.largest.busbw_gbps, run.out_of_bounds_ok) == (2, 2.0, True)
    assert [rank.group for rank in run.ranks] == [0, 1]


def test_ranks_without_their_mark_are_ranks() -> None:
    assert nccl_tests.parse(WHOLE.replace("#  Rank", "   Rank")).rank_count == 2


@pytest.mark.parametrize("column", ["algbw", "busbw", "time", "size", "count"])
def test_a_damaged_header_is_refused_and_nothing_worse(column: str) -> None:
    with pytest.raises(InputError):
        nccl_tests.parse(WHOLE.replace(f" {column}", f" {column[:2]}?", 1))
