# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Runs module fabric_probe on the host with the commands of gates/fabric/tools.yaml, and keeps what it collected."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ansible_collections.gpufleet.bringup.plugins.action.host_probe import ActionModule as HostProbe
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.collect.host_evidence import FABRIC
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.collect.loads import around_kind
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.collect.tool_requests import (
    Request,
    fabric_requests,
    positive,
)


class ActionModule(HostProbe):
    """Collect what one host observes of the fabric; errors are recorded and do not fail the task."""

    module = "fabric_probe"
    kind = FABRIC

    def _kind(self, options: dict[str, Any]) -> str:
        """Return the kind of evidence: that of the fabric as it is, or of a reading before or after a load."""
        return around_kind(options, self.kind, of_fabric=True)

    def _guard(self, run_dir: Path, host: str, options: dict[str, Any]) -> None:
        """Return None: reading links puts no load on GPUs."""

    def _requests(self, options: dict[str, Any]) -> list[Request]:
        positive("interval", options["interval"])
        return fabric_requests(
            ports=options["ports"],
            ibdiagnet=options["ibdiagnet"],
            extras=options["extras"],
            timeout_s=options["timeout"],
            ibdiagnet_timeout_s=options["ibdiagnet_timeout"],
        )
