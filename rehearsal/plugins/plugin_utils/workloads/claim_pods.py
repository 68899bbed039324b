# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Pods with a ResourceClaim that run nvidia-smi: it lists the allocated GPUs."""

from __future__ import annotations

from collections.abc import Mapping

from .pod_simulator import STDOUT, Json, PodGroup, PodOutput, PodSimulator, SimContext, words_of


def handles(pod: Json) -> bool:
    return "nvidia-smi -L" in " ".join(words_of(pod)) and bool(pod["spec"].get("resourceClaims"))


def simulate(group: PodGroup, context: SimContext) -> Mapping[str, PodOutput] | None:
    """Return the list of the claimed GPUs, numbered from 0 as in any container."""
    if not group.running:
        return None
    pod = group.running[0]
    namespace, node = pod["metadata"]["namespace"], context.model.node(pod["spec"]["nodeName"])
    names = [str(entry.get("resourceClaimName", "")) for entry in pod["spec"]["resourceClaims"]]
    given = [device for name in names for device in context.claimed.get((namespace, name), ())]
    if not given:
        return None
    indices = sorted(int(device.rpartition("-")[2]) for device in given)
    gpus = [gpu for gpu in node.working_gpus if gpu.index in indices]
    lines = tuple((STDOUT, f"GPU {n}: {gpu.product} (UUID: {gpu.uuid})") for n, gpu in enumerate(gpus))
    return {pod["metadata"]["name"]: PodOutput(lines=lines, exit_code=None)}


SIMULATOR = PodSimulator(name="claimed-gpus", handles=handles, simulate=simulate)
