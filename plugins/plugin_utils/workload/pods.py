# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""What became of a pod of a test: why it ended or does not run, what it wrote, what the cluster said about it."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import closing
from dataclasses import dataclass
from typing import Any

from ..clients.kube.cluster import Cluster
from ..clients.kube.errors import (
    ForbiddenError,
    GoneError,
    Outage,
    RefusedError,
    UnauthorizedError,
    meaning_of,
    said_at,
    says_unmade,
)
from ..clients.kube.objects import EVENTS, PODS
from ..outcome.errors import BringupError
from ..runtime.clock import Deadline
from ..runtime.process import after_gap, with_open_end
from .follow import (
    NO_QUEUE_HINT,
    Ending,
    ObservedJob,
    disruption_of,
    held_by_gates,
    node_of,
    phase_of,
    suspended,
    termination_of,
    waiting_of,
    where,
    why_pending,
)
from .namespace import TemporaryNamespace
from .queue import why_held

# Why a pod of a test does not run any more, or not yet: what its status says, and what to do about it. Pure.

Json = dict[str, Any]
# Of a container that has its image and still does not run.
_WITH_IMAGE = ("CreateContainerConfigError", "CreateContainerError", "RunContainerError", "CrashLoopBackOff")
# A kubelet starts a container again after 10, 20, 40 s (kubernetes.io, "Pod Lifecycle": how Pods handle problems with
# containers): what ended that often does so again.
_RESTARTS = 3
_HINTS = {
    "preempted": "a pod of higher priority took its place: run the gate again when there is room",
    "lost-node": "kubectl describe node {node}: does it run out of something, or does somebody drain it?",
    "failed": "its last lines say why; where they are missing: kubectl get events -A -w while the gate runs again",
}


@dataclass(frozen=True, slots=True)
class PodEnd:
    """What is to be said of a pod: `text` without a full stop, `hint` what to do.

    `restarted`: its log is that of the container before this one.
    """

    text: str
    hint: str
    restarted: bool = False


def end_of(pod: Json) -> PodEnd | None:
    """Return why a pod that was to stay does not run any more; None while it may."""
    disruption = disruption_of(pod)
    if disruption is not None:
        return PodEnd(disruption.reason, _HINTS[disruption.state].format(node=node_of(pod) or "<node>"))
    if phase_of(pod) in ("Failed", "Succeeded"):
        return PodEnd(_told(pod), _HINTS["failed"])
    if "deletionTimestamp" in pod["metadata"]:
        return PodEnd(f"{where(pod)} is being removed by somebody else", "run the gate again; who removes pods?")
    again = _restarts(pod)
    if again is not None and again[0] >= _RESTARTS:
        return PodEnd(_died(pod, *again), _HINTS["failed"], restarted=True)
    return None


def waits_for(pod: Json, image: str, setting: str) -> PodEnd:
    """Return what a pod waits for that is to run and does not: `setting` names another image."""
    if not node_of(pod):
        held = held_by_gates(pod)
        text = held or f"{where(pod)} has no node: {why_pending(pod) or 'the scheduler says nothing'}"
        return PodEnd(text, NO_QUEUE_HINT if held else "make room for it, or free a node: kubectl get nodes")
    again = _restarts(pod)
    if again is not None:
        return PodEnd(_died(pod, *again), _HINTS["failed"], restarted=True)
    word, message = waiting_of(pod)
    if phase_of(pod) == "Running" and not word:
        return PodEnd(f"{where(pod)} runs, but is not ready", "can the kubelet of its node reach its port?")
    text = f"{where(pod)}: {': '.join(part for part in (word or phase_of(pod), message) if part)}"
    if word in _WITH_IMAGE:
        return PodEnd(text, "kubectl get events -A -w while the gate runs again says more")
    return PodEnd(text, f"can the cluster pull {image}? {setting} names another")


def _told(pod: Json) -> str:
    code, word = termination_of(pod)
    status = pod.get("status") or {}
    reasons = dict.fromkeys(str(part) for part in (word, status.get("reason"), status.get("message")) if part)
    said = f" ({'; '.join(reasons)})" if reasons else ""
    ended = f"ended with exit code {code}" if code is not None else "ended without having run"
    return f"{where(pod)}: container {_container(status)}{ended}{said}"


