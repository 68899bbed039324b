# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""How often the container of a pod ended, and how that is told."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def deaths_of(pod: Mapping[str, Any]) -> tuple[int, int | None]:
    """Return how often the container of a pod ended, and with which exit code the last time."""
    for status in (pod.get("status") or {}).get("containerStatuses") or []:
        now = (status.get("state") or {}).get("terminated")
        before = (status.get("lastState") or {}).get("terminated")
        deaths = int(status.get("restartCount") or 0) + bool(now)
        ended = now or before or {}
        waiting = ((status.get("state") or {}).get("waiting") or {}).get("reason")
        if deaths and (ended or waiting == "CrashLoopBackOff"):
            return deaths, ended.get("exitCode")
    return 0, None


def told_deaths(deaths: int, code: int | None) -> str:
    """Return how often a container ended and with which exit code, or why that is not known."""
    times = f"{deaths} times" if deaths > 1 else "once"
    if code is None:
        return f"ended {times}, with which exit code is not known: its pod waits to start it again and no longer says"
    return f"ended {times}, the last time with exit code {code}" if deaths > 1 else f"ended once, with exit code {code}"
