# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Module ai_conformance: evidence for CNCF's AI conformance, from the results of a run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.action_base.module_action import ModuleAction
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.report.ai_conformance import (
    FAIL,
    judged,
    not_declared_in,
    outcomes_of,
    pages,
    verdict_of,
    versions,
    write_pages,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.run.run import Run, existing_run_dir


class ActionModule(ModuleAction):
    """Write evidence for AI conformance."""

    module = "ai_conformance"

    def execute(self, options: dict[str, Any], task_vars: dict[str, Any]) -> dict[str, Any]:
        """Judge the requirements from the saved results; fail if one of them is not met."""
        del task_vars
        run = Run(existing_run_dir(options["run_dir"]))
        version = options["list_version"] or versions()[-1]
        found = judged(outcomes_of(run.path, run.record), version, options["features"], not_declared_in(run.record))
        dest = Path(options["dest"]).expanduser() if options["dest"] else run.path / "ai_conformance"
        if not self.check_mode:
            write_pages(dest, pages(found, version, run.record))
        for entry in found:
            self.emit(f"{entry.verdict} {entry.level} {entry.id}: {entry.reason}")
        failed = [entry.id for entry in found if entry.verdict == FAIL]
        lines = [
            f"{entry.verdict:8} {entry.level} {entry.id}: {entry.reason}" for entry in found if entry.verdict == FAIL
        ]
        lines.append(f"verdict  {verdict_of(found, rehearsal=run.record.rehearsal)}")
        lines.append(f"{'would be' if self.check_mode else 'pages':8} {dest / 'index.md'}")
        result: dict[str, Any] = {
            "closing_lines": lines,
            "changed": not self.check_mode,
            "list_version": version,
            "index": str(dest / "index.md"),
            "requirements": [
                {"id": e.id, "level": e.level, "verdict": e.verdict, "reason": e.reason} for e in found
            ],
            "exit_code": 8 if failed else 0,
        }  # fmt: skip
        return result | {"failed": True, "msg": f"not met: {', '.join(failed)}"} if failed else result
