# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Observes whether a pending pod with GPUs gets a node that was not there, and whether that node goes again.

It is paid for, so only a site that states the check is asked. The pod is one that no node of today may have: free GPUs
answer nothing.
"""

from __future__ import annotations

import time
from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import Any

from ...clients.kube.cluster import Cluster
from ...clients.kube.connection import connection_from
from ...clients.kube.errors import ForbiddenError
from ...clients.kube.kinds import CONFIG_MAPS, EVENTS, NODES, Kind
from ...component_stack.facts import stack_facts
from ...runtime.clock import Deadline
from ...runtime.progress import Progress
from ...runtime.recipe_files import RECIPES
from ...workload.namespace import MARGIN_S, TemporaryNamespace, temporary_namespace
from ...workload.render import render
from ..kit.settings import setting
from ..kit.tolerations import tolerations_of
from ..spec import ObserveContext, observer_of
from .node_scaling import GPU, NodeScaling, autoscaler_status, node_pool, words_of

CHECK_ID = "cluster-autoscaling"
_KARPENTER = "karpenter.sh"
_STATUS = "cluster-autoscaler-status", "kube-system"
_HOSTNAME = "kubernetes.io/hostname"
_NAME = "wants-a-node"
# Pods below -10 get no node of cluster-autoscaler (its FAQ: expendable-pods-priority-cutoff).
_PRIORITY = 0
_POLL_S = 2.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ScalingSettings:
    """Settings of check cluster-autoscaling. A site that states any of them has nodes added to its cluster by somebody,
    and lets the test have one, which is paid for until it is gone again."""

    gpus: int = setting("How many GPUs the pod asks for that needs a node.", minimum=1, use="run")
    selector: dict[str, str] = setting("Labels of the nodes that are to be added; empty: any.", use="run")
    image: str = setting("Image of the test's pod; empty: the one of recipes/gpu_stack.yaml.", use="run")
    answer_s: float = setting(
        "How long whoever adds nodes may take to say something of the pod.", unit="s", above=0, use="run"
    )
    up_s: float = setting("How long the node may take to be there with its GPUs.", unit="s", above=0, use="run")
    down_s: float = setting("How long it may take to be gone again.", unit="s", above=0, use="run")
    cleanup_s: float = setting("Longest time to remove what the test made.", unit="s", above=0, use="run")


def observe(context: ObserveContext) -> NodeScaling:
    """Run the test and remove what it made; the node is removed by whoever added it.

    Raises:
        BringupError: the API server does not answer, or refuses the test's objects.
    """
    settings = context.settings_of(CHECK_ID, ScalingSettings)
    if CHECK_ID not in context.site.settings:
        return NodeScaling(problem="not-stated", reason="the site does not say that nodes are added to its cluster")
    if context.check_mode:
        return NodeScaling(problem="check-mode", reason="this run makes nothing on the cluster")
    with Cluster(connection_from(context.connections)) as cluster:
        seen = NodeScaling(answers=_answers(cluster), asked=settings.gpus)
        pods = stack_facts().test_pods
        with temporary_namespace(
            cluster,
            "scaling",
            prefix=pods.namespace_prefix,
            priority=_PRIORITY,
            kinds=(),
            cleanup_s=settings.cleanup_s,
            emit=context.emit,
            tolerations=tolerations_of(context),
            holder=context.holder,
        ) as namespace:
            test = NodeTest(namespace, settings, Progress(context.emit))
            seen = test.up(seen)
        seen = replace(seen, leftovers=tuple(namespace.leftovers))
        return test.down(seen) if seen.node else seen


def _answers(cluster: Cluster) -> tuple[str, ...]:
    """Return what those who add nodes say of themselves."""
    versions = cluster.served_versions(_KARPENTER)
    kind = Kind(f"{_KARPENTER}/{versions[0]}", "NodePool", "nodepools", namespaced=False) if versions else None
    pools = (cluster.find_all(kind) or []) if kind else []
    return (*map(node_pool, pools), *_status(cluster))


def _status(cluster: Cluster) -> tuple[str, ...]:
    """Return what cluster-autoscaler says; it explains a silence, so nobody needs a right in kube-system for it."""
    try:
        found = cluster.find(CONFIG_MAPS, *_STATUS)
    except ForbiddenError:
        return ("the status of cluster-autoscaler may not be read",)
    return (autoscaler_status(str((found.get("data") or {}).get("status", ""))),) if found else ()


def pod_of(namespace: TemporaryNamespace, there: Collection[str], settings: ScalingSettings) -> list[dict[str, Any]]:
    """Return the pod that none of these nodes (by their host names) may have.

    Raises:
        InputError: the template does not render with these values.
    """
    return render(
        RECIPES / "workloads" / "cluster-autoscaling.yaml.j2",
        {
            "name": _NAME,
            "namespace": namespace.name,
            "there": sorted(there),
            "selector": settings.selector,
            "count": settings.gpus,
            "image": settings.image or stack_facts().test_pods.image,
            "priority_class": namespace.priority_class,
            "labels": namespace.labels,
            "tolerations": namespace.tolerated,
            "deadline_s": settings.up_s + settings.cleanup_s + MARGIN_S,
        },
    )


class NodeTest:
    """Asks for a node by a pod, and looks what becomes of both."""

    def __init__(self, namespace: TemporaryNamespace, settings: ScalingSettings, progress: Progress) -> None:
        """Remember where, and which nodes there are."""
        self._namespace, self._settings, self._progress = namespace, settings, progress
        self._cluster = namespace.cluster
        nodes = self._cluster.list_objects(NODES)
        self._there = {node["metadata"]["name"] for node in nodes}
        names = (((node["metadata"].get("labels") or {}).get(_HOSTNAME), node["metadata"]["name"]) for node in nodes)
        self._hostnames = {label or name for label, name in names}

    def up(self, seen: NodeScaling) -> NodeScaling:
        """Make the pod; follow it until it runs, or until the time is over for what it waits for."""
        self._namespace.create(pod_of(self._namespace, self._hostnames, self._settings))
        started = time.monotonic()
        answer, node_there = Deadline.after(self._settings.answer_s), Deadline.after(self._settings.up_s)
        while True:
            seen = self._look(seen, time.monotonic() - started)
            silent = not seen.words.taken and answer.left_s <= 0
            if seen.started or silent or node_there.left_s <= 0:
                return seen
            said = seen.words.taken or seen.words.refused or "nobody said anything yet"
            self._progress.tick(f"node autoscaling: {said}"[:180])
            time.sleep(_POLL_S)

    def _look(self, seen: NodeScaling, elapsed_s: float) -> NodeScaling:
        pod = next(iter(self._namespace.pods()), {})
        words = words_of(self._cluster.list_objects(EVENTS, self._namespace.name))
        name = str((pod.get("spec") or {}).get("nodeName") or "")
        if name and name not in self._there and not seen.node:
            seen = replace(seen, node=name, up_s=round(elapsed_s, 1))
        if seen.node:
            node = self._cluster.find(NODES, seen.node) or {}
            seen = replace(seen, gpus=int(((node.get("status") or {}).get("allocatable") or {}).get(GPU, 0)))
        status = pod.get("status") or {}
        return replace(seen, words=words, started=status.get("phase") == "Running", unstarted=_why_not(status))

    def down(self, seen: NodeScaling) -> NodeScaling:
        """Wait until the node is gone, for its pod is."""
        started, deadline = time.monotonic(), Deadline.after(self._settings.down_s)
        while True:
            there = self._cluster.find(NODES, seen.node) is not None
            elapsed_s = round(time.monotonic() - started, 1)
            if not there or deadline.left_s <= 0:
                return replace(seen, gone_s=None if there else elapsed_s, waited_s=elapsed_s)
            self._progress.tick(f"node autoscaling: waiting for {seen.node} to go"[:180])
            time.sleep(_POLL_S)


def _why_not(status: dict[str, Any]) -> str:
    waiting = ((entry.get("state") or {}).get("waiting") or {} for entry in status.get("containerStatuses") or [])
    texts = (f"{entry.get('reason')}: {entry.get('message', '')}".rstrip(": ") for entry in waiting if entry)
    return next(texts, str(status.get("reason") or ""))[:300]


OBSERVER = observer_of("node_scaling", NodeScaling, observe)
