# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Driver upgrades by the GPU operator, node by node as a roll lets it.

The operator's upgrade controller (NVIDIA/k8s-operator-libs, pkg/upgrade; NVIDIA/gpu-operator, upgrade_controller.go)
goes over every node whose driver pod is not of the newest revision of its DaemonSet, unless the node has the label
`nvidia.com/gpu-driver-upgrade.skip=true`, and writes its state into the label `nvidia.com/gpu-driver-upgrade-state`. A
node that was cordoned when its upgrade began stays cordoned: an annotation remembers that. So a roll cordons and drains
a node, writes that annotation (the controller may have begun to count the node before), takes the skip label away and
waits. Done is a driver pod of the newest revision that is Ready with state `upgrade-done`; the state alone may be that
of the upgrade before.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from ..clients.kube.cluster import Cluster
from ..clients.kube.objects import CONTROLLER_REVISIONS, DAEMON_SETS, NODES, PODS, is_true
from ..clients.kube.permission import Permission
from ..outcome.wording import first_of
from ..runtime.clock import Deadline, elapsed_text
from ..runtime.progress import Emit, Progress, silent

Json = dict[str, Any]
STATE, SKIP = "nvidia.com/gpu-driver-upgrade-state", "nvidia.com/gpu-driver-upgrade.skip"
WAS_CORDONED = "nvidia.com/gpu-driver-upgrade.node-initial-state.unschedulable"
DONE, FAILED = "upgrade-done", "upgrade-failed"
# Of ClusterPolicy, and of resources NVIDIADriver.
_DRIVERS = ("app=nvidia-driver-daemonset", "app.kubernetes.io/component=nvidia-driver")
_HASH = "controller-revision-hash"
_SHOWN = 8
RIGHTS = (Permission("list", "daemonsets", "apps"), Permission("list", "controllerrevisions", "apps"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """How far the upgrade of one node is: the operator's state, what its driver pod says, whether it is skipped."""

    state: str = ""
    pod: str = ""
    newest: bool = False
    ready: bool = False
    skipped: bool = False

    @property
    def done(self) -> bool:
        """Whether the newest driver runs. Without a state the operator leaves upgrades to people."""
        return bool(self.pod) and self.newest and self.ready and self.state in (DONE, "")

    @property
    def text(self) -> str:
        """In words, for people."""
        if not self.pod:
            return "it has no driver pod (DaemonSet nvidia-driver-daemonset)"
        age = "of the newest revision" if self.newest else "of an older revision"
        ready = "Ready" if self.ready else "not Ready"
        return f"state {self.state or 'none'}, driver pod {self.pod} is {age} and {ready}"


def standings(cluster: Cluster, names: Mapping[str, str]) -> dict[str, Standing]:
    """Return how far each node is, by the names of the roll; `names` gives those of the cluster.

    Raises:
        BringupError: the API server does not answer.
    """
    newest = _newest_revisions(cluster)
    pods: dict[str, Json] = {}
    for pod in (pod for selector in _DRIVERS for pod in cluster.list_objects(PODS, labels=selector)):
        if _owner(pod) in newest and not pod["metadata"].get("deletionTimestamp"):
            pods[(pod.get("spec") or {}).get("nodeName", "")] = pod
    live = {item["metadata"]["name"]: item for item in cluster.list_objects(NODES)}
    return {name: _standing(live.get(node), pods.get(node), newest) for name, node in names.items()}


def _newest_revisions(cluster: Cluster) -> dict[str, str]:
    """Return by UID of a driver's DaemonSet the hash of its newest revision."""
    found: dict[str, tuple[int, str]] = {}
    for selector in _DRIVERS:
        for item in cluster.list_objects(DAEMON_SETS, labels=selector):
            uid, namespace = item["metadata"]["uid"], item["metadata"]["namespace"]
            for revision in cluster.list_objects(CONTROLLER_REVISIONS, namespace):
                mark = (revision["metadata"].get("labels") or {}).get(_HASH, "")
                if _owner(revision) == uid and mark:
                    found[uid] = max(found.get(uid, (0, "")), (int(revision.get("revision") or 0), mark))
    return {uid: mark for uid, (unused, mark) in found.items()}


def _owner(item: Json) -> str:
    return next((str(owner["uid"]) for owner in item["metadata"].get("ownerReferences") or []), "")


def _standing(node: Json | None, pod: Json | None, newest: Mapping[str, str]) -> Standing:
    labels = ((node or {}).get("metadata") or {}).get("labels") or {}
    state, skipped = str(labels.get(STATE) or ""), labels.get(SKIP) == "true"
    if pod is None:
        return Standing(state=state, skipped=skipped)
    mark = (pod["metadata"].get("labels") or {}).get(_HASH)
    return Standing(
        state=state, skipped=skipped, pod=pod["metadata"]["name"], newest=mark == newest[_owner(pod)],
        ready=is_true(pod, "Ready"),
    )  # fmt: skip


def unguarded(found: Mapping[str, Standing]) -> str:
    """Return what is wrong before a roll begins: nodes that the operator would upgrade whatever wave they are in."""
    open_nodes = [
        name for name, standing in found.items() if standing.pod and not standing.newest and not standing.skipped
    ]
    if not open_nodes:
        return ""
    return f"the operator may upgrade {first_of(open_nodes, _SHOWN)} now, outside of any wave"


def let_upgrade(cluster: Cluster, node: str) -> None:
    """Let the operator upgrade a node that is cordoned, and leave it cordoned.

    Raises:
        NotFoundError: there is no such node.
    """

    def opened(found: Json) -> Json | None:
        metadata = found["metadata"]
        labels = {key: value for key, value in (metadata.get("labels") or {}).items() if key != SKIP}
        notes = {**(metadata.get("annotations") or {}), WAS_CORDONED: "true"}
        return {**found, "metadata": {**metadata, "labels": labels, "annotations": notes}}

    cluster.change(NODES, node, opened)


def upgrade_nodes(
    cluster: Cluster, names: Mapping[str, str], *, timeout_s: float, emit: Emit = silent, poll_s: float = 5.0,
    sleep: Callable[[float], None] = time.sleep,
) -> dict[str, str]:  # fmt: skip
    """Let the operator upgrade these nodes and wait for it; return by node what went wrong, empty for one that is done.

    A node whose driver is the newest already is done at once. One that the operator calls failed is given up.

    Raises:
        BringupError: the API server does not answer.
    """
    deadline, progress = Deadline.after(timeout_s), Progress(emit)
    for name, standing in standings(cluster, names).items():
        if standing.pod and not standing.newest:
            let_upgrade(cluster, names[name])
    problems = dict[str, str]()
    while len(problems) < len(names):
        late, left = deadline.left_s <= 0, list[str]()
        for name, standing in standings(cluster, names).items():
            if name in problems:
                continue
            if standing.state == FAILED:
                problems[name] = f"the operator says {FAILED}: {standing.text}"
            elif standing.done:
                problems[name] = ""
            elif late:
                problems[name] = f"the operator's upgrade did not end within {elapsed_text(timeout_s)}: {standing.text}"
            else:
                left.append(f"{name}: {standing.text}")
        if left:
            progress.tick(f"waiting for the operator to upgrade {len(left)} nodes; {left[0]}")
            sleep(min(poll_s, max(0.1, deadline.left_s)))
    return problems
