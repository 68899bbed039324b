# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Observe whether a pending pod with GPUs gets a new node, and whether that node is removed again.

The node costs money, so the test only runs at a site that configures the check. The pod must not fit on any present
node: free GPUs would prove nothing. So each of those gets a guard, a pod without GPUs that the test pod must not share
a node with. Names of nodes cannot be used for that: Karpenter ignores a pod whose node affinity names
kubernetes.io/hostname, whatever the operator (kubernetes-sigs/karpenter, pkg/controllers/provisioning/provisioner.go:
validateAffinity, pkg/apis/v1/labels.go: RestrictedLabels; its issues 1596 and 3214). Nor can a label:
cluster-autoscaler copies the labels of a future node from a present one, and of its pods only those of DaemonSets
(kubernetes/autoscaler, cluster-autoscaler/simulator/node_info_utils.go).
"""

from __future__ import annotations

import re
import time
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from ...clients.kube.cluster import Cluster
from ...clients.kube.connection import connection_from
from ...clients.kube.errors import ForbiddenError
from ...clients.kube.objects import CONFIG_MAPS, EVENTS, NODES, Kind
from ...component_stack.facts import stack_facts
from ...outcome.wording import count
from ...runtime.clock import Deadline
from ...runtime.files import RECIPES
from ...runtime.foreign_yaml import documents
from ...runtime.progress import Progress
from ...snapshot.model import whole_number
from ...workload.follow import NO_QUEUE_HINT, first_held, node_of, why_pending
from ...workload.manifests import render
from ...workload.namespace import MARGIN_S, TemporaryNamespace, temporary_namespace
from ...workload.pods import end_of
from ...workload.queue import served_version
from ..kit.settings import setting
from ..kit.tolerations import tolerations_of
from ..spec import ObserveContext, observer_of

# A node that was added for a pending pod, as values. Reading is pure. Autoscalers report what they do for a pending pod
# in events about the pod: cluster-autoscaler `TriggeredScaleUp` and `NotTriggerScaleUp` (kubernetes/autoscaler,
# cluster-autoscaler FAQ: "What events are emitted by CA?"), Karpenter `Nominated` and `FailedScheduling` from its own
# component, which in EKS Auto Mode is eks-auto-mode/compute (kubernetes-sigs/karpenter,
# pkg/controllers/provisioning/scheduling/events.go). They report their own state, too: NodePools have a condition
# Ready; cluster-autoscaler writes a ConfigMap, as YAML since 1.30 and as text before
# (cluster-autoscaler/clusterstate/api/types.go).

Json = dict[str, Any]
GPU = "nvidia.com/gpu"
_YES = ("TriggeredScaleUp", "Nominated")
_NO = ("NotTriggerScaleUp", "FailedScheduling")
# Suffix of the names of schedulers, for events where the pod does not name it: kai-scheduler, gke.io/...-scheduler of
# Google Cloud.
_SCHEDULER = "scheduler"
# Classes of cluster-autoscaler itself: one adds nothing, the other grows the groups that pending pods grow (its FAQ,
# "How can I use ProvisioningRequest to run batch workloads"). For other classes that is not known: node pools of GKE
# with queued provisioning only get nodes by requests (gcloud container node-pools create,
# --enable-queued-provisioning).
_OWN_CLASSES = ("check-capacity.autoscaling.x-k8s.io", "best-effort-atomic-scale-up.autoscaling.x-k8s.io")
_FULL = re.compile(
    r"max node group size reached|exceed(?:s|ed)? limits|max cluster .* limit reached|quota", re.IGNORECASE
)
# Karpenter: "Pod should schedule on: nodeclaim/NAME, node/NAME".
_PROMISED = re.compile(r"\b(nodeclaim|node)/([a-z0-9][a-z0-9.-]*)")
_HEALTH = re.compile(r"^\s*Health:\s+(\w+)", re.MULTILINE)


@dataclass(frozen=True, slots=True, kw_only=True)
class AutoscalerWords:
    """What autoscalers reported about the pod.

    `taken` is the last event that a node is added, `refused` the last that none is, each with its source. Empty: there
    was none.
    """

    taken: str = ""
    refused: str = ""

    @property
    def is_full(self) -> bool:
        """Whether it was refused because the pools cannot grow any more."""
        return bool(_FULL.search(self.refused))


@dataclass(frozen=True, kw_only=True)
class NodeScaling:
    """The whole observation.

    Attributes:
        problem: slug of why no test was possible.
        reason: its text.
        answers: what autoscalers report about themselves.
        by_request: classes of ProvisioningRequests by which Kueue requests nodes that may come for nothing else.
        words: what autoscalers reported about the pod.
        asked: GPUs that the pod requests.
        node: the new node for the pod.
        gpus: its GPUs.
        up_s: seconds until it was there.
        placed: the pod is bound to it.
        unplaced: otherwise the scheduler's message about the pod.
        started: its container ran.
        unstarted: why not.
        gone_s: seconds after the pod until the node was removed; None: it is still there.
        waited_s: seconds for which that was observed.
        leftovers: what could not be removed.
    """

    problem: str = ""
    reason: str = ""
    answers: tuple[str, ...] = ()
    by_request: tuple[str, ...] = ()
    words: AutoscalerWords = AutoscalerWords()
    asked: int = 0
    node: str = ""
    gpus: int = 0
    up_s: float = 0.0
    placed: bool = False
    unplaced: str = ""
    started: bool = False
    unstarted: str = ""
    gone_s: float | None = None
    waited_s: float = 0.0
    leftovers: tuple[str, ...] = ()
    schema_version: int = 1


def words_of(events: Iterable[Json], scheduler: str = "") -> AutoscalerWords:
    """Return what events about a pod report on nodes for it.

    Karpenter uses a reason that every scheduler uses too. A scheduler of the cluster reports by the name in the pod's
    schedulerName (kubernetes/kubernetes, pkg/scheduler/profile/profile.go), which platforms change (Google Cloud,
    "About GKE cluster autoscaling": profile optimize-utilization).

    Args:
        events: all about one pod.
        scheduler: the pod's schedulerName.
    """
    found = {True: "", False: ""}
    for event in sorted(events, key=_when):
        reason, message = str(event.get("reason", "")), str(event.get("message", ""))
        source = str((event.get("source") or {}).get("component") or event.get("reportingComponent") or "")
        by_scheduler = source.endswith(_SCHEDULER) or (bool(source) and source == scheduler)
        if (reason in _YES or reason in _NO) and not by_scheduler:
            found[reason in _YES] = f"{source or 'somebody'}: {reason}: {message}"[:400]
    return AutoscalerWords(taken=found[True], refused=found[False])


def request_classes(configs: Iterable[Json]) -> tuple[str, ...]:
    """Return the classes of Kueue's ProvisioningRequestConfigs whose nodes may come only for requests."""
    classes = {str((item.get("spec") or {}).get("provisioningClassName", "")) for item in configs}
    return tuple(sorted(classes - {"", *_OWN_CLASSES}))


