# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The parser of the training program's lines: whole ranks between foreign lines, and never a guess."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.errors import InputError
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.probe.training_log import parse, torchrun_failures

START = {
    "event": "start", "rank": 3, "world": 8, "device": "cuda", "device_name": "NVIDIA H100 80GB HBM3",
    "uuid": "GPU-1", "backend": "nccl", "torch": "2.8.0", "joined": 1.5, "dtype": "bfloat16", "batch": 8,
    "accumulate": 1, "sequence": 2048, "layers": 8, "hidden": 4096, "vocabulary": 8192, "parameters": 5,
    "matmul_parameters": 4, "ready": 1.4, "power_limit_w": 700.0, "clock_max_mhz": 1980,
}  # fmt: skip
HELLO = {"event": "hello", "rank": 3, "local_rank": 3, "host": "train-1-1-0", "started": 1.25}
END = {
    "event": "end", "rank": 3, "steps": 2, "load_s": 0.8, "digests": 0, "windows": 0, "states": 0, "weights": "00ab",
    "memory_mib": 9,
}  # fmt: skip
PHASE = {"event": "pod", "phase": "started", "index": 0, "at": 1.0}
DIGEST = {"event": "digest", "rank": 3, "number": 1, "step": 0, "gemm": "a1", "attention": "b2", "wrong_rows": 0}
WINDOW = {
    "event": "window", "rank": 3, "number": 1, "first": 2, "count": 20, "loss": 0.5, "not_finite_from": 0,
    "step_time_s": 0.4, "step_time_sd_s": 0.01, "step_time_max_s": 0.5, "compute_s": 0.3, "compute_max_s": 0.35,
    "data_s": 0.02,
}  # fmt: skip
STATE = {
    "event": "state", "rank": 3, "number": 1, "at_s": 10.0, "samples": 10, "clock_mhz": 1755.0, "clock_min_mhz": 1700,
    "power_w": 690.0, "temperature_c": None, "reasons": {"sw_power_cap": 10},
}  # fmt: skip
LONG = (HELLO, START, DIGEST)


def step(number: int, **more: Any) -> dict[str, Any]:
    return {
        "event": "step", "rank": 3, "step": number, "loss": 2.5, "step_time_s": 0.4, "compute_s": 0.3, "data_s": 0.01,
        "tokens": 16384,
    } | more  # fmt: skip


def text(*events: dict[str, Any]) -> str:
    return "".join(json.dumps({"schema_version": 2, **event}, separators=(",", ":")) + "\n" for event in events)


def test_a_whole_rank() -> None:
    noise = "W1121 torch/distributed/run.py:803] Setting OMP_NUM_THREADS\ntrain-0:61:61 [3] NCCL INFO Bootstrap\n"
    (rank,) = parse(noise + text(HELLO, START, step(1)) + noise + text(step(2, loss="nan"), END)).ranks
    assert (rank.rank, rank.local_rank, rank.started, rank.weights, rank.stuck) == (3, 3, 1.25, "00ab", "")
    assert rank.setup is not None and (rank.setup.world, rank.setup.matmul_parameters) == (8, 4)
    assert [s.number for s in rank.steps] == [1, 2]
    assert rank.steps[0].loss == 2.5 and math.isnan(rank.steps[1].loss)


def test_a_long_load_is_told_in_windows_with_the_state_of_the_device() -> None:
    end = {**END, "steps": 21, "load_s": 8.5, "digests": 1, "windows": 1, "states": 1}
    phases = [{**PHASE, "phase": name, "at": at} for name, at in (("started", 1.0), ("resolved", 2), ("loaded", 9.5))]
    log = parse(text(*phases, *LONG, step(1), WINDOW, STATE, end))
    (rank,) = log.ranks
    assert log.phases == {"started": 1.0, "resolved": 2.0, "loaded": 9.5}
    assert (rank.done, rank.load_s) == (21, pytest.approx(8.4))
    assert rank.windows[0].count == 20 and rank.digests[0].gemm == "a1"
    assert rank.states[0].temperature_c is None and rank.states[0].reasons == {"sw_power_cap": 10}
    assert rank.setup is not None and (rank.setup.ready, rank.setup.power_limit_w) == (1.4, 700.0)


def test_logs_of_the_first_release_are_read() -> None:
    new = ("ready", "power_limit_w", "clock_max_mhz", "data_s", "load_s", "digests", "windows", "states")
    lines = [{k: v for k, v in event.items() if k not in new} for event in (HELLO, START, step(1), step(2), END)]
    log = parse(text(*({**line, "schema_version": 1} for line in lines)))
    (rank,) = log.ranks
    assert (log.phases, rank.version, rank.done, rank.weights) == ({}, 1, 2, "00ab")
    assert rank.steps[0].data_s is None and rank.setup is not None and rank.setup.ready is None


def test_ranks_are_in_order_however_their_lines_are_mixed() -> None:
    second = [{**event, "rank": 2} for event in ({**HELLO, "local_rank": 2}, START, step(1))]
    assert [log.rank for log in parse(text(HELLO, second[0], START, second[1], step(1), second[2])).ranks] == [2, 3]


