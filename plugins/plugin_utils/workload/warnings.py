# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""What the cluster warned of in the namespace of a test."""

from __future__ import annotations

from typing import Any

from ..clients.kube.cluster import Cluster
from ..clients.kube.kinds import EVENTS
from ..outcome.errors import BringupError
from .namespace import TemporaryNamespace

Json = dict[str, Any]
_LONGEST = 400


def warning_events(cluster: Cluster, namespace: str) -> list[Json]:
    """Return the warnings of a namespace: of some hundred events of a test that goes well hardly one is.

    The server chooses (kubernetes/kubernetes, pkg/registry/core/event/strategy.go: `type` is a selectable field).

    Raises:
        BringupError: the cluster does not answer.
    """
    events = cluster.list_objects(EVENTS, namespace, fields="type=Warning")
    return [event for event in events if event.get("type") == "Warning"]


def warnings_in(namespace: TemporaryNamespace) -> dict[str, str]:
    """Return by object the last warning about it, as `reason: message`, the newest at the end; none if nobody answers:
    they only explain what is known without them."""
    try:
        warnings = warning_events(namespace.cluster, namespace.name)
    except BringupError:
        return {}
    warnings.sort(key=lambda event: str(event.get("lastTimestamp") or event.get("eventTime") or ""))
    found: dict[str, str] = {}
    for event in warnings:
        name = str((event.get("involvedObject") or {}).get("name", ""))
        found.pop(name, None)
        found[name] = f"{event.get('reason') or ''}: {event.get('message') or ''}"[:_LONGEST]
    return found
