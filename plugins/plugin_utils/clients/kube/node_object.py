# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Reads a node as the API server has it into the one value that snapshots, gates and workloads use. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from sys import intern
from typing import Any

from ...runtime.redaction import redact
from ...runtime.secret_forms import MASK
from ...runtime.secret_keys import is_secret_key
from ...snapshot.node import Node
from .conditions import condition
from .taints import taint_text

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Cleaner:
    """Masks what looks like a secret; labels are the same on thousands of nodes, so each pair is looked at once."""

    _known: dict[tuple[str, str], str] = field(default_factory=dict)

    def texts(self, values: Mapping[str, Any]) -> dict[str, str]:
        """Return a mapping of texts with secrets masked, keys shared in memory."""
        known, cleaned = self._known, dict[str, str]()
        for key, value in values.items():
            pair = (key, str(value))
            found = known.get(pair)
            if found is None:
                found = known[pair] = MASK if is_secret_key(key) else redact(pair[1])
            cleaned[intern(key)] = found
        return cleaned


def read_node(obj: Json, cleaner: Cleaner) -> tuple[str, Node]:
    """Return name and facts of a node."""
    spec, status, metadata = obj.get("spec") or {}, obj.get("status") or {}, obj["metadata"]
    info = {key: intern(str(value)) for key, value in (status.get("nodeInfo") or {}).items()}
    return str(metadata["name"]), Node(
        provider_id=redact(str(spec.get("providerID") or "")),
        ready=str(condition(obj, "Ready").get("status") or ""),
        unschedulable=bool(spec.get("unschedulable", False)),
        labels=cleaner.texts(metadata.get("labels") or {}),
        taints=tuple(sorted(intern(taint_text(taint)) for taint in spec.get("taints") or ())),
        capacity=cleaner.texts(status.get("capacity") or {}),
        allocatable=cleaner.texts(status.get("allocatable") or {}),
        kubelet=info.get("kubeletVersion", ""),
        container_runtime=info.get("containerRuntimeVersion", ""),
        kernel=info.get("kernelVersion", ""),
        os_image=info.get("osImage", ""),
        operating_system=info.get("operatingSystem", ""),
        architecture=info.get("architecture", ""),
    )
