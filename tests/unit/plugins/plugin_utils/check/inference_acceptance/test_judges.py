# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The judges of gate inference_acceptance, in both directions."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from gate8 import bad, judged
from llm_fleet import GOOD_ANSWER, distribution, fleet, results, server

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.inference_acceptance.analysis import to_load_again
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.inference_acceptance.model import Plan
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.model import Status
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.report.facts import key_figure, load_key_figures


def _plan(**settings: Any) -> Plan:
    return fleet(4, **settings)


def test_a_healthy_fleet_passes_and_shows_its_arithmetic() -> None:
    outcomes = judged(results(_plan()))
    assert bad(outcomes) == set()
    assert len(outcomes) == 6 * 4
    throughput = next(o for o in outcomes if o.check == "inference-throughput")
    assert throughput.measured[0].value == 9000.0
    assert "6250 (Qwen/Qwen3-8B on h100) x (1 - 0.1) = 5625" in throughput.expected[0].arithmetic
    assert "72000.0 tokens/s / 8 of 8 GPUs = 9000.0" in throughput.expected[0].arithmetic
    ttft = next(o for o in outcomes if o.check == "inference-ttft")
    assert ttft.series[0].bounds[0].value == 2000
    assert [point[0] for point in ttft.series[0].points] == [0, 1, 5, 10, 25, 50, 75, 90, 95, 99, 100]


def test_the_key_figure_has_the_least_throughput_and_the_longest_wait(repository: Path) -> None:
    rule = load_key_figures(repository / "recipes/key_figures.yaml")["inference_acceptance"]
    outcomes = judged(results(_plan(), exports={"gpu02": {"ttft": 800.0}}))
    # p99 of the fixture is 1.245 of its middle.
    assert key_figure(rule, outcomes) == "9,000 tokens/s per GPU, TTFT 996 ms on the slowest host"
    without = [outcome for outcome in outcomes if outcome.check != "inference-ttft"]
    assert key_figure(rule, without) == ""


@pytest.mark.parametrize(
    ("changes", "cause", "status"),
    [
        ({"state": "failed", "cause": "kv-cache-out-of-memory", "hint": "x"}, "kv-cache-out-of-memory", "failed"),
        ({"state": "failed"}, "server-crashed", "failed"),
        ({"state": "image"}, "launch-image", "other"),
        ({"state": "slow-start"}, "launch-slow-start", "other"),
        ({"state": "unschedulable"}, "launch-unschedulable", "other"),
        ({"state": "timeout"}, "not-ready-in-time", "other"),
        ({"health": 503}, "endpoint-unhealthy", "failed"),
        ({"health": 0, "problem": "refused"}, "endpoint-unreachable", "other"),
        ({"models": ("other",)}, "wrong-model", "failed"),
        ({"models": ()}, "wrong-model", "failed"),
    ],
)
def test_endpoint(changes: dict[str, Any], cause: str, status: str) -> None:
    found = results(_plan(), servers={"gpu02": changes})
    found = replace(found, runs=tuple(load for load in found.runs if load.load.host != "gpu02"))
    assert bad(judged(found)) == {("inference-endpoint-ready", cause, status, "gpu02")}


@pytest.mark.parametrize(
    ("answer", "cause"),
    [
        ({"text": "", "completion_tokens": 0, "finish": "stop"}, "smoke-empty"),
        ({"text": " \n"}, "smoke-empty"),
        ({"text": "!!!!!!!!"}, "smoke-wrong-answer"),
        ({"text": " 110, 111"}, "smoke-wrong-answer"),
        ({"finish": "abort"}, "smoke-malformed"),
        ({"prompt_tokens": 0}, "smoke-malformed"),
        ({"problem": "not a completion"}, "smoke-malformed"),
    ],
)
def test_smoke(answer: dict[str, Any], cause: str) -> None:
    found = results(_plan(), servers={"gpu03": {"answers": (replace(GOOD_ANSWER, **answer),) * 2}})
    assert bad(judged(found)) == {("inference-smoke", cause, "failed", "gpu03")}


