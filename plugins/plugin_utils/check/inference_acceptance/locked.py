# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The locked AIPerf package for the pod that loads servers: it and its dependencies, each file with its digest."""

from __future__ import annotations

from functools import cache
from typing import Any

from ...runtime.files import RECIPES

NAME = "aiperf-lock"
FILE = "aiperf.txt"


@cache
def _lock() -> str:
    return (RECIPES / "workloads" / FILE).read_text(encoding="utf-8")


def is_locked(package: str) -> bool:
    """Return whether this release has the digests of a package (`aiperf==0.13.0`) and its dependencies."""
    return bool(package) and any(line.split(" ", 1)[0] == package for line in _lock().splitlines())


def lock_object(labels: dict[str, str]) -> dict[str, Any]:
    """Return the ConfigMap with the lock. It has a third of a megabyte, so all pods of a namespace share one."""
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": NAME, "labels": labels},
        "data": {FILE: _lock()},
    }
