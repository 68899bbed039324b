# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Who was late, and who never began: workers of torchrun begin together, so pods and ranks are asked for it."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from training_fleet import Line, TrainingFleet

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.training_acceptance.analysis import cohorts_of
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.hardware.sku import Sku, load_hardware
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.model import Status

ROOT = Path(__file__).resolve().parents[6]
FOUR = ("gpu01", "gpu02", "gpu03", "gpu04")
STARTS, COMPLETES = "training-gang-start", "training-completed"
CRASHED = ("failed", "train-1-1-0 on n-gpu01 ended with exit code 127", dict.fromkeys(range(4), 127))
HANGS: Any = ("timeout", "not done after 1800 s: 4 of 4 pods running", dict.fromkeys(range(4)))


@cache
def hardware() -> dict[str, Sku]:
    return load_hardware([ROOT / "recipes" / "hardware"])


def fleet(**more: Any) -> TrainingFleet:
    return TrainingFleet(hosts=FOUR, hardware=hardware(), **more)


@pytest.mark.quickly(2)
@pytest.mark.parametrize("phase", ["started", "resolved", "loaded", "ready"])
@pytest.mark.parametrize("host", ["gpu01", "gpu03"])
def test_a_late_host_is_named_although_all_workers_begin_together(phase: str, host: str) -> None:
    late = fleet(late_s={host: 200.0}, late_at=phase)
    run = late.results().runs[0]
    workers = [log.started for pod in run.pods.values() for log in pod.ranks]
    assert max(workers) - min(workers) < 2
    assert late.findings() == [(STARTS, "late-start", "failed", host)]
    (told,) = [o for o in late.outcomes() if o.cause == "late-start"]
    assert {m.name: m.value for m in told.measured}["phase"] == phase
    assert "200" in told.summary or "201" in told.summary or "199" in told.summary


@pytest.mark.quickly(1)
@pytest.mark.parametrize("phase", ["started", "resolved", "loaded", "ready"])
def test_half_a_minute_alarms_nobody(phase: str) -> None:
    assert fleet(late_s={"gpu02": 40.0}, late_at=phase).findings() == []


def test_all_hosts_pull_the_image_for_minutes_and_nobody_is_late() -> None:
    assert fleet(late_s=dict.fromkeys(FOUR, 300.0)).findings() == []


def test_pods_that_end_before_a_rank_began_do_not_pass_the_start() -> None:
    """Exit code 127: there is no such program in the image. No rank ever wrote a line."""
    words = "/bin/sh: 6: exec: torchrun: not found\n"
    ended = fleet(raw=lambda _host, _text: words, end=lambda _n: CRASHED)
    starts = [o for o in ended.outcomes() if o.check == STARTS]
    assert [(o.status, o.cause) for o in starts] == [(Status.OTHER, "not-started")] * 4
    assert "exit code 127" in starts[0].summary and "torchrun: not found" in starts[0].summary
    assert not any(o.status is Status.PASSED for o in ended.outcomes())
    silent = fleet(raw=lambda _host, _text: "", end=lambda _n: CRASHED)
    assert {(c, w, s) for c, w, s, _h in silent.findings()} == {(STARTS, "not-started", "other")}


def test_an_image_without_pytorch_is_said_and_no_host_blamed_for_it() -> None:
    def raw(_host: str, text: str) -> str:
        return "".join(text.splitlines(keepends=True)[:2]) + "ModuleNotFoundError: No module named 'torch'\n"

    ended = fleet(raw=raw, end=lambda _n: ("failed", "pod ended", dict.fromkeys(range(4), 1)))
    found = [o for o in ended.outcomes() if o.check == STARTS]
    assert {(o.status, o.cause) for o in found} == {(Status.OTHER, "not-started")}
    assert all("No module named 'torch'" in o.summary for o in found)


def test_ranks_that_ended_before_they_met_prove_no_common_start() -> None:
    def edit(number: int, lines: list[Line]) -> list[Line]:
        error = {
            "schema_version": 2, "event": "error", "rank": number, "step": 0, "at": 9.0 + number,
            "kind": "RuntimeError", "text": "CUDA error: system not yet initialized",
        }  # fmt: skip
        return [lines[0], error] if number == 9 else lines[:1]

    ended = fleet(edit=edit, end=lambda _n: ("failed", "pod ended", dict.fromkeys(range(4), 1)))
    assert ended.findings() == [(COMPLETES, "run-crashed", "other", "gpu02")]
    assert {o.cause for o in ended.outcomes() if o.check == STARTS} == {"blocked-by-training-completed"}


