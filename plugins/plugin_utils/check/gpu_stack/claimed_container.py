# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""What the container of a pod with a claim sees: nvidia-smi in it lists the GPUs that the driver handed over.

An allocation is only the scheduler's decision. The node must still prepare the devices and hand them to the container.
"""

from __future__ import annotations

import re
import time
from dataclasses import dataclass, replace
from typing import Any

from ...runtime.clock import Deadline
from ...runtime.progress import Progress
from ...workload.follow import disruption_of, where
from ...workload.namespace import TemporaryNamespace
from ...workload.pods import log_of_pod, warnings_in

Json = dict[str, Any]
# The driver's files, nvidia-smi among them, come into the container with its devices. It must not end: the claim of a
# pod that ended is released at once.
SHOW_GPUS = ("sh", "-c", "nvidia-smi -L && exec sleep infinity")
_UUID = re.compile(r"UUID: (GPU-[0-9a-fA-F-]+)\)")
# Reasons of a kubelet for a container whose end it did not observe, with an exit code that it makes up
# (kubernetes/kubernetes, pkg/kubelet/kubelet_pods.go; containerd reports Unknown and 255 for what ran before the node
# restarted).
_UNSEEN_ENDS = ("ContainerStatusUnknown", "Unknown")
_NO_IMAGE = ("ErrImagePull", "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull")


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerSeen:
    """How the container ended, and the UUIDs that it listed.

    Attributes:
        exit_code: None: it did not end.
        reason: why it ended or does not run.
        no_image: its image could not be pulled, so it proves nothing about GPUs.
        uuids: GPUs that nvidia-smi listed.
        printed: the end of its log.
        unread: why its log could not be read.
    """

    exit_code: int | None = None
    reason: str = ""
    no_image: bool = False
    uuids: tuple[str, ...] = ()
    printed: str = ""
    unread: str = ""


def look_into(namespace: TemporaryNamespace, deadline: Deadline, progress: Progress) -> ContainerSeen:
    """Wait until the container of the namespace's only pod has listed its GPUs or ended, and return what it printed."""
    while True:
        pod = next(iter(namespace.pods()), {})
        printed, unread = _printed(namespace, pod)
        phase = (pod.get("status") or {}).get("phase")
        if _UUID.search(printed) or phase in ("Succeeded", "Failed") or deadline.left_s <= 0:
            break
        progress.tick(f"claimed GPUs: {why_not_running(pod) or 'the container starts'}"[:180])
        time.sleep(min(0.5, max(deadline.left_s, 0.01)))
    if not pod:
        return ContainerSeen(reason="the pod is gone")
    return replace(container_seen(pod, printed, next(reversed(warnings_in(namespace).values()), "")), unread=unread)


def _printed(namespace: TemporaryNamespace, pod: Json) -> tuple[str, str]:
    """Return the log of a pod that runs or ran, and why it cannot be read. One of both is empty."""
    if (pod.get("status") or {}).get("phase") not in ("Running", "Succeeded", "Failed"):
        return "", ""
    return log_of_pod(namespace, pod)


def container_seen(pod: Json, printed: str, warning: str) -> ContainerSeen:
    """Return what a pod's container observed, from the pod, its log and the last warning event about it. Pure."""
    status: Json = next(iter((pod.get("status") or {}).get("containerStatuses") or []), {})
    ended = (status.get("state") or {}).get("terminated") or {}
    uuids = tuple(sorted(set(_UUID.findall(printed))))
    by_others = _ended_by_others(pod, ended)
    if by_others:
        # How it ended then proves nothing about GPUs.
        return ContainerSeen(reason=by_others[:400], uuids=uuids, printed=printed.strip()[-600:])
    # The container lists them and keeps running, so that the claim remains.
    code = ended.get("exitCode", 0 if uuids else None)
    reported = ": ".join(str(ended[key]) for key in ("reason", "message") if ended.get(key))
    return ContainerSeen(
        exit_code=None if code is None else int(code),
        reason=(reported if code else "") or ("" if code == 0 else warning or why_not_running(pod))[:400],
        no_image=((status.get("state") or {}).get("waiting") or {}).get("reason") in _NO_IMAGE,
        uuids=uuids,
        printed=printed.strip()[-600:],
    )


def _ended_by_others(pod: Json, ended: Json) -> str:
    """Return what ended a container that would have gone on. Empty: nothing did."""
    disruption = disruption_of(pod)
    if disruption is not None:
        return disruption.reason
    if ended.get("reason") in _UNSEEN_ENDS:
        return f"{where(pod)}: nobody saw its end ({ended['reason']}); did the node restart?"
    if ended.get("exitCode") and (pod.get("metadata") or {}).get("deletionTimestamp"):
        return f"{where(pod)}: somebody removed it"
    return ""


def why_not_running(pod: Json) -> str:
    """Return the waiting reason of a container that does not run. Empty: there is none."""
    for status in (pod.get("status") or {}).get("containerStatuses") or []:
        waiting = (status.get("state") or {}).get("waiting") or {}
        if waiting.get("reason"):
            return ": ".join(str(waiting[key]) for key in ("reason", "message") if waiting.get(key))[:400]
    return ""
