# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""One short-lived pod on each of some nodes, all with the same script, and what each of them printed."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..clients.kube.cluster import Cluster
from ..clients.kube.errors import mending
from ..clients.kube.permission import Permission
from ..outcome.errors import BringupError
from ..runtime.files import RECIPES
from ..runtime.pool import map_bounded
from ..runtime.progress import Emit, silent
from ..snapshot.model import Node
from .follow import disruption_of, held_by_gates, told_refusal, why_pending
from .manifests import render
from .namespace import BASIC, TemporaryNamespace, temporary_namespace
from .nodes import Toleration, closed
from .pods import log_of_pod, warnings_in

Json = dict[str, Any]
_TEMPLATE = RECIPES / "workloads" / "node-facts.yaml.j2"
_ENDED = ("Succeeded", "Failed")
_WORKERS, _POLL_S = 8, 0.5
# Label of a node without a kubelet (docs.aws.amazon.com, "Get started with AWS Fargate for your cluster").
_FARGATE = ("eks.amazonaws.com/compute-type", "fargate")
RIGHTS = (*BASIC, Permission("create", "pods"))


@dataclass(frozen=True, slots=True, kw_only=True)
class NodePods:
    """What the pods run.

    `image` has a shell. `runtime_class` is empty for the cluster's default. `tolerations` is None for the taints of
    platforms. `start_s` is the time limit for one pod to be placed and to pull its image, `run_s` the one for its
    script. `at_once` is how many pods there are at a time.
    """

    image: str
    script: str
    prefix: str
    priority: int
    runtime_class: str = ""
    tolerations: tuple[Toleration, ...] | None = None
    start_s: float = 120.0
    run_s: float = 40.0
    at_once: int = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Printed:
    """The output of the pod on one node. `reason` is why it is missing or incomplete, empty if the script succeeded."""

    log: str = ""
    reason: str = ""


def closed_to_pods(node: Node, tolerations: tuple[Toleration, ...] | None = None) -> str:
    """Return why no pod is placed on a node. Empty if one may be."""
    if node.operating_system not in ("", "linux"):
        return f"its system is {node.operating_system}"
    if node.labels.get(_FARGATE[0]) == _FARGATE[1]:
        return "it is no machine of its own (Fargate)"
    return closed(node, tolerations)


def run_on_nodes(
    cluster: Cluster, nodes: Mapping[str, Node], pods: NodePods, emit: Emit = silent
) -> dict[str, Printed]:
    """Run the script on the nodes and return the output by node. All pods are removed, however this ends.

    Args:
        cluster: the cluster.
        nodes: the nodes, by name; a node that is closed to pods gets none.
        pods: what to run.
        emit: gets the progress lines.

    Raises:
        HeldError: another run holds the cluster.
        BringupError: the API server does not answer, or refuses the namespace.
    """
    found = {
        name: Printed(reason=why) for name, node in nodes.items() if (why := closed_to_pods(node, pods.tolerations))
    }
    open_ones = sorted(nodes.keys() - found.keys())
    if not open_ones:
        return found
    with temporary_namespace(
        cluster,
        "facts",
        prefix=pods.prefix,
        priority=pods.priority,
        kinds=(),
        emit=emit,
        pod_security="privileged",
        tolerations=pods.tolerations,
    ) as namespace:
        for some in _parts(open_ones, max(1, pods.at_once)):
            found |= _run_some(namespace, some, pods, len(found))
            emit(f"facts of nodes: {len(found)} of {len(nodes)}")
    return found


def _parts(names: Sequence[str], size: int) -> Iterator[Sequence[str]]:
    for start in range(0, len(names), size):
        yield names[start : start + size]


def _run_some(namespace: TemporaryNamespace, nodes: Sequence[str], pods: NodePods, first: int) -> dict[str, Printed]:
    titles = {f"n{first + number}": node for number, node in enumerate(nodes)}
    refused = dict(map_bounded(lambda title: _made(namespace, title, titles[title], pods), list(titles), _WORKERS))
    waiting = {title for title, reason in refused.items() if not reason}
    there = _waited(namespace, waiting, pods)
    warnings = warnings_in(namespace) if any(_phase(pod) not in _ENDED for pod in there.values()) else {}

    def read(title: str) -> tuple[str, Printed]:
        if refused[title]:
            return titles[title], Printed(reason=refused[title])
        return titles[title], _printed(namespace, there.get(title), warnings.get(title, ""))

    return dict(map_bounded(read, list(titles), _WORKERS))


def _made(namespace: TemporaryNamespace, title: str, node: str, pods: NodePods) -> tuple[str, str]:
    """Create the pod of one node. Return its name, and why it was refused or an empty string."""
    values = {
        "name": title,
        "namespace": namespace.name,
        "node": node,
        "image": pods.image,
        "runtime_class": pods.runtime_class,
        "script": pods.script,
        "priority_class": namespace.priority_class,
        "labels": namespace.labels,
        "tolerations": namespace.tolerated,
        "deadline_s": pods.start_s + pods.run_s,
    }
    try:
        namespace.create(render(_TEMPLATE, values))
    except BringupError as error:
        mend = mending(error.reason)
        return title, f"its pod was refused: {told_refusal(error.reason)}{f'; {mend}' if mend else ''}"
    return title, ""


def _waited(namespace: TemporaryNamespace, titles: set[str], pods: NodePods) -> dict[str, Json]:
    """Wait until all pods have ended or their time is over. Return them by name."""
    outage, ends = namespace.cluster.transport.outage, time.monotonic() + pods.start_s + pods.run_s
    away_before_s = outage.away_s
    while True:
        there = {pod["metadata"]["name"]: pod for pod in namespace.pods() if pod["metadata"]["name"] in titles}
        over = time.monotonic() >= ends + outage.late_s(away_before_s)
        if over or all(_phase(pod) in _ENDED for pod in there.values()):
            return there
        time.sleep(_POLL_S)


def _phase(pod: Json) -> str:
    return str((pod.get("status") or {}).get("phase") or "")


def _printed(namespace: TemporaryNamespace, pod: Json | None, warning: str) -> Printed:
    if pod is None:
        return Printed(reason="its pod is gone; somebody removed it")
    statuses = (pod.get("status") or {}).get("containerStatuses") or [{}]
    state = statuses[0].get("state") or {}
    if _phase(pod) not in _ENDED and "running" not in state:
        waiting = state.get("waiting") or {}
        words = ": ".join(str(waiting[key]) for key in ("reason", "message") if waiting.get(key))
        why = why_pending(pod) or held_by_gates(pod) or warning or words or "nobody says why"
        return Printed(reason=f"its pod did not start: {why}"[:400])
    disruption = disruption_of(pod)
    if disruption is not None:
        # Its log may end anywhere, or be removed with the pod.
        return Printed(reason=f"its pod was ended by somebody else: {disruption.reason}"[:400])
    log, unread = log_of_pod(namespace, pod)
    if unread:
        return Printed(reason=f"the log of its pod cannot be read: {unread}")
    ended = state.get("terminated") or {}
    status = pod.get("status") or {}
    if _phase(pod) == "Succeeded":
        return Printed(log=log)
    reported = (
        ended.get("message") or status.get("message") or ended.get("reason") or status.get("reason") or "no reason"
    )
    late = status.get("reason") == "DeadlineExceeded" or _phase(pod) not in _ENDED
    how = f"ended with {ended['exitCode']}" if "exitCode" in ended else "did not end in time" if late else "did not run"
    return Printed(log=log, reason=f"its pod {how}: {reported}"[:400])