def test_a_crash_after_the_start_leaves_the_start_proven() -> None:
    def edit(number: int, lines: list[Line]) -> list[Line]:
        error = {
            "schema_version": 2, "event": "error", "rank": number, "step": 5, "at": 9.0, "kind": "RuntimeError",
            "text": "CUDA error: an illegal memory access was encountered",
        }  # fmt: skip
        return [*lines[:8], error] if number == 9 else lines[:8]

    ended = fleet(edit=edit, end=lambda _n: ("failed", "pod ended", dict.fromkeys(range(4), 1)))
    assert {o.status for o in ended.outcomes() if o.check == STARTS} == {Status.PASSED}
    late = fleet(edit=edit, end=lambda _n: ("failed", "", dict.fromkeys(range(4), 1)), late_s={"gpu02": 200.0})
    assert {o.cause for o in late.outcomes() if o.check == STARTS} == {"", "not-repeated"}


def test_a_container_that_never_began_is_told_from_those_that_wait_for_it() -> None:
    def raw(host: str, text: str) -> str:
        return "" if host == "gpu03" else "".join(text.splitlines(keepends=True)[:3])

    waiting = fleet(raw=raw, end=lambda _n: HANGS)
    assert waiting.findings() == [(STARTS, "not-started", "other", "gpu03")]
    nobody = fleet(raw=lambda _host, _text: "", end=lambda _n: HANGS)
    assert {cause for _c, cause, _s, _h in nobody.findings()} == {"not-started"}


def test_a_host_that_does_not_find_the_others_is_named_with_what_its_resolver_said() -> None:
    def raw(host: str, text: str) -> str:
        lines = text.splitlines(keepends=True)
        said = "waiting for train-1-1-0.ranks: Name or service not known\n"
        return lines[0] + said if host == "gpu03" else "".join(lines[:3])

    deaf = fleet(raw=raw, end=lambda _n: HANGS)
    assert deaf.findings() == [(STARTS, "rendezvous-dns", "other", "gpu03")]
    (told,) = [o for o in deaf.outcomes() if o.cause == "rendezvous-dns"]
    assert "Name or service not known" in told.summary


def test_a_name_that_was_waited_for_and_found_explains_no_later_end() -> None:
    def raw(_host: str, text: str) -> str:
        lines = text.splitlines(keepends=True)
        return f"{lines[0]}waiting for x: Name or service not known\n{lines[1]}ModuleNotFoundError: No module\n"

    ended = fleet(raw=raw, end=lambda _n: ("failed", "pod ended", dict.fromkeys(range(4), 1)))
    assert {cause for _c, cause, _s, _h in ended.findings()} == {"not-started"}


def test_a_pod_whose_start_is_not_told_does_not_pass_it() -> None:
    def raw(host: str, text: str) -> str:
        return "".join(text.splitlines(keepends=True)[3:]) if host == "gpu02" else text

    assert fleet(raw=raw).findings() == [(STARTS, "no-start-times", "other", "gpu02")]


def test_who_is_late_is_asked_again_without_another_ten_minutes_of_load() -> None:
    def shorter(number: int, lines: list[Line]) -> list[Line]:
        kept = [line for line in lines if line["event"] not in ("window", "state") or line.get("number") == 1]
        kept = [line for line in kept if line["event"] != "window" and line.get("number") != 3]
        end = {"steps": 60, "windows": 0, "states": 1, "digests": 2, "load_s": 40.0}
        return [{**line, **end} if line["event"] == "end" else line for line in kept]

    def end(attempt: int) -> Any:
        late.edit = (lambda _n, lines: lines) if attempt == 1 else shorter
        return ("succeeded", "", {})

    late = fleet(late_s={"gpu03": 200.0}, end=end)
    results = late.results()
    assert [round(run.ranks[0].log.load_s, -2) for run in results.runs] == [600, 0, 0]
    # What the first run says of clocks and heat stands.
    assert late.findings(results) == [(STARTS, "late-start", "failed", "gpu03")]
    (cohort,) = cohorts_of(replace(results, runs=results.runs[:1]), hardware())
    assert (cohort.wants_more, cohort.load_s) == (True, 0.0)
    slow = fleet(pace={"gpu03/gpu1": 0.7})
    (cohort,) = cohorts_of(replace(slow.results(), runs=slow.results().runs[:1]), hardware())
    assert (cohort.wants_more, cohort.load_s) == (True, 600.0)
