# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The load without prefix cache and the one at another operating point: both are made, and compared between hosts."""

from __future__ import annotations

from dataclasses import replace

import pytest
from gate8 import bad, judged
from llm_fleet import fleet, results

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.inference_acceptance.analysis import to_load_again


def test_all_loads_are_shown() -> None:
    outcomes = judged(results(fleet()))
    throughput = next(o for o in outcomes if o.check == "inference-throughput")
    shown = {measure.name: measure.value for measure in throughput.measured}
    assert shown["output throughput per GPU"] == 9000.0
    assert shown["output throughput per GPU without prefix cache"] == 7500.0
    assert shown["output throughput per GPU at light load"] == 1750.0
    errors = next(o for o in outcomes if o.check == "inference-errors")
    assert errors.summary == f"{16_384 + 8192 + 1024} requests in 3 loads, none failed"


@pytest.mark.parametrize(("leg", "words"), [("uncached", "without prefix cache"), ("light", "at light load")])
def test_a_host_that_is_slow_only_there_is_found(leg: str, words: str) -> None:
    usual = {"uncached": 60_000.0, "light": 14_000.0}[leg]
    found = results(fleet(8), legs={"gpu05": {leg: {"throughput": 0.7 * usual}}})
    assert to_load_again(found) == ("gpu05",)
    outcomes = judged(found)
    assert bad(outcomes) == {("inference-throughput", "slower-than-peers", "failed", "gpu05")}
    assert words in next(o for o in outcomes if o.cause == "slower-than-peers").summary


@pytest.mark.parametrize("leg", ["uncached", "light"])
def test_a_load_that_was_not_made_is_no_pass(leg: str) -> None:
    found = results(fleet())
    kept = tuple(m for m in found.runs if m.load.host != "gpu01" or m.load.leg != leg)
    outcomes = bad(judged(replace(found, runs=kept)))
    assert outcomes == {("inference-errors", "load-missing", "other", "gpu01")}


def test_a_request_that_fails_in_another_load_counts_as_well() -> None:
    found = results(fleet(), legs={"gpu02": {"light": {"errors": 4, "requests": 1020}}})
    assert bad(judged(found)) == {("inference-errors", "request-errors", "failed", "gpu02")}


def test_the_export_of_one_load_does_not_pass_for_another() -> None:
    found = results(fleet(), legs={"gpu02": {"uncached": {"seed": 100}}})
    assert bad(judged(found)) == {("inference-errors", "other-load", "other", "gpu02")}


@pytest.mark.parametrize("field", ["concurrency", "requests", "warmup", "leg"])
def test_a_load_other_than_the_settings_have_is_no_pass(field: str) -> None:
    found = results(fleet(), loads={"gpu02": {field: {"leg": "own"}.get(field, 0)}})
    outcomes = bad(judged(found))
    assert {entry[1:] for entry in outcomes if entry[0] == "inference-errors"} <= {
        ("other-load", "other", "gpu02"), ("requests-missing", "other", "gpu02"), ("load-missing", "other", "gpu02"),
    }  # fmt: skip
    assert outcomes
