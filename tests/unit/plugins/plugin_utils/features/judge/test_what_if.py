# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""A saved run judged by other settings: a second, labelled verdict in its own directory, and the run as it was."""

from __future__ import annotations

from pathlib import Path

import pytest
from archives import unpack
from old_runs import without_unrecorded

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.features.judge.app import (
    changed_settings,
    changed_thresholds,
    rejudge,
    what_if,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.errors import InputError
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.model import Status
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.run.run import Run
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.verdict.run import run_summary

ARCHIVE = Path(__file__).resolve().parents[5] / "data" / "saved_runs" / "0.1.0_healthy.tar.xz"
STRICT = {"fabric_validation": {"bad": 0.99, "marginal": 1.0}}


@pytest.fixture
def run(tmp_path: Path) -> Run:
    path = tmp_path / "runs" / "r-1"
    unpack(ARCHIVE, path)
    without_unrecorded(path)
    return Run(path)


def _files(run: Run) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in run.path.rglob("*") if path.is_file()}


def test_a_stricter_bound_gives_a_second_verdict_and_leaves_the_run(run: Run) -> None:
    before = _files(run)
    changes = changed_settings(run, STRICT)
    assert [str(change) for change in changes] == [
        "fabric_validation.bad=0.99 (was 0.75)",
        "fabric_validation.marginal=1.0 (was 0.85)",
    ]
    found = what_if(run, changes)
    assert found.record.gate("fabric_validation").status is Status.FAILED
    assert found.record.gate("nodes").status is Status.PASSED
    assert any("recorded passed, would be" in line for line in found.results)
    text = run_summary(found.record)
    assert text.startswith("WHAT IF fabric_validation.bad=0.99 (was 0.75), ") and text.endswith("no verdict of the run")
    assert _files(run) == before and rejudge(run)[1] == []
    assert found.run_dir.parent == run.path.parent / "what-if"


def test_a_small_number_is_shown_as_it_was_typed(run: Run) -> None:
    (change,) = changed_settings(run, {"fabric_validation": {"bad": 0.0000001}})
    assert str(change) == "fabric_validation.bad=0.0000001 (was 0.75)"


def test_everything_that_it_leaves_says_what_it_is(run: Run) -> None:
    found = what_if(run, changed_settings(run, {"fabric_validation": {"bad": 0.5}}))
    assert "every gate in scope would pass" in run_summary(found.record) and "accepted" not in run_summary(found.record)
    assert "<title>WHAT IF: " in (found.run_dir / "report.html").read_text(encoding="utf-8")
    assert "## WHAT IF: " in (found.run_dir / "report.md").read_text(encoding="utf-8")
    assert '"runId": "' in (suite := (found.run_dir / "ctrf/fabric_validation.json").read_text(encoding="utf-8"))
    assert '-what-if"' in suite
    assert not (found.run_dir / "metrics.prom").exists() and not (found.run_dir / "junit").exists()
    assert (found.run_dir / "evidence" / "fabric_validation").is_dir()
    with pytest.raises(InputError, match="is a what-if"):
        rejudge(Run(found.run_dir))


def test_a_setting_that_says_how_to_look_does_not_apply(run: Run) -> None:
    (change,) = changed_settings(run, {"inference_acceptance": {"image": "vllm/vllm-openai:v0.13.0"}})
    assert not change.applies
    assert not changed_settings(run, {"inference_acceptance": {"port": 8000}})


def test_a_wrong_setting_is_refused_as_in_preflight(run: Run) -> None:
    with pytest.raises(InputError) as raised:
        changed_settings(run, {"fabric_validation": {"badd": 0.5}, "training_acceptance": {"mfu": "much"}})
    text = str(raised.value)
    assert "gpufleet_settings.fabric_validation.badd" in text and "'bad'" in text
    assert "gpufleet_settings.training_acceptance.mfu" in text


def test_edited_thresholds_are_found(run: Run, tmp_path: Path) -> None:
    assert changed_thresholds(run, []) == ()
    overlay = tmp_path / "overlay"
    (overlay / "thresholds").mkdir(parents=True)
    (overlay / "thresholds" / "mine.yaml").write_text("fabric_validation: {bad: 0.9, marginal: 0.95}\n")
    assert [change.now for change in changed_thresholds(run, [str(overlay)])] == [0.9, 0.95]


@pytest.mark.parametrize("place", ["in-run", "used"])
def test_it_writes_into_no_directory_that_is_in_use(run: Run, tmp_path: Path, place: str) -> None:
    (tmp_path / "used").mkdir()
    (tmp_path / "used" / "note").write_text("mine")
    directory = run.path / "what-if" if place == "in-run" else tmp_path / "used"
    with pytest.raises(InputError, match="name a directory of its own"):
        what_if(run, changed_settings(run, STRICT), directory)
    assert sorted(path.name for path in (tmp_path / "used").iterdir()) == ["note"]
