# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""What the receiver of the test alert wrote down. Pure."""

from __future__ import annotations

import json


def is_listening(log: str) -> bool:
    """Whether the log of the receiver says that it listens."""
    return any("listening" in entry for entry in _entries(log))


def received(log: str, name: str) -> bool:
    """Whether a notice of the firing test alert is among what the receiver wrote."""
    for entry in _entries(log):
        alerts = entry.get("alerts")
        if isinstance(alerts, list) and ["firing", name] in alerts:
            return True
    return False


def _entries(log: str) -> list[dict[str, object]]:
    found = []
    for line in log.splitlines():
        try:
            entry = json.loads(line)
        except ValueError:
            # Only whole lines of ours count; the last one may still be on its way.
            continue
        if isinstance(entry, dict):
            found.append(entry)
    return found