def _container(status: Mapping[str, Any]) -> str:
    entries = status.get("containerStatuses") or []
    name = next((str(entry.get("name")) for entry in entries if (entry.get("state") or {}).get("terminated")), "")
    return f"{name} " if name else ""


def _restarts(pod: Json) -> tuple[int, str, int | None, str] | None:
    """Return how often a container was started again, its name, and how it ended the last time; None if none was."""
    for entry in (pod.get("status") or {}).get("containerStatuses") or []:
        last = (entry.get("lastState") or {}).get("terminated") or {}
        crashes = ((entry.get("state") or {}).get("waiting") or {}).get("reason") == "CrashLoopBackOff"
        count = int(entry.get("restartCount") or 0)
        if count or crashes:
            return count, str(entry.get("name", "")), last.get("exitCode"), str(last.get("reason") or "")
    return None


def _died(pod: Json, count: int, name: str, code: int | None, word: str) -> str:
    how = f", the last time with exit code {code}" if code is not None else ""
    return f"{where(pod)}: container {name} was started {count + 1} times{how}{f' ({word})' if word else ''}"


# A job that its queue did not admit, or that is held without one: who holds it, in place of what follows from
# having no pods.


def create_unheld(namespace: TemporaryNamespace, objects: list[dict[str, Any]]) -> None:
    """Create objects in the namespace of a test, in that order.

    Raises:
        RefusedError: the API server refuses one, or suspends one that goes through no queue, so that it makes no pods.
        BringupError: the API server does not answer.
    """
    for made in namespace.create(objects):
        if not namespace.cluster_queue and (why := suspended(made)):
            raise RefusedError(namespace.name, why)


def explained(namespace: TemporaryNamespace, job: str, seen: ObservedJob, ending: Ending) -> Ending:
    """Return how a job ended, as `held` where its queue keeps it from having pods.

    Raises:
        BringupError: the API server does not answer.
    """
    if not namespace.cluster_queue or ending.state != "refused" or seen.pods or seen.refusals:
        return ending
    why = why_held(namespace.cluster, namespace.name, job)
    said = why or (
        "Kueue says nothing of it; does its managedJobsNamespaceSelector leave out namespaces of tests, does "
        "kueue-controller-manager run?"
    )
    return Ending("held", f"ClusterQueue {namespace.cluster_queue} did not admit it: {said}")


# How often the container of a pod ended, and how that is told.


def deaths_of(pod: Mapping[str, Any]) -> tuple[int, int | None]:
    """Return how often the container of a pod ended, and with which exit code the last time."""
    for status in (pod.get("status") or {}).get("containerStatuses") or []:
        now = (status.get("state") or {}).get("terminated")
        before = (status.get("lastState") or {}).get("terminated")
        deaths = int(status.get("restartCount") or 0) + bool(now)
        ended = now or before or {}
        waiting = ((status.get("state") or {}).get("waiting") or {}).get("reason")
        if deaths and (ended or waiting == "CrashLoopBackOff"):
            return deaths, ended.get("exitCode")
    return 0, None


def told_deaths(deaths: int, code: int | None) -> str:
    """Return how often a container ended and with which exit code, or why that is not known."""
    times = f"{deaths} times" if deaths > 1 else "once"
    if code is None:
        return f"ended {times}, with which exit code is not known: its pod waits to start it again and no longer says"
    return f"ended {times}, the last time with exit code {code}" if deaths > 1 else f"ended once, with exit code {code}"


# Which pods of a test the scheduler took away for others, as its events say.
#
# A pod that is preempted has the condition DisruptionTarget and is deleted with its grace period; who looks after
# that sees neither. The event about it stays (kubernetes/kubernetes, pkg/scheduler/framework/preemption: type
# Normal, reason Preempted, "Preempted by pod <uid> on node <name>").

_REASON = "Preempted"


def preempted_pods(cluster: Cluster, namespace: str) -> dict[str, str]:
    """Return by pod what the scheduler said as it took its place; nothing if nobody answers: the pod is gone anyway."""
    try:
        events: list[Json] = cluster.list_objects(EVENTS, namespace, fields=f"reason={_REASON}")
    except BringupError:
        return {}
    return {
        str((event.get("involvedObject") or {}).get("name", "")): str(event.get("message") or _REASON)
        for event in events
        if event.get("reason") == _REASON
    }


