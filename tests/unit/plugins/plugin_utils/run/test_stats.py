# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""What a run hands to the next node of a workflow sets no variable of the run that follows."""

from __future__ import annotations

from pathlib import Path

import yaml
from returned import described, misfits

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.gates import GATE_IDS
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.run.run import Run
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.run.stats import STATS, run_stats
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.verdict.run import new_run


def test_no_artifact_has_the_name_of_a_variable(tmp_path: Path, repository: Path) -> None:
    run = Run(tmp_path)
    run.save_record(new_run("r1", "lab", "2026-11-22T10:00:00Z", GATE_IDS, rehearsal=True))
    stats = run_stats(run)
    for module in ("gate", "run_end", "run_start"):
        assert list(misfits(stats, described(module, "stats"))) == []
    assert stats["gpufleet_was_rehearsal"] is True and stats["gpufleet_passed"] is False
    variables: set[str] = set()
    for spec in (repository / "roles").glob("*/meta/argument_specs.yml"):
        for entry in yaml.safe_load(spec.read_text("utf-8"))["argument_specs"].values():
            variables |= set(entry["options"])
    assert {"gpufleet_gates", "gpufleet_settings"} <= variables
    assert variables.isdisjoint(stats)
    assert set(stats) == set(STATS), "the next node of a workflow gets them as extra variables, and must know them"
