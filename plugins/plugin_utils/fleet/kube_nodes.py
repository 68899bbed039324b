# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Nodes of a Kubernetes cluster as a roll takes them out of work and gives them back.

Our cordon is `spec.unschedulable` with an annotation that names the roll, written at once over the version of the node
that was read. A cordon without it is somebody else's and is neither taken over nor lifted. A node that is held gets a
taint of ours besides: others lift cordons by themselves, such as the upgrade controller of the GPU operator after a
failed upgrade (NVIDIA/k8s-operator-libs, pkg/upgrade), and never a taint that they do not know.

Other programs may be at work on a node (others.py): it is not taken into a wave then, and one that such a program took
up while it was ours stays cordoned when we give it back.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ..clients.kube.cluster import Cluster
from ..clients.kube.objects import NODES
from ..clients.kube.permission import Permission
from ..outcome.errors import NotFoundError
from ..runtime.clock import Deadline
from ..runtime.progress import Emit, Progress, silent
from ..workload.nodes import HELD_TAINT, MARK, REASON, marked_by, not_ready, out_by
from . import kube_drain
from .driver_upgrade import standings, unguarded, upgrade_nodes
from .kube_drain import DrainLimits, drain_nodes, preview_drain
from .others import Others

Json = dict[str, Any]
RIGHTS = (*(Permission(verb, "nodes") for verb in ("get", "list", "update")), *kube_drain.RIGHTS)
_LONGEST_REASON = 500
_GONE = "it is not in the cluster"


class KubernetesNodes:
    """The nodes by the names of the roll; `node_names` gives those of the cluster."""

    def __init__(
        self, cluster: Cluster, roll: str, node_names: Mapping[str, str], limits: DrainLimits, emit: Emit = silent,
        others: Others | None = None,
    ) -> None:  # fmt: skip
        """Talk to that cluster, for that roll; without `others` nobody asks who else is at work there."""
        self._cluster, self._roll, self._names, self._limits, self._emit = cluster, roll, node_names, limits, emit
        self._others = others

    def look(self, nodes: Sequence[str]) -> dict[str, str]:
        """Return by node what keeps it from being taken into a roll, empty for nothing."""
        every = {entry["metadata"]["name"]: entry for entry in self._cluster.list_objects(NODES)}
        found = {node: every.get(self._names[node]) for node in nodes}
        return {
            node: _GONE if live is None else self._kept(live) or _not_ready_text(live) for node, live in found.items()
        }

    def ours(self, nodes: Sequence[str]) -> frozenset[str]:
        """Return those that are kept from work by this roll."""
        every = {entry["metadata"]["name"]: entry for entry in self._cluster.list_objects(NODES)}
        return frozenset(node for node in nodes if (live := every.get(self._names[node])) and out_by(live, self._roll))

    def boots(self, nodes: Sequence[str]) -> Mapping[str, str]:
        """See engine.Orchestrator; the kubelet reports it."""
        every = {entry["metadata"]["name"]: entry for entry in self._cluster.list_objects(NODES)}
        live = {node: every.get(self._names[node]) or {} for node in nodes}
        found = {
            node: ((entry.get("status") or {}).get("nodeInfo") or {}).get("bootID") for node, entry in live.items()
        }
        return {node: str(boot) for node, boot in found.items() if boot}

    def await_others(self, nodes: Sequence[str], sleep: Callable[[float], None] = time.sleep) -> None:
        """Wait until nobody else is at work on the nodes, at most as long as a drain may take, if the policy says so.

        Raises:
            BringupError: the API server does not answer.
        """
        if self._others is None or self._others.policy != "wait":
            return
        deadline, progress = Deadline.after(self._limits.timeout_s), Progress(self._emit)
        while deadline.left_s > 0:
            every = {entry["metadata"]["name"]: entry for entry in self._cluster.list_objects(NODES)}
            live = {node: every[self._names[node]] for node in nodes if self._names[node] in every}
            busy = {node: text for node, entry in live.items() if (text := self._others.in_the_way(entry))}
            if not busy:
                return
            first = next(iter(busy))
            progress.tick(f"waiting for others on {len(busy)} nodes; {first}: {busy[first]}")
            sleep(min(self._limits.poll_s, max(0.1, deadline.left_s)))

    def _kept(self, live: Json) -> str:
        """Return who else keeps a node from work or is at work on it; empty for nobody."""
        others = self._others.in_the_way(live) if self._others else ""
        return "; ".join(filter(None, (_foreign(live, self._roll), others)))

    def cordon(self, node: str, *, again: bool = False) -> str:
        """See engine.Orchestrator."""
        problem = ""

        def marked(found: Json) -> Json | None:
            nonlocal problem
            problem = _foreign(found, self._roll) if again else self._kept(found)
            if problem or out_by(found, self._roll):
                return None
            return _with(found, self._roll, "", held=False)

        try:
            self._cluster.change(NODES, self._names[node], marked)
        except NotFoundError:
            return _GONE
        return problem

    def drain(self, nodes: Sequence[str]) -> Mapping[str, str]:
        """See engine.Orchestrator."""
        return drain_nodes(self._cluster, {node: self._names[node] for node in nodes}, self._limits, self._emit)

    def preview(self, nodes: Sequence[str]) -> dict[str, str]:
        """Return what is in the way of each node now; nothing is changed."""
        found, there = dict[str, str](), dict[str, str]()
        for node in nodes:
            live = self._cluster.find(NODES, self._names[node])
            found[node] = _GONE if live is None else self._kept(live)
            there |= {} if found[node] else {node: self._names[node]}
        return {**found, **preview_drain(self._cluster, there, self._limits)}

    def upgrade(self, nodes: Sequence[str], timeout_s: float) -> dict[str, str]:
        """Let the GPU operator upgrade the driver of nodes that are ours; return by node what went wrong."""
        names = {node: self._names[node] for node in nodes}
        problems = upgrade_nodes(self._cluster, names, timeout_s=timeout_s, emit=self._emit)
        # The operator, or a person, may have lifted the cordon meanwhile.
        return {node: problem or self.cordon(node, again=True) for node, problem in problems.items()}

    def upgrade_problem(self, nodes: Sequence[str]) -> str:
        """Return why the operator cannot upgrade these nodes wave by wave; empty if it can."""
        found = standings(self._cluster, {node: self._names[node] for node in nodes})
        without = [node for node, standing in found.items() if not standing.pod]
        return f"{', '.join(without[:8])}: {found[without[0]].text}" if without else unguarded(found)

    def labels(self, nodes: Sequence[str]) -> dict[str, dict[str, str]]:
        """Return the labels of each node; operators say by them what they own."""
        found = {node: self._cluster.find(NODES, self._names[node]) or {"metadata": {}} for node in nodes}
        return {node: dict(live["metadata"].get("labels") or {}) for node, live in found.items()}

    def give_back(self, node: str) -> str:
        """See engine.Orchestrator."""
        left, others = "", ""

        def clean(found: Json) -> Json | None:
            nonlocal left, others
            left = _foreign(found, self._roll)
            if marked_by(found) != self._roll:
                return None
            # Who took the node up while it was ours found it cordoned, and needs it so.
            others = self._others.at_work(found) if self._others and out_by(found, self._roll) else ""
            return _without(found, cordoned=bool(others))

        try:
            self._cluster.change(NODES, self._names[node], clean)
        except NotFoundError:
            return _GONE
        return f"{others}, so it stays cordoned" if others else left and f"{left}, and stays so"

    def hold(self, node: str, reason: str, *, again: bool = False) -> None:
        """See engine.Orchestrator."""

        def held(found: Json) -> Json | None:
            # What a person gave back since is not taken again.
            ours = marked_by(found) == self._roll and (out_by(found, self._roll) or not again)
            wanted = _with(found, self._roll, reason, held=True) if ours else None
            return None if wanted == found else wanted

        try:
            self._cluster.change(NODES, self._names[node], held)
        except NotFoundError:
            self._emit(f"{node}: {_GONE}")


