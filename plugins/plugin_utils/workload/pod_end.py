# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Why a pod of a test does not run any more, or not yet: what its status says, and what to do about it. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from .follow import disruption_of, node_of, phase_of, termination_of, waiting_of, where
from .pending import NO_QUEUE_HINT, held_by_gates, why_pending

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
