# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Third parties' suites: only one that is young, dated, of this run and unchanged since its copy proves anything."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.errors import InputError
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.model import Outcome, Status
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.report.facts import adopt, read_adopted
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.verdict.run import new_run

NOW = datetime.now(UTC)
RECORD = new_run("r1", "here", NOW.strftime("%Y-%m-%dT%H:%M:%SZ"), ("gpu_stack",), rehearsal=False)


def suite(ended: Any, **more: Any) -> dict[str, Any]:
    """A suite with one passed test that stopped then (a time, or what stands in its place)."""
    stop = round(ended.timestamp() * 1000) if isinstance(ended, datetime) else ended
    summary = {"tests": 1, "passed": 1, "failed": 0, "skipped": 0, "pending": 0, "other": 0, "stop": stop}
    tests = [{"name": "a", "status": "passed", "duration": 1}]
    return {"reportFormat": "CTRF", "results": {"tool": {"name": "t"}, "summary": summary, "tests": tests}, **more}


def read(tmp_path: Path, document: dict[str, Any]) -> tuple[Outcome, ...]:
    source, copy = tmp_path / "theirs.json", tmp_path / "gpu_stack.aicr.json"
    source.write_text(json.dumps(document), encoding="utf-8")
    adopt(source, copy, RECORD)
    return read_adopted(copy, "gpu_stack", "aicr", "here")


@pytest.mark.parametrize("ended", [NOW - timedelta(hours=23), NOW - timedelta(minutes=1), NOW + timedelta(minutes=5)])
def test_a_young_suite_counts(tmp_path: Path, ended: datetime) -> None:
    assert [o.status for o in read(tmp_path, suite(ended))] == [Status.PASSED]
    assert [o.status for o in read(tmp_path, suite(ended, extra={"gpufleet_run_id": "r1"}))] == [Status.PASSED]


@pytest.mark.parametrize(
    ("document", "cause"),
    [
        (suite(NOW - timedelta(days=30)), "third-party-too-old"),
        (suite(NOW - timedelta(hours=25)), "third-party-too-old"),
        (suite(NOW + timedelta(days=365)), "third-party-from-the-future"),
        (suite(0), "third-party-undated"),
        (suite(None), "third-party-undated"),
        (suite("yesterday"), "third-party-undated"),
        (suite(True), "third-party-undated"),
        (suite(NOW, extra={"gpufleet_run_id": "r0"}), "third-party-of-another-run"),
    ],
)
def test_any_other_is_not_passed(tmp_path: Path, document: dict[str, Any], cause: str) -> None:
    (outcome,) = read(tmp_path, document)
    assert (outcome.status, outcome.cause, outcome.check) == (Status.OTHER, cause, "aicr")
    assert outcome.summary and outcome.hint


def test_a_copy_that_was_changed_or_has_no_digest_is_an_error(tmp_path: Path) -> None:
    read(tmp_path, suite(NOW))
    copy = tmp_path / "gpu_stack.aicr.json"
    copy.write_text(copy.read_text(encoding="utf-8") + " ", encoding="utf-8")
    with pytest.raises(InputError, match="changed after it was adopted"):
        read_adopted(copy, "gpu_stack", "aicr", "here")
    (tmp_path / "gpu_stack.aicr.adopted.json").unlink()
    with pytest.raises(InputError, match="without its digest"):
        read_adopted(copy, "gpu_stack", "aicr", "here")


def test_without_a_source_no_older_copy_is_read(tmp_path: Path) -> None:
    read(tmp_path, suite(NOW))
    (tmp_path / "theirs.json").unlink()
    adopt(tmp_path / "theirs.json", tmp_path / "gpu_stack.aicr.json", RECORD)
    with pytest.raises(InputError):
        read_adopted(tmp_path / "gpu_stack.aicr.json", "gpu_stack", "aicr", "here")