def _not_ready_text(node: Json) -> str:
    reason = not_ready(node)
    return reason and f"not Ready: {reason}"


def _foreign(node: Json, roll: str) -> str:
    """Return who else keeps the node from work; empty if nobody does."""
    if not (node.get("spec") or {}).get("unschedulable") or marked_by(node) == roll:
        return ""
    return f"cordoned by roll {marked_by(node)}" if marked_by(node) else "cordoned by somebody else"


def _with(node: Json, roll: str, reason: str, *, held: bool) -> Json:
    metadata, spec = node["metadata"], node.get("spec") or {}
    annotations = {**(metadata.get("annotations") or {}), MARK: roll}
    taints = _other_taints(spec)
    if held:
        annotations[REASON] = reason[:_LONGEST_REASON]
        taints.append({"key": HELD_TAINT, "value": roll, "effect": "NoSchedule"})
    changed = {**spec, "unschedulable": True} | ({"taints": taints} if taints else {})
    return {**node, "metadata": {**metadata, "annotations": annotations}, "spec": changed}


def _without(node: Json, *, cordoned: bool = False) -> Json:
    metadata, spec = node["metadata"], dict(node.get("spec") or {})
    notes = {key: text for key, text in (metadata.get("annotations") or {}).items() if key not in (MARK, REASON)}
    if not cordoned:
        spec.pop("unschedulable", None)
    spec["taints"] = _other_taints(spec)
    return {**node, "metadata": {**metadata, "annotations": notes}, "spec": spec}


def _other_taints(spec: Json) -> list[Json]:
    # The control plane keeps its own taint for a cordon up to date by itself.
    return [taint for taint in spec.get("taints") or [] if taint.get("key") != HELD_TAINT]