def test_smoke_must_be_the_same_twice_and_answered() -> None:
    other = replace(GOOD_ANSWER, text=" 11, 12, 14,")
    found = results(_plan(), servers={"gpu03": {"answers": (GOOD_ANSWER, other)}})
    assert bad(judged(found)) == {("inference-smoke", "smoke-differs", "other", "gpu03")}
    refused = replace(GOOD_ANSWER, status=500, problem="boom")
    found = results(_plan(), servers={"gpu03": {"answers": (refused,)}})
    assert bad(judged(found)) == {("inference-smoke", "smoke-refused", "failed", "gpu03")}
    silent = replace(GOOD_ANSWER, status=0, problem="no answer")
    found = results(_plan(), servers={"gpu03": {"answers": (silent,)}})
    assert bad(judged(found)) == {("inference-smoke", "smoke-unanswered", "other", "gpu03")}


@pytest.mark.parametrize(
    ("first", "words"),
    [
        ({"completion_tokens": 8}, "8 tokens, and its end is said to be the limit of 16"),
        ({"prompt_tokens": 9}, "counts 9 and 20 tokens in one prompt"),
    ],
)
def test_an_answer_that_counts_otherwise_than_it_can_have_been_is_no_pass(first: dict[str, Any], words: str) -> None:
    good = server("gpu02").answers
    answers = (replace(good[0], **first), *good[1:])
    outcomes = judged(results(_plan(), servers={"gpu02": {"answers": answers}}))
    assert bad(outcomes) == {("inference-smoke", "smoke-inconsistent", "other", "gpu02")}
    assert any(words in o.summary for o in outcomes)


def test_an_answer_that_ends_by_itself_may_be_shorter() -> None:
    answers = tuple(replace(answer, finish="stop", completion_tokens=5) for answer in server("gpu02").answers)
    assert bad(judged(results(_plan(), servers={"gpu02": {"answers": answers}}))) == set()


def test_smoke_can_be_left_to_any_answer() -> None:
    answers = tuple(replace(answer, text="!!!") for answer in server("gpu03").answers)
    assert bad(judged(results(_plan(smoke_expect=""), servers={"gpu03": {"answers": answers}}))) == set()


@pytest.mark.parametrize(
    ("exports", "loads", "cause", "status"),
    [
        ({"errors": 3, "requests": 16_381}, {}, "request-errors", "failed"),
        ({"mismatches": 9}, {}, "short-answers", "failed"),
        ({"tokens": 64.0}, {}, "short-answers", "failed"),
        ({"requests": 16_000}, {}, "requests-missing", "other"),
        ({"was_cancelled": True}, {}, "benchmark-cancelled", "other"),
        ({"is_complete": False}, {}, "benchmark-cancelled", "other"),
        ({"concurrency": 8}, {}, "other-load", "other"),
        ({"run_info": {"random_seed": 7}}, {}, "other-load", "other"),
        ({"schema_version": "9.0"}, {}, "export-unreadable", "other"),
        ({}, {"export": ""}, "export-missing", "other"),
        ({}, {"unreadable": "12 of 40 bytes"}, "export-truncated", "other"),
        ({}, {"state": "failed", "exit_code": 1}, "benchmark-crashed", "other"),
        ({}, {"state": "failed", "exit_code": 72}, "benchmark-not-installed", "other"),
        ({}, {"state": "timeout", "exit_code": None}, "benchmark-hung", "other"),
        ({}, {"state": "image", "exit_code": None}, "launch-image", "other"),
    ],
)
def test_errors(exports: dict[str, Any], loads: dict[str, Any], cause: str, status: str) -> None:
    found = results(_plan(), exports={"gpu01": exports}, loads={"gpu01": loads})
    assert bad(judged(found)) == {("inference-errors", cause, status, "gpu01")}


def test_throughput_against_the_slo_and_its_slack() -> None:
    just = {host.name: {"throughput": 8 * 5625.0} for host in _plan().hosts}
    assert bad(judged(results(_plan(), exports=just))) == set()
    low = {host.name: {"throughput": 8 * 5624.0} for host in _plan().hosts}
    expected = {("inference-throughput", "throughput-low", "failed", host.name) for host in _plan().hosts}
    assert bad(judged(results(_plan(), exports=low))) == expected


def test_a_server_on_a_part_of_the_gpus_proves_nothing() -> None:
    plan = _plan()
    part = replace(plan, hosts=(replace(plan.hosts[0], gpus=1), *plan.hosts[1:]))
    outcomes = judged(results(part, loads={"gpu01": {"gpus": 1}}))
    assert bad(outcomes) == {("inference-endpoint-ready", "part-of-the-gpus", "other", "gpu01")}
    assert not [o for o in outcomes if o.status is Status.PASSED and o.subjects[0].name == "gpu01"]
    assert "1 of 8 GPUs" in next(o for o in outcomes if o.cause == "part-of-the-gpus").summary


