# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Judges from the workloads of a release and their pods whether it is ready. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from ..clients.kube.errors import meaning_of, said_at, says_unmade, to_the_second
from ..clients.kube.objects import condition, is_true
from ..runtime.clock import moment_of
from .manifest import COMPONENT_ANNOTATION

# Whether ready pods stay ready: for how long they have been, and how often they lost it under observation. A container
# that ends again and again is ready in between, and a pod with a flapping probe is ready at every other observation.
# Both show in the time of the condition Ready (Kubernetes API, PodCondition.lastTransitionTime): a container that ends
# takes the readiness of its pod with it, also between two observations.

Json = dict[str, Any]


@dataclass(slots=True)
class ReadinessWatch:
    """Follows pods over several observations."""

    _since: dict[str, str] = field(default_factory=dict)
    _losses: dict[str, int] = field(default_factory=dict)

    def losses(self, pod: Json) -> int:
        """Return how often a pod lost its readiness since its first observation, this one included."""
        uid = str(pod["metadata"].get("uid") or pod["metadata"]["name"])
        before, now = self._since.get(uid, ""), _ready_since(pod)
        self._since[uid] = now
        if before and now != before:
            self._losses[uid] = self._losses.get(uid, 0) + 1
        return self._losses.get(uid, 0)

    def by_node(self, pods: Iterable[Json]) -> dict[str, int]:
        """Return by node how often the worst of its pods lost its readiness. Nodes without a loss are left out."""
        found: dict[str, int] = {}
        for pod in pods:
            node, lost = str((pod.get("spec") or {}).get("nodeName") or ""), self.losses(pod)
            if lost:
                found[node] = max(lost, found.get(node, 0))
        return found


def ready_for_s(pods: Iterable[Json], now: datetime) -> float | None:
    """Return the seconds for which all pods have been ready.

    It is 0 if one is not ready or has no time, and None without pods.
    """
    ages = [age_s(_ready_since(pod), now) for pod in pods]
    return round(min(ages), 1) if ages else None


def unsteady_nodes(nodes: Iterable[Json], now: datetime, wanted_s: float) -> frozenset[str]:
    """Return the names of the nodes that have been Ready for less than this time: their pods come or go."""
    return frozenset(str(node["metadata"]["name"]) for node in nodes if age_s(_ready_since(node), now) < wanted_s)


def _ready_since(obj: Json) -> str:
    """Return since when a pod or a node is Ready. Empty if it is not."""
    ready = condition(obj, "Ready")
    return str(ready.get("lastTransitionTime") or "") if ready.get("status") == "True" else ""


def age_s(since: str, now: datetime) -> float:
    """Return how many seconds ago a time of Kubernetes was. 0 if it is invalid."""
    try:
        begun = moment_of(since)
    except ValueError:
        return 0.0
    return max(0.0, (now - begun).total_seconds())