def node_for(nodes: Iterable[Json], taken: str, selector: Mapping[str, str]) -> str:
    """Return which of the new nodes is the pod's. Empty: none of them.

    It is the one that was announced by name or by NodeClaim. If no node was announced, it is the first one with the
    labels of the selector.

    Args:
        nodes: metadata of the nodes that were not there before.
        taken: what was reported about the pod.
        selector: labels of the requested nodes.
    """
    promised = set(_PROMISED.findall(taken))
    fitting = [node for node in nodes if selector.items() <= (node.get("labels") or {}).items()]
    if promised:
        fitting = [node for node in fitting if _names_of(node) & promised]
    return min((str(node["name"]) for node in fitting), default="")


def _names_of(node: Json) -> set[tuple[str, str]]:
    claims = (owner["name"] for owner in node.get("ownerReferences") or [] if owner.get("kind") == "NodeClaim")
    return {("node", str(node["name"])), *(("nodeclaim", str(name)) for name in claims)}


def _when(event: Json) -> str:
    return str(event.get("lastTimestamp") or event.get("eventTime") or event.get("firstTimestamp") or "")


def node_pool(item: Json) -> str:
    """Return the state of a Karpenter NodePool in one line."""
    conditions = (item.get("status") or {}).get("conditions") or []
    ready: Json = next((entry for entry in conditions if entry.get("type") == "Ready"), {})
    word = {"True": "ready", "False": "not ready"}.get(str(ready.get("status")), "of unknown readiness")
    why = f" ({ready.get('message') or ready.get('reason')})" if word == "not ready" else ""
    limit = ((item.get("spec") or {}).get("limits") or {}).get(GPU)
    used = ((item.get("status") or {}).get("resources") or {}).get(GPU, 0)
    gpus = f", {used} of {limit} GPUs" if limit is not None else ""
    return f"NodePool {item['metadata']['name']} is {word}{why}{gpus}"


