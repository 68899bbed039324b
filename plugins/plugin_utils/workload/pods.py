# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Pods of tests: why one ended or does not run, its log, and the events about it."""

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

# Why a pod of a test does not run any more, or not yet, judged from its status, and what to do about it. Pure.

Json = dict[str, Any]
# Reasons of a container that has its image and still does not run.
_WITH_IMAGE = ("CreateContainerConfigError", "CreateContainerError", "RunContainerError", "CrashLoopBackOff")
# A kubelet restarts a container after 10, 20, 40 s (kubernetes.io, "Pod Lifecycle": how Pods handle problems with
# containers). One that ended this often is likely to end again.
_RESTARTS = 3
_HINTS = {
    "preempted": "a pod of higher priority took its place: run the gate again when there is room",
    "lost-node": "kubectl describe node {node}: does it run out of something, or does somebody drain it?",
    "failed": "its last lines say why; where they are missing: kubectl get events -A -w while the gate runs again",
}


@dataclass(frozen=True, slots=True)
class PodEnd:
    """How a pod ended, for a message: `text` without a full stop, `hint` with what to do.

    With `restarted` the log to read is that of the previous container.
    """

    text: str
    hint: str
    restarted: bool = False


def end_of(pod: Json) -> PodEnd | None:
    """Return why a pod that was to keep running does not. None while it may still run."""
    disruption = disruption_of(pod)
    if disruption is not None:
        return PodEnd(disruption.reason, _HINTS[disruption.state].format(node=node_of(pod) or "<node>"))
    if phase_of(pod) in ("Failed", "Succeeded"):
        return PodEnd(_reported(pod), _HINTS["failed"])
    if "deletionTimestamp" in pod["metadata"]:
        return PodEnd(f"{where(pod)} is being removed by somebody else", "run the gate again; who removes pods?")
    again = _restarts(pod)
    if again is not None and again[0] >= _RESTARTS:
        return PodEnd(_died(pod, *again), _HINTS["failed"], restarted=True)
    return None


def waits_for(pod: Json, image: str, setting: str) -> PodEnd:
    """Return what a pod that is to run waits for. `setting` is the setting that names another image."""
    if not node_of(pod):
        on_hold = held_by_gates(pod)
        text = on_hold or f"{where(pod)} has no node: {why_pending(pod) or 'the scheduler says nothing'}"
        return PodEnd(text, NO_QUEUE_HINT if on_hold else "make room for it, or free a node: kubectl get nodes")
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


def _reported(pod: Json) -> str:
    code, word = termination_of(pod)
    status = pod.get("status") or {}
    reasons = dict.fromkeys(str(part) for part in (word, status.get("reason"), status.get("message")) if part)
    reported = f" ({'; '.join(reasons)})" if reasons else ""
    ended = f"ended with exit code {code}" if code is not None else "ended without having run"
    return f"{where(pod)}: container {_container(status)}{ended}{reported}"


def _container(status: Mapping[str, Any]) -> str:
    entries = status.get("containerStatuses") or []
    name = next((str(entry.get("name")) for entry in entries if (entry.get("state") or {}).get("terminated")), "")
    return f"{name} " if name else ""


def _restarts(pod: Json) -> tuple[int, str, int | None, str] | None:
    """Return restart count, name, last exit code and last reason of a restarted container. None if there is none."""
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


# A job that its queue did not admit, or that is suspended without a queue: the reason is what suspends it, and not
# that it has no pods.


def create_unheld(namespace: TemporaryNamespace, objects: list[dict[str, Any]]) -> None:
    """Create objects in the namespace of a test, in order.

    Raises:
        RefusedError: the API server refuses one, or suspends one that goes through no queue, so that it makes no pods.
        BringupError: the API server does not answer.
    """
    for made in namespace.create(objects):
        if not namespace.cluster_queue and (why := suspended(made)):
            raise RefusedError(namespace.name, why)


def explained(namespace: TemporaryNamespace, job: str, observed: ObservedJob, ending: Ending) -> Ending:
    """Return the ending of a job. It becomes `held` where its queue keeps it from having pods.

    Raises:
        BringupError: the API server does not answer.
    """
    if not namespace.cluster_queue or ending.state != "refused" or observed.pods or observed.refusals:
        return ending
    why = why_held(namespace.cluster, namespace.name, job)
    reported = why or (
        "Kueue says nothing of it; does its managedJobsNamespaceSelector leave out namespaces of tests, does "
        "kueue-controller-manager run?"
    )
    return Ending("held", f"ClusterQueue {namespace.cluster_queue} did not admit it: {reported}")


