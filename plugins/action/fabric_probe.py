# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Verb fabric_probe: runs the module on the host and keeps what it collected in the run directory."""

from __future__ import annotations

from ansible_collections.gpufleet.bringup.plugins.action.host_probe import ActionModule as HostProbe
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.collect.host_evidence import FABRIC


class ActionModule(HostProbe):
    """Collect what one host sees of the fabric; whatever goes wrong is written down and not a failed task."""

    module = "fabric_probe"
    kind = FABRIC