def test_a_host_below_its_peers_is_named() -> None:
    found = results(_plan(), exports={"gpu04": {"throughput": 8 * 6800.0}})
    assert bad(judged(found)) == {("inference-throughput", "slower-than-peers", "failed", "gpu04")}


@pytest.mark.parametrize(("part", "status"), [(0.97, ""), (0.93, "other"), (0.88, "other"), (0.84, "failed")])
def test_a_host_a_little_below_fifteen_equals_is_marginal_at_least(part: float, status: str) -> None:
    fair = {f"gpu{n:02d}": {"throughput": 72_000.0 * (1 + 0.002 * (n % 5))} for n in range(1, 16)}
    found = results(fleet(16), exports={**fair, "gpu16": {"throughput": 72_000.0 * part}})
    cause = {"other": "below-peers", "failed": "slower-than-peers"}.get(status, "")
    wanted = {("inference-throughput", cause, status, "gpu16")} if status else set()
    assert bad(judged(found)) == wanted


def _parts(count: int, **parts: float) -> Any:
    every = {f"gpu{n:02d}": parts.get(f"gpu{n:02d}", 1.0) for n in range(1, count + 1)}
    return results(fleet(count), exports={name: {"throughput": 72_000.0 * part} for name, part in every.items()})


def test_hosts_that_are_slow_alike_have_one_status() -> None:
    """The line lay between hosts that differ by less than a measurement does (T114)."""
    found = bad(judged(_parts(16, gpu03=0.846, gpu07=0.854, gpu09=0.87)))
    assert {(cause, who) for _check, cause, _status, who in found} == {
        ("slower-than-peers", "gpu03"), ("slower-than-peers", "gpu07"), ("below-peers", "gpu09"),
    }  # fmt: skip


def test_a_rack_on_both_sides_of_a_limit_is_one_finding() -> None:
    found = _parts(16, gpu01=0.84, gpu02=0.943, gpu03=0.95)
    shared = {host.name: {"rack": "r1" if n < 3 else "r2"} for n, host in enumerate(found.plan.hosts)}
    (outcome,) = [o for o in judged(found, shared) if o.status is not Status.PASSED]
    assert (outcome.cause, outcome.subjects[0].name) == ("slow-group", "r1")
    assert "3 of 3 are slow" in outcome.summary


def test_up_to_half_of_the_hosts_are_named_and_more_blame_nobody() -> None:
    slow = {"throughput": 8 * 5700.0}
    found = results(fleet(5), exports={"gpu01": slow, "gpu02": slow})
    assert bad(judged(found)) == {
        ("inference-throughput", "slower-than-peers", "failed", name) for name in ("gpu01", "gpu02")
    }
    found = results(fleet(5), exports=dict.fromkeys(("gpu01", "gpu02", "gpu03"), slow))
    assert {(o.cause, o.status.value) for o in judged(found) if o.status is not Status.PASSED} == {
        ("cohort-uneven", "other")
    }


def test_slow_hosts_of_one_rack_blame_the_rack() -> None:
    slow = {"throughput": 8 * 5700.0}
    found = results(fleet(5), exports=dict.fromkeys(("gpu01", "gpu02", "gpu03"), slow))
    shared = {host.name: {"rack": "r1" if n < 3 else "r2"} for n, host in enumerate(found.plan.hosts)}
    (outcome,) = [o for o in judged(found, shared) if o.status is not Status.PASSED]
    assert (outcome.cause, outcome.status, outcome.subjects[0].name) == ("slow-group", Status.FAILED, "r1")
    assert [subject.name for subject in outcome.subjects[1:]] == ["gpu01", "gpu02", "gpu03"]


@pytest.mark.parametrize(
    ("kind", "cause", "status"), [("rack", "cohort-uneven", "other"), ("driver", "slow-group", "failed")]
)
def test_the_place_of_one_fast_host_does_not_make_the_others_slow(kind: str, cause: str, status: str) -> None:
    found = results(fleet(5), exports={"gpu05": {"throughput": 8 * 12_000.0}})
    shared = {host.name: {kind: "b" if host.name == "gpu05" else "a"} for host in found.plan.hosts}
    bad_ones = [o for o in judged(found, shared) if o.status is not Status.PASSED]
    assert {(o.cause, o.status.value) for o in bad_ones} == {(cause, status)}
    if kind == "rack":
        assert "gpu05 alone is faster" in bad_ones[0].summary


