# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Judges from the objects of the API server whether a job ended, how, and why its pods are not placed. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ..clients.kube.errors import CONTROLLERS_LATE_S, meaning_of
from ..clients.kube.objects import condition
from .job import JobState, PodRole
from .queue import SETTING

if TYPE_CHECKING:
    from .job import JobSpec

# Why a pod of a test is not placed yet, in the messages of the cluster. Pure.

Json = dict[str, Any]
_OUT = "exclude namespaces with the label gpufleet.io/purpose=test from its managed ones (managedJobsNamespaceSelector)"
# kueue.sigs.k8s.io, "Opt-in Namespace Management".
_EXCLUDE = (
    f"{_OUT}, or name a ClusterQueue for the tests ({SETTING}); not both, for Kueue from 0.15 on starts no job of an "
    "excluded namespace that names a queue"
)
# For pods that go through no queue, whatever queue the site has configured.
NO_QUEUE_HINT = (
    f"if Kueue set it, {_OUT}; not where a ClusterQueue is named for other tests, for Kueue from 0.15 on starts none "
    "of their jobs then"
)
_SCC = "unable to validate against any security context constraint"
# Older releases name the field alone, newer ones the constraint before it. The other entries read `not usable`.
_BROKEN = re.compile(r"(?:provider [\w-]+: )?\.?[\w.\[\]]+: Invalid value: .*?(?=, provider |, spec\.|, \.|\]$|\]\s|$)")
_MOST_BROKEN = 3
HELD_HINT = f"whoever set the gate must admit the test: for kueue.x-k8s.io/admission of Kueue {_EXCLUDE}"


def held_by_gates(pod: Json) -> str:
    """Return the scheduling gates that hold a pod back, as a message. It is empty for a pod without gates.

    No scheduler sees a gated pod, so it proves nothing about the scheduler. Kueue gates the pods that it manages until
    their workload is admitted; without a LocalQueue in the namespace that never happens.
    """
    gates = [str(gate.get("name", "")) for gate in (pod.get("spec") or {}).get("schedulingGates") or []]
    return f"pod {pod['metadata']['name']} is held by the scheduling gate {', '.join(gates)}" if gates else ""


def first_held(pods: Iterable[Json]) -> str:
    """Return the message of held_by_gates for the first gated pod. It is empty if no pod is gated."""
    return next(filter(None, map(held_by_gates, pods)), "")


def suspended(job: Json) -> str:
    """Return why the API server created this object suspended, so that it makes no pods. Empty if it is not suspended.

    Kueue's webhook suspends jobs that name no queue where it is set to manage them (manageJobsWithoutQueueName,
    pkg/controller/jobframework/defaults.go), and starts them only once a queue admits them.
    """
    spec = job.get("spec") or {}
    if not (spec.get("suspend") or (spec.get("runPolicy") or {}).get("suspend")):
        return ""
    text = f"{job.get('kind', 'job')} {job['metadata']['name']} was suspended when it was made, so it makes no pods"
    return f"{text}; if Kueue did it, {_EXCLUDE}"


def told_refusal(message: str) -> str:
    """Return the message with which a controller or the API server refused a pod.

    A refusal of OpenShift's admission is cut to what decides. It lists every security context constraint with what the
    pod violates, and most of these are not granted to the account at all. A ClusterRole and a group can be granted a
    constraint before the namespace exists (OpenShift, "Managing security context constraints": role-based access; oc
    adm policy add-scc-to-group).
    """
    if _SCC not in message:
        return message
    broken = dict.fromkeys(text.strip(" ,[]") for text in _BROKEN.findall(message))
    why = "; ".join(list(broken)[:_MOST_BROKEN])
    return (
        "no security context constraint allows this pod: let the accounts of tests use `privileged` for the run "
        f"(oc adm policy add-scc-to-group privileged system:serviceaccounts); {why or 'nothing is said of why'}"
    )


def why_pending(pod: Json) -> str:
    """Return the scheduler's message about a pod that it did not place: at most 400 characters, empty if none."""
    for entry in (pod.get("status") or {}).get("conditions") or []:
        if entry["type"] == "PodScheduled" and entry["status"] == "False":
            return str(entry.get("message", ""))[:400]
    return ""


# Whether and how a job ended, judged from its pods. Pure.