# How often the container of a pod ended, and the text about it.


def deaths_of(pod: Mapping[str, Any]) -> tuple[int, int | None]:
    """Return how often the container of a pod ended, and its last exit code."""
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
    """Return the text on how often a container ended and with which exit code, or why the code is not known."""
    times = f"{deaths} times" if deaths > 1 else "once"
    if code is None:
        return f"ended {times}, with which exit code is not known: its pod waits to start it again and no longer says"
    return f"ended {times}, the last time with exit code {code}" if deaths > 1 else f"ended once, with exit code {code}"


# Which pods of a test the scheduler preempted, from its events.
#
# A preempted pod gets the condition DisruptionTarget and is deleted with its grace period; once it is gone, neither
# can be read. The event about it remains (kubernetes/kubernetes, pkg/scheduler/framework/preemption: type Normal,
# reason Preempted, "Preempted by pod <uid> on node <name>").

_REASON = "Preempted"


def preempted_pods(cluster: Cluster, namespace: str) -> dict[str, str]:
    """Return by pod the scheduler's message about its preemption.

    It is empty if the API server does not answer: that the pods are gone is known without it.
    """
    try:
        events: list[Json] = cluster.list_objects(EVENTS, namespace, fields=f"reason={_REASON}")
    except BringupError:
        return {}
    return {
        str((event.get("involvedObject") or {}).get("name", "")): str(event.get("message") or _REASON)
        for event in events
        if event.get("reason") == _REASON
    }


# Warning events in the namespace of a test.

_LONGEST = 400


def warning_events(cluster: Cluster, namespace: str) -> list[Json]:
    """Return the warning events of a namespace. A test that goes well has some hundred events, and hardly one of them.

    The server filters them (kubernetes/kubernetes, pkg/registry/core/event/strategy.go: `type` is a selectable field).

    Raises:
        BringupError: the cluster does not answer.
    """
    events = cluster.list_objects(EVENTS, namespace, fields="type=Warning")
    return [event for event in events if event.get("type") == "Warning"]


def warnings_in(namespace: TemporaryNamespace) -> dict[str, str]:
    """Return the last warning about each object, as `reason: message`, newest last.

    It is empty if the API server does not answer: warnings only explain what is known without them.
    """
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


# Messages of controllers about pods that they could not make: a final refusal, or an outage that passes. Pure.
#
# The patterns are data: recipes/pod_refusals.yaml.
# The message of an event has at most 1024 characters (kubernetes/kubernetes, NoteLengthLimit of events.k8s.io).
_REFUSALS_LONGEST = 2048


def unmade(events: Iterable[Json], jobs: Iterable[str]) -> dict[str, list[str]]:
    """Return by job the messages of controllers about pods that they could not make, newest last.

    Of messages in the same second a refusal is put first, because it will be repeated at the next try.
    """
    wanted, found = frozenset(jobs), dict[str, list[tuple[str, bool, str]]]()
    for event in events:
        about = str((event.get("involvedObject") or {}).get("name", ""))
        # mpi-operator creates a Job with this suffix for the launcher.
        name = about if about in wanted else about.removesuffix("-launcher")
        if name in wanted and says_unmade(event):
            message = str(event.get("message") or event["reason"])[:_REFUSALS_LONGEST]
            found.setdefault(name, []).append((said_at(event), meaning_of(message) != "refused", message))
    return {name: [message for _when, _passing, message in sorted(reported)] for name, reported in found.items()}


# The pods of a namespace while a gate waits for them: listed when something changed, watched in between.
#
# Only the list counts. A watch only signals that it is time for a new one, so a watch that is refused, that breaks or
# whose version has expired costs no more than a list.
# Pods start in bursts: one list covers all changes within this time.
_BURST_S = 0.4
# Without a change in the watch a list is used this long.
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
        """Return the pods: as last listed if nothing has changed, from a new list otherwise.

        Raises:
            BringupError: the cluster does not answer.
        """
        if not self._known or time.monotonic() - self._listed_at > _BELIEVED_S:
            self._listed_at = time.monotonic()
            found, self._version = self.cluster.list_with_version(PODS, self.namespace)
            self._pods, self._known = tuple(found), bool(self._version)
        return self._pods

    def forget(self) -> None:
        """Force a new list at the next call, because this process changed pods itself."""
        self._known = False

    def wait(self, limit_s: float) -> None:
        """Wait until a pod changes, at most `limit_s`. A problem of the watch is not an error here."""
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
                # Watching is not allowed or fails: go on without a watch.
                self._known = False
        time.sleep(max(deadline.left_s, 0.0))