def test_latencies() -> None:
    found = results(_plan(), exports={"gpu02": {"ttft": 1700.0}})
    assert bad(judged(found)) == {("inference-ttft", "ttft-high", "failed", "gpu02")}
    stated = _plan(slo={"tpot_ms": 50})
    found = results(stated, exports={"gpu02": {"tpot": 48.0}})
    assert bad(judged(found)) == {("inference-tpot", "tpot-high", "failed", "gpu02")}
    # p99 of the fixture is 1.049 of its middle.
    assert bad(judged(results(stated, exports={"gpu02": {"tpot": 47.0}}))) == set()


def _tail(p99: float) -> dict[str, Any]:
    return {"inter_token_latency": {**distribution(24.0, "ms", 16_384, spread=0.1), "p99": p99, "max": p99}}


def test_without_a_bound_of_the_site_the_percentile_is_held_against_the_hosts_own_requests() -> None:
    outcomes = judged(results(_plan(), exports={"gpu02": _tail(40.0)}))
    assert bad(outcomes) == set()
    tpot = next(o for o in outcomes if o.check == "inference-tpot")
    mean, tail = tpot.expected
    # 256 requests at a time of a GPU that has to give 5,625 tokens/s.
    assert (mean.name, mean.value) == ("TPOT mean", 45.5)
    assert "no figure for a percentile is published" in mean.arithmetic
    assert (tail.name, tail.value) == ("TPOT p99", 48.0)
    found = results(_plan(), exports={"gpu02": _tail(60.0)})
    assert bad(judged(found)) == {("inference-tpot", "tpot-high", "failed", "gpu02")}
    everybody = {host.name: _tail(60.0) for host in _plan().hosts}
    causes = {entry[1:3] for entry in bad(judged(results(_plan(), exports=everybody)))}
    assert causes == {("tpot-uneven", "other")}


def test_tokens_that_take_longer_than_their_number_allows_are_no_pass() -> None:
    found = results(_plan(), exports={"gpu02": {"tpot": 60.0}})
    assert bad(judged(found)) == {("inference-tpot", "figures-contradict", "other", "gpu02")}


def test_what_latency_tells_is_not_told_again_by_peers() -> None:
    found = results(_plan(slo={"tpot_ms": 50}), exports={"gpu02": {"tpot": 60.0, "throughput": 8 * 6000.0}})
    outcomes = judged(found)
    assert bad(outcomes) == {("inference-tpot", "tpot-high", "failed", "gpu02")}
    assert "blocked-by-inference-tpot" in {o.cause for o in outcomes}


def test_without_a_bound_nothing_passes() -> None:
    found = results(_plan(model="somebody/else"), servers=_serving("somebody/else"))
    assert {entry[1] for entry in bad(judged(found))} == {"no-reference"}
    own = {"throughput_per_gpu": 8000.0, "ttft_ms": 900.0, "tpot_ms": 30.0}
    assert bad(judged(results(_plan(model="somebody/else", slo=own), servers=_serving("somebody/else")))) == set()


def test_another_load_needs_bounds_of_its_own() -> None:
    found = results(_plan(input_tokens=144))
    assert {entry[1] for entry in bad(judged(found))} == {"no-reference"}


def _serving(model: str) -> dict[str, dict[str, Any]]:
    return {host.name: {"models": (model,)} for host in _plan().hosts}


def test_bad_figures_are_measured_again_and_the_median_counts() -> None:
    plan = _plan()
    once = results(plan, exports={"gpu03": {"ttft": 1700.0}})
    assert to_load_again(once) == ("gpu03",)
    assert to_load_again(results(plan, exports={"gpu03": {"ttft": 1700.0}}, runs=3)) == ()
    assert to_load_again(results(plan)) == ()
    better = results(plan, runs=2)
    again = tuple(replace(m, load=replace(m.load, attempt=m.load.attempt + 1)) for m in better.runs)
    assert bad(judged(replace(once, runs=once.runs + again))) == set()


def test_a_host_without_room_says_so() -> None:
    plan = _plan()
    closed = replace(plan, hosts=(replace(plan.hosts[0], closed="cordoned"), *plan.hosts[1:]))
    found = results(closed)
    found = replace(found, servers=found.servers[1:], runs=found.runs[3:])
    assert bad(judged(found)) == {("inference-endpoint-ready", "no-capacity", "other", "gpu01")}