INDEX_LABEL = "batch.kubernetes.io/job-completion-index"
ROLE_LABEL = "training.kubeflow.org/job-role"
REPLICA_LABEL = "training.kubeflow.org/replica-index"
# Reasons of an image that cannot be pulled. ErrImagePull comes first and may pass; otherwise ImagePullBackOff follows.
_IMAGE_WORDS = ("ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull", "RegistryUnavailable")
_NEVER_PULLED = ("not found", "unauthorized", "denied", "does not exist", "manifest unknown")
_CONTAINER_WORDS = (
    "CreateContainerConfigError",
    "CreateContainerError",
    "RunContainerError",
    "CrashLoopBackOff",
    "StartError",
)
_LOST_WORDS = ("NodeLost", "NodeShutdown", "NodeAffinity", "Terminated", "Shutdown")
# Reasons of condition DisruptionTarget (kubernetes.io, "Disruptions": pod disruption conditions) that are not the
# pod's fault. A drain calls the eviction API. A node under pressure, or one that is shut down, ends its pods itself.
_LOST_DISRUPTIONS = ("DeletionByTaintManager", "DeletionByPodGC", "TerminationByKubelet", "EvictionByEvictionAPI")
# Messages of an eviction because the node ran out of something. An eviction for a limit of the pod has the same reason
# (kubernetes/kubernetes pkg/kubelet/eviction/helpers.go). Before 1.26 neither had a condition.
_PRESSURE = ("The node was low on resource", "The node had condition")
# Annotation of the API server's admission where it sets requests and limits that a pod leaves open, "cpu, memory limit
# for container x" (kubernetes/kubernetes plugin/pkg/admission/limitranger/admission.go).
_LIMIT_RANGER = "kubernetes.io/limit-ranger"
# When one pod of a job has ended, the others get this long to end as well.
SPARE_S = 10.0
# The scheduler's event about a preempted pod may come after the pod has gone.
TOLD_S = 3.0


@dataclass(frozen=True, slots=True)
class Ending:
    state: JobState
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ObservedJob:
    """What was observed of one job.

    Args:
        pods: its pods.
        refusals: messages of controllers that could not make one of its pods, newest last.
        lost_nodes: by name, the nodes of its pods that are not reporting, with the message of the node.
        age_s: time since it was created.
        made_s: its age when its first pod was observed; 0 before that.
        running_s: time since all of its pods run; None while one waits for its node or its image.
        ended_s: time since the first of its pods ended; 0 while none has.
        gone: names of pods that were observed earlier and do not exist any more.
        gone_s: time since the first of them was missed.
        preempted: by name, the scheduler's message about those of them that it preempted.
        away_s: the part of its age in which the API server did not answer, so that nothing was observed or done.
    """

    pods: Sequence[Json]
    refusals: Sequence[str] = ()
    lost_nodes: Mapping[str, str] = field(default_factory=dict)
    age_s: float = 0.0
    made_s: float = 0.0
    running_s: float | None = None
    ended_s: float = 0.0
    gone: Sequence[str] = ()
    gone_s: float = 0.0
    preempted: Mapping[str, str] = field(default_factory=dict)
    away_s: float = 0.0


def ending_of(spec: JobSpec, observed: ObservedJob) -> Ending | None:
    """Return how a job ended. None while it may still succeed."""
    for rule in (_limited, _done, _disturbed, _crashed, _lost, _not_started, _refused, _not_scheduled, _too_long):
        ending = rule(spec, observed)
        if ending:
            return ending
    return None


def role_of(pod: Json) -> PodRole:
    """Return the role of a pod: the launcher starts the ranks of all others."""
    labels = pod["metadata"].get("labels") or {}
    launcher = labels.get(INDEX_LABEL) == "0" or labels.get(ROLE_LABEL) == "launcher"
    return "launcher" if launcher else "worker"


def order_of(pod: Json) -> tuple[bool, int, str]:
    """Return the sort key of a pod: launcher first, then by index."""
    return role_of(pod) != "launcher", index_of(pod), pod["metadata"]["name"]


def index_of(pod: Json) -> int:
    """Return the index of a pod within its job. Pods without one have index 0."""
    labels = pod["metadata"].get("labels") or {}
    index = labels.get(INDEX_LABEL) or labels.get(REPLICA_LABEL) or "0"
    return int(index) if index.isdecimal() else 0


def hostname_of(pod: Json) -> str:
    """Return the host name that programs in a pod report."""
    spec = pod.get("spec") or {}
    if spec.get("hostNetwork"):
        return str(spec.get("nodeName", ""))
    return str(spec.get("hostname") or pod["metadata"]["name"])


def node_of(pod: Json) -> str:
    """Return the node of a pod. Empty until it is bound."""
    return str((pod.get("spec") or {}).get("nodeName") or "")


def phase_of(pod: Json) -> str:
    return str((pod.get("status") or {}).get("phase") or "Pending")


def termination_of(pod: Json) -> tuple[int | None, str]:
    """Return the exit code of a pod's container and the kubelet's reason. The code is None until it has ended."""
    for status in (pod.get("status") or {}).get("containerStatuses") or []:
        ended = (status.get("state") or {}).get("terminated")
        if ended:
            return int(ended.get("exitCode", -1)), str(ended.get("reason") or "")
    return None, ""