def autoscaler_status(text: str) -> str:
    """Return the state of cluster-autoscaler in one line, from the text of its ConfigMap.

    If the text has neither of the two known forms, the line reports that.
    """
    try:
        found = next(iter(documents(text)), None)
    except ValueError:
        found = None
    if isinstance(found, dict) and "autoscalerStatus" in found:
        wide = found.get("clusterWide") or {}
        health = str((wide.get("health") or {}).get("status") or "of unknown health")
        groups = found.get("nodeGroups") or []
        return f"cluster-autoscaler is {found['autoscalerStatus']}, {health}, with {len(groups)} node groups"
    match = _HEALTH.search(text)
    if match:
        return f"cluster-autoscaler is {match.group(1)}"
    return "cluster-autoscaler has a status that cannot be read"


CHECK_ID = "cluster-autoscaling"
_KARPENTER = "karpenter.sh"
_STATUS = "cluster-autoscaler-status", "kube-system"
_NAME, _GUARD = "wants-a-node", "guard"
_GUARD_LABELS = {"gpufleet.io/guard": "nodes-of-today"}
# Pods below -10 get no node from cluster-autoscaler (its FAQ: expendable-pods-priority-cutoff).
_PRIORITY = 0
_POLL_S = 2.0
# Seconds between two lists of all nodes while the pod has none.
_NODES_S = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ScalingSettings:
    """Settings of check cluster-autoscaling.

    A site that sets any of them has an autoscaler and allows the test to add a node, which costs money until it is
    removed. The exception is `added: false`.
    """

    added: bool = setting(
        "Whether nodes are added to the cluster as pods need them. False says that nobody adds any: the check is then "
        "told as not declared, and leaves nothing open in a validation.",
        default=True,
        use="run",
    )
    gpus: int = setting("How many GPUs the pod asks for that needs a node.", default=1, minimum=1, use="run")
    selector: dict[str, str] = setting("Labels of the nodes that are to be added; empty: any.", default={}, use="run")
    image: str = setting("Image of the test's pod; empty: the one of recipes/gpu_stack.yaml.", default="", use="run")
    answer_s: float = setting(
        "How long whoever adds nodes may take to say something of the pod.", default=180.0, unit="s", above=0, use="run"
    )
    up_s: float = setting(
        "How long the node may take to be there with its GPUs.", default=1200.0, unit="s", above=0, use="run"
    )
    down_s: float = setting("How long it may take to be gone again.", default=1800.0, unit="s", above=0, use="run")
    cleanup_s: float = setting("Longest time to remove what the test made.", default=60.0, unit="s", above=0, use="run")


def observe(context: ObserveContext) -> NodeScaling:
    """Run the test and remove what it created. The node is removed by the autoscaler that added it.

    Raises:
        BringupError: the API server does not respond, or refuses the objects of the test.
    """
    settings = context.settings_of(CHECK_ID, ScalingSettings)
    if not context.site.adds_nodes:
        return NodeScaling(problem="not-stated", reason="the site does not say that nodes are added to its cluster")
    if context.check_mode:
        return NodeScaling(problem="check-mode", reason="this run makes nothing on the cluster")
    with Cluster(connection_from(context.connections)) as cluster:
        observed = NodeScaling(answers=_answers(cluster), by_request=_by_request(cluster), asked=settings.gpus)
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
            observed = test.up(observed)
        observed = replace(observed, leftovers=tuple(namespace.leftovers))
        return test.down(observed) if observed.node and observed.started else observed


def _answers(cluster: Cluster) -> tuple[str, ...]:
    """Return what autoscalers report about themselves."""
    versions = cluster.served_versions(_KARPENTER)
    kind = Kind(f"{_KARPENTER}/{versions[0]}", "NodePool", "nodepools", namespaced=False) if versions else None
    pools = (cluster.find_all(kind) or []) if kind else []
    return (*map(node_pool, pools), *_status(cluster))