# What the cluster warned of in the namespace of a test.

_LONGEST = 400


def warning_events(cluster: Cluster, namespace: str) -> list[Json]:
    """Return the warnings of a namespace: of some hundred events of a test that goes well hardly one is.

    The server chooses (kubernetes/kubernetes, pkg/registry/core/event/strategy.go: `type` is a selectable field).

    Raises:
        BringupError: the cluster does not answer.
    """
    events = cluster.list_objects(EVENTS, namespace, fields="type=Warning")
    return [event for event in events if event.get("type") == "Warning"]


def warnings_in(namespace: TemporaryNamespace) -> dict[str, str]:
    """Return by object the last warning about it, as `reason: message`, the newest at the end; none if nobody answers:
    they only explain what is known without them."""
    try:
        warnings = warning_events(namespace.cluster, namespace.name)
    except BringupError:
        return {}
    warnings.sort(key=lambda event: str(event.get("lastTimestamp") or event.get("eventTime") or ""))
    found: dict[str, str] = {}
    for event in warnings:
        name = str((event.get("involvedObject") or {}).get("name", ""))
        found.pop(name, None)
        found[name] = f"{event.get('reason') or ''}: {event.get('message') or ''}"[:_LONGEST]
    return found


# What controllers say of pods that they could not make: a refusal that stands, or an outage that passes. Pure.
#
# The words are data: recipes/pod_refusals.yaml.

# The message of an event has at most 1024 characters (kubernetes/kubernetes, NoteLengthLimit of events.k8s.io).
_REFUSALS_LONGEST = 2048


def unmade(events: Iterable[Json], jobs: Iterable[str]) -> dict[str, list[str]]:
    """Return by job what its controllers said of pods that they could not make, the newest at the end.

    Of what was said in the same second a refusal comes first: whoever tries again will say it again.
    """
    wanted, found = frozenset(jobs), dict[str, list[tuple[str, bool, str]]]()
    for event in events:
        about = str((event.get("involvedObject") or {}).get("name", ""))
        # mpi-operator has a Job of that name for the launcher.
        name = about if about in wanted else about.removesuffix("-launcher")
        if name in wanted and says_unmade(event):
            message = str(event.get("message") or event["reason"])[:_REFUSALS_LONGEST]
            found.setdefault(name, []).append((said_at(event), meaning_of(message) != "refused", message))
    return {name: [message for _when, _passing, message in sorted(said)] for name, said in found.items()}


# The pods of a namespace while a gate waits for them: listed when something changed, watched in between.
#
# The list is what is believed. A watch only says that it is time for another one, so whatever becomes of a watch
# (it is refused, it breaks, the server forgets its version) costs a list at the most.

# Pods start in bursts: one list for what comes within this time.
_BURST_S = 0.4
# A list that no watch has contradicted is believed so long.
_BELIEVED_S = 30.0


@dataclass(slots=True)
class PodView:
    """The pods of one namespace."""

    cluster: Cluster
    namespace: str
    _pods: tuple[Json, ...] = ()
    _version: str = ""
    _listed_at: float = 0.0
    _known: bool = False

    def pods(self) -> tuple[Json, ...]:
        """Return the pods as they are, or as they were listed if nothing changed since.

        Raises:
            BringupError: the cluster does not answer.
        """
        if not self._known or time.monotonic() - self._listed_at > _BELIEVED_S:
            self._listed_at = time.monotonic()
            found, self._version = self.cluster.list_with_version(PODS, self.namespace)
            self._pods, self._known = tuple(found), bool(self._version)
        return self._pods

    def forget(self) -> None:
        """Let the next look be a list: we changed something ourselves."""
        self._known = False

    def wait(self, limit_s: float) -> None:
        """Wait until a pod changes, and at most `limit_s`; nothing that happens to the watch is an error here."""
        deadline = Deadline.after(limit_s)
        if self._known and deadline.left_s > 0:
            try:
                with closing(self.cluster.watch(PODS, deadline, self.namespace, version=self._version)) as changes:
                    if next(changes, None) is not None:
                        self._known = False
                        time.sleep(min(_BURST_S, max(deadline.left_s, 0.0)))
                        return
            except GoneError:
                self._known = False
            except BringupError:
                # Not allowed, or not possible now: as without a watch.
                self._known = False
        time.sleep(max(deadline.left_s, 0.0))