def where(pod: Json) -> str:
    """Return name and node of a pod for messages."""
    node = node_of(pod)
    return f"{pod['metadata']['name']} on {node}" if node else str(pod["metadata"]["name"])


def progress_of(pods: Iterable[Json]) -> str:
    """Return the state of pods for a progress line: `1 of 2 pods running`."""
    phases = [phase_of(pod) for pod in pods]
    if not phases:
        return "no pod yet"
    if phases.count("Succeeded"):
        return f"{phases.count('Succeeded')} of {len(phases)} pods done"
    return f"{phases.count('Running')} of {len(phases)} pods running"


def waiting_of(pod: Json) -> tuple[str, str]:
    """Return the kubelet's reason and message of the first waiting container. Both are empty if none waits."""
    status = pod.get("status") or {}
    for entry in [*(status.get("initContainerStatuses") or []), *(status.get("containerStatuses") or [])]:
        waiting = (entry.get("state") or {}).get("waiting")
        if waiting:
            return str(waiting.get("reason") or ""), str(waiting.get("message") or "")
    return "", ""


def _done(spec: JobSpec, observed: ObservedJob) -> Ending | None:
    """The job's exit code is the launcher's. Other pods get SPARE_S to end, but workers of an MPIJob never end."""
    launcher = next((pod for pod in observed.pods if role_of(pod) == "launcher"), None)
    if launcher is None or phase_of(launcher) != "Succeeded":
        return None
    if spec.kind in ("torchrun", "ranks"):
        # Every pod starts ranks itself, so every exit code counts.
        ended = len(observed.pods) == len(spec.nodes) and all(phase_of(pod) == "Succeeded" for pod in observed.pods)
        return Ending("succeeded", f"exit code 0 of {len(observed.pods)} pods") if ended else None
    open_pods = [pod for pod in observed.pods if phase_of(pod) not in ("Succeeded", "Failed")]
    if open_pods and spec.kind == "gang-job" and observed.ended_s < SPARE_S:
        return None
    return Ending("succeeded", f"exit code 0 of {where(launcher)}")


def disruption_of(pod: Json) -> Ending | None:
    """Return how something outside the job ended a pod, or is about to. None where nothing did.

    `preempted` is the scheduler, `lost-node` is the node, a drain or an eviction.
    """
    status = pod.get("status") or {}
    disruption = condition(pod, "DisruptionTarget")
    word = str(disruption.get("reason") or "") if disruption.get("status") == "True" else ""
    reason, message = str(status.get("reason") or ""), str(status.get("message") or "")
    failed, evicted = phase_of(pod) == "Failed", reason == "Evicted"
    pressed = evicted and message.startswith(_PRESSURE)
    if phase_of(pod) == "Succeeded":
        return None
    if word == "PreemptionByScheduler" or (failed and reason == "Preempting"):
        state: JobState = "preempted"
    elif word in _LOST_DISRUPTIONS or (failed and (reason in _LOST_WORDS or pressed)):
        state = "lost-node"
    else:
        return None
    reported = str(disruption.get("message") or word) if word and not evicted else message or reason
    return Ending(state, f"{where(pod)}{' was evicted' if evicted else ''}: {reported}")


def _disturbed(spec: JobSpec, observed: ObservedJob) -> Ending | None:
    """A pod was ended from outside the job: by preemption for a user's pod, or by the loss of its node."""
    for pod in observed.pods:
        ending = disruption_of(pod)
        if ending is not None:
            return ending
    for name in observed.gone:
        if name in observed.preempted:
            return Ending("preempted", f"{name}: {observed.preempted[name]}")
    return None


def _crashed(spec: JobSpec, observed: ObservedJob) -> Ending | None:
    failed = sorted((pod for pod in observed.pods if phase_of(pod) == "Failed"), key=order_of)
    if not failed:
        return None
    # A worker that dies ends the launcher too, and the launcher's log explains more.
    launcher_open = any(role_of(pod) == "launcher" and phase_of(pod) == "Running" for pod in observed.pods)
    if launcher_open and observed.ended_s < SPARE_S:
        return None
    # The pod may have failed because another one is gone; the reason for that may still come.
    if observed.gone and observed.gone_s < TOLD_S:
        return None
    code, word = termination_of(failed[0])
    status = failed[0].get("status") or {}
    cause = word if word not in ("", "Error") else str(status.get("reason") or "")
    message = str(status.get("message") or "")
    more = f" ({'; '.join(part for part in (cause, message) if part)})" if cause or message else ""
    ended = f"ended with exit code {code}" if code is not None else "failed"
    return Ending("failed", f"{where(failed[0])} {ended}{more}")


