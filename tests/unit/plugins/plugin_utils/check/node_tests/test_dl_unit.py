# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The DL unit test of one node: healthy passes, and each fault is found with its cause and its GPU."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from dl_unit_lines import lines_of, text_of
from dl_unit_node import HOST, dl_unit, ended, read, simulated

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.features.continuous.classify import classify
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.features.continuous.figures import figure_rules
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.model import Rating, Status
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.store.records import NodeResult
from ansible_collections.gpufleet.rehearsal.plugins.plugin_utils.model.spec import Change, Fault

GPU = "gpu02/gpu3"


def broken(**changes: Any) -> Fault:
    patch = tuple(Change(at=f"gpu.{name}", set=value) for name, value in changes.items())
    return Fault(id="f", kind="gpu", subject=GPU, patch=patch)


def of_simulated(*faults: Fault) -> NodeResult:
    log, state = simulated(*faults)
    return read(log, state=state)


def test_a_healthy_node_passes_with_everything_that_can_be_compared() -> None:
    found = of_simulated()
    assert (found.status, found.rating, found.cause) == (Status.PASSED, Rating.GOOD, "")
    assert list(found.parts) == [f"gpu{n}" for n in range(8)]
    assert list(found.digests) == list(found.parts.values()) and len(set(found.digests.values())) == 1
    assert {figure.part for figure in found.figures} == set(found.parts.values())
    assert {(figure.name, figure.unit) for figure in found.figures} == {
        ("gemm-bf16", "TFLOP/s"), ("gemm-fp32", "TFLOP/s"), ("gemm-fp8", "TFLOP/s"), ("memory-copy", "GB/s"),
    }  # fmt: skip
    for word in ("dgx-h100", "NVIDIA H100 80GB HBM3", "driver 580", "PyTorch 2.8", "cuBLAS"):
        assert word in found.cohort


def test_gpus_without_float8_pass_without_it() -> None:
    host = replace(HOST, sku="dgx-a100")
    found = read(simulated(host=host, sku="dgx-a100")[0], host=host)
    assert found.status is Status.PASSED
    assert {figure.name for figure in found.figures} == {"gemm-bf16", "gemm-fp32", "memory-copy"}


@pytest.mark.parametrize(
    ("numerics", "status", "cause", "words"),
    [
        ("gemm-wrong", Status.FAILED, "digest-differs", "gpu3 gave other bits of gemm-bf16 than 7 of 8 GPUs"),
        ("bit-flips", Status.FAILED, "digest-changes", "gpu3 gave other bits of attention when it was repeated"),
        ("known-wrong", Status.FAILED, "arithmetic-wrong", "gpu3 got 3 rows of exact-bf16 wrong"),
        ("crashes", Status.OTHER, "gpu-crashed", "gpu3: AcceleratorError in gemm-bf16: CUDA error"),
    ],
)
def test_a_gpu_that_computes_wrong_is_named(numerics: str, status: Status, cause: str, words: str) -> None:
    found = of_simulated(broken(numerics=numerics))
    assert (found.status, found.cause) == (status, cause)
    assert found.rating is (Rating.BAD if status is Status.FAILED else Rating.UNKNOWN)
    assert words in found.summary and "gpu02" in found.summary and ";" in found.summary


@pytest.mark.parametrize(("numerics", "parts"), [("gemm-wrong", ("gpu3",)), ("bit-flips", ("gpu3",)), ("crashes", ())])
def test_only_a_gpu_that_computes_wrong_is_blamed(numerics: str, parts: tuple[str, ...]) -> None:
    log, state = simulated(broken(numerics=numerics))
    assert dl_unit().blamed(HOST, ended(log, state=state)) == parts


def test_a_slow_gpu_shows_in_its_figures_alone() -> None:
    found = of_simulated(broken(gemm=0.7))
    assert found.status is Status.PASSED
    by_part = {figure.part: figure.number for figure in found.figures if figure.name == "gemm-bf16"}
    slow = found.parts["gpu3"]
    assert by_part.pop(slow) < 0.75 * min(by_part.values())


def test_a_gpu_that_is_gone() -> None:
    found = of_simulated(broken(presence="lost"))
    assert (found.status, found.cause) == (Status.FAILED, "gpu-missing")
    assert "1 of 8 GPUs are not there" in found.summary


def test_an_image_without_pytorch_or_cuda_says_nothing_about_the_node() -> None:
    found = of_simulated(
        Fault(id="f", kind="cluster", subject="lab", patch=(Change(at="cluster.stack.unit_torch", set=False),))
    )
    assert (found.status, found.cause) == (Status.OTHER, "run-failed")
    assert "No module named 'torch'" in found.summary
    begin, done = lines_of(8)[0], {"event": "done", "exit_codes": [1] * 8}
    blind = [
        {"event": "error", "slot": n, "doing": "start", "kind": "LookupError", "text": "PyTorch sees 0"}
        for n in range(8)
    ]
    found = read(text_of([begin, *blind, done]), state="failed")
    assert (found.status, found.cause) == (Status.OTHER, "no-gpu-visible")


def every(event: str, **more: Any) -> str:
    wanted = more.pop("op", None)
    return text_of(
        line | more if line["event"] == event and wanted in (None, line.get("op")) else line for line in lines_of(8)
    )