def test_nothing_of_ours() -> None:
    assert parse("").ranks == ()
    assert parse("Traceback (most recent call last):\n  torch.cuda.OutOfMemoryError\n").ranks == ()


def test_how_a_rank_ends_early() -> None:
    error = {"event": "error", "rank": 3, "step": 1, "at": 7.5, "kind": "OutOfMemoryError", "text": "CUDA out of"}
    stuck = {"event": "stuck", "rank": 3, "step": 2, "doing": "compute"}
    (rank,) = parse(text(HELLO, START, step(1), stuck, error)).ranks
    assert rank.stuck == "compute"
    assert rank.failure is not None and (rank.failure.kind, rank.failure.at) == ("OutOfMemoryError", 7.5)


@pytest.mark.parametrize(
    "broken",
    [
        text(HELLO, START, step(1))[:-9],
        text(HELLO, START, step(2)),
        text(HELLO, START, step(1), step(1)),
        text(HELLO, HELLO),
        text(START),
        text(HELLO, {**START, "world": "8"}),
        text(HELLO, {name: value for name, value in START.items() if name != "batch"}),
        text(HELLO, START, step(1, step_time_s=-1)),
        text(HELLO, START, step(1, compute_s="nan")),
        text(HELLO, START, step(1, loss="much")),
        text({**HELLO, "schema_version": 3}),
        text(PHASE, PHASE),
        text({**PHASE, "phase": "loaded"}),
        text({**PHASE, "at": None}),
        text(HELLO, START, {name: value for name, value in step(1).items() if name != "data_s"}),
        text(HELLO, {name: value for name, value in START.items() if name != "ready"}),
        text(*LONG, DIGEST),
        text(*LONG, {**DIGEST, "number": 2, "gemm": ""}),
        text(*LONG, {**DIGEST, "number": 2, "wrong_rows": None}),
        text(*LONG, WINDOW),
        text(*LONG, step(1), {**WINDOW, "first": 3}),
        text(*LONG, step(1), {**WINDOW, "number": 2}),
        text(*LONG, step(1), {**WINDOW, "count": 0}),
        text(*LONG, step(1), {**WINDOW, "loss": "nan"}),
        text(*LONG, step(1), {**WINDOW, "not_finite_from": 22}),
        text(*LONG, step(1), {**WINDOW, "step_time_sd_s": None}),
        text(*LONG, {**STATE, "number": 2}),
        text(*LONG, {**STATE, "samples": 9}),
        text(*LONG, {name: value for name, value in STATE.items() if name != "reasons"}),
        text(HELLO, START, step(1), END),
        text(HELLO, START, step(1), step(2), {**END, "states": 1}),
        text(HELLO, START, step(1), step(2), {**END, "load_s": -1.0}),
        text(HELLO, START, step(1), step(2), {**END, "weights": None}),
        text(HELLO, START, step(1), step(2), END, DIGEST),
        text(HELLO) + text({**HELLO, "rank": 2}).replace('"schema_version":2', '"schema_version":1'),
        '{"schema_version" torn\n',
        # Numbers that contradict what stands beside them.
        text(HELLO, START, {**HELLO, "rank": 2}, {**START, "rank": 2}),
        text({**HELLO, "started": 1e9}, {**START, "ready": 1e9 + 5, "joined": 5e8}),
        text({**HELLO, "started": 1e9}, {**START, "ready": 5e8, "joined": 1e9 + 6}),
        text(HELLO, {**START, "parameters": 2}),
        text(HELLO, START, step(1, tokens=8192)),
        text(HELLO, START, step(1, compute_s=0.9)),
        text(*LONG, step(1), {**WINDOW, "step_time_max_s": 0.2}),
        text(*LONG, step(1), {**WINDOW, "compute_max_s": 0.2}),
        text(*LONG, step(1), {**WINDOW, "step_time_s": 0.2}),
        text(*LONG, {**STATE, "clock_mhz": 878}),
        text(*LONG, STATE, {**STATE, "number": 2, "at_s": 5.0}),
        text(*LONG, step(1), {**DIGEST, "number": 2}),
    ],
)
def test_what_is_not_whole_is_refused(broken: str) -> None:
    with pytest.raises(InputError):
        parse(broken)


@given(st.integers(0, 2000), st.text(max_size=20))
def test_a_log_that_was_cut_or_written_into_never_crashes(at: int, more: str) -> None:
    whole = text(HELLO, START, *(step(number) for number in range(1, 6)), {**END, "steps": 5, "load_s": 2.0})
    try:
        ranks = parse(whole[:at] + more + whole[at:]).ranks
    except InputError:
        return
    assert all(rank.rank == 3 or rank.steps == [] for rank in ranks)


def test_what_torchrun_says_of_failed_workers() -> None:
    said = (
        "Root Cause (first observed failure):\n[0]:\n  time      : 2026-11-21_13:42:54\n  host      : localhost\n"
        "  rank      : 5 (local_rank: 5)\n  exitcode  : -9 (pid: 726)\n  error_file: <N/A>\n"
    )
    assert torchrun_failures(said) == ("rank 5: exitcode -9 (pid: 726)",)
    assert torchrun_failures("nothing") == ()
