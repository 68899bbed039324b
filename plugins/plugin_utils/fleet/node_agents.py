# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Who else is at work on a node of a Kubernetes cluster, by the marks that such programs leave on it.

What counts as a mark, and whose it is, stands in recipes/node_agents.yaml. A program that leaves no mark (node auto
repair of GKE and EKS) is seen by what it does: a boot id that changed, a node that is gone, a cordon that is not ours.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from ..runtime.recipe_files import RECIPES
from ..runtime.strict import decode_file

Json = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """One mark of one agent; the fields are described in recipes/node_agents.yaml."""

    agent: str
    source: str
    annotation: str = ""
    label: str = ""
    taint: str = ""
    values: tuple[str, ...] = ()
    driver: bool = False

    def on(self, node: Json) -> str:
        """Return what a node shows of it, for people; empty if it has not got it."""
        metadata = node["metadata"]
        if self.taint:
            taints = (node.get("spec") or {}).get("taints") or []
            return f"taint {self.taint}" if any(taint.get("key") == self.taint for taint in taints) else ""
        kind, key = ("annotation", self.annotation) if self.annotation else ("label", self.label)
        value = str((metadata.get("annotations" if self.annotation else "labels") or {}).get(key) or "")
        if not value or (self.values and value not in self.values):
            return ""
        # NVSentinel writes the whole event there.
        return f"{kind} {key}{f'={value}' if self.values else ''}"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Marks:
    marks: tuple[Mark, ...]


@cache
def marks() -> tuple[Mark, ...]:
    """Return the marks that are known.

    Raises:
        InputError: the file is not what it should be.
    """
    return decode_file(_Marks, RECIPES / "node_agents.yaml").marks


def at_work_on(node: Json, *, own_upgrade: bool = False) -> str:
    """Return who else is at work on a node, and by which mark that is seen; empty for nobody.

    Args:
        node: the object of the API server.
        own_upgrade: the roll itself has the GPU operator upgrade drivers.
    """
    shown: dict[str, list[str]] = {}
    for mark in marks():
        told = "" if own_upgrade and mark.driver else mark.on(node)
        if told:
            shown.setdefault(mark.agent, []).append(told)
    return "; ".join(f"{agent} is at work on it ({', '.join(told)})" for agent, told in shown.items())
