# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Whether a run is about simulated hosts: by the connection of its hosts, never by a variable."""

from __future__ import annotations

from functools import cache
from typing import Any

from ansible.plugins.loader import connection_loader


def hosts_are_simulated(group: str, task_vars: dict[str, Any]) -> bool:
    """Return whether the connection of any host of the group marks its hosts as simulated.

    A connection plugin does so with the class attribute `simulates_hosts`.
    """
    hostvars = task_vars["hostvars"]
    names = task_vars.get("groups", {}).get(group, [])
    return any(_simulates_hosts(str(hostvars[name].get("ansible_connection") or "")) for name in names)


@cache
def _simulates_hosts(connection: str) -> bool:
    plugin = connection_loader.get(connection, class_only=True) if connection else None
    return bool(getattr(plugin, "simulates_hosts", False))