# The log of a pod that ended, read to its end.
#
# A log is a stream without a length. Where the connection between API server and kubelet breaks, the server ends the
# stream as if that were all (kubernetes/apiserver, responsewriters/writers.go: StreamObject copies and drops the
# error), so a truncated log looks complete. A second request for the last lines shows the difference, because the log
# of an ended container does not change. A kubelet that does not know a container any more, or not yet, returns an
# error, or the error text in place of the log with status 200 (kubernetes/kubernetes#111812).
# Reads a log: as many of its last lines as given; 0 for all of it.
Read = Callable[[int], str]
_PAUSE_S = 1.0
_END_LINES = 5
_LOGS = "logs"
_NO_LOG = re.compile(r"unable to retrieve container logs for \S{1,200}")


@dataclass(frozen=True, slots=True)
class _Answer:
    """The log, or why it could not be read and whether that is final."""

    log: str = ""
    problem: str = ""
    final: bool = False


def has_ended(pod: Json) -> bool:
    """Tell whether all containers of a pod ran and ended, so that their logs do not change any more.

    A pod that was never admitted, or whose node went away, has no log to wait for.
    """
    status = pod.get("status") or {}
    ends = [(entry.get("state") or {}).get("terminated") for entry in status.get("containerStatuses") or []]
    ran = bool(ends) and all(end and end.get("reason") != "ContainerStatusUnknown" for end in ends)
    return status.get("phase") == "Succeeded" or (status.get("phase") == "Failed" and ran)


def whole_log(read: Read, outage: Outage, pod: Json) -> tuple[str, str]:
    """Return the log of a pod, and why it is missing or truncated. The reason is empty for a complete log.

    A missing or truncated log of a pod that ended is read again for as long as a kubelet may need to come back
    (Outage.awaits). An empty log may be right: without an outage it is accepted, like the log of a running pod. A log
    that stays truncated gets a last line with that fact, which its readers know (runtime.process).

    Args:
        read: reads the log; raises BringupError where it cannot.
        outage: when the API server was away.
        pod: the pod as last observed.
    """
    ended, node = has_ended(pod), str((pod.get("spec") or {}).get("nodeName") or "")
    while True:
        found = _requested(read, 0)
        cut = _cut(read, found.log) if ended and found.log.strip() else ""
        if found.log.strip() and not cut:
            if outage.came(node):
                outage.came(_LOGS)
            return found.log, ""
        missing = ended and bool(found.problem or cut)
        # If no kubelet can be reached at all, wait for the first pod only and not for each.
        late = missing and outage.awaits(node) and outage.awaits(_LOGS)
        again = late or (outage.recovering if ended else outage.settling)
        if found.final or not again:
            return (with_open_end(found.log), cut) if cut else (found.log, found.problem)
        time.sleep(_PAUSE_S)


def log_of_pod(namespace: TemporaryNamespace, pod: Json, container: str = "") -> tuple[str, str]:
    """Return the log of a pod's container, complete if the pod ended, and why it cannot be read."""
    cluster, name = namespace.cluster, pod["metadata"]["name"]

    def read(lines: int) -> str:
        return cluster.logs(name, namespace.name, container=container, tail_lines=lines)

    if has_ended(pod):
        return whole_log(read, cluster.transport.outage, pod)
    # The caller reads the log of a running pod again by itself.
    found = _requested(read, 0)
    return found.log, found.problem


def _requested(read: Read, lines: int) -> _Answer:
    try:
        log = read(lines)
    except BringupError as error:
        return _Answer(problem=error.reason, final=isinstance(error, (ForbiddenError, UnauthorizedError)))
    return _Answer(problem=f"{log.strip()}.") if _NO_LOG.fullmatch(log.strip()) else _Answer(log)


def _cut(read: Read, log: str) -> str:
    """Return why a log may be truncated. Empty if it ends with the lines that were requested separately."""
    end = _requested(read, _END_LINES)
    if end.problem:
        return f"its end could not be confirmed: {end.problem}"
    wanted = after_gap(end.log).rstrip()
    return "" if wanted and log.rstrip().endswith(wanted) else "it was cut before its end."