def _by_request(cluster: Cluster) -> tuple[str, ...]:
    version = served_version(cluster)
    kind = Kind(version, "ProvisioningRequestConfig", "provisioningrequestconfigs", namespaced=False)
    return request_classes((cluster.find_all(kind) or []) if version else [])


def _status(cluster: Cluster) -> tuple[str, ...]:
    """Return the state of cluster-autoscaler.

    It only helps to explain a missing reaction, so no permission in kube-system is required.
    """
    try:
        found = cluster.find(CONFIG_MAPS, *_STATUS)
    except ForbiddenError:
        return ("the status of cluster-autoscaler may not be read",)
    return (autoscaler_status(str((found.get("data") or {}).get("status", ""))),) if found else ()


def guards_of(namespace: TemporaryNamespace, nodes: Collection[str], settings: ScalingSettings) -> list[Json]:
    """Return a guard for each of these nodes, which keeps the test pod away from it. Empty: there are no nodes.

    Raises:
        InputError: the template does not render with these values.
    """
    if not nodes:
        # A cluster whose GPU nodes are added only on demand.
        return []
    values = {"name": _GUARD, "nodes": sorted(nodes), "labels": {**namespace.labels, **_GUARD_LABELS}}
    return _rendered("cluster-autoscaling-guards.yaml.j2", values, namespace, settings)


def pod_of(namespace: TemporaryNamespace, settings: ScalingSettings) -> list[Json]:
    """Return the pod that does not fit on a node with a guard.

    Raises:
        InputError: the template does not render with these values.
    """
    values = {
        "name": _NAME,
        "labels": namespace.labels,
        "guard": _GUARD_LABELS,
        "selector": settings.selector,
        "count": settings.gpus,
    }
    return _rendered("cluster-autoscaling.yaml.j2", values, namespace, settings)


def _rendered(template: str, values: Json, namespace: TemporaryNamespace, settings: ScalingSettings) -> list[Json]:
    common = {
        "namespace": namespace.name,
        "image": settings.image or stack_facts().test_pods.image,
        "priority_class": namespace.priority_class,
        "tolerations": namespace.tolerated,
        "deadline_s": settings.up_s + settings.cleanup_s + MARGIN_S,
    }
    return render(RECIPES / "workloads" / template, {**common, **values})


