# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The parser of the DL unit test: a whole log, or an error; never a part of a result."""

from __future__ import annotations

import random
import time
from contextlib import suppress
from typing import Any

import pytest
from dl_unit_lines import lines_of, text_of
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.errors import InputError
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.probe.dl_unit import OPERATIONS, RATES, parse

HEALTHY = lines_of(2)


def refused(lines: list[dict[str, Any]]) -> str:
    with pytest.raises(InputError) as caught:
        parse(text_of(lines))
    return str(caught.value)


def test_a_whole_log_between_the_lines_of_others() -> None:
    noise = "/opt/torch/__init__.py:5: UserWarning: {\n"
    shuffled = HEALTHY[1:-1]
    by_gpu = [[line for line in shuffled if line.get("slot") == slot] for slot in range(2)]
    mixed = [line for pair in zip(*by_gpu, strict=True) for line in pair]
    log = parse(noise + text_of([HEALTHY[0], *mixed, HEALTHY[-1]]).replace("\n", "\n" + noise))
    assert (log.gpus, log.repeats, [test.slot for test in log.tests]) == (2, 3, [0, 1])
    first, second = log.tests
    assert first.digest == second.digest and first.identity is not None and first.identity.uuid == "GPU-0"
    assert set(first.runs) == set(OPERATIONS) and set(first.rates) == set(RATES)
    assert not (first.changing or first.wrong or first.out_of_tolerance or first.failure)


def test_a_gpu_without_float8() -> None:
    log = parse(text_of(lines_of(1, fp8=False)))
    assert log.tests[0].digests["gemm-fp8"] == "absent" and "gemm-fp8" not in log.tests[0].rates


def test_what_a_gpu_got_wrong() -> None:
    lines = lines_of(3)
    for line in lines:
        if line.get("slot") == 1 and line.get("op") == "exact-fp32" and line.get("run") == 2:
            line["wrong"] = 7
        if line.get("slot") == 1 and line.get("op") == "attention" and line.get("run") == 3:
            line["digest"] = "f" * 64
        if line.get("slot") == 1 and line["event"] == "reference" and line["op"] == "convolution":
            line["error"] = 0.5
    first, second, _third = parse(text_of(lines)).tests
    assert not (first.changing or first.wrong or first.out_of_tolerance)
    assert second.changing == ("attention",) and second.wrong == {"exact-fp32": 7}
    assert list(second.out_of_tolerance) == ["convolution"]


