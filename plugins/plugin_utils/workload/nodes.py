# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Nodes for pods of tests: which are open, which taints are tolerated, our cordon, and whether nodes still report."""

from __future__ import annotations

import re
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from ..clients.kube.cluster import Cluster
from ..clients.kube.objects import NODES, condition, taint_of, taint_text
from ..outcome.errors import InputError
from ..runtime.files import RECIPES
from ..runtime.pool import map_bounded
from ..runtime.strict import decode, read_yaml
from ..snapshot.model import Node

# Checks now and then whether the nodes of running jobs are Ready. Two checks in a row must fail before one is lost.

_LOOK_S = 4.0
# For more nodes than this one list is cheaper, and is read less often.
_MANY, _MANY_LOOK_S = 48, 15.0
_WORKERS = 8
_GONE = "it is no more in the cluster"


@dataclass(slots=True)
class NodeWatch:
    """Remembers which nodes were not reporting at the last check."""

    cluster: Cluster
    _silent: dict[str, str] = field(default_factory=dict)
    _lost: dict[str, str] = field(default_factory=dict)
    _looked_at: float = field(default_factory=time.monotonic)

    def lost(self, names: Iterable[str]) -> Mapping[str, str]:
        """Return those of these nodes that were not Ready at the last two checks, each with its own message."""
        wanted = sorted(names)
        pause_s = _LOOK_S if len(wanted) <= _MANY else _MANY_LOOK_S
        if time.monotonic() - self._looked_at >= pause_s:
            now = self._look(wanted)
            self._lost = {name: reason for name, reason in now.items() if name in self._silent}
            self._silent, self._looked_at = now, time.monotonic()
        return self._lost

    def _look(self, names: list[str]) -> dict[str, str]:
        if len(names) <= _MANY:
            nodes = map_bounded(lambda name: self.cluster.find(NODES, name), names, _WORKERS)
            found = dict(zip(names, nodes, strict=True))
        else:
            every = {node["metadata"]["name"]: node for node in self.cluster.list_objects(NODES)}
            found = {name: every.get(name) for name in names}
        reasons = {name: not_ready(node) for name, node in found.items()}
        return {name: reason for name, reason in reasons.items() if reason}


def not_ready(node: dict[str, Any] | None) -> str:
    """Return why a node is not Ready, or that it does not exist. Empty if it is Ready."""
    if node is None:
        return _GONE
    ready = condition(node, "Ready")
    if ready.get("status") == "True":
        return ""
    return f"{ready.get('reason', '')}: {ready.get('message', '')}".strip(": ") or "it has no condition Ready"


# Which taints the pods of tests tolerate: those that platforms put on GPU nodes, and those that the site configured.

_TEXT = re.compile(r"(?P<key>[^=:\s]+)(?:=(?P<value>[^=:\s]*))?(?::(?P<effect>NoSchedule|PreferNoSchedule|NoExecute))?")


@dataclass(frozen=True, slots=True, kw_only=True)
class Toleration:
    """A tolerated taint. An empty key or effect and the value None match any. `sources` are what sets the taint."""

    key: str
    value: str | None = None
    effect: str = ""
    sources: tuple[str, ...] = ()

    def covers(self, taint: Mapping[str, Any]) -> bool:
        """Tell whether it tolerates this taint of a node."""
        return (
            self.key in ("", taint.get("key"))
            and self.value in (None, str(taint.get("value") or ""))
            and self.effect in ("", taint.get("effect"))
        )

    @property
    def body(self) -> dict[str, str]:
        """The toleration as in the manifest of a pod."""
        operator = {"operator": "Exists"} if self.value is None else {"operator": "Equal", "value": self.value}
        return {"key": self.key, **operator, **({"effect": self.effect} if self.effect else {})}


@cache
def known_tolerations() -> tuple[Toleration, ...]:
    """Return the tolerations for the taints of platforms (recipes/workloads/tolerations.yaml)."""
    path = RECIPES / "workloads" / "tolerations.yaml"
    return decode(tuple[Toleration, ...], read_yaml(path), str(path))


def tolerations_with(configured: Iterable[str], where: str = "settings of gpu_stack") -> tuple[Toleration, ...]:
    """Return the known tolerations and those that a site configured as `key`, `key=value` or `key=value:effect`.

    Raises:
        InputError: a text has another form.
    """
    found = []
    for text in configured:
        match = _TEXT.fullmatch(text)
        if match is None:
            hint = "write it as kubectl describe node prints the taint: key=value:NoSchedule"
            raise InputError(where, f"toleration {text!r} is not key[=value][:effect].", hint)
        found.append(Toleration(key=match["key"], value=match["value"], effect=match["effect"] or ""))
    return (*known_tolerations(), *found)


def toleration_of(body: Mapping[str, str]) -> Toleration:
    """Return a toleration of a pod. With operators other than `Equal` and `Exists` the value is not compared."""
    value = body.get("value", "") if body.get("operator", "Equal") == "Equal" else None
    return Toleration(key=body.get("key", ""), value=value, effect=body.get("effect", ""))


def repelling(taints: Iterable[Mapping[str, Any]], tolerations: Iterable[Toleration]) -> tuple[str, ...]:
    """Return the taints of a node that keep these pods away, as texts."""
    known = tuple(tolerations)
    return tuple(
        taint_text(taint)
        for taint in taints
        if taint.get("effect") in ("NoSchedule", "NoExecute") and not any(entry.covers(taint) for entry in known)
    )


# Whether pods of tests may be placed on a node.


def closed(
    node: Node, tolerations: Iterable[Toleration] | None = None, not_ready: str = "", *, ours: bool = False
) -> str:
    """Return why no pod of a test is placed on a node. Empty if one may be.

    Args:
        node: the node.
        tolerations: tolerations of the pods; None for the taints of platforms.
        not_ready: message of the node where it is not Ready.
        ours: it is cordoned by the roll that tests it, and the pods of that roll tolerate this (CORDON).
    """
    if node.unschedulable and not ours:
        return "cordoned"
    if node.ready != "True":
        return f"not Ready ({not_ready})" if not_ready else "not Ready"
    taints = repelling(map(taint_of, node.taints), known_tolerations() if tolerations is None else tolerations)
    return f"taint {', '.join(taints)}" if taints else ""


# Our cordon: annotations that name the roll which cordoned a node and why it is on hold, and the taint of a held node.

MARK, REASON, HELD_TAINT = "gpufleet.io/cordoned-by", "gpufleet.io/held-because", "gpufleet.io/held"
# The control plane puts this taint on a cordoned node. The scheduler still places pods that tolerate it.
CORDON_TAINT = {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}
CORDON = Toleration(
    key=CORDON_TAINT["key"], effect=CORDON_TAINT["effect"], sources=("gpufleet.bringup, nodes of a roll",)
)


def marked_by(node: Mapping[str, Any]) -> str:
    """Return the roll that cordoned a node. Empty where no roll has marked it."""
    return str((node["metadata"].get("annotations") or {}).get(MARK) or "")


def out_by(node: Mapping[str, Any], roll: str) -> bool:
    """Tell whether a node is cordoned by that roll."""
    return bool(roll) and bool((node.get("spec") or {}).get("unschedulable")) and marked_by(node) == roll
