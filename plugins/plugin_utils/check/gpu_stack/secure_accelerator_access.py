# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Check: no container sees a GPU that it was not given: not by default, not by its environment, not by a host path."""

from __future__ import annotations

from ...outcome.model import Outcome, SubjectKind
from ..spec import Check, CheckSpec, Disturbance, JudgeContext, needs
from .access import AccessResult, Looked, NodeAccess, are_whole, seen_of_its_own
from .gpu_containers import HELD_BACK, AccessHost, per_host
from .gpu_containers import SPEC as CONTAINERS
from .observe_access import OBSERVER

SPEC = CheckSpec(
    id="secure-accelerator-access",
    gate="gpu_stack",
    phase="conformance",
    title="Containers see their own GPUs and no others",
    per=SubjectKind.NODE,
    disturbs=Disturbance.TEST_PODS,
    duration_s=20.0,
    applies=(needs("kubernetes"),),
    causes=("gpu-not-its-own", "gpu-open-to-all", "gpu-open-to-environment", "host-paths-open"),
)

# GPUs in all containers are caused by a setting of the node's runtime. Each of these commands shows one.
_NO_DEFAULT = (
    "on the node `containerd config dump | grep -e default_runtime_name -e privileged_without -e cdi` (CRI-O: `crio "
    "status config | grep default_runtime`) and `nvidia-ctk cdi list`: no runtime that adds GPUs may be the default "
    "one; a privileged default: kubectl get mutatingwebhookconfigurations"
)


def judge(observed: AccessResult, context: JudgeContext) -> tuple[Outcome, ...]:
    """Return the outcomes by host: a container without GPUs must find none, one with GPUs no more than its own."""
    return per_host(SPEC, observed, context, _judge_host)


def _judge_host(host: AccessHost, node: NodeAccess) -> Outcome:
    answer, facts = host.answer, host.facts()
    plain, asking, owner = node.plain, node.asking, node.owner
    if plain is not None and plain.devices:
        text = f"a container that asked for no GPU sees {', '.join(plain.devices[:8])}"
        hint = _NO_DEFAULT
        return answer.failed("gpu-open-to-all", text, hint, **facts)
    observed = seen_of_its_own(node)
    if owner is not None and observed > node.asked:
        text = (
            f"a container that got {node.asked} of {node.resource or 'a claim'} sees {observed}: "
            f"{', '.join(owner.uuids)}"
        )
        name = node.node
        hint = (
            f"read the log of the device plugin or DRA driver there (kubectl get pods -A -o wide --field-selector "
            f"spec.nodeName={name}); `nvidia-ctk cdi list` on {name}"
        )
        return answer.failed("gpu-not-its-own", text[:400], hint, **facts)
    if host.seen.host_path_refused == "":
        text = "the API server takes a pod that mounts /dev/nvidia0 of its host in a namespace of level baseline"
        hint = "switch admission plugin PodSecurity on again: take it out of kube-apiserver --disable-admission-plugins"
        return answer.failed("host-paths-open", text, hint, **facts)
    unknown = _unknown(host, node, (plain, asking))
    if unknown is not None:
        return unknown
    if asking is not None and asking.devices:
        text = f"a container that only sets NVIDIA_VISIBLE_DEVICES=all sees {', '.join(asking.devices[:8])}"
        hint = (
            "accept-nvidia-visible-devices-envvar-when-unprivileged = false in the nvidia container runtime's "
            "config.toml with the device plugin's DEVICE_LIST_STRATEGY volume-mounts or cdi-*; or accept it by name "
            "where all users of the cluster are trusted"
        )
        return answer.marginal("gpu-open-to-environment", text, hint, **facts)
    own = f"one with {node.asked} its own" if owner is not None else "none was given out meanwhile"
    return answer.passed(f"containers without GPUs see none, {own}; host paths are refused", **facts)


def _unknown(host: AccessHost, node: NodeAccess, without: tuple[Looked | None, ...]) -> Outcome | None:
    """Return why the node is not known to be closed. None: everything was tested."""
    answer, facts = host.answer, host.facts()
    if any(entry is None for entry in without):
        text = f"a pod without GPUs was not placed: {node.unplaced or node.refused or 'there was no pod'}"
        return answer.unknown(
            "container-not-placed", text, f"kubectl describe node {node.node}; run the gate again", **facts
        )
    open_end = next((entry for entry in without if entry is not None and not entry.done), None)
    if open_end is not None:
        cause = "image-not-pulled" if open_end.no_image else "container-not-started"
        hint = f"an image that the site has: gpufleet_settings: {{{CONTAINERS.id}: {{image: ...}}}}; run the gate again"
        return answer.unknown(cause, f"a container without GPUs did not look: {open_end.reason}", hint, **facts)
    if host.seen.host_path_refused is None:
        why = host.seen.reason or "it was not asked"
        text = f"it is not known whether the API server refuses pods that mount files of their host: {why}"
        return answer.unknown("host-paths-not-asked", text, "run the gate again", **facts)
    owner = node.owner
    if node.asked and (
        owner is None or owner.exit_code != 0 or seen_of_its_own(node) < node.asked or not are_whole(owner.uuids)
    ):
        return answer.blocked(by=CONTAINERS.id, because="the container with GPUs did not see what it got")
    if host.seen.leftovers:
        return answer.unknown("cleanup-incomplete", f"left behind: {host.seen.leftovers[0]}", HELD_BACK, **facts)
    return None


CHECK = Check(SPEC, OBSERVER, judge)