RELEASE_ANNOTATION = "meta.helm.sh/release-name"
RELEASE_NAMESPACE_ANNOTATION = "meta.helm.sh/release-namespace"
_PULL = ("ImagePullBackOff", "ErrImagePull", "InvalidImageName", "ErrImageNeverPull")
_CONFIG = ("CreateContainerConfigError", "CreateContainerError", "RunContainerError")
_CRASHES = 2
# Prefixes that controllers put before the message of the API server.
_WHO = re.compile(
    r"^(?:\(combined from similar events\): )?(?:Error creating: |create (?:Pod|Claim) \S+ .{0,600}?failed error: )"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """One Deployment, DaemonSet, StatefulSet or Job: its progress, and what holds it up.

    Args:
        kind: its kind.
        name: its name.
        namespace: its namespace.
        release: its release or component, `namespace/name`.
        app: name of its app label, or its own.
        desired: wanted number of pods.
        ready: number of ready pods.
        state: ready, pending or failed.
        cause: slug of the cause when failed.
        reason: why it is not ready.
        pod: one of its pods that are not ready.
        nodes: nodes of its pods that are not ready.
        said: last lines of the log of `pod`, where they were read.
        killed: nodes on which a container last ended for its memory limit, ready again or not.
        tolerations: tolerations of a DaemonSet's pods; None if they were not read.
        misplaced: how many pods of a DaemonSet are on nodes where it would not be placed now; None if not read.
        ready_for_s: for how many seconds all of its pods have been ready; None without pods or if not recorded.
        losses: by node, how often a pod lost its readiness while it was observed.
        left_out: nodes whose pods of a DaemonSet are not counted.
    """

    kind: str
    name: str
    namespace: str
    release: str
    app: str
    desired: int
    ready: int
    state: str
    cause: str = ""
    reason: str = ""
    pod: str = ""
    nodes: tuple[str, ...] = ()
    said: str = ""
    killed: tuple[str, ...] = ()
    tolerations: tuple[dict[str, str], ...] | None = None
    misplaced: int | None = None
    ready_for_s: float | None = None
    losses: dict[str, int] = field(default_factory=dict)
    left_out: tuple[str, ...] = ()


def release_of(obj: Mapping[str, Any]) -> str:
    """Return the release or component of an object, `namespace/name`. Empty if it belongs to none."""
    metadata = obj.get("metadata") or {}
    annotations = metadata.get("annotations") or {}
    name = annotations.get(RELEASE_ANNOTATION, "")
    namespace = annotations.get(RELEASE_NAMESPACE_ANNOTATION) or metadata.get("namespace", "")
    return f"{namespace}/{name}" if name else str(annotations.get(COMPONENT_ANNOTATION, ""))


def workload_title(workload: Workload) -> str:
    """Return the name of a workload in plans: `Deployment namespace/name`."""
    return f"{workload.kind} {workload.namespace}/{workload.name}"


def workload_of(
    kind: str,
    obj: Json,
    pods: Iterable[Json],
    now: datetime,
    grace_s: float,
    watch: ReadinessWatch | None = None,
    unsteady: Collection[str] = (),
    warnings: Callable[[], Iterable[Json]] = tuple,
) -> Workload:
    """Return the state of one workload.

    Args:
        kind: Deployment, DaemonSet, StatefulSet or Job.
        obj: the workload.
        pods: the pods of its namespace.
        now: the time, for graces.
        grace_s: how long a pod may fail to pull its image before it counts as failed.
        watch: the earlier observations of the pods.
        unsteady: nodes that do not count for a DaemonSet, unless it has pods nowhere else.
        warnings: returns the warnings of its namespace; called where pods are missing.
    """
    metadata = obj["metadata"]
    labels = metadata.get("labels") or {}
    desired, ready, failure = _progress(kind, obj)
    own = _own_pods(obj, pods)
    left_out: tuple[str, ...] = ()
    if kind == "DaemonSet" and unsteady:
        own, left_out, desired, ready = _steady(own, unsteady, desired, ready)
    waiting = [pod for pod in own if not is_true(pod, "Ready")]
    # A Job is meant to end, and a deleted pod to stop.
    staying = [pod for pod in own if kind != "Job" and not pod["metadata"].get("deletionTimestamp")]
    troubles = [trouble for pod in waiting if (trouble := pod_trouble(pod, now, grace_s))]
    is_ready = ready >= desired and not failure and is_observed(obj)
    cause, reason, pod_name = "", "", ""
    if not is_ready:
        cause, reason, pod_name = troubles[0] if troubles else (failure, "", "")
        unmade = _refused(obj) or (_unmade(kind, obj, own, warnings) if len(own) < desired else "")
        reason = reason or _still_missing(desired, ready, waiting, failure, unmade)
        pod_name = pod_name or (waiting[0]["metadata"]["name"] if waiting else "")
    return Workload(
        kind=kind,
        name=metadata["name"],
        namespace=metadata["namespace"],
        release=release_of(obj),
        app=str(labels.get("app") or labels.get("app.kubernetes.io/name") or metadata["name"]),
        desired=desired,
        ready=ready,
        state="ready" if is_ready else "failed" if cause else "pending",
        cause=cause,
        reason=reason,
        pod=pod_name,
        nodes=tuple(sorted({node for pod in waiting if (node := _node(pod))})) if not is_ready else (),
        killed=tuple(sorted({_node(pod) for pod in own if _killed_for_memory(pod)})),
        tolerations=_tolerations(obj) if kind == "DaemonSet" else None,
        misplaced=int((obj.get("status") or {}).get("numberMisscheduled", 0)) if kind == "DaemonSet" else None,
        ready_for_s=ready_for_s(staying, now),
        losses=watch.by_node(staying) if watch else {},
        left_out=left_out,
    )


def _steady(
    own: list[Json], unsteady: Collection[str], desired: int, ready: int
) -> tuple[list[Json], tuple[str, ...], int, int]:
    """Return a DaemonSet's pods outside of these nodes, the nodes left out, and the numbers without them.

    Pods and numbers are of different moments, so the smaller number of ready pods is right.
    """
    kept = [pod for pod in own if _node(pod) not in unsteady]
    if len(kept) == len(own) or not kept:
        return own, (), desired, ready
    wanted = max(desired - (len(own) - len(kept)), 0)
    left_out = tuple(sorted({_node(pod) for pod in own if _node(pod) in unsteady}))
    return kept, left_out, wanted, min(ready, wanted, sum(is_true(pod, "Ready") for pod in kept))


def _tolerations(obj: Json) -> tuple[dict[str, str], ...]:
    spec = ((obj.get("spec") or {}).get("template") or {}).get("spec") or {}
    words = ("key", "operator", "value", "effect")
    return tuple(
        {word: str(entry[word]) for word in words if entry.get(word)} for entry in spec.get("tolerations") or []
    )


def _killed_for_memory(pod: Json) -> bool:
    ended = [
        (container.get(when) or {}).get("terminated") or {}
        for container in (pod.get("status") or {}).get("containerStatuses") or []
        for when in ("lastState", "state")
    ]
    return any(entry.get("reason") == "OOMKilled" for entry in ended)


def _node(pod: Json) -> str:
    """Return the node of a pod. A pod of a DaemonSet that is not placed yet has it in its affinity."""
    spec = pod.get("spec") or {}
    if spec.get("nodeName"):
        return str(spec["nodeName"])
    required = ((spec.get("affinity") or {}).get("nodeAffinity") or {}).get(
        "requiredDuringSchedulingIgnoredDuringExecution"
    ) or {}
    for term in required.get("nodeSelectorTerms") or []:
        for match in term.get("matchFields") or []:
            if match.get("key") == "metadata.name" and match.get("values"):
                return str(match["values"][0])
    return ""


def is_observed(obj: Json) -> bool:
    """Tell whether the status of a workload is that of its newest generation."""
    generation = obj["metadata"].get("generation", 0)
    observed = (obj.get("status") or {}).get("observedGeneration")
    return observed is None or int(observed) >= int(generation)


def _progress(kind: str, obj: Json) -> tuple[int, int, str]:
    """Return (desired, ready, cause of a failure that is final)."""
    spec, status = obj.get("spec") or {}, obj.get("status") or {}
    if kind == "DaemonSet":
        # A status that no controller has written yet is not "zero of zero".
        known = status.get("observedGeneration") is not None
        ready = min(int(status.get("numberReady", 0)), int(status.get("updatedNumberScheduled", 0)))
        return int(status.get("desiredNumberScheduled", 0)) if known else 1, ready, ""
    if kind == "Job":
        failed = is_true(obj, "Failed")
        wanted = int(spec.get("completions") or 1)
        return wanted, int(status.get("succeeded", 0)), "job-failed" if failed else ""
    desired = int(spec.get("replicas", 1) if spec.get("replicas") is not None else 1)
    updated = int(status.get("updatedReplicas", 0))
    # Ready pods of an earlier revision prove nothing about this one, and hide that it does not start.
    older = max(int(status.get("replicas", 0)) - updated, 0)
    return desired, max(min(int(status.get("readyReplicas", 0)) - older, updated), 0), ""


def _still_missing(desired: int, ready: int, waiting: list[Json], failure: str, unmade: str) -> str:
    if failure:
        return "the Job failed"
    phases = sorted({str((pod.get("status") or {}).get("phase", "Pending")) for pod in waiting})
    unplaced = next((text for pod in waiting if (text := _unschedulable(pod))), "")
    text = f"{ready} of {desired} ready"
    if unplaced:
        return f"{text}; a pod cannot be placed: {unplaced}"
    if unmade:
        what = "could not be made" if meaning_of(unmade) == "passing" else "are refused"
        return f"{text}; its pods {what}: {unmade}"
    return f"{text}; pods are {', '.join(phases)}" if phases else f"{text}; it has no pods yet"


def _refused(obj: Json) -> str:
    """Return why the API server refuses pods of a Deployment: a quota, Pod Security, a policy, a webhook."""
    found = condition(obj, "ReplicaFailure")
    return _in_short(found.get("message")) if found.get("status") == "True" else ""


def _unmade(kind: str, obj: Json, own: Iterable[Json], warnings: Callable[[], Iterable[Json]]) -> str:
    """Return why the API server refused pods of a workload without a condition for that. Empty if one was made since.

    The controllers of DaemonSets, StatefulSets and Jobs report it in events (sources: recipes/pod_refusals.yaml).
    """
    if kind == "Deployment":
        return ""
    since = max(to_the_second(made["metadata"].get("creationTimestamp")) for made in (obj, *own))
    reported = [("", "")]
    for event in warnings():
        about = event.get("involvedObject") or {}
        mine = (about.get("kind"), about.get("name")) == (kind, obj["metadata"]["name"])
        if mine and says_unmade(event) and said_at(event) >= since:
            reported.append((said_at(event), str(event.get("message") or "")))
    return _in_short(_WHO.sub("", max(reported)[1]))


def _in_short(message: object) -> str:
    return " ".join(str(message or "").split())[:400]


def _unschedulable(pod: Json) -> str:
    found = condition(pod, "PodScheduled")
    return str(found.get("message", ""))[:200] if found.get("status") == "False" else ""


def _own_pods(obj: Json, pods: Iterable[Json]) -> list[Json]:
    namespace = obj["metadata"]["namespace"]
    wanted = ((obj.get("spec") or {}).get("selector") or {}).get("matchLabels") or {}
    if not wanted:
        return []
    return [
        pod
        for pod in pods
        if pod["metadata"]["namespace"] == namespace
        and wanted.items() <= (pod["metadata"].get("labels") or {}).items()
        and (pod.get("status") or {}).get("phase") != "Succeeded"
    ]


def pod_trouble(pod: Json, now: datetime, grace_s: float) -> tuple[str, str, str] | None:
    """Return (cause, reason, pod) of a pod that will not become ready by waiting. None for others."""
    status = pod.get("status") or {}
    name = pod["metadata"]["name"]
    old = _age(pod, now) >= timedelta(seconds=grace_s)
    for container in [*(status.get("initContainerStatuses") or []), *(status.get("containerStatuses") or [])]:
        waiting = (container.get("state") or {}).get("waiting") or {}
        word, message = str(waiting.get("reason", "")), str(waiting.get("message", ""))[:200]
        reported = f"container {container.get('name')} of pod {name}: {word}" + (f" ({message})" if message else "")
        if word in _PULL and old:
            return "image-pull-failed", f"{reported}, image {container.get('image', '')}", name
        if word in _CONFIG and old:
            return "pod-config-error", reported, name
        if word == "CrashLoopBackOff" and int(container.get("restartCount", 0)) >= _CRASHES:
            last = ((container.get("lastState") or {}).get("terminated") or {}).get("exitCode")
            return "pod-crash-looping", reported if last is None else f"{reported}, last exit code {last}", name
    return None


def _age(pod: Json, now: datetime) -> timedelta:
    created = str(pod["metadata"].get("creationTimestamp") or "")
    if not created:
        return timedelta(0)
    return now - moment_of(created)