def _lost(spec: JobSpec, observed: ObservedJob) -> Ending | None:
    for pod in observed.pods:
        reason = observed.lost_nodes.get(node_of(pod))
        if reason is not None:
            return Ending("lost-node", f"{where(pod)}: the node does not answer ({reason})")
    if observed.gone and observed.gone_s >= TOLD_S:
        return Ending("lost-node", f"pod {observed.gone[0]} was removed by somebody else while it ran")
    return None


def _not_started(spec: JobSpec, observed: ObservedJob) -> Ending | None:
    for pod in observed.pods:
        word, message = waiting_of(pod)
        text = f"{where(pod)}: {word}" + (f": {message}" if message else "")
        final = word == "ErrImagePull" and any(known in message.lower() for known in _NEVER_PULLED)
        if word in _IMAGE_WORDS or final:
            return Ending("image", f"{text} (image {spec.image})")
        if word in _CONTAINER_WORDS:
            return Ending("failed", text)
    return None


def _limited(spec: JobSpec, observed: ObservedJob) -> Ending | None:
    """A LimitRange that sets limits which the test leaves open slows good hardware, or has ranks killed for memory."""
    for pod in observed.pods:
        reported = str((pod["metadata"].get("annotations") or {}).get(_LIMIT_RANGER) or "")
        if " limit for " in reported:
            namespace = pod["metadata"].get("namespace") or "the test"
            return Ending(
                "refused",
                f"a LimitRange of namespace {namespace} limits {where(pod)} ({reported[:300]}), so "
                f"that the limit would be "
                "measured: let whoever makes the LimitRange (kubectl get limitrange -A) leave out namespaces with the "
                "label gpufleet.io/purpose=test",
            )
    return None


def _refused(spec: JobSpec, observed: ObservedJob) -> Ending | None:
    # Controllers retry by themselves: only the last message counts, and only if it is final.
    last = observed.refusals[-1] if observed.refusals else ""
    if last and meaning_of(last) == "refused":
        return Ending("refused", told_refusal(last))
    limit_s = spec.placing_s + CONTROLLERS_LATE_S
    if observed.pods or observed.gone or observed.age_s <= limit_s + observed.away_s:
        return None
    who = "mpi-operator" if spec.kind == "mpijob" else "the job controller"
    return Ending("refused", f"no pod was made within {limit_s:.0f} s; does {who} run?{f' ({last})' if last else ''}")


def _not_scheduled(spec: JobSpec, observed: ObservedJob) -> Ending | None:
    late_s = observed.age_s - observed.made_s - observed.away_s - spec.placing_s
    if late_s <= 0:
        return None
    waiting = [pod for pod in observed.pods if not node_of(pod)]
    if not waiting:
        return None
    messages = [str(condition(pod, "PodScheduled").get("message") or "") for pod in waiting]
    # No scheduler sees a gated pod, so the gate is the reason.
    on_hold = [text for pod in waiting if (text := held_by_gates(pod))]
    reason = next((message for message in (*on_hold, *messages) if message), "")
    # Without a message the scheduler may not have looked at these pods yet.
    if not reason and late_s <= CONTROLLERS_LATE_S:
        return None
    reason = reason or "the scheduler gives no reason"
    text = f"{len(waiting)} of {len(observed.pods)} pods not scheduled after {spec.placing_s:.0f} s: {reason}"
    return Ending("unschedulable", text)


def all_run(spec: JobSpec, pods: Sequence[Json]) -> bool:
    """Tell whether every pod of a job exists and has started. The job's time limit counts from then on."""
    return len(pods) >= spec.pods and all(phase_of(pod) != "Pending" for pod in pods)


def _too_long(spec: JobSpec, observed: ObservedJob) -> Ending | None:
    """Images get a time limit of their own, because a slow registry proves nothing about the hosts."""
    if observed.running_s is None:
        if observed.age_s - observed.made_s - observed.away_s <= spec.placing_s + spec.pull_s:
            return None
        waiting = next((pod for pod in observed.pods if phase_of(pod) == "Pending"), None)
        word, message = waiting_of(waiting) if waiting is not None else ("", "")
        what = f"{where(waiting)}: {word or 'Pending'}" if waiting is not None else progress_of(observed.pods)
        message = message or (observed.refusals[-1] if waiting is None and observed.refusals else "")
        text = f"{what}{f': {message}' if message else ''} after {observed.age_s:.0f} s (image {spec.image})"
        return Ending("slow-start", text)
    if observed.running_s - observed.away_s <= spec.timeout_s:
        return None
    return Ending("timeout", f"not done after {spec.timeout_s:.0f} s: {progress_of(observed.pods)}")
