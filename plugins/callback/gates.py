# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Prints what a run or a plan ends with when the playbook ends."""

from __future__ import annotations

DOCUMENTATION = r"""
name: gates
type: aggregate
short_description: Prints the table of gates or phases at the end of a run, or the plan
version_added: 0.1.0
author: gpufleet.bringup contributors (@gpufleet)
description:
  - Prints, when the playbook ends, the eight gates with status, checks, duration and key figure, what holds a gate
    that is not passed, which gates were not looked at, the verdict, how to start again, and where the report is.
  - Of a validation it prints the phases that were asked in the place of the gates.
  - With tag C(plan) it prints the plan instead, which M(gpufleet.bringup.plan_info) made.
  - After the start of a rehearsal that is kept it prints how to go on with it as well.
  - It only prints. The report and the results are written by M(gpufleet.bringup.gate).
requirements:
  - enabled with C(callbacks_enabled=gpufleet.bringup.gates)
"""

from pathlib import Path
from typing import Any

from ansible.plugins.callback import CallbackBase

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.codec import load_json
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.errors import BringupError
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.report.console import closing_lines
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.runtime.visible import visible
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.verdict.saved import record_from_plain


class CallbackModule(CallbackBase):  # type: ignore[misc,unused-ignore]
    """Prints the closing table of the run that run_start started, or the plan that plan_info made."""

    CALLBACK_VERSION = 2.0
    CALLBACK_TYPE = "aggregate"
    CALLBACK_NAME = "gpufleet.bringup.gates"
    CALLBACK_NEEDS_ENABLED = True

    def __init__(self) -> None:
        super().__init__()
        self._run_dir: Path | None = None
        self._plan: list[str] = []
        self._kept: list[str] = []

    def v2_runner_on_ok(self, result: Any) -> None:
        """Remember the run directory that run_start returned, or the plan."""
        # Core 2.19 made these names public and deprecates the old ones; 2.18 knows only the old ones.
        found = result.result if hasattr(result, "result") else result._result
        if found.get("run_id") and found.get("run_dir"):
            self._run_dir = Path(found["run_dir"])
        self._plan = found.get("plan_lines") or self._plan
        self._kept = found.get("kept_lines") or self._kept

    def v2_playbook_on_stats(self, stats: Any) -> None:
        """Print the closing lines of the run that was started, or the plan."""
        del stats
        try:
            lines = self._closing_lines(self._run_dir) if self._run_dir is not None else self._plan
        except BringupError as error:
            self._display.warning(f"the table of the gates cannot be printed: {visible(str(error))}")
            lines = []
        for part in (lines, self._kept):
            for line in ("", *part) if part else ():
                self._display.display(visible(line))

    @staticmethod
    def _closing_lines(run_dir: Path) -> list[str]:
        path = run_dir / "run.json"
        return closing_lines(record_from_plain(load_json(path), str(path)), run_dir)
