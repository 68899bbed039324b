# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A load of ten minutes: clocks and heat are sampled and judged, data is timed, and arithmetic is compared."""

from __future__ import annotations

import random
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from training_fleet import Line, TrainingFleet

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.hardware.sku import Sku, load_hardware
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.model import Outcome, Status

ROOT = Path(__file__).resolve().parents[6]
FOUR = ("gpu01", "gpu02", "gpu03", "gpu04")
CLOCKS, DATA, DIGEST, STRAGGLERS = "training-clocks", "training-data", "training-digest", "training-stragglers"
STEP_TIME, COMPLETES = "training-step-time", "training-completed"


@cache
def hardware() -> dict[str, Sku]:
    return load_hardware([ROOT / "recipes" / "hardware"])


def fleet(*hosts: str, **more: Any) -> TrainingFleet:
    return TrainingFleet(hosts=hosts or FOUR, hardware=hardware(), **more)


def told(found: TrainingFleet, cause: str) -> Outcome:
    return next(o for o in found.outcomes() if o.cause == cause)


def only(change: dict[str, Any], event: str, rank: int | None = None, number: int = 0) -> Any:
    """Return an edit of the lines of one kind, of all ranks or of one, of all of them or one number."""

    def edit(mine: int, lines: list[Line]) -> list[Line]:
        def meant(line: Line) -> bool:
            right = rank is None or mine == rank
            return right and line["event"] == event and number in (0, line.get("number"))

        return [{**line, **change} if meant(line) else line for line in lines]

    return edit


def test_the_load_is_told_and_long_enough() -> None:
    passed = [o for o in fleet().outcomes() if o.check == CLOCKS]
    assert {o.status for o in passed} == {Status.PASSED}
    load = {m.name: m.value for m in passed[0].measured}["load"]
    assert 600 <= load < 700 and "MHz" in passed[0].summary and "W of 700" in passed[0].summary


def test_a_run_of_half_a_minute_proves_nothing_of_heat() -> None:
    def edit(_number: int, lines: list[Line]) -> list[Line]:
        kept = [line for line in lines if line["event"] not in ("window", "state") or line.get("number") == 1]
        kept = [line for line in kept if line["event"] != "window" and line.get("number") != 3]
        return [
            {**line, "steps": 60, "windows": 0, "states": 1, "digests": 2, "load_s": 30.0}
            if line["event"] == "end" else {**line, "samples": 30, "reasons": {}} if line["event"] == "state" else line
            for line in kept
        ]  # fmt: skip

    short = fleet(edit=edit)
    assert {(check, cause, status) for check, cause, status, _w in short.findings()} == {
        (CLOCKS, "load-too-short", "other")
    }
    # A site that asks for less gets less.
    assert fleet(edit=edit, settings={"load_s": 20}).findings() == []


@pytest.mark.parametrize("reason", ["hw_thermal_slowdown", "sw_thermal_slowdown", "hw_power_brake_slowdown"])
def test_heat_and_power_supply_are_named(reason: str) -> None:
    hot = fleet(throttled={"gpu03/gpu5": (reason, 0.6)})
    assert hot.findings() == [(CLOCKS, "gpu-throttled", "failed", "gpu03")]
    outcome = told(hot, "gpu-throttled")
    assert "gpu03/gpu5" in {s.name for s in outcome.subjects} and reason in outcome.summary


def test_a_gpu_that_is_slow_because_it_is_hot_has_one_cause() -> None:
    hot = fleet(throttled={"gpu03/gpu5": ("hw_thermal_slowdown", 0.6)}, pace={"gpu03/gpu5": 0.7})
    assert hot.findings() == [(CLOCKS, "gpu-throttled", "failed", "gpu03")]
    assert any(o.cause == f"blocked-by-{CLOCKS}" for o in hot.outcomes() if o.check == STRAGGLERS)


def test_the_power_limit_is_the_usual_state_of_a_busy_gpu() -> None:
    assert fleet(throttled={"gpu03/gpu5": ("sw_power_cap", 1.0)}).findings() == []


def test_a_moment_of_slowdown_is_no_alarm_and_a_while_is_for_a_person() -> None:
    def held(samples: int, states: int) -> Any:
        def edit(number: int, lines: list[Line]) -> list[Line]:
            some = {"hw_slowdown": samples}
            return [
                {**x, "reasons": some} if number == 13 and x["event"] == "state" and x["number"] <= states else x
                for x in lines
            ]

        return edit

    assert fleet(edit=held(2, 2)).findings() == []
    assert fleet(edit=held(10, 3)).findings() == [(CLOCKS, "gpu-throttled-marginal", "other", "gpu02")]


