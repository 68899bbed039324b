# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The facts of recipes/gpu_stack.yaml about components, operands, gangs and tests."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from ..clients.kube.permission import Permission
from ..runtime.files import RECIPES
from ..runtime.strict import decode, read_yaml


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadyWhen:
    """A resource in which a component reports its readiness: the dotted field has this value.

    If it is not `required`, a cluster without such a resource is fine. `name_prefix` limits it to resources with such
    names. `ignored` is the value of the resources that the operator does not handle.
    """

    api_version: str
    kind: str
    field: str
    value: str
    required: bool
    name_prefix: str = ""
    ignored: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownFailure:
    """A log line that shows why a pod fails: a regular expression, the cause, its meaning, and what to do."""

    pattern: str
    cause: str
    says: str
    hint: str
    source: str

    def line_in(self, text: str) -> str:
        """Return the line that matches. Empty if there is none."""
        match = re.search(self.pattern, text)
        if match is None:
            return ""
        start, end = text.rfind("\n", 0, match.start()) + 1, text.find("\n", match.end())
        return text[start : end if end >= 0 else len(text)].strip()[:300]


@dataclass(frozen=True, slots=True, kw_only=True)
class GangFacts:
    """How to use a gang scheduler.

    `template` of recipes/workloads/ makes its group (of this `kind`) and the pods. `scheduler` is the schedulerName of
    the pods. `workload` is a part of the name of the workload that decides, empty where the control plane decides.
    """

    template: str
    api_version: str
    scheduler: str
    workload: str
    kind: str = "PodGroup"


@dataclass(frozen=True, slots=True, kw_only=True)
class ControllerFacts:
    """What a component provides beyond its workloads.

    Args:
        webhooks: names of webhooks that it must have.
        policies: policies that may refuse in their place.
        invalid: an object that one of them must refuse.
        gateway_class: the GatewayClass that it creates.
        gateway_controllers: controllers whose other classes belong to it as well.
        inference_pools: API groups of its InferencePools.
        permissions: permissions to read all this.
    """

    webhooks: tuple[str, ...] = ()
    policies: tuple[str, ...] = ()
    invalid: dict[str, Any] = field(default_factory=dict)
    gateway_class: str = ""
    gateway_controllers: tuple[str, ...] = ()
    inference_pools: tuple[str, ...] = ()
    permissions: tuple[Permission, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class AutoscalingFacts:
    """Metrics for autoscalers.

    `component` serves them. `metric` is its external metric of GPUs, the mean of `series` in Prometheus. `permissions`
    are those to scale by it.
    """

    component: str
    metric: str
    series: str
    permissions: tuple[Permission, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class SlurmFacts:
    """The component whose pods run a Slurm, the API group of its resources, and the permissions to read them."""

    component: str
    group: str
    permissions: tuple[Permission, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class DraFacts:
    """The component that publishes GPUs as devices, its driver name, and its device class of whole GPUs.

    `image` is the image of the container in which nvidia-smi is run.
    """

    component: str
    driver: str
    device_class: str
    image: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PodFacts:
    """What the pods of all tests have in common."""

    image: str
    priority_class: str
    priority: int
    namespace_prefix: str


@dataclass(frozen=True, slots=True, kw_only=True)
class StackFacts:
    """The whole file. Its head explains the fields."""

    ready_when: dict[str, tuple[ReadyWhen, ...]]
    operands: dict[str, str]
    on_every_gpu_node: tuple[str, ...]
    network_operands: dict[str, str]
    known_failures: tuple[KnownFailure, ...]
    gangs: dict[str, GangFacts]
    quota_gangs: dict[str, GangFacts]
    quota_permissions: tuple[Permission, ...]
    dra: DraFacts
    controllers: dict[str, ControllerFacts]
    autoscaling: AutoscalingFacts
    node_scaling: tuple[Permission, ...]
    slurm: SlurmFacts
    manifests: dict[str, Permission]
    permissions: dict[str, tuple[Permission, ...]]
    test_pods: PodFacts


@cache
def stack_facts() -> StackFacts:
    """Read the facts.

    Raises:
        InputError: the file does not have the expected form.
    """
    path = RECIPES / "gpu_stack.yaml"
    return decode(StackFacts, read_yaml(path), str(path))
