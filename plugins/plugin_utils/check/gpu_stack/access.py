# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""What containers with and without GPUs observed on every node, as values.

A container without GPUs must not see any of their device files. NVIDIA's container runtime also evaluates the variable
NVIDIA_VISIBLE_DEVICES, which any user may set, unless it is configured not to
(accept-nvidia-visible-devices-envvar-when-unprivileged of its config.toml; "Read list of GPU devices from volume mounts
instead of NVIDIA_VISIBLE_DEVICES" of NVIDIA/nvidia-container-toolkit).
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from ...workload.capacity import MIG, is_gpu
from ...workload.follow import disruption_of
from .claimed_container import ContainerSeen, container_seen

Json = dict[str, Any]
# GKE's device plugin mounts the driver's files there and leaves the paths to the image (cloud.google.com, "Run GPUs in
# GKE Standard node pools": CUDA libraries).
_PATHS = 'export PATH="$PATH:/usr/local/nvidia/bin" LD_LIBRARY_PATH="/usr/local/nvidia/lib64:$LD_LIBRARY_PATH"'
LIST_GPUS = ("sh", "-c", f"{_PATHS}; nvidia-smi -L")
_LOOKED = "looked into /dev"
LOOK = (
    "sh",
    "-c",
    f'for d in /dev/nvidia* /dev/nvidia-caps/*; do [ -e "$d" ] && echo "device $d"; done; echo {_LOOKED}',
)
_DEVICE = re.compile(r"^device (/dev/nvidia\S*)$", re.MULTILINE)
_SLICE = re.compile(r"UUID: (MIG-[0-9A-Za-z/-]+)\)")
_OUT_OF = "OutOf"
OWNER, PLAIN, ASKING = "owner", "plain", "asking"
_WHOLE = re.compile(r"GPU-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Looked:
    """What a container without GPUs found.

    Attributes:
        done: it completed the search.
        devices: device files of GPUs that it found.
        reason: why it did not complete.
        no_image: its image could not be pulled.
    """

    done: bool = False
    devices: tuple[str, ...] = ()
    reason: str = ""
    no_image: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeAccess:
    """One node.

    Attributes:
        node: its name.
        closed: why no pod was placed there; empty: pods were.
        total: its GPUs.
        free: its free GPUs.
        resource: what the container with GPUs requested; empty: a claim.
        asked: how many of them.
        owner: what the container with GPUs observed; None: there was none.
        plain: what the container without GPUs found; None: there was none.
        asking: the same for the one that only sets NVIDIA_VISIBLE_DEVICES.
        unplaced: the scheduler's message about a pod that it did not place.
        refused: why the kubelet refused the pod with GPUs. For the other pod, its containers report it.
    """

    node: str
    closed: str = ""
    total: int = 0
    free: int = 0
    resource: str = ""
    asked: int = 0
    owner: ContainerSeen | None = None
    plain: Looked | None = None
    asking: Looked | None = None
    unplaced: str = ""
    refused: str = ""


@dataclass(frozen=True, kw_only=True)
class AccessResult:
    """The whole observation. `problem` is the slug of why no test was possible, with `reason` and `hint`.

    `host_path_refused` is the API server's message to a pod that mounts a device file of its host. Empty: it would have
    accepted the pod. None: not known, `reason` is why.
    """

    problem: str = ""
    reason: str = ""
    hint: str = ""
    nodes: tuple[NodeAccess, ...] = ()
    host_path_refused: str | None = None
    settled_s: float = 0.0
    leftovers: tuple[str, ...] = ()
    schema_version: int = 1

    def on(self, node: str) -> NodeAccess | None:
        """Return what was observed on a node. None: it was not tested."""
        return self._by_name.get(node)

    @cached_property
    def _by_name(self) -> dict[str, NodeAccess]:
        return {entry.node: entry for entry in self.nodes}


def seen_of_its_own(node: NodeAccess) -> int:
    """Return how many of the requested GPUs, or MIG slices, the container with GPUs saw.

    For a GPU in MIG mode `nvidia-smi -L` prints a line for the GPU, and one for each of its devices that are there
    (NVIDIA, MIG User Guide: device names).
    """
    if node.owner is None:
        return 0
    if node.resource.startswith(MIG) and len(node.owner.uuids) <= node.asked:
        return len(set(_SLICE.findall(node.owner.printed)))
    return len(node.owner.uuids)


def are_whole(uuids: Iterable[str]) -> bool:
    """Return whether all of these are complete UUIDs of GPUs."""
    return all(_WHOLE.fullmatch(uuid) for uuid in uuids)


def owner_seen(pod: Json, printed: str, warning: str, unread: str) -> ContainerSeen:
    """Return what a container with GPUs observed, from its pod, its log and the last warning event about it. Pure."""
    observed = container_seen(pod, printed, warning)
    return ContainerSeen(
        exit_code=observed.exit_code, reason=observed.reason, no_image=observed.no_image, uuids=observed.uuids,
        printed=observed.printed,
        unread=unread,
    )  # fmt: skip


def looked(pod: Json, container: str, printed: str, unread: str) -> Looked:
    """Return what a container without GPUs found. Pure."""
    statuses = (pod.get("status") or {}).get("containerStatuses") or []
    status: Json = next((entry for entry in statuses if entry.get("name") == container), {})
    waiting = (status.get("state") or {}).get("waiting") or {}
    if _LOOKED in printed and not unread:
        return Looked(done=True, devices=tuple(sorted(set(_DEVICE.findall(printed)))))
    words = ": ".join(str(waiting[key]) for key in ("reason", "message") if waiting.get(key))
    no_image = waiting.get("reason") in ("ErrImagePull", "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull")
    disruption = disruption_of(pod)
    gone = disruption.reason if disruption is not None else ""
    return Looked(
        reason=(gone or refused_by_kubelet(pod) or unread or words or "it did not end in time")[:400], no_image=no_image
    )


def is_for_want_of_others(refused: str) -> bool:
    """Return whether a kubelet refused a pod for lack of something other than a GPU.

    Its reason is OutOf and the resource (kubernetes/kubernetes, pkg/kubelet/lifecycle/predicate.go).
    """
    word = refused.partition(":")[0]
    return word.startswith(_OUT_OF) and not is_gpu(word.removeprefix(_OUT_OF))


def refused_by_kubelet(pod: Json) -> str:
    """Return why a kubelet refused a pod that the scheduler assigned to it.

    The status of such a pod is Failed without any container, as with UnexpectedAdmissionError of a device plugin.
    Empty: it was not refused, or something else ended the pod.
    """
    status = pod.get("status") or {}
    if status.get("phase") != "Failed" or status.get("containerStatuses") or disruption_of(pod) is not None:
        return ""
    return ": ".join(str(status[key]) for key in ("reason", "message") if status.get(key))[:400] or "no reason is told"
