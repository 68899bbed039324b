# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Gates 7 and 8 depend on gate 6 and not on each other: one that is not passed does not keep the other from running."""

from __future__ import annotations

from pathlib import Path

from rehearsal_harness import left_behind, rehearse

SCOPE = ["gpu_stack", "training_acceptance", "inference_acceptance"]


def test_inference_is_proven_although_training_is_not_and_the_run_still_fails(tmp_path: Path) -> None:
    run = rehearse(tmp_path, rehearsal_nodes=2, gates=SCOPE, rehearsal_faults=["training-not-a-number@gpu02/gpu3"])
    assert run.rc != 0, run.output[-3000:]
    assert [run.status(gate) for gate in SCOPE] == ["passed", "failed", "passed"]
    assert {(f.check, f.cause) for f in run.findings() if f.status == "failed"} == {
        ("training-loss", "loss-not-finite")
    }
    assert run.stats["gpufleet_passed"] is False and run.stats["gpufleet_exit_code"] == 8
    assert run.stats["gpufleet_gates_by_status"] == {
        "passed": ["gpu_stack", "inference_acceptance"],
        "failed": ["training_acceptance"],
        "pending": ["facility", "fabric", "nodes", "telemetry", "fabric_validation"],
    }
    verdict = run.stats["gpufleet_verdict"]
    assert verdict.startswith("REHEARSAL not passed: gate training_acceptance is not passed: training-loss")
    assert "gate training_acceptance is not passed" in run.output.split("PLAY [End of the run")[1]
    assert not left_behind(tmp_path)


def test_both_that_are_not_passed_are_named(tmp_path: Path) -> None:
    faults = ["training-not-a-number@gpu02/gpu3", "answer-empty@gpu01"]
    run = rehearse(tmp_path, rehearsal_nodes=2, gates=SCOPE, rehearsal_faults=faults)
    assert run.rc != 0, run.output[-3000:]
    assert [run.status(gate) for gate in SCOPE] == ["passed", "failed", "failed"]
    assert "training-loss" in run.stats["gpufleet_verdict"] and "smoke-empty" in run.stats["gpufleet_verdict"]


def test_an_earlier_gate_that_is_not_passed_keeps_both_closed(tmp_path: Path) -> None:
    run = rehearse(tmp_path, rehearsal_nodes=2, gates=SCOPE, rehearsal_faults=["device-plugin-fewer@gpu02"])
    assert run.rc != 0
    assert [run.status(gate) for gate in SCOPE] == ["failed", "pending", "pending"]
