# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Module drift_report: one report of the changes in a cluster and in its performance."""

from __future__ import annotations

import os
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.action_base.command_line import command_line
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.action_base.module_action import ModuleAction
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.features.snapshot.difference import Importance
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.features.snapshot.report import (
    DriftFacts,
    FigureDrift,
    SnapshotDrift,
    drift_verdict,
    next_step,
    render_drift_markdown,
    render_drift_metrics,
    report_lines,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.errors import InputError
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.runtime.clock import now_utc
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.runtime.files import file_mode, make_dirs, write_atomic
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.verdict.restart import PLACE


class ActionModule(ModuleAction):
    """Write the report of a drift."""

    module = "drift_report"

    def execute(self, options: dict[str, Any], task_vars: dict[str, Any]) -> dict[str, Any]:
        """Merge both results, and write the report unless in check mode."""
        del task_vars
        _refuse_mixed(options["snapshot"].get("rehearsal"), options["figures"].get("rehearsal"))
        facts = DriftFacts(
            site=options["site_name"], rehearsal=options["rehearsal"], now_s=round(time.time(), 3), written=now_utc(),
            snapshot=_snapshot(options["snapshot"]),
            figures=_figures(options["figures"]) if options["figures"] else None, hosts_run=options["hosts_run"],
        )  # fmt: skip
        directory = Path(options["dest"]).expanduser().absolute()
        texts = {
            "markdown": (directory / "drift.md", render_drift_markdown(facts)),
            "metrics": (directory / "drift.prom", render_drift_metrics(facts)),
        }
        if not self.check_mode:
            make_dirs(directory)
            for path, text in texts.values():
                write_atomic(path, text, file_mode(directory))
        for reason in facts.reasons:
            self.emit(reason)
        return {
            "changed": not self.check_mode,
            "msg": report_lines(facts),
            "matters": bool(facts.reasons),
            "reasons": list(facts.reasons),
            "stats": {
                "gpufleet_verdict": drift_verdict(facts),
                "gpufleet_passed": facts.passed,
                "gpufleet_exit_code": 8 if facts.reasons else 0,
                "gpufleet_was_rehearsal": facts.rehearsal,
                "gpufleet_report": str(texts["markdown"][0]),
            },
            "closing_lines": _closing(facts, texts["markdown"][0]),
            "files": {kind: str(path) for kind, (path, _text) in texts.items()},
            "exit_code": 0,
        }


def _closing(facts: DriftFacts, page: Path) -> list[str]:
    lines = [f"verdict  {drift_verdict(facts)}", "", f"report   {page}"]
    step = next_step(facts)
    without = ("gpufleet_run",) if facts.hosts_missed else ()
    command = command_line(sys.argv, os.environ, Path.cwd(), without=without) if facts.reasons else ""
    if command and without:
        # The same run again would leave out the same.
        command += f" -e gpufleet_run={PLACE}"
    return [*lines, *(["", f"do: {step}"] if step else []), *([f"again: {command}"] if command else [])]


def _snapshot(found: dict[str, Any]) -> SnapshotDrift:
    """Return the result of drift_info. Any other value is refused, because it would read as no change."""
    try:
        return SnapshotDrift(
            importances=tuple(Importance(change["importance"]) for change in found["changes"]),
            important=bool(found["drifted"]),
            complete=bool(found["complete"]),
            lines=tuple(str(line) for line in found["msg"]),
            one_sided=tuple(str(name) for name in found["one_sided"]),
        )
    except (KeyError, TypeError, ValueError) as error:
        text = f"is no result of drift_info ({type(error).__name__}: {error})."
        raise InputError("snapshot", text, "register the result of drift_info, and hand it over whole") from None


def _refuse_mixed(cluster: bool | None, run: bool | None) -> None:
    """Refuse figures of a rehearsal beside a real cluster, and the other way round; an unknown side is not refused.

    No one is called for a rehearsal: one of the two would be taken for the other.
    """
    if cluster is not None and run is not None and bool(cluster) != bool(run):
        whose = ("a run of a rehearsal", "none") if run else ("no run of a rehearsal", "one")
        text = f"is {whose[0]}, and the cluster that was compared is {whose[1]}."
        raise InputError("gpufleet_drift_figures", text, "-e gpufleet_drift_figures=RUN, a run of that cluster")


def _figures(found: dict[str, Any]) -> FigureDrift:
    try:
        return FigureDrift(
            compared=Counter(str(entry["figure"]) for entry in found["compared"]),
            worse=tuple(str(name) for name in found["worse"]),
            lines=tuple(str(line) for line in found["msg"]),
        )
    except (KeyError, TypeError) as error:
        text = f"is no result of baseline_info ({type(error).__name__}: {error})."
        raise InputError("figures", text, "register the result of baseline_info, and hand it over whole") from None
