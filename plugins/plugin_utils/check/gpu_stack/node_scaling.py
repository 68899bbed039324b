# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""A node that was added for a pending pod, as values. Reading is pure.

Whoever adds nodes says of a pending pod what it does, in events about the pod: cluster-autoscaler `TriggeredScaleUp`
and `NotTriggerScaleUp` (kubernetes/autoscaler, cluster-autoscaler FAQ: "What events are emitted by CA?"), Karpenter
`Nominated` and `FailedScheduling` from its own component, which in EKS Auto Mode is eks-auto-mode/compute
(kubernetes-sigs/karpenter, pkg/controllers/provisioning/scheduling/events.go). What they say of themselves: NodePools
have a condition Ready; cluster-autoscaler writes a ConfigMap, as YAML since 1.30 and as text before
(cluster-autoscaler/clusterstate/api/types.go).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from ...runtime.plain_yaml import documents

Json = dict[str, Any]
GPU = "nvidia.com/gpu"
_YES = ("TriggeredScaleUp", "Nominated")
_NO = ("NotTriggerScaleUp", "FailedScheduling")
# How the names of schedulers end where the pod does not tell it: kai-scheduler, gke.io/...-scheduler of Google Cloud.
_SCHEDULER = "scheduler"
# Classes of cluster-autoscaler's own: one adds nothing, the other grows the groups that pending pods grow (its FAQ,
# "How can I use ProvisioningRequest to run batch workloads"). Of another nobody knows that: node pools of GKE with
# queued provisioning get nodes by requests alone (gcloud container node-pools create, --enable-queued-provisioning).
_OWN_CLASSES = ("check-capacity.autoscaling.x-k8s.io", "best-effort-atomic-scale-up.autoscaling.x-k8s.io")
_FULL = re.compile(
    r"max node group size reached|exceed(?:s|ed)? limits|max cluster .* limit reached|quota", re.IGNORECASE
)
# Karpenter: "Pod should schedule on: nodeclaim/NAME, node/NAME".
_PROMISED = re.compile(r"\b(nodeclaim|node)/([a-z0-9][a-z0-9.-]*)")
_HEALTH = re.compile(r"^\s*Health:\s+(\w+)", re.MULTILINE)


@dataclass(frozen=True, slots=True, kw_only=True)
class AutoscalerWords:
    """What was said of the pod: `taken` that a node comes for it, `refused` that none does, each the last of its kind
    with who said it; empty where nobody did."""

    taken: str = ""
    refused: str = ""

    @property
    def is_full(self) -> bool:
        """Whether it was refused because there is no more room to grow."""
        return bool(_FULL.search(self.refused))


@dataclass(frozen=True, kw_only=True)
class NodeScaling:
    """Everything. `problem` is a slug when no test was possible, with `reason`.

    `answers` is what whoever adds nodes says of itself; `by_request` are classes of ProvisioningRequests by which Kueue
    asks for nodes that may come for nothing else; `words` what it said of the pod; `node` the node that came for
    it after `up_s` and was not there before, with so many `gpus`; `placed`: the pod has it, else `unplaced` is what the
    scheduler says of the pod; `started`: its container ran, else `unstarted` says why not; `gone_s`: when the node was
    gone again after the pod, None if it is there still after `waited_s`.
    """

    problem: str = ""
    reason: str = ""
    answers: tuple[str, ...] = ()
    by_request: tuple[str, ...] = ()
    words: AutoscalerWords = AutoscalerWords()
    asked: int = 0
    node: str = ""
    gpus: int = 0
    up_s: float = 0.0
    placed: bool = False
    unplaced: str = ""
    started: bool = False
    unstarted: str = ""
    gone_s: float | None = None
    waited_s: float = 0.0
    leftovers: tuple[str, ...] = ()
    schema_version: int = 1