def test_all_gpus_wrong_is_the_image_and_no_gpu() -> None:
    for log in (every("op", op="exact-bf16", wrong=4), every("reference", op="gemm-fp32", error=1e-3)):
        found = read(log)
        assert (found.status, found.cause) == (Status.OTHER, "libraries-wrong")


def test_a_gpu_apart_from_the_cpu_is_named() -> None:
    lines = lines_of(8)
    for line in lines:
        if line["event"] == "reference" and line["op"] == "convolution" and line["slot"] == 5:
            line["error"] = 0.5
    found = read(text_of(lines))
    assert (found.status, found.cause) == (Status.FAILED, "reference-differs")
    assert "gpu5 differs from the CPU by 0.5 in convolution, 0.02 is the tolerance" in found.summary


def test_wrong_copies_are_told_apart_from_wrong_arithmetic() -> None:
    lines = lines_of(8)
    for line in lines:
        if line.get("op") == "copies" and line["slot"] == 5 and line["run"] == 1:
            line["wrong"] = 1
    found = read(text_of(lines))
    assert (found.status, found.cause) == (Status.FAILED, "copy-wrong") and "gpu5 got 1 bytes" in found.summary


def test_halves_that_differ_name_nobody() -> None:
    lines = lines_of(8)
    for line in lines:
        if line.get("op") == "attention" and line["event"] == "op" and line["slot"] < 4:
            line["digest"] = "e" * 64
    found = read(text_of(lines))
    assert (found.status, found.cause) == (Status.OTHER, "digests-unlike") and "at most 4 agree" in found.summary


def test_gpus_of_two_kinds_are_not_compared_with_each_other() -> None:
    lines = lines_of(8)
    for line in lines:
        if line.get("slot") == 7:
            if line["event"] == "gpu":
                line["name"] = "NVIDIA H200"
            if line["event"] == "op":
                line["digest"] = "e" * 64
    assert read(text_of(lines)).status is Status.PASSED


@pytest.mark.parametrize(
    ("log", "state", "status", "cause"),
    [
        ("", "succeeded", Status.OTHER, "no-output"),
        (text_of(lines_of(8)[:-1]), "timeout", Status.OTHER, "run-timeout"),
        (text_of(lines_of(8)[:200]), "failed", Status.OTHER, "run-failed"),
        (text_of(lines_of(7)), "succeeded", Status.OTHER, "no-output"),
        (text_of(lines_of(8)), "failed", Status.OTHER, "run-failed"),
        ("", "preempted", Status.PENDING, "launch-preempted"),
        ("", "image", Status.OTHER, "launch-image"),
    ],
)
def test_what_was_not_seen_whole_is_no_pass(log: str, state: str, status: Status, cause: str) -> None:
    found = read(log, state=state)
    assert (found.status, found.cause, found.rating) == (status, cause, Rating.UNKNOWN)
    assert found.summary


def test_one_that_hangs_is_told() -> None:
    lines = [line for line in lines_of(8) if line.get("slot") != 2][:-1]
    lines.append({"event": "error", "slot": 2, "doing": "", "kind": "Stuck", "text": "it did not end within 870 s"})
    lines.append({"event": "done", "exit_codes": [0, 0, -9, *([0] * 5)]})
    found = read(text_of(lines), state="failed")
    assert (found.status, found.cause) == (Status.OTHER, "gpu-hung") and "gpu2: Stuck" in found.summary


def test_the_job_carries_the_program_and_takes_all_gpus() -> None:
    spec = dl_unit().job("dl-1", HOST)
    assert (spec.kind, spec.gpus_per_node, spec.nodes) == ("plain-job", 8, ("gpu02",))
    assert {"dl_unit.py", "operations.py", "rates.py", "device_facts.py", "full_load.py"} == set(spec.files)
    assert spec.env["CUBLAS_WORKSPACE_CONFIG"] == ":4096:8"


def test_a_slow_gpu_is_a_suspect_among_its_equals_and_no_node_with_a_wrong_one_is_healthy() -> None:
    """What the test gives is what the classification of a cycle takes: units, causes, parts and cohorts."""
    nodes = [f"gpu{n:02d}" for n in range(1, 6)]
    faults = (broken(gemm=0.7), Fault(id="g", kind="gpu", subject="gpu04/gpu0", patch=(_numerics("known-wrong"),)))
    results = []
    for name in nodes:
        host = replace(HOST, name=name, node=name)
        log, state = simulated(*faults, host=host, nodes=len(nodes))
        results.append(read(log, state=state, host=host))
    found = classify("c1", nodes, ["dl_unit"], results, 2000.0, figure_rules())
    words = {entry.node: entry.word for entry in found.classes}
    assert words == {"gpu01": "healthy", "gpu02": "suspect", "gpu03": "healthy", "gpu04": "bad", "gpu05": "healthy"}
    reasons = " ".join(next(entry.reasons for entry in found.classes if entry.node == "gpu02"))
    assert results[1].parts["gpu3"] in reasons and "gemm-bf16" in reasons


def _numerics(word: str) -> Change:
    return Change(at="gpu.numerics", set=word)
