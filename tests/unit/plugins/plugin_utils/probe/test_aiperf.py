# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""AIPerf's export: read strictly, and only when it left its pod whole."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from llm_fleet import export

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.errors import InputError
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.probe.aiperf import export_in, parse, redacted
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.runtime.redaction import redact

TEXT = json.dumps(export(), indent=2)
MARK = "gpufleet-export-0123"


def _log(body: str, mark: str = MARK) -> str:
    digest = hashlib.sha256(body.encode()).hexdigest()
    return f"some words\n\n{mark} begin {len(body.encode())} {digest}\n{body}\n{mark} end\n"


def test_reads_what_was_measured() -> None:
    found = parse(TEXT)
    assert (found.version, found.requests, found.errors, found.mismatches) == ("0.13.0", 16_384, 0, 0)
    assert found.output_tokens_per_s == 72_000
    assert (found.ttft.unit, found.ttft.at(50), found.tpot.mean) == ("ms", 400.0, 24.0)
    assert found.phases["profiling"]["concurrency"] == 2048
    assert found.seed == 100


def test_reads_errors_by_kind() -> None:
    found = parse(json.dumps(export(requests=19, errors=5)))
    assert (found.requests, found.errors) == (19, 5)
    assert [(kind.code, kind.count) for kind in found.error_kinds] == [("500", 5)]


@pytest.mark.parametrize(
    "changes",
    [
        {"schema_version": "2.0"},
        {"schema_version": None},
        {"schema_version": 1.4},
        {"time_to_first_token": None},
        {"time_to_first_token": {"unit": "ms", "avg": 3.0}},
        {"inter_token_latency": {**export()["inter_token_latency"], "unit": "s"}},
        {"inter_token_latency": {**export()["inter_token_latency"], "p99": float("nan")}},
        {"inter_token_latency": {**export()["inter_token_latency"], "p99": True}},
        {"inter_token_latency": {**export()["inter_token_latency"], "p50": 1000.0}},
        {"output_token_throughput": {"unit": "tokens/sec", "avg": -1.0}},
        {"output_token_throughput": {"unit": "tokens/sec", "avg": 0}},
        {"output_token_throughput": {"unit": "tokens/sec", "avg": "72000"}},
        {"request_count": {"unit": "requests", "avg": 12.5}},
        {"request_count": {"unit": "requests", "avg": 12.0}},
        {"request_error_rate": {"unit": "%", "avg": 3.0}},
        {"error_summary": None},
        {"error_summary": [{"count": 1}]},
        {"error_summary": [{"error_details": {"code": 500}, "count": 1}]},
        {"was_cancelled": "no"},
        {"is_complete": None},
        {"input_config": {}},
        # Half of the figures of a run.
        {"benchmark_duration": {"unit": "sec", "avg": 16_384 * 128 / 144_000}},
        {"request_throughput": {"unit": "requests/sec", "avg": 281.25}},
        {"output_token_throughput": {"unit": "tokens/sec", "avg": 36_000.0}},
        {"inter_token_latency": {**export()["inter_token_latency"], "avg": 12.0}},
        {"inter_token_latency": {**export()["inter_token_latency"], "count": 8192}},
        {"request_latency": {**export()["request_latency"], "count": 8192}},
    ],
)
def test_refuses_what_it_cannot_trust(changes: dict[str, Any]) -> None:
    with pytest.raises(InputError):
        parse(json.dumps(export(**changes)))


@given(st.integers(min_value=0, max_value=len(TEXT) - 1))
def test_refuses_a_part_of_an_export(length: int) -> None:
    with pytest.raises(InputError):
        parse(TEXT[:length])


def test_refuses_other_files_of_such_tools(shared: Path) -> None:
    files = sorted((shared / "captures" / "inference-bench").iterdir())
    assert len(files) == 4
    for path in files:
        with pytest.raises(InputError):
            parse(path.read_text(encoding="utf-8"))


def test_finds_the_export_in_a_log() -> None:
    assert export_in(_log(TEXT), MARK) == TEXT
    assert export_in(_log(TEXT + "\n"), MARK) == TEXT + "\n"
    assert export_in("AIPerf said nothing", MARK) is None
    assert export_in(_log(TEXT, "gpufleet-export-other"), MARK) is None


@given(st.integers(min_value=0, max_value=len(_log(TEXT)) - 2))
def test_never_takes_a_log_that_was_cut_for_a_whole_one(length: int) -> None:
    try:
        assert export_in(_log(TEXT)[:length], MARK) is None
    except InputError as error:
        assert "export" in error.reason


def test_refuses_an_export_that_somebody_else_wrote_into() -> None:
    with pytest.raises(InputError, match="bytes"):
        export_in(_log(TEXT).replace('"p50"', 'WARNING: slow\n"p50"', 1), MARK)
    with pytest.raises(InputError, match="digest"):
        export_in(_log(TEXT).replace("72000", "99000"), MARK)


def test_what_is_kept_has_no_secrets_and_the_same_figures() -> None:
    secret = "hf_" + "a" * 30
    text = json.dumps(export(run_info={"random_seed": 100, "cli_command": f"aiperf --api-key {secret}"}))
    data = json.loads(text)
    data["input_config"]["endpoint"] = {"api_key": "x", "headers": [["Authorization", "Bearer 0123456789"]]}
    kept = redacted(json.dumps(data), redact)
    assert secret not in kept
    assert "0123456789" not in kept
    assert parse(kept) == parse(text)