def words_of(events: Iterable[Json], scheduler: str = "") -> AutoscalerWords:
    """Return what events about a pod say of nodes for it.

    Karpenter gives the reason that every scheduler gives as well; a scheduler of the cluster reports by the name that
    the pod has in schedulerName (kubernetes/kubernetes, pkg/scheduler/profile/profile.go), which platforms change
    (Google Cloud, "About GKE cluster autoscaling": profile optimize-utilization).

    Args:
        events: all about one pod.
        scheduler: who is to place it by its schedulerName.
    """
    found = {True: "", False: ""}
    for event in sorted(events, key=_when):
        reason, message = str(event.get("reason", "")), str(event.get("message", ""))
        source = str((event.get("source") or {}).get("component") or event.get("reportingComponent") or "")
        by_scheduler = source.endswith(_SCHEDULER) or (bool(source) and source == scheduler)
        if (reason in _YES or reason in _NO) and not by_scheduler:
            found[reason in _YES] = f"{source or 'somebody'}: {reason}: {message}"[:400]
    return AutoscalerWords(taken=found[True], refused=found[False])


def request_classes(configs: Iterable[Json]) -> tuple[str, ...]:
    """Return the classes of Kueue's ProvisioningRequestConfigs whose nodes may come for requests alone."""
    classes = {str((item.get("spec") or {}).get("provisioningClassName", "")) for item in configs}
    return tuple(sorted(classes - {"", *_OWN_CLASSES}))


def node_for(nodes: Iterable[Json], taken: str, selector: Mapping[str, str]) -> str:
    """Return which of the nodes that came is the pod's, empty for none of them: the one that was promised by name or by
    NodeClaim, or where no promise names any the first with these labels.

    Args:
        nodes: metadata of the nodes that were not there before.
        taken: what was said of the pod.
        selector: labels of the nodes that were asked for.
    """
    promised = set(_PROMISED.findall(taken))
    fitting = [node for node in nodes if selector.items() <= (node.get("labels") or {}).items()]
    if promised:
        fitting = [node for node in fitting if _names_of(node) & promised]
    return min((str(node["name"]) for node in fitting), default="")


def _names_of(node: Json) -> set[tuple[str, str]]:
    claims = (owner["name"] for owner in node.get("ownerReferences") or [] if owner.get("kind") == "NodeClaim")
    return {("node", str(node["name"])), *(("nodeclaim", str(name)) for name in claims)}


def _when(event: Json) -> str:
    return str(event.get("lastTimestamp") or event.get("eventTime") or event.get("firstTimestamp") or "")


def node_pool(item: Json) -> str:
    """Return what a NodePool of Karpenter says of itself, in one line."""
    conditions = (item.get("status") or {}).get("conditions") or []
    ready: Json = next((entry for entry in conditions if entry.get("type") == "Ready"), {})
    word = {"True": "ready", "False": "not ready"}.get(str(ready.get("status")), "of unknown readiness")
    why = f" ({ready.get('message') or ready.get('reason')})" if word == "not ready" else ""
    limit = ((item.get("spec") or {}).get("limits") or {}).get(GPU)
    used = ((item.get("status") or {}).get("resources") or {}).get(GPU, 0)
    gpus = f", {used} of {limit} GPUs" if limit is not None else ""
    return f"NodePool {item['metadata']['name']} is {word}{why}{gpus}"


def autoscaler_status(text: str) -> str:
    """Return what cluster-autoscaler says of itself, in one line, from its ConfigMap; what is neither of its two forms
    is said to be so."""
    try:
        found = next(iter(documents(text)), None)
    except ValueError:
        found = None
    if isinstance(found, dict) and "autoscalerStatus" in found:
        wide = found.get("clusterWide") or {}
        health = str((wide.get("health") or {}).get("status") or "of unknown health")
        groups = found.get("nodeGroups") or []
        return f"cluster-autoscaler is {found['autoscalerStatus']}, {health}, with {len(groups)} node groups"
    match = _HEALTH.search(text)
    if match:
        return f"cluster-autoscaler is {match.group(1)}"
    return "cluster-autoscaler has a status that cannot be read"