def test_a_gpu_that_ended_early_says_why() -> None:
    error = {"event": "error", "slot": 1, "doing": "gemm-bf16", "kind": "RuntimeError", "text": "CUDA error"}
    first = [line for line in HEALTHY if line.get("slot") != 1]
    started = [line for line in HEALTHY if line.get("slot") == 1][:4]
    done = {"event": "done", "exit_codes": [0, 1]}
    log = parse(text_of([*first[:-1], *started, error, done]))
    assert log.tests[0].failure is None and log.tests[1].failure is not None
    assert (log.tests[1].failure.kind, log.tests[1].failure.doing) == ("RuntimeError", "gemm-bf16")
    killed = parse(text_of([*first[:-1], *started, {**done, "exit_codes": [0, -9]}]))
    assert killed.tests[1].failure is not None and killed.tests[1].failure.text == "its process ended with -9"
    assert "without one" in refused([*first[:-1], error, {**done, "exit_codes": [0, 0]}])


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (lambda lines: [], "no line of the program is there"),
        (lambda lines: lines[:-1], "`done` is missing"),
        (lambda lines: lines[1:], "before the line `begin`"),
        (lambda lines: [*lines, lines[3]], "follows the line `done`"),
        (lambda lines: [*lines[:1], *lines], "begins a second time"),
        (lambda lines: [line for line in lines if line.get("slot") != 1], "GPU 1 has no end"),
        (lambda lines: [line for line in lines if line["event"] != "end"], "has no end"),
        (lambda lines: [line for line in lines if line.get("op") != "attention"], "lines, "),
        (lambda lines: _recounted([line for line in lines if line.get("op") != "copies"]), "without all of copies"),
        (lambda lines: _recounted([line for line in lines if line.get("run") != 3]), "without all of gemm-bf16"),
        (lambda lines: _recounted([line for line in lines if line.get("run") != 2]), "expected 2"),
        (lambda lines: _recounted([line for line in lines if line["event"] != "rate"]), "rate of gemm-bf16"),
        (lambda lines: _recounted([line for line in lines if line["event"] != "reference"]), "reference of gemm"),
        (lambda lines: _changed(lines, "gpu", uuid="GPU-0"), "the same UUID"),
        (lambda lines: _changed(lines, "gpu", uuid=""), "does not say UUID"),
        (lambda lines: _changed(lines, "op", digest="ABC"), "cannot be"),
        (lambda lines: _changed(lines, "op", absent="no such unit"), "does not have"),
        (lambda lines: _changed(lines, "op", op="gemm-int4"), "does not have"),
        (lambda lines: _changed(lines, "rate", value=float("nan")), "no number"),
        (lambda lines: _changed(lines, "rate", unit="GFLOPS"), "cannot be"),
        (lambda lines: _changed(lines, "reference", tolerance=1e9), "cannot be"),
        (lambda lines: _changed(lines, "begin", gpus=3), "3 GPUs were asked for, and 2 processes ended"),
        (lambda lines: _changed(lines, "begin", gpus=1), "of GPU 1, and 1 were asked for"),
        (lambda lines: _changed(lines, "end", slot=True), "no whole number"),
        (lambda lines: _renamed(lines, "op", "opp"), "an event"),
        (lambda lines: _changed(lines, "gpu", schema_version=2), "schema_version 2, expected 1"),
    ],
)
def test_what_is_not_whole_is_no_log(spoil: Any, words: str) -> None:
    assert words in refused(spoil([dict(line) for line in HEALTHY]))


def _recounted(lines: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the lines with counts that fit, so that only what is missing is."""
    for line in lines:
        if line["event"] == "end":
            line["lines"] = sum(other.get("slot") == line["slot"] for other in lines) - 1
    return lines


def _renamed(lines: list[dict[str, Any]], event: str, other: str) -> list[dict[str, Any]]:
    return [line | {"event": other} if line["event"] == event else line for line in lines]


def _changed(lines: list[dict[str, Any]], event: str, /, **more: Any) -> list[dict[str, Any]]:
    return [line | more if line["event"] == event else line for line in lines]


@given(st.integers(0, 2**32))
def test_a_log_that_is_cut_anywhere_is_no_log(seed: int) -> None:
    text = text_of(HEALTHY)
    with pytest.raises(InputError):
        parse(text[: random.Random(seed).randrange(len(text) - 1)])


@given(st.lists(st.sampled_from(range(1, len(HEALTHY) - 1)), min_size=1, unique=True))
def test_a_log_without_some_of_its_lines_is_no_log(gone: list[int]) -> None:
    with pytest.raises(InputError):
        parse(text_of([line for n, line in enumerate(HEALTHY) if n not in gone]))


@given(
    st.recursive(st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5), st.lists),
    st.sampled_from(["gpus", "slot", "run", "digest", "wrong", "value", "lines", "exit_codes", "event", "op", "uuid"]),
    st.integers(0, len(HEALTHY) - 1),
)
def test_a_field_that_is_anything_else_is_an_error_and_no_crash(value: Any, name: str, at: int) -> None:
    lines = [dict(line) for line in HEALTHY]
    lines[at][name] = value
    with suppress(InputError):
        parse(text_of(lines))


@pytest.mark.parametrize(
    "line", ['{"schema_version":' + "[" * (4 << 20), '{"schema_version":1,"a":"' + "x" * (4 << 20)]
)
def test_a_line_of_four_mebibytes_is_refused_at_once(line: str) -> None:
    began = time.monotonic()
    with pytest.raises(InputError):
        parse(text_of(HEALTHY[:1]) + line)
    assert time.monotonic() - began < 2