def test_heat_of_most_hosts_is_that_of_the_room() -> None:
    held = {f"gpu0{n}/gpu{m}": ("hw_thermal_slowdown", 0.5) for n in (1, 2, 3) for m in range(8)}
    assert fleet(throttled=held).findings() == [(CLOCKS, "gpu-throttled", "failed", "here")]


def test_a_hot_rack_is_named_once() -> None:
    hosts = tuple(f"gpu{n:02d}" for n in range(1, 9))
    shared = {host: {"rack": "r1" if n < 2 else "r2"} for n, host in enumerate(hosts)}
    held = {f"{host}/gpu{m}": ("hw_power_brake_slowdown", 0.5) for host in hosts[:2] for m in range(8)}
    found = fleet(*hosts, throttled=held, shared=shared)
    assert found.findings() == [(CLOCKS, "slow-group", "failed", "r1")]


@pytest.mark.parametrize(
    "change",
    [
        {"clock_mhz": None},
        {"reasons": None},
        {"samples": 0, "reasons": {}},
    ],
)
def test_a_gpu_that_was_not_sampled_does_not_pass(change: dict[str, Any]) -> None:
    assert fleet(edit=only(change, "state", 13)).findings() == [(CLOCKS, "not-sampled", "other", "gpu02")]


def test_power_and_temperature_may_be_missing() -> None:
    """A virtual machine's driver does not tell them."""
    assert fleet(edit=only({"power_w": None, "temperature_c": None}, "state")).findings() == []


@pytest.mark.parametrize("name", ["power_w", "temperature_c", "clock_min_mhz"])
def test_what_only_some_samples_tell_does_not_pass(name: str) -> None:
    def edit(number: int, lines: list[Line]) -> list[Line]:
        first = next(line for line in lines if line["event"] == "state")
        return [{**line, name: None} if line is first and number == 13 else line for line in lines]

    assert fleet(edit=edit).findings() == [(CLOCKS, "not-sampled", "other", "gpu02")]


@pytest.mark.parametrize("event", ["state", "window", "digest", "step", "end"])
def test_a_line_that_is_lost_makes_its_host_unknown(event: str) -> None:
    def edit(number: int, lines: list[Line]) -> list[Line]:
        lost = [line for line in lines if line["event"] == event][-1]
        return [line for line in lines if line is not lost] if number == 13 else lines

    assert fleet(edit=edit).findings() == [(COMPLETES, "output-incomplete", "other", "gpu02")]


def test_a_gpu_that_slows_down_after_minutes_is_found_and_named() -> None:
    """The first minute is as it should be: 60 steps would have seen nothing."""
    found = fleet(grown={"gpu02": 0.2})
    assert found.findings() == [(STEP_TIME, "step-time-growing", "failed", "here")]
    steps = found.results().runs[0].ranks[8].log.steps
    assert steps[-1].compute_s == pytest.approx(steps[20].compute_s, rel=0.05)


def test_one_pause_in_ten_minutes_is_no_unsteadiness() -> None:
    def edit(_number: int, lines: list[Line]) -> list[Line]:
        return [
            {**line, "step_time_sd_s": 0.2, "step_time_max_s": 1.4, "step_time_s": line["step_time_s"] + 0.04}
            if line["event"] == "window" and line["number"] == 31 else line
            for line in lines
        ]  # fmt: skip

    assert fleet(edit=edit).findings() == []


@pytest.mark.quickly(1)
@pytest.mark.parametrize("hosts", [FOUR[:2], FOUR, (*FOUR, "gpu05", "gpu06", "gpu07", "gpu08")])
def test_a_slow_cpu_is_found_although_its_gpus_compute_as_fast(hosts: tuple[str, ...]) -> None:
    slow = fleet(*hosts, data_s={"gpu02": 0.09})
    assert slow.findings() == [(DATA, "slow-data", "failed", "gpu02")]
    assert "governor" in told(slow, "slow-data").hint
    half = fleet(*hosts, data_s={"gpu02": 0.032})
    assert half.findings() == [(DATA, "slow-data-marginal", "other", "gpu02")]
    little = fleet(*hosts, data_s={"gpu02": 0.022})
    assert little.findings() == []


def test_data_that_is_slow_everywhere_blames_nobody() -> None:
    assert fleet(data_s=dict.fromkeys(FOUR, 0.05)).findings() == []
    mixed = fleet(data_s={"gpu01": 0.09, "gpu02": 0.09})
    assert mixed.findings() == [(DATA, "slow-data", "failed", host) for host in ("gpu01", "gpu02")]
    most = fleet(data_s=dict.fromkeys(FOUR[:3], 0.09))
    assert {(c, cause, s) for c, cause, s, _w in most.findings()} == {(DATA, "data-uneven", "other")}
    assert told(most, "data-uneven").summary.startswith("gpu04 alone needs ")


