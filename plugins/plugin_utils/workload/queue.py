# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The queue that a gang asks its scheduler for: what the site states, else what the scheduler itself brings.

Volcano always has a queue `default` that cannot be deleted, and its admission refuses a group whose queue is not there
or not open (volcano-sh/volcano pkg/webhooks/admission/podgroups/validate). KAI's chart makes `default-queue` below
`default-parent-queue`, at the first installation alone (kai-scheduler/KAI-Scheduler pull request 499); a group of a
queue that does not exist stays pending with QueueDoesNotExist (pull request 820), and one of a queue without a parent
is not placed either (its #621). A queue has the GPUs of its limit and of those above it; a limit that is 0 or not
stated is none at all, -1 is no limit (its docs/queues/README.md).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from ..clients.kube.cluster import Cluster
from ..clients.kube.kinds import KAI_QUEUES, VOLCANO_QUEUES
from ..outcome.errors import BringupError

KAI, VOLCANO = "kai-scheduler", "volcano"
_KINDS = {KAI: KAI_QUEUES, VOLCANO: VOLCANO_QUEUES}
_BROUGHT = {KAI: "default-queue", VOLCANO: "default"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Queue:
    """A queue of a gang scheduler; `state` is Volcano's word (Open, Closed, ...), empty where it has none.

    `gpu_limit` is the most GPUs that KAI gives to it, -1 for no limit."""

    name: str
    parent: str = ""
    state: str = ""
    gpu_limit: float = -1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueChoice:
    """The queue to ask for; with a `cause` none can be asked for, and `reason` and `hint` say why and what helps."""

    name: str = ""
    cause: str = ""
    reason: str = ""
    hint: str = ""


def queue_for(cluster: Cluster, provider: str, stated: str) -> QueueChoice:
    """Return the queue for the gangs of a provider (volcano, kai-scheduler; others have none).

    Args:
        cluster: where the queues are.
        provider: who admits the gang.
        stated: the queue that the site names; empty: the scheduler's own.
    """
    if provider not in _KINDS:
        return QueueChoice()
    try:
        found = cluster.find_all(_KINDS[provider])
    except BringupError:
        # Not ours to read: whoever admits the gang says whether it is right.
        found = None
    if found is None:
        return QueueChoice(name=stated or _BROUGHT[provider])
    queues = (
        Queue(
            name=item["metadata"]["name"],
            parent=str((item.get("spec") or {}).get("parentQueue") or ""),
            state=str((item.get("status") or {}).get("state") or ""),
            gpu_limit=_gpu_limit(item) if provider == KAI else -1.0,
        )
        for item in found
    )
    return choose(provider, stated, queues)


def choose(provider: str, stated: str, queues: Iterable[Queue]) -> QueueChoice:
    """Return the queue for a gang among those of its scheduler. Pure."""
    there = {queue.name: queue for queue in queues}
    usable = _usable(provider, there)
    listed = f"it has {', '.join(sorted(there)) or 'none'}"
    hint = f"state one that gangs may use: gpufleet_settings: {{<gate or check>: {{queue: ...}}}}; {_command(provider)}"
    if stated:
        if stated in usable:
            return QueueChoice(name=stated)
        why = _why_not(there.get(stated), there)
        return QueueChoice(cause="queue-unusable", reason=f"queue {stated} of {provider} {why}; {listed}", hint=hint)
    if _BROUGHT[provider] in usable:
        return QueueChoice(name=_BROUGHT[provider])
    if len(usable) == 1:
        return QueueChoice(name=next(iter(usable)))
    reason = f"{provider} has no queue {_BROUGHT[provider]}, and the site states none; {listed}"
    return QueueChoice(cause="queue-unstated", reason=reason, hint=hint)


def _usable(provider: str, there: dict[str, Queue]) -> set[str]:
    if provider == VOLCANO:
        # Gangs do not go into the root of all queues. A state that nobody wrote yet holds nothing.
        return {queue.name for queue in there.values() if queue.name != "root" and queue.state in ("", "Open")}
    parents = {queue.parent for queue in there.values()}
    leaves = {queue.name: queue for queue in there.values() if queue.parent in there and queue.name not in parents}
    return {name for name, queue in leaves.items() if not _without_gpus(queue, there)}


def _gpu_limit(item: Mapping[str, Any]) -> float:
    gpu = ((item.get("spec") or {}).get("resources") or {}).get("gpu") or {}
    return float(gpu.get("limit") or 0)


def _without_gpus(queue: Queue, there: Mapping[str, Queue]) -> str:
    """Return the first of a queue and those above it that allows no GPUs, empty if each does."""
    seen: set[str] = set()
    step: Queue | None = queue
    while step is not None and step.name not in seen:
        if step.gpu_limit == 0:
            return step.name
        seen.add(step.name)
        step = there.get(step.parent)
    return ""


def _why_not(queue: Queue | None, there: Mapping[str, Queue]) -> str:
    if queue is None:
        return "does not exist"
    closed = _without_gpus(queue, there)
    if closed:
        return f"gets no GPUs: spec.resources.gpu.limit of queue {closed} is 0 or not stated (-1 is no limit)"
    return f"is {queue.state}" if queue.state not in ("", "Open") else "takes no groups: it is no leaf below a parent"


def _command(provider: str) -> str:
    return f"kubectl get {_KINDS[provider].title}"
