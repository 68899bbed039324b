# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The reading after one load is the one before the next only where it is fresh, whole and of this run."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.collect.host_evidence import (
    HostEvidence,
    ToolRun,
    evidence_file,
    read_evidence,
    unreached,
    write_evidence,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.collect.loads import (
    FRESH_S,
    just_read,
    load_brackets,
    load_kind,
    load_xids,
    take_over,
    tools_asked_again,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.gates import LOADING_GATES

NOW = datetime(2026, 11, 27, 2, 0, tzinfo=UTC)
NCCL, TRAINING, SERVING = LOADING_GATES
TOOLS = {tool.name: ToolRun(argv=(tool.name,), rc=0, stdout="as it was") for tool in tools_asked_again()}


def wrote(run_dir: Path, gate: str, age_s: float, moment: Any = "after", **more: Any) -> None:
    (run_dir / "run.json").write_text(json.dumps({"run_id": "20261127T010000Z-1a2b"}))
    started = (NOW - timedelta(seconds=age_s)).isoformat()
    seen = {"host": "gpu01", "reached": True, "started": started, "tools": TOOLS, **more}
    write_evidence(run_dir, HostEvidence(**seen), load_kind(gate, moment))


def before(run_dir: Path, gate: str) -> Path:
    return run_dir / evidence_file("gpu01", load_kind(gate, "before"))


def test_what_was_just_read_is_the_state_before_the_next_load_and_says_whose_it_is(tmp_path: Path) -> None:
    wrote(tmp_path, NCCL, 20)
    assert just_read(tmp_path, NCCL, ["gpu01", "gpu02"], NOW) == ("gpu01",)
    assert take_over(tmp_path, TRAINING, ["gpu01", "gpu02"], NOW) == ("gpu01",)
    kept = read_evidence(before(tmp_path, TRAINING))
    assert kept.started == (NOW - timedelta(seconds=20)).isoformat() and kept.tools == TOOLS
    assert f"gate {NCCL}" in kept.reason
    wrote(tmp_path, TRAINING, 1)
    bracket = load_brackets(tmp_path, TRAINING, ("gpu01",), load_xids()).hosts["gpu01"]
    assert bracket.before.reached and bracket.before.evidence.startswith(f"evidence/load/{TRAINING}/before/")
    # The newest counts, and what it says of itself is no longer that of the load before.
    assert take_over(tmp_path, SERVING, ["gpu01"], NOW) == ("gpu01",)
    assert f"gate {TRAINING}" in read_evidence(before(tmp_path, SERVING)).reason


@pytest.mark.parametrize(
    ("age_s", "more"),
    [
        (FRESH_S + 1, {}),
        (-5, {}),
        (20, {"tools": dict(list(TOOLS.items())[1:])}),
        (20, {"reached": False, "reason": "no route to host"}),
        (20, {"started": "a while ago"}),
    ],
)
def test_anything_else_is_read_again(age_s: float, more: dict[str, Any], tmp_path: Path) -> None:
    wrote(tmp_path, NCCL, age_s, **more)
    assert just_read(tmp_path, NCCL, ["gpu01"], NOW) == ()
    # Once it was said to be fresh the load may be on its way for as long again.
    then = NOW + timedelta(seconds=FRESH_S if age_s > 0 else 0)
    assert take_over(tmp_path, TRAINING, ["gpu01"], then) == ()
    assert not before(tmp_path, TRAINING).exists()


def test_another_runs_reading_and_one_that_cannot_be_read_do_not_count(tmp_path: Path) -> None:
    wrote(tmp_path, NCCL, 20)
    (tmp_path / "run.json").write_text(json.dumps({"run_id": "20261127T013000Z-ffff"}))
    assert just_read(tmp_path, NCCL, ["gpu01"], NOW) == ()
    wrote(tmp_path, NCCL, 20)
    (tmp_path / evidence_file("gpu01", load_kind(NCCL, "after"))).write_text("{")
    assert just_read(tmp_path, NCCL, ["gpu01"], NOW) == () == take_over(tmp_path, TRAINING, ["gpu01"], NOW)


def test_a_host_that_was_read_before_this_load_keeps_that_even_if_it_was_not_reached(tmp_path: Path) -> None:
    wrote(tmp_path, NCCL, 20)
    write_evidence(tmp_path, unreached("gpu01", "no route to host"), load_kind(TRAINING, "before"))
    assert take_over(tmp_path, TRAINING, ["gpu01"], NOW) == ()
    assert read_evidence(before(tmp_path, TRAINING)).reason == "no route to host"
