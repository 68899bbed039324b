# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""AIPerf's package with all that it needs, each file by its digest, as the pod that loads servers installs it."""

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
    """Tell whether this release knows the digests of that package (`aiperf==0.13.0`) and of what it needs."""
    return bool(package) and any(line.split(" ", 1)[0] == package for line in _lock().splitlines())


def lock_object(labels: dict[str, str]) -> dict[str, Any]:
    """Return the ConfigMap with the lock: one for all pods of a namespace, for it has a third of a megabyte."""
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": NAME, "labels": labels},
        "data": {FILE: _lock()},
    }