class NodeTest:
    """Requests a node by a pod, and observes both."""

    def __init__(self, namespace: TemporaryNamespace, settings: ScalingSettings, progress: Progress) -> None:
        """Store the place of the test and the present nodes."""
        self._namespace, self._settings, self._progress = namespace, settings, progress
        self._cluster = namespace.cluster
        nodes = self._cluster.list_objects(NODES)
        self._there = {node["metadata"]["name"] for node in nodes}
        self._guarded = {node["metadata"]["name"] for node in nodes if _may_hold(node, settings)}
        self._listed_at, self._ended = -_NODES_S, False

    def up(self, observed: NodeScaling) -> NodeScaling:
        """Guard the present nodes and create the pod.

        Follow it until it runs, or until the time limit of its current stage.
        """
        undecided = self._guard()
        if undecided:
            reason = f"{count(undecided, 'pod')} of the test, which keep it off the nodes of today, got no answer"
            return self._held(observed) or replace(observed, problem="scheduler-silent", reason=reason)
        self._namespace.create(pod_of(self._namespace, self._settings))
        started = time.monotonic()
        answer, node_there = Deadline.after(self._settings.answer_s), Deadline.after(self._settings.up_s)
        while True:
            observed = self._look(observed, time.monotonic() - started)
            not_reporting = not observed.words.taken and not observed.node and answer.left_s <= 0
            if observed.problem or observed.started or self._ended or not_reporting or node_there.left_s <= 0:
                return (self._held(observed) if not_reporting else None) or observed
            reported = observed.words.taken or observed.words.refused or "nobody said anything yet"
            self._progress.tick(f"node autoscaling: {reported}"[:180])
            time.sleep(_POLL_S)

    def _held(self, observed: NodeScaling) -> NodeScaling | None:
        """Return that a scheduling gate holds a pod, so that no node was requested. None: none does."""
        on_hold = first_held(self._namespace.pods())
        return replace(observed, problem="held-by-admission", reason=f"{on_hold}; {NO_QUEUE_HINT}") if on_hold else None

    def _guard(self) -> int:
        """Create the guards. Return for how many of them it was not decided in time whether they are placed."""
        bodies = guards_of(self._namespace, self._guarded, self._settings)
        self._namespace.create_at_once(bodies)
        deadline = Deadline.after(self._settings.answer_s)
        while True:
            pods = self._namespace.pods()
            open_ones = len(bodies) - sum(bool(node_of(pod) or why_pending(pod)) for pod in pods)
            if open_ones <= 0 or deadline.left_s <= 0:
                return max(open_ones, 0)
            self._progress.tick(f"node autoscaling: {open_ones} of {len(bodies)} nodes are not guarded yet")
            time.sleep(_POLL_S)

    def _look(self, observed: NodeScaling, elapsed_s: float) -> NodeScaling:
        pod = next((pod for pod in self._namespace.pods() if pod["metadata"]["name"] == _NAME), {})
        events = self._cluster.list_objects(EVENTS, self._namespace.name)
        own = [event for event in events if (event.get("involvedObject") or {}).get("name") == _NAME]
        words = words_of(own, str((pod.get("spec") or {}).get("schedulerName") or ""))
        bound, status = node_of(pod), pod.get("status") or {}
        if bound in self._there:
            reason = f"the pod got node {bound}, which was there before: nothing was asked of who adds nodes"
            return replace(observed, words=words, problem="node-was-there", reason=reason)
        ended = end_of(pod) if pod else None
        self._ended = ended is not None
        if ended is not None and not (bound or observed.node):
            return replace(
                observed, words=words, problem="pod-not-started", reason=f"its pod did not stay: {ended.text}"
            )
        node = bound or observed.node or self._new_node(words.taken)
        if node and node != observed.node:
            observed = replace(observed, node=node, up_s=round(elapsed_s, 1))
        if observed.node:
            there = self._cluster.find(NODES, observed.node) or {}
            offered = ((there.get("status") or {}).get("allocatable") or {}).get(GPU, 0)
            observed = replace(observed, gpus=whole_number(offered) or 0)
        return replace(
            observed,
            words=words,
            placed=bool(bound),
            unplaced="" if bound else why_pending(pod) if pod else "",
            started=status.get("phase") == "Running",
            unstarted=ended.text[:300] if ended is not None else _why_not(status),
        )

    def _new_node(self, taken: str) -> str:
        """Return the new node for a pod that is not bound yet. This lists every node, so it is done rarely."""
        if time.monotonic() - self._listed_at < _NODES_S:
            return ""
        self._listed_at = time.monotonic()
        new = (node for node in self._cluster.list_metadata(NODES) if node["name"] not in self._there)
        return node_for(new, taken, self._settings.selector)

    def down(self, observed: NodeScaling) -> NodeScaling:
        """Wait until the node is removed, after its pod is gone."""
        started, deadline = time.monotonic(), Deadline.after(self._settings.down_s)
        while True:
            there = self._cluster.find(NODES, observed.node) is not None
            elapsed_s = round(time.monotonic() - started, 1)
            if not there or deadline.left_s <= 0:
                return replace(observed, gone_s=None if there else elapsed_s, waited_s=elapsed_s)
            self._progress.tick(f"node autoscaling: waiting for {observed.node} to go"[:180])
            time.sleep(_POLL_S)


def _may_hold(node: Json, settings: ScalingSettings) -> bool:
    """Return whether the pod could get a present node, now or once its GPUs are free or healthy again."""
    labels = node["metadata"].get("labels") or {}
    return settings.selector.items() <= labels.items() and GPU in ((node.get("status") or {}).get("capacity") or {})


def _why_not(status: dict[str, Any]) -> str:
    waiting = ((entry.get("state") or {}).get("waiting") or {} for entry in status.get("containerStatuses") or [])
    texts = (f"{entry.get('reason')}: {entry.get('message', '')}".rstrip(": ") for entry in waiting if entry)
    return next(texts, str(status.get("reason") or ""))[:300]


OBSERVER = observer_of("node_scaling", NodeScaling, observe)