def test_one_host_that_is_fast_at_the_data_makes_no_other_slow_and_hides_no_slow_one() -> None:
    data_s = {"gpu02": 0.025, "gpu03": 0.025, "gpu04": 0.026}
    assert fleet(data_s={"gpu01": 0.012, **data_s}).findings() == []
    slow = fleet(data_s={"gpu01": 0.012, **data_s, "gpu04": 0.17})
    assert slow.findings() == [(DATA, "slow-data", "failed", "gpu04")]


def test_the_time_for_the_data_is_part_of_the_utilisation() -> None:
    def utilisation(data_s: float) -> float:
        found = fleet(data_s=dict.fromkeys(FOUR, data_s), draw=random.Random(1))
        (mfu,) = [o for o in found.outcomes() if o.check == "training-mfu"]
        return float({m.name: m.value for m in mfu.measured}["MFU"])

    assert utilisation(0.040) < 0.97 * utilisation(0.015)


def test_a_gpu_that_computes_wrong_is_named_although_all_end_with_the_same_weights() -> None:
    wrong = fleet(edit=only({"gemm": "a2"}, "digest", 13))
    assert {o.status for o in wrong.outcomes() if o.check == "training-loss"} == {Status.PASSED}
    assert wrong.findings() == [(DIGEST, "digest-differs", "failed", "gpu02")]
    outcome = told(wrong, "digest-differs")
    assert outcome.subjects[1].name == "gpu02/gpu5" and "matrix products than 31 of 32 ranks" in outcome.summary
    attention = fleet(edit=only({"attention": "c3"}, "digest", 13))
    assert "attention than 31" in told(attention, "digest-differs").summary


def test_a_gpu_that_computes_wrong_when_hot_is_named_even_alone() -> None:
    hot = fleet(edit=only({"gemm": "a2"}, "digest", 13, 3))
    assert hot.findings() == [(DIGEST, "digest-changes", "failed", "gpu02")]
    alone = fleet("gpu01", edit=only({"gemm": "a2"}, "digest", 3, 3))
    assert alone.findings() == [(DIGEST, "digest-changes", "failed", "gpu01")]


def test_one_wrong_digest_counts_even_if_a_later_run_shows_none() -> None:
    """Other suspicions go away with the next runs; wrong arithmetic does not."""

    def end(attempt: int) -> Any:
        once.edit = only({"gemm": "a2"}, "digest", 13, 3) if attempt == 1 else (lambda _n, lines: lines)
        return ("succeeded", "", {})

    once = fleet(end=end, pace={"gpu04/gpu1": 0.6})
    assert {(cause, who) for _c, cause, _s, who in once.findings()} == {
        ("digest-changes", "gpu02"),
        ("slow-gpu", "gpu04"),
    }


@pytest.mark.parametrize("hosts", [FOUR, FOUR[:1]])
def test_a_known_product_tells_a_wrong_gpu_even_without_peers(hosts: tuple[str, ...]) -> None:
    wrong = fleet(*hosts, edit=only({"wrong_rows": 2}, "digest", 3))
    assert wrong.findings() == [(DIGEST, "arithmetic-wrong", "failed", "gpu01")]
    assert told(wrong, "arithmetic-wrong").subjects[1].name == "gpu01/gpu3"
    everywhere = fleet(*hosts, edit=only({"wrong_rows": 2}, "digest"))
    assert everywhere.findings() == [(DIGEST, "arithmetic-wrong", "failed", "here")]


def test_digests_without_a_majority_name_nobody() -> None:
    def edit(number: int, lines: list[Line]) -> list[Line]:
        return [{**x, "gemm": f"{number % 2}"} if x["event"] == "digest" else x for x in lines]

    assert fleet(edit=edit).findings() == [(DIGEST, "digests-unlike", "other", "here")]


def test_a_run_without_digests_does_not_pass_their_check() -> None:
    def edit(_number: int, lines: list[Line]) -> list[Line]:
        kept = [line for line in lines if line["event"] != "digest"]
        return [{**line, "digests": 0} if line["event"] == "end" else line for line in kept]

    assert {(c, cause, s) for c, cause, s, _w in fleet(edit=edit).findings()} == {(DIGEST, "not-recorded", "other")}


def test_other_libraries_on_one_host_are_told() -> None:
    other = fleet(
        edit=lambda n, lines: [{**x, "torch": "2.7.1"} if x["event"] == "start" and n // 8 == 2 else x for x in lines]
    )
    assert other.findings() == [(COMPLETES, "setups-differ", "other", "gpu03")]
    assert "torch 2.7.1 and not 2.8.0" in told(other, "setups-differ").summary
