# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Nodes of a Kubernetes cluster in a roll: takes them out of service, drains them, lets the GPU operator upgrade their
drivers, and gives them back.

Our cordon is `spec.unschedulable` with an annotation that names the roll, both written in one update against the
resource version that was read. A cordon without the annotation is unmanaged, and is neither taken over nor lifted. A
node on hold gets a taint of ours as well: others lift cordons by themselves, such as the upgrade controller of the GPU
operator after a failed upgrade (NVIDIA/k8s-operator-libs, pkg/upgrade), but never a taint that they do not know.

Other programs may be at work on a node (other_programs.py). Such a node is not taken into a wave. If the program began
while the node was ours, the node stays cordoned when we give it back.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ...clients.kube.cluster import Cluster
from ...clients.kube.eviction import evict
from ...clients.kube.objects import CONTROLLER_REVISIONS, DAEMON_SETS, NODES, PODS, controller_of, is_true
from ...clients.kube.permission import Permission
from ...outcome.errors import NotFoundError
from ...outcome.wording import first_of
from ...runtime.clock import Deadline, elapsed_text
from ...runtime.pool import map_bounded
from ...runtime.progress import Emit, Progress, silent
from ...workload.capacity import gpus_asked
from ...workload.nodes import CORDON_TAINT, HELD_TAINT, MARK, REASON, marked_by, not_ready, out_by, toleration_of
from .orchestrator import Orchestrator
from .other_programs import Others

Json = dict[str, Any]
STATE, SKIP = "nvidia.com/gpu-driver-upgrade-state", "nvidia.com/gpu-driver-upgrade.skip"
WAS_CORDONED = "nvidia.com/gpu-driver-upgrade.node-initial-state.unschedulable"
DONE, FAILED = "upgrade-done", "upgrade-failed"
# Labels of the driver pods of ClusterPolicy, and of NVIDIADriver resources.
_DRIVERS = ("app=nvidia-driver-daemonset", "app.kubernetes.io/component=nvidia-driver")
_HASH = "controller-revision-hash"
_DRIVERS_SHOWN = 8
UPGRADE_RIGHTS = (Permission("list", "daemonsets", "apps"), Permission("list", "controllerrevisions", "apps"))


@dataclass(frozen=True, slots=True, kw_only=True)
class UpgradeState:
    """The progress of the upgrade of one node: the operator's state, the state of its driver pod, whether it is
    skipped."""

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
        """The progress in words."""
        if not self.pod:
            return "it has no driver pod (DaemonSet nvidia-driver-daemonset)"
        age = "of the newest revision" if self.newest else "of an older revision"
        ready = "Ready" if self.ready else "not Ready"
        return f"state {self.state or 'none'}, driver pod {self.pod} is {age} and {ready}"


def upgrade_states(cluster: Cluster, names: Mapping[str, str]) -> dict[str, UpgradeState]:
    """Return the progress of each node, by its name in the roll; `names` gives the names in the cluster.

    Raises:
        BringupError: the API server does not respond.
    """
    newest = _newest_revisions(cluster)
    pods: dict[str, Json] = {}
    for pod in (pod for selector in _DRIVERS for pod in cluster.list_objects(PODS, labels=selector)):
        if _owner(pod) in newest and not pod["metadata"].get("deletionTimestamp"):
            pods[(pod.get("spec") or {}).get("nodeName", "")] = pod
    live = {item["metadata"]["name"]: item for item in cluster.list_objects(NODES)}
    return {name: _upgrade_state(live.get(node), pods.get(node), newest) for name, node in names.items()}


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


def _upgrade_state(node: Json | None, pod: Json | None, newest: Mapping[str, str]) -> UpgradeState:
    labels = ((node or {}).get("metadata") or {}).get("labels") or {}
    state, skipped = str(labels.get(STATE) or ""), labels.get(SKIP) == "true"
    if pod is None:
        return UpgradeState(state=state, skipped=skipped)
    mark = (pod["metadata"].get("labels") or {}).get(_HASH)
    return UpgradeState(
        state=state, skipped=skipped, pod=pod["metadata"]["name"], newest=mark == newest[_owner(pod)],
        ready=is_true(pod, "Ready"),
    )  # fmt: skip


def unguarded(found: Mapping[str, UpgradeState]) -> str:
    """Return what is wrong before a roll begins: nodes that the operator would upgrade independent of their wave."""
    open_nodes = [
        name for name, standing in found.items() if standing.pod and not standing.newest and not standing.skipped
    ]
    if not open_nodes:
        return ""
    return f"the operator may upgrade {first_of(open_nodes, _DRIVERS_SHOWN)} now, outside of any wave"


