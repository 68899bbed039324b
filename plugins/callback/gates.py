# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Prints the last lines of a run or a plan when the playbook ends."""

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
  - Of a validation it prints the phases that were asked in the place of the gates, of a roll its nodes, of a burn-in
    its hosts, and of continuous validation its cycles.
  - With tag C(plan) it prints the plan instead, which M(gpufleet.bringup.plan_info) made.
  - After the start of a rehearsal that is kept it prints how to go on with it as well.
  - It only prints. The report and the results are written by M(gpufleet.bringup.gate).
  - Where it is not enabled the same is printed once C(ansible-playbook) ends. Enable it where tasks are read as events,
    as AWX does, and another callback is not to print after it.
requirements:
  - enabled with C(callbacks_enabled=gpufleet.bringup.gates)
"""

from typing import Any

from ansible.plugins.callback import CallbackBase

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.action_base.closing import Closing


class CallbackModule(CallbackBase):  # type: ignore[misc,unused-ignore]
    """Prints the closing table of the run that run_start started, or the plan of plan_info."""

    CALLBACK_VERSION = 2.0
    CALLBACK_TYPE = "aggregate"
    CALLBACK_NAME = "gpufleet.bringup.gates"
    CALLBACK_NEEDS_ENABLED = True

    def __init__(self) -> None:
        super().__init__()
        self._closing = Closing()

    def v2_runner_on_ok(self, result: Any) -> None:
        """Record the run directory that run_start returned, or the plan."""
        # ansible-core 2.19 made these names public and deprecates the old ones. 2.18 has only the old ones.
        self._closing.see(result.result if hasattr(result, "result") else result._result)

    def v2_playbook_on_stats(self, stats: Any) -> None:
        """Print the closing lines of the run or the plan."""
        del stats
        self._closing.print()
