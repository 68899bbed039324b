# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Bounds of a recipe on what was measured: kept as written, missed by a little, and never measured."""

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.comparison.performance_constraints import (
    judge_bounds,
    not_judged,
    stated_bounds,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.constraint.declared import OF_PERFORMANCE
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.model import (
    Measure,
    Outcome,
    Rating,
    Status,
    Subject,
    SubjectKind,
)


def measured(check: str, subject: str, *measures: Measure) -> Outcome:
    return Outcome(
        check=check, gate="g", status=Status.PASSED, rating=Rating.GOOD, subjects=(Subject(SubjectKind.NODE, subject),),
        summary="measured", measured=measures,
    )  # fmt: skip


def busbw(value: float, test: str = "all_reduce_perf") -> Outcome:
    return measured("nccl-all-nodes-bw", "lab", Measure("busbw", value, "GB/s"), Measure("test", test))


def all_reduce(value: float, between: str = "", nvls: str = "") -> Outcome:
    """A result of all hosts with what its log proves, as nccl-all-nodes-bw writes it; empty: an older release's."""
    ways = [Measure(name, shown) for name, shown in (("between hosts", between), ("NVLS", nvls)) if shown]
    return measured(
        "nccl-all-nodes-bw", "lab", Measure("busbw", value, "GB/s"), Measure("test", "all_reduce_perf"), *ways
    )


def judged(name: str, value: str, *outcomes: Outcome, **more: Any) -> Outcome:
    recipe = {"validation": {"performance": {"constraints": [{"name": name, "value": value, **more}]}}}
    (found,) = judge_bounds(stated_bounds(recipe, "performance"), outcomes, "lab", "fabric_validation")
    return found


@pytest.mark.parametrize(
    ("value", "figure", "status"),
    [
        (">= 300", 450.3, Status.PASSED),
        (">= 300 GB/s", 333.51, Status.PASSED),
        (">= 300", 299.9, Status.FAILED),
        (">= 300.5", 300.45, Status.FAILED),
        ("<= 500", 450.0, Status.PASSED),
        (">= 300 Gb/s", 450.3, Status.OTHER),
        (">= many", 450.3, Status.OTHER),
    ],
)
def test_a_bound_holds_as_it_is_written_with_its_operator_and_unit(value: str, figure: float, status: Status) -> None:
    assert judged("nccl-all-reduce-bw", value, busbw(figure)).status is status


def test_a_bound_that_nothing_was_measured_for_is_no_pass() -> None:
    assert judged("nccl-all-reduce-bw", ">= 300").cause == "constraint-unmeasured"
    assert judged("nccl-all-reduce-bw", ">= 300", busbw(450.0, "all_gather_perf")).cause == "constraint-unmeasured"


def test_every_node_has_to_keep_a_bound_and_the_one_that_does_not_is_named() -> None:
    throughput = [
        measured("inference-throughput", name, Measure("output throughput", value, "tokens/s"))
        for name, value in (("gpu01", 51000.0), ("gpu02", 38000.0))
    ]
    found = judged("inference-throughput", ">= 50000 tokens/s", *throughput)
    assert (found.status, found.summary) == (
        Status.FAILED,
        "inference-throughput is to be >= 50000 tokens/s, measured: gpu02 38000.0 tokens/s",
    )
    ttft = measured("inference-ttft", "gpu01", Measure("TTFT p99", 708.0, "ms"))
    assert judged("inference-ttft-p99", "<= 2000", ttft).status is Status.PASSED
    assert judged("inference-ttft-p99", "<= 0.5 s", ttft).status is Status.FAILED


def test_a_bound_that_only_warns_waits_for_a_person() -> None:
    found = judged("nccl-all-reduce-bw", ">= 500", busbw(450.0), severity="warning")
    assert (found.status, found.rating) == (Status.OTHER, Rating.MARGINAL)


def test_every_name_of_the_phase_has_a_figure() -> None:
    for name in OF_PERFORMANCE:
        assert judged(name, ">= 1").cause == "constraint-unmeasured"


def load(name: str, model: str = "Qwen/Qwen3-8B", requests: int = 2048, gpus: int = 8) -> Outcome:
    """What a host generated, with what it depends on."""
    return measured(
        "inference-throughput", name, Measure("output throughput", 60000.0, "tokens/s"), Measure("model", model),
        Measure("requests at a time", requests, "count"), Measure("GPUs", gpus, "count"),
    )  # fmt: skip


@pytest.mark.parametrize(
    ("name", "value", "status"),
    [
        ("inference-model", "Qwen/Qwen3-8B", Status.PASSED),
        ("inference-model", "meta/llama-70b", Status.OTHER),
        ("inference-concurrency-per-gpu", "256", Status.PASSED),
        ("inference-concurrency-per-gpu", "64", Status.OTHER),
    ],
)
def test_bounds_are_meant_for_the_load_that_the_recipe_states(name: str, value: str, status: Status) -> None:
    found = judged(name, value, load("gpu01"), load("gpu02"))
    assert found.status is status
    if status is Status.OTHER:
        assert found.cause == "other-benchmark" and "gpufleet_settings.inference_acceptance" in found.hint
    assert judged(name, value).cause == "constraint-unmeasured"


def test_what_only_benchmarks_of_others_have_is_told_and_not_judged() -> None:
    entries = [
        {"name": "inference-routing-mode", "value": "dynamo-router"},
        {"name": "nccl-all-reduce-bw", "value": ">= 1"},
    ]
    recipe = {"validation": {"performance": {"constraints": entries}}}
    assert [bound.name for bound in stated_bounds(recipe, "performance")] == ["nccl-all-reduce-bw"]
    assert not_judged(recipe) == ("inference-routing-mode",)


def test_a_constraint_of_the_cluster_below_performance_is_told_with_its_place() -> None:
    found = judged("K8s.server.version", ">= 1.30", busbw(450.0))
    assert (found.status, found.cause) == (
        Status.OTHER,
        "constraint-unmeasured",
    ) and "measured by no load" in found.summary


# NVIDIA/aicr, overlays of GB200 on EKS: both bounds of one recipe, since those nodes have two networks at once.
@pytest.mark.parametrize(
    ("name", "between", "nvls", "status"),
    [
        ("nccl-all-reduce-bw-net", "network", "not shown", Status.PASSED),
        ("nccl-all-reduce-bw-net", "NVLink", "used", Status.OTHER),
        ("nccl-all-reduce-bw-net", "sockets", "not shown", Status.OTHER),
        ("nccl-all-reduce-bw-net", "more than one", "used", Status.OTHER),
        ("nccl-all-reduce-bw-net", "not shown", "not shown", Status.OTHER),
        ("nccl-all-reduce-bw-net", "", "", Status.OTHER),
        ("nccl-all-reduce-bw-nvls", "NVLink", "used", Status.PASSED),
        ("nccl-all-reduce-bw-nvls", "NVLink", "not shown", Status.OTHER),
        ("nccl-all-reduce-bw-nvls", "network", "used", Status.OTHER),
        ("nccl-all-reduce-bw-nvls", "", "", Status.OTHER),
        ("nccl-all-reduce-bw", "NVLink", "used", Status.PASSED),
        ("nccl-all-reduce-bw", "", "", Status.PASSED),
    ],
)
def test_a_bound_on_one_of_two_networks_is_answered_by_a_run_over_that_one(
    name: str, between: str, nvls: str, status: Status
) -> None:
    found = judged(name, ">= 40", all_reduce(744.7, between, nvls))
    assert found.status is status
    if status is Status.OTHER:
        assert (found.cause, found.rating) == ("constraint-unmeasured", Rating.UNKNOWN)
        assert "lab shows" in found.summary and not found.measured


def test_a_bound_that_its_own_network_misses_fails() -> None:
    assert judged("nccl-all-reduce-bw-net", ">= 40", all_reduce(12.0, "network")).cause == "constraint-not-met"
    assert judged("nccl-all-reduce-bw-nvls", ">= 500", all_reduce(90.0, "NVLink", "used")).status is Status.FAILED