# The log of a pod that ended, read to its end.
#
# A log comes as a stream without a length. Where the connection between API server and kubelet breaks, the server
# ends the stream as if that were all (kubernetes/apiserver, responsewriters/writers.go: StreamObject copies and
# forgets the error), so a log that is cut looks like one that is whole. Its last lines, asked for by themselves,
# tell them apart: what an ended container wrote does not change any more. A kubelet that knows a container no
# longer, or not yet, is an error, or says so in the place of the log and with status 200
# (kubernetes/kubernetes#111812).

# Reads a log: its last lines, as many as that; 0 for all of it.
Read = Callable[[int], str]
_PAUSE_S = 1.0
_END_LINES = 5
_LOGS = "logs"
_NO_LOG = re.compile(r"unable to retrieve container logs for \S{1,200}")


@dataclass(frozen=True, slots=True)
class _Answer:
    """What was read, else why it was not, and whether that is final."""

    log: str = ""
    problem: str = ""
    final: bool = False


def has_ended(pod: Json) -> bool:
    """Tell whether all containers of a pod ran and have written their last, so that each has a log that stays as it is.

    Of a pod that was never let in, or whose node went away, nothing is to be waited for.
    """
    status = pod.get("status") or {}
    ends = [(entry.get("state") or {}).get("terminated") for entry in status.get("containerStatuses") or []]
    ran = bool(ends) and all(end and end.get("reason") != "ContainerStatusUnknown" for end in ends)
    return status.get("phase") == "Succeeded" or (status.get("phase") == "Failed" and ran)


def whole_log(read: Read, outage: Outage, pod: Json) -> tuple[str, str]:
    """Return the log of a pod, and why it is not there or not whole; empty where it is.

    A log of a pod that ended and that is not there or cut is asked for again as long as a kubelet may need to come back
    (Outage.awaits). One that is empty may be meant so: without an outage it is believed, as that of a pod that runs. Of
    a log that stays cut the last line says so, which those who read logs know (runtime.capped).

    Args:
        read: reads it; raises BringupError where it cannot.
        outage: when the API server was away.
        pod: the pod as it was seen last.
    """
    ended, node = has_ended(pod), str((pod.get("spec") or {}).get("nodeName") or "")
    while True:
        found = _asked(read, 0)
        cut = _cut(read, found.log) if ended and found.log.strip() else ""
        if found.log.strip() and not cut:
            if outage.came(node):
                outage.came(_LOGS)
            return found.log, ""
        missing = ended and bool(found.problem or cut)
        # Where no kubelet can be reached at all, the first is waited for and not each.
        late = missing and outage.awaits(node) and outage.awaits(_LOGS)
        again = late or (outage.recovering if ended else outage.settling)
        if found.final or not again:
            return (with_open_end(found.log), cut) if cut else (found.log, found.problem)
        time.sleep(_PAUSE_S)


def log_of_pod(namespace: TemporaryNamespace, pod: Json, container: str = "") -> tuple[str, str]:
    """Return what a container of a pod wrote, to its end if the pod ended, and why that cannot be read."""
    cluster, name = namespace.cluster, pod["metadata"]["name"]

    def read(lines: int) -> str:
        return cluster.logs(name, namespace.name, container=container, tail_lines=lines)

    if has_ended(pod):
        return whole_log(read, cluster.transport.outage, pod)
    # Whoever waits for a pod that runs looks again by himself.
    found = _asked(read, 0)
    return found.log, found.problem


def _asked(read: Read, lines: int) -> _Answer:
    try:
        log = read(lines)
    except BringupError as error:
        return _Answer(problem=error.reason, final=isinstance(error, (ForbiddenError, UnauthorizedError)))
    return _Answer(problem=f"{log.strip()}.") if _NO_LOG.fullmatch(log.strip()) else _Answer(log)


def _cut(read: Read, log: str) -> str:
    """Return why a log is not known to be whole; empty where it ends as its last lines do."""
    end = _asked(read, _END_LINES)
    if end.problem:
        return f"its end could not be confirmed: {end.problem}"
    wanted = after_gap(end.log).rstrip()
    return "" if wanted and log.rstrip().endswith(wanted) else "it was cut before its end."