def let_upgrade(cluster: Cluster, node: str) -> None:
    """Let the operator upgrade a cordoned node, and leave it cordoned.

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
    """Let the operator upgrade these nodes and wait for it; return the problem by node, empty for one that is done.

    A node whose driver is the newest already is done at once. A node that the operator reports as failed is given up.

    Raises:
        BringupError: the API server does not respond.
    """
    deadline, progress = Deadline.after(timeout_s), Progress(emit)
    for name, standing in upgrade_states(cluster, names).items():
        if standing.pod and not standing.newest:
            let_upgrade(cluster, names[name])
    problems = dict[str, str]()
    while len(problems) < len(names):
        late, left = deadline.left_s <= 0, list[str]()
        for name, standing in upgrade_states(cluster, names).items():
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


_MIRROR = "kubernetes.io/config.mirror"
_FINISHED = ("Succeeded", "Failed")
_AT_ONCE = 8
_SHOWN = 3
DRAIN_RIGHTS = (Permission("list", "pods"), Permission("create", "pods", subresource="eviction"))


@dataclass(frozen=True, slots=True, kw_only=True)
class DrainLimits:
    """How nodes are drained.

    `timeout_s`: for all nodes of a wave together. `grace_s`: for a pod to end (None: its own grace period).
    `unmanaged`: pods without controller may be evicted. `empty_dirs`: pods with emptyDir volumes may be evicted.
    """

    timeout_s: float = 900.0
    grace_s: int | None = None
    unmanaged: bool = False
    empty_dirs: bool = False
    poll_s: float = 5.0


@dataclass(frozen=True, slots=True)
class _Look:
    """One node at one moment: the pods that are still there, and the refused evictions with their reasons."""

    left: tuple[Json, ...]
    kept: tuple[str, ...]


def drain_nodes(
    cluster: Cluster,
    nodes: Mapping[str, str],
    limits: DrainLimits,
    emit: Emit = silent,
    sleep: Callable[[float], None] = time.sleep,
) -> dict[str, str]:
    """Evict the pods of these nodes and wait until they are gone; return by node what blocks it, empty for nothing.

    Args:
        cluster: the cluster.
        nodes: their names in the cluster, by the name that the result uses.
        limits: what may be evicted, and for how long.
        emit: takes the progress lines.
        sleep: waits for so many seconds.

    Raises:
        BringupError: the API server does not respond or forbids it.
    """
    deadline, progress, turn = Deadline.after(limits.timeout_s), Progress(emit), _one_turn(cluster, limits)
    open_nodes, done = dict(nodes), dict[str, str]()
    while open_nodes:
        found = dict(zip(open_nodes, map_bounded(turn, list(open_nodes.values()), _AT_ONCE), strict=True))
        late = deadline.left_s <= 0
        for name, (left, refused, for_good) in found.items():
            if not left or for_good:
                done[name] = for_good
                del open_nodes[name]
            elif late:
                waiting = [f"pod {_title(pod)} does not end" for pod in left if _title(pod) not in refused]
                done[name] = f"after {elapsed_text(limits.timeout_s)}: {_shown([*refused.values(), *waiting])}"
                del open_nodes[name]
        if open_nodes:
            blockers = [text for name in open_nodes for text in found[name][1].values()]
            pods = sum(len(found[name][0]) for name in open_nodes)
            progress.tick(f"draining {len(open_nodes)} nodes: {pods} pods left{f'; {blockers[0]}' if blockers else ''}")
            sleep(min(limits.poll_s, max(0.1, deadline.left_s)))
    return done


def preview_drain(cluster: Cluster, nodes: Mapping[str, str], limits: DrainLimits) -> dict[str, str]:
    """Return by node what would block its drain now, from a server-side dry run; nothing is evicted."""
    turns = map_bounded(_one_turn(cluster, limits, dry_run=True), list(nodes.values()), _AT_ONCE)
    return {
        name: for_good or _shown(list(refused.values()))
        for name, (_left, refused, for_good) in zip(nodes, turns, strict=True)
    }


def _one_turn(
    cluster: Cluster, limits: DrainLimits, *, dry_run: bool = False
) -> Callable[[str], tuple[tuple[Json, ...], dict[str, str], str]]:
    """Return a function that tries once to evict all pods of a node.

    It returns the pods left, refusals by pod, and what blocks the drain for good.
    """

    first: dict[str, frozenset[str]] = {}

    def turn(node: str) -> tuple[tuple[Json, ...], dict[str, str], str]:
        pods = cluster.list_objects(PODS, fields=f"spec.nodeName={node}")
        first.setdefault(node, frozenset(pod["metadata"]["uid"] for pod in pods))
        look = _sorted_out([pod for pod in pods if not stays(pod, first[node])], limits)
        if look.kept:
            return look.left, {}, _shown(list(look.kept))
        refused, for_good = dict[str, str](), list[str]()
        for pod in look.left:
            metadata = pod["metadata"]
            if metadata.get("deletionTimestamp"):
                continue
            reported = evict(
                cluster, metadata["name"], metadata["namespace"], uid=metadata.get("uid", ""), grace_s=limits.grace_s,
                dry_run=dry_run,
            )  # fmt: skip
            if not reported.accepted:
                refused[_title(pod)] = f"pod {_title(pod)}{_owner_text(pod)}: {reported.refused}"
            if reported.for_good:
                for_good.append(refused[_title(pod)])
        return look.left, refused, _shown(for_good)

    return turn


def stays(pod: Json, first: Collection[str]) -> bool:
    """Whether a pod came to a cordoned node because it tolerates that, and blocks nothing.

    Args:
        pod: the pod.
        first: UIDs of the pods that were there when the drain began.
    """
    spec = pod.get("spec") or {}
    if pod["metadata"]["uid"] in first or gpus_asked(spec) or spec.get("resourceClaims"):
        return False
    return any(toleration_of(body).covers(CORDON_TAINT) for body in spec.get("tolerations") or [])


def _sorted_out(pods: Sequence[Json], limits: DrainLimits) -> _Look:
    left, kept = list[Json](), list[str]()
    for pod in sorted(pods, key=_title):
        metadata, owner = pod["metadata"], controller_of(pod)
        finished = (pod.get("status") or {}).get("phase") in _FINISHED
        if finished or _MIRROR in (metadata.get("annotations") or {}) or owner.get("kind") == "DaemonSet":
            continue
        left.append(pod)
        if metadata.get("deletionTimestamp"):
            continue
        if not owner and not limits.unmanaged:
            kept.append(
                f"pod {_title(pod)} has no controller that would make it again (gpufleet_wave_delete_unmanaged: true)"
            )
        volumes = (pod.get("spec") or {}).get("volumes") or []
        if not limits.empty_dirs and any("emptyDir" in volume for volume in volumes):
            kept.append(
                f"pod {_title(pod)}{_owner_text(pod)} would lose its emptyDir (gpufleet_wave_delete_empty_dirs: true)"
            )
    return _Look(tuple(left), tuple(kept))


def _title(pod: Json) -> str:
    return f"{pod['metadata'].get('namespace', '')}/{pod['metadata']['name']}"


def _owner_text(pod: Json) -> str:
    owner = controller_of(pod)
    return f" ({owner.get('kind')} {owner.get('name')})" if owner else ""


def _shown(texts: Sequence[str]) -> str:
    more = f" and {len(texts) - _SHOWN} more" if len(texts) > _SHOWN else ""
    return "; ".join(texts[:_SHOWN]) + more


NODE_RIGHTS = (*(Permission(verb, "nodes") for verb in ("get", "list", "update")), *DRAIN_RIGHTS)
_LONGEST_REASON = 500
_GONE = "it is not in the cluster"


class KubernetesNodes(Orchestrator):
    """The nodes by their names in the roll; `node_names` gives the names in the cluster."""

    def __init__(
        self, cluster: Cluster, roll: str, node_names: Mapping[str, str], limits: DrainLimits, emit: Emit = silent,
        others: Others | None = None,
    ) -> None:  # fmt: skip
        """Use that cluster, for that roll. Without `others`, other programs are not looked for."""
        self._cluster, self._roll, self._names, self._limits, self._emit = cluster, roll, node_names, limits, emit
        self._others = others

    def look(self, nodes: Sequence[str]) -> dict[str, str]:
        """Return by node why it cannot be taken into a roll, empty if it can."""
        every = {entry["metadata"]["name"]: entry for entry in self._cluster.list_objects(NODES)}
        found = {node: every.get(self._names[node]) for node in nodes}
        return {
            node: _GONE if live is None else self._kept(live) or _not_ready_text(live) for node, live in found.items()
        }

    def ours(self, nodes: Sequence[str]) -> frozenset[str]:
        """Return the nodes that this roll keeps out of service."""
        every = {entry["metadata"]["name"]: entry for entry in self._cluster.list_objects(NODES)}
        return frozenset(node for node in nodes if (live := every.get(self._names[node])) and out_by(live, self._roll))

    def boots(self, nodes: Sequence[str]) -> Mapping[str, str]:
        """See Orchestrator; the kubelet reports it."""
        every = {entry["metadata"]["name"]: entry for entry in self._cluster.list_objects(NODES)}
        live = {node: every.get(self._names[node]) or {} for node in nodes}
        found = {
            node: ((entry.get("status") or {}).get("nodeInfo") or {}).get("bootID") for node, entry in live.items()
        }
        return {node: str(boot) for node, boot in found.items() if boot}

    def await_others(self, nodes: Sequence[str], sleep: Callable[[float], None] = time.sleep) -> None:
        """If the policy says so, wait until no other program is at work on the nodes, at most for the drain timeout.

        Raises:
            BringupError: the API server does not respond.
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
        """Return which other party keeps a node out of service or works on it; empty for none."""
        others = self._others.in_the_way(live) if self._others else ""
        return "; ".join(filter(None, (_foreign(live, self._roll), others)))

    def cordon(self, node: str, *, again: bool = False) -> str:
        """See Orchestrator."""
        problem = ""

        def marked(found: Json) -> Json | None:
            nonlocal problem
            problem = _foreign(found, self._roll) if again else self._kept(found)
            if problem or out_by(found, self._roll):
                return None
            return _with(found, self._roll, "", on_hold=False)

        try:
            self._cluster.change(NODES, self._names[node], marked)
        except NotFoundError:
            return _GONE
        return problem

    def drain(self, nodes: Sequence[str]) -> Mapping[str, str]:
        """See Orchestrator."""
        return drain_nodes(self._cluster, {node: self._names[node] for node in nodes}, self._limits, self._emit)

    def preview(self, nodes: Sequence[str]) -> dict[str, str]:
        """Return what blocks each node now; nothing is changed."""
        found, there = dict[str, str](), dict[str, str]()
        for node in nodes:
            live = self._cluster.find(NODES, self._names[node])
            found[node] = _GONE if live is None else self._kept(live)
            there |= {} if found[node] else {node: self._names[node]}
        return {**found, **preview_drain(self._cluster, there, self._limits)}

    def upgrade(self, nodes: Sequence[str], timeout_s: float) -> dict[str, str]:
        """Let the GPU operator upgrade the driver of nodes that are ours; return the problem by node."""
        names = {node: self._names[node] for node in nodes}
        problems = upgrade_nodes(self._cluster, names, timeout_s=timeout_s, emit=self._emit)
        # The operator, or a person, may have lifted the cordon meanwhile.
        return {node: problem or self.cordon(node, again=True) for node, problem in problems.items()}

    def upgrade_problem(self, nodes: Sequence[str]) -> str:
        """Return why the operator cannot upgrade these nodes wave by wave; empty if it can."""
        found = upgrade_states(self._cluster, {node: self._names[node] for node in nodes})
        without = [node for node, standing in found.items() if not standing.pod]
        return f"{', '.join(without[:8])}: {found[without[0]].text}" if without else unguarded(found)

    def labels(self, nodes: Sequence[str]) -> dict[str, dict[str, str]]:
        """Return the labels of each node; operators mark with them what they own."""
        found = {node: self._cluster.find(NODES, self._names[node]) or {"metadata": {}} for node in nodes}
        return {node: dict(live["metadata"].get("labels") or {}) for node, live in found.items()}

    def give_back(self, node: str) -> str:
        """See Orchestrator."""
        left, others = "", ""

        def clean(found: Json) -> Json | None:
            nonlocal left, others
            left = _foreign(found, self._roll)
            if marked_by(found) != self._roll:
                return None
            # A program that began work while the node was ours found it cordoned, and needs it to stay so.
            others = self._others.at_work(found) if self._others and out_by(found, self._roll) else ""
            return _without(found, cordoned=bool(others))

        try:
            self._cluster.change(NODES, self._names[node], clean)
        except NotFoundError:
            return _GONE
        return f"{others}, so it stays cordoned" if others else left and f"{left}, and stays so"

    def hold(self, node: str, reason: str, *, again: bool = False) -> None:
        """See Orchestrator."""

        def held(found: Json) -> Json | None:
            # A node that a person has given back since is not taken again.
            ours = marked_by(found) == self._roll and (out_by(found, self._roll) or not again)
            wanted = _with(found, self._roll, reason, on_hold=True) if ours else None
            return None if wanted == found else wanted

        try:
            self._cluster.change(NODES, self._names[node], held)
        except NotFoundError:
            self._emit(f"{node}: {_GONE}")


def _not_ready_text(node: Json) -> str:
    reason = not_ready(node)
    return reason and f"not Ready: {reason}"


def _foreign(node: Json, roll: str) -> str:
    """Return which other party keeps the node out of service; empty for none."""
    if not (node.get("spec") or {}).get("unschedulable") or marked_by(node) == roll:
        return ""
    return f"cordoned by roll {marked_by(node)}" if marked_by(node) else "cordoned by somebody else"


def _with(node: Json, roll: str, reason: str, *, on_hold: bool) -> Json:
    metadata, spec = node["metadata"], node.get("spec") or {}
    annotations = {**(metadata.get("annotations") or {}), MARK: roll}
    taints = _other_taints(spec)
    if on_hold:
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
    # The control plane updates its own taint for a cordon by itself.
    return [taint for taint in spec.get("taints") or [] if taint.get("key") != HELD_TAINT]
