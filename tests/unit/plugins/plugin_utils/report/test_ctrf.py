# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""CTRF: valid by the official schema, read back strictly, never trusted beyond its own tests."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.errors import InputError
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.model import (
    Outcome,
    Rating,
    Status,
    node_subject,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.report.ctrf import (
    read_foreign_suite,
    read_suite,
    suite_of,
    write_suite,
)

GOOD = Outcome(
    check="gpu-census",
    gate="nodes",
    status=Status.PASSED,
    rating=Rating.GOOD,
    subjects=(node_subject("gpu01"),),
    summary="8 of 8",
    started="2026-11-21T10:00:00.000Z",
    duration_s=1.5,
)
BAD = replace(GOOD, status=Status.FAILED, rating=Rating.BAD, cause="gpu-missing", hint="reseat", summary="7 of 8")
HELD = replace(GOOD, status=Status.OTHER, rating=Rating.MARGINAL, cause="dcgm-warn")
OUTCOMES = (GOOD, BAD, HELD, replace(GOOD, status=Status.SKIPPED, rating=Rating.UNKNOWN), replace(HELD, started=""))


def written(tmp_path: Path) -> Path:
    path = tmp_path / "nodes.json"
    write_suite(path, "nodes", OUTCOMES, run_id="r1", rehearsal=True, version="0.1.0")
    return path


def test_what_is_written_is_read_back_whole(tmp_path: Path) -> None:
    assert read_suite(written(tmp_path), "nodes") == OUTCOMES


def test_a_suite_of_a_release_without_blocked_by_is_read(tmp_path: Path) -> None:
    blocked = replace(HELD, rating=Rating.UNKNOWN, cause="blocked-by-gpu-census", blocked_by="gpu-census")
    path = tmp_path / "nodes.json"
    write_suite(path, "nodes", (blocked, GOOD), run_id="r1", rehearsal=True, version="0.1.0")
    old = json.loads(path.read_text())
    for test in old["results"]["tests"]:
        del test["extra"]["outcome"]["blocked_by"]
    path.write_text(json.dumps(old))
    assert read_suite(path, "nodes") == (blocked, GOOD)


def test_the_suite_is_valid_by_the_official_schema(ctrf_schema: dict[str, Any]) -> None:
    import jsonschema

    suite = suite_of("nodes", OUTCOMES, run_id="r1", rehearsal=True, version="0.1.0")
    jsonschema.validate(suite, ctrf_schema)
    suite["results"]["tests"][0]["busbw"] = 1
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(suite, ctrf_schema)


def test_a_marginal_result_asks_for_acceptance_and_a_rehearsal_says_so() -> None:
    tests = suite_of("nodes", OUTCOMES, run_id="r1", rehearsal=True, version="0.1.0")["results"]["tests"]
    assert "needs-acceptance" in tests[2]["tags"] and "needs-acceptance" not in tests[1]["tags"]
    assert all("REHEARSAL" in test["tags"] for test in tests)


def _drop_test(suite: dict[str, Any]) -> None:
    del suite["results"]["tests"][1]


def _brighten(suite: dict[str, Any]) -> None:
    suite["results"]["tests"][1]["status"] = "passed"
    suite["results"]["summary"] |= {"passed": 2, "failed": 0}


def _strip(suite: dict[str, Any]) -> None:
    del suite["results"]["tests"][1]["extra"]


def _invent(suite: dict[str, Any]) -> None:
    suite["results"]["tests"][1]["status"] = "ok"


def _rename(suite: dict[str, Any]) -> None:
    suite["reportFormat"] = "XTRF"


def _move(suite: dict[str, Any]) -> None:
    suite["results"]["tests"][0]["extra"]["outcome"]["gate"] = "fabric"


@pytest.mark.parametrize("damage", [_drop_test, _brighten, _strip, _invent, _rename, _move])
def test_a_damaged_suite_is_refused(tmp_path: Path, damage: Callable[[dict[str, Any]], None]) -> None:
    path = written(tmp_path)
    suite = json.loads(path.read_text())
    damage(suite)
    path.write_text(json.dumps(suite))
    with pytest.raises(InputError, match=r"nodes\.json"):
        read_suite(path, "nodes")


@pytest.mark.parametrize("text", ["", "[]", "null", '{"results": {}}', "{"])
def test_what_is_no_suite_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "nodes.json"
    path.write_text(text)
    with pytest.raises(InputError):
        read_suite(path, "nodes")


def _foreign(tmp_path: Path, *statuses: str) -> Path:
    tests = [{"name": f"t{n}", "status": status, "duration": 1} for n, status in enumerate(statuses)]
    counts = {word: statuses.count(word) for word in ("passed", "failed", "skipped", "pending", "other")}
    summary = counts | {"tests": len(tests), "start": 0, "stop": 1}
    path = tmp_path / "foreign.json"
    results = {"tool": {"name": "x"}, "summary": summary, "tests": tests}
    path.write_text(json.dumps({"reportFormat": "CTRF", "specVersion": "0.0.0", "results": results}))
    return path


def test_a_third_partys_tests_keep_their_status(tmp_path: Path) -> None:
    found = read_foreign_suite(_foreign(tmp_path, "passed", "failed", "other", "skipped"), "gpu_stack", "aicr", "s")
    assert [outcome.status.value for outcome in found] == ["passed", "failed", "other", "skipped"]


def test_a_third_partys_empty_suite_proves_nothing(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no test"):
        read_foreign_suite(_foreign(tmp_path), "gpu_stack", "aicr", "s")
