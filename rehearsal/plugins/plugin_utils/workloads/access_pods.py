# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Pods that list their GPUs and end, and pods that look for device files of GPUs.

No container runs, so the devices that a runtime would pass in are computed: as many working GPUs of the node as were
requested, and no device file without a request. Containers that lose theirs print the messages of
NVIDIA/nvidia-container-toolkit#48.
"""

from __future__ import annotations

from collections.abc import Mapping

from ..model.values import Node
from .pod_simulator import STDERR, STDOUT, Json, PodGroup, PodOutput, PodSimulator, SimContext, words_of

_MIG = "nvidia.com/mig-"


def handles(pod: Json) -> bool:
    words = " ".join(words_of(pod))
    return "/dev/nvidia*" in words or ("nvidia-smi -L" in words and "sleep" not in words)


def simulate(group: PodGroup, context: SimContext) -> Mapping[str, PodOutput] | None:
    """Return the output of the pod, which ends at once."""
    if not group.running:
        return None
    pod = group.running[0]
    node = context.model.node(pod["spec"]["nodeName"])
    name = pod["metadata"]["name"]
    if "/dev/nvidia*" in " ".join(words_of(pod)):
        devices = (
            [f"device /dev/nvidia{gpu.index}" for gpu in node.working_gpus] if node.kubernetes.open_devices else []
        )
        return {name: PodOutput(lines=tuple((STDOUT, line) for line in (*devices, "looked into /dev")))}
    slices = _slices(pod)
    return {name: _with_slices(node, *slices) if slices else _listed(node, _count(pod, context))}


def _listed(node: Node, count: int) -> PodOutput:
    if node.kubernetes.blind_containers:
        return PodOutput(lines=((STDERR, "Failed to initialize NVML: Unknown Error"),), exit_code=255)
    gpus = node.working_gpus[:count]
    return PodOutput(lines=tuple((STDOUT, f"GPU {n}: {gpu.product} (UUID: {gpu.uuid})") for n, gpu in enumerate(gpus)))


def _slices(pod: Json) -> tuple[str, int] | None:
    """Return the requested MIG profile of a pod and the number of devices, None without a request."""
    limits = (pod["spec"]["containers"][0].get("resources") or {}).get("limits") or {}
    return next(((n.removeprefix(_MIG), int(amount)) for n, amount in limits.items() if n.startswith(_MIG)), None)


def _with_slices(node: Node, profile: str, count: int) -> PodOutput:
    """Return the output of a pod with MIG devices of the first GPU: the GPU, and a line for each device below it."""
    listed = _listed(node, 1)
    if listed.exit_code or not node.working_gpus:
        return listed
    stem = node.working_gpus[0].uuid.removeprefix("GPU-")[:-2]
    lines = tuple((STDOUT, f"  MIG {profile}     Device  {n}: (UUID: MIG-{stem}{n:02x})") for n in range(count))
    return PodOutput(lines=(*listed.lines, *lines))


def _count(pod: Json, context: SimContext) -> int:
    limits = (pod["spec"]["containers"][0].get("resources") or {}).get("limits") or {}
    requested = sum(int(amount) for name, amount in limits.items() if name.startswith("nvidia.com/"))
    claims = (pod.get("status") or {}).get("resourceClaimStatuses") or []
    names = [(pod["metadata"]["namespace"], str(claim.get("resourceClaimName", ""))) for claim in claims]
    return requested or sum(len(context.claimed.get(name, ())) for name in names)


SIMULATOR = PodSimulator(name="gpu-access", handles=handles, simulate=simulate)
