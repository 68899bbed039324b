# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Module snapshot_info: the content of a cluster now, or when a snapshot was taken."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path
from typing import Any

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.action_base.command_line import command_line
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.action_base.module_action import ModuleAction
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.clients.kube.cluster import Cluster
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.clients.kube.connection import connection_from
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.collect.snapshot_place import write_snapshot
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.features.recipe.detected import criteria_lines, detected
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.features.snapshot.app import (
    not_complete,
    requested_snapshot,
    summary,
    unseen,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.codec import to_plain
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.recipe.detect import plain_detection
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.runtime.redaction import redact
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.runtime.text import extra_variable

_DRIFT = "ansible-playbook gpufleet.bringup.drift"
# Playbook snapshot in a command, by its name or its file.
_PLAYBOOK = re.compile(r"(?<=\.|/| )snapshot(?=\.yml\b| |$)")
# Variables that a drift does not use.
_OF_SNAPSHOT = (
    "gpufleet_snapshot", "gpufleet_snapshot_source", "gpufleet_snapshot_format", "gpufleet_snapshot_api",
    "gpufleet_snapshot_incomplete",
)  # fmt: skip


class ActionModule(ModuleAction):
    """Take a snapshot, or read one."""

    module = "snapshot_info"

    def execute(self, options: dict[str, Any], task_vars: dict[str, Any]) -> dict[str, Any]:
        """Take or read the snapshot, print a summary, and write it where requested."""
        del task_vars
        connection = connection_from(options)
        snapshot = requested_snapshot(connection, options["source"], options, check_mode=self.check_mode)
        warnings, dest = unseen(snapshot), options["dest"]
        if snapshot.failed and not options["source"] and not options["incomplete"]:
            raise not_complete(snapshot)
        if dest and not self.check_mode:
            theirs = options["dest_format"] == "upstream"
            warnings += write_snapshot(
                snapshot, dest, lambda: Cluster(connection), upstream=theirs, api=options["dest_api"]
            )
        place = redact(dest) if dest else ""
        detection = detected(snapshot, tuple(Path(text) for text in options["recipe_data"]))
        return {
            "changed": bool(dest),
            "summary": summary(snapshot),
            "collectors": to_plain(snapshot.collectors),
            "detection": plain_detection(detection),
            "criteria": criteria_lines(detection),
            "dest": place,
            "closing_lines": self._closing(place, options["run_dir"] or "") if place else [],
            "warnings": warnings,
            "exit_code": 0,
        }

    def _closing(self, place: str, run_dir: str) -> list[str]:
        written = " would be written" if self.check_mode else ""
        before = extra_variable("gpufleet_drift_before", place)
        return [f"snapshot {place}{written}", f"compare: {_compare(run_dir)} {before}"]


def _compare(run_dir: str) -> str:
    """Return the command of a drift on the same cluster: this one with the other playbook, where it is known.

    The run whose hosts are in the snapshot is named explicitly: `latest` is another one after the next run.
    """
    run = Path(run_dir).expanduser()
    named = str(run.with_name(run.readlink().name)) if run_dir and run.is_symlink() else ""
    left_out = (*_OF_SNAPSHOT, "gpufleet_run") if named else _OF_SNAPSHOT
    typed = command_line(sys.argv, os.environ, Path.cwd(), without=left_out)
    words, number = _PLAYBOOK.subn("drift", typed, count=1)
    command = words.replace(" --check", "") if number else _DRIFT
    return f"{command} {extra_variable('gpufleet_run', named)}" if named else command
