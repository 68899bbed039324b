# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Gangs as RayClusters: KubeRay creates the pods, sets their scheduler, and has them grouped.

The scheduler is configured when the operator is installed (ray-project/kuberay,
helm-chart/kuberay-operator/values.yaml: batchScheduler). With Volcano, KubeRay creates the group itself
(ray-operator/controllers/ray/batchscheduler/volcano); with KAI, KAI's pod grouper does (kai-scheduler/KAI-Scheduler,
pkg/podgrouper/podgrouper/plugins/ray); with the scheduler plugins, KubeRay does again
(batchscheduler/scheduler-plugins). Queue and priority are labels of a cluster.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ...clients.kube.objects import Kind
from ...component_stack.facts import stack_facts
from ...runtime.files import RECIPES
from ...site.model import Site
from ...workload.capacity import claim_variables, gpu_requests
from ...workload.manifests import render
from ...workload.namespace import MARGIN_S, TemporaryNamespace
from .capacity import Slots

Json = dict[str, Any]
KUBERAY = "kuberay-operator"
RAY_CLUSTERS = Kind("ray.io/v1", "RayCluster", "rayclusters")
# Schedulers of recipes/gpu_stack.yaml by their name in KubeRay. YuniKorn is not among those.
_SCHEDULERS = {"volcano": "volcano", "kai-scheduler": "kai-scheduler", "scheduler-plugins": "coscheduling"}
_QUEUES = {"volcano": "volcano.sh/queue-name", "kai-scheduler": "kai.scheduler/queue"}
_PRIORITY, _SWITCH = "ray.io/priority-class-name", "ray.io/gang-scheduling-enabled"


def ray_provider(recipe: Mapping[str, Any] | None) -> str:
    """Return who places Ray gangs, by the recipe's values of KubeRay. Empty: no supported scheduler does."""
    entry = next((e for e in (recipe or {}).get("componentRefs") or () if e.get("name") == KUBERAY), None)
    configured = ((entry or {}).get("values") or {}).get("batchScheduler") or {}
    name = str(configured.get("name") or ("volcano" if configured.get("enabled") else ""))
    return _SCHEDULERS.get(name, "")


def has_ray_gangs(site: Site, recipe: Mapping[str, Any] | None) -> tuple[str, ...]:
    """Return the cluster if its recipe has Ray gangs and it has more than one host. Empty: otherwise."""
    return (site.name,) if ray_provider(recipe) and len(site.in_scope) > 1 else ()


def ray_cluster(
    namespace: TemporaryNamespace, name: str, provider: str, slots: Slots, queue: str, image: str, longest_s: float
) -> list[Json]:
    """Return the RayCluster of one gang: a head and workers, all with GPUs.

    Raises:
        InputError: the template does not render with these values.
    """
    requests = gpu_requests(stack_facts().dra.device_class if slots.by_dra else "", slots.gpus)
    labels = {**namespace.labels, "gpufleet.io/gang": name}
    queued = {_QUEUES[provider]: queue} if queue and provider in _QUEUES else {}
    return render(
        RECIPES / "workloads" / "gang-ray.yaml.j2",
        {
            "name": name,
            "namespace": namespace.name,
            "workers": slots.gang - 1,
            "gpus": slots.gpus,
            "resource": slots.resource,
            "nodes": list(slots.nodes),
            "image": image or stack_facts().test_pods.image,
            "priority_class": namespace.priority_class,
            "tolerations": namespace.tolerated,
            "cluster_labels": {**labels, **queued, _PRIORITY: namespace.priority_class, _SWITCH: "true"},
            "labels": labels,
            **claim_variables(name, namespace.name, labels, requests),
            "deadline_s": longest_s + MARGIN_S,
        },
    )
