# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""What recipes/gpu_stack.yaml knows about components, operands, gangs and tests."""

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
    """A resource in which a component reports its readiness: the dotted field has that value.

    Where it is not `required`, a cluster without such a resource is fine. `name_prefix` leaves others of its kind out,
    `ignored` is the value of those of which the operator takes no notice.
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
    """A line by which a failing pod names its cause: a regular expression, the cause, what it means, what mends it."""

    pattern: str
    cause: str
    says: str
    hint: str
    source: str

    def line_in(self, text: str) -> str:
        """Return the line that decides, empty if there is none."""
        match = re.search(self.pattern, text)
        if match is None:
            return ""
        start, end = text.rfind("\n", 0, match.start()) + 1, text.find("\n", match.end())
        return text[start : end if end >= 0 else len(text)].strip()[:300]


@dataclass(frozen=True, slots=True, kw_only=True)
class GangFacts:
    """How a gang scheduler is spoken to.

    `template` of recipes/workloads/ makes its group (of this `kind`) and pods; `scheduler` is the pods' schedulerName;
    `workload` is a part of the name of the workload that decides, empty where the control plane itself does.
    """

    template: str
    api_version: str
    scheduler: str
    workload: str
    kind: str = "PodGroup"


@dataclass(frozen=True, slots=True, kw_only=True)
class ControllerFacts:
    """What a component answers for beyond its workloads: names of webhooks that it must have, policies that may refuse
    in their place, an object that one of them must refuse, the GatewayClass that it makes, the controllers whose other
    classes are its own as well, the API groups of its InferencePools, and the rights that looking at these takes."""

    webhooks: tuple[str, ...] = ()
    policies: tuple[str, ...] = ()
    invalid: dict[str, Any] = field(default_factory=dict)
    gateway_class: str = ""
    gateway_controllers: tuple[str, ...] = ()
    inference_pools: tuple[str, ...] = ()
    permissions: tuple[Permission, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class AutoscalingFacts:
    """The component that offers metrics to autoscalers, the external metric of GPUs that it has, the series in
    Prometheus that the metric is the mean of, and the rights that scaling by it takes."""

    component: str
    metric: str
    series: str
    permissions: tuple[Permission, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class SlurmFacts:
    """The component whose pods are a Slurm, the API group of what describes it, and the rights that looking takes."""

    component: str
    group: str
    permissions: tuple[Permission, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class DraFacts:
    """The component that publishes GPUs as devices, its driver name, its class of whole GPUs, and the image in whose
    container nvidia-smi is asked."""

    component: str
    driver: str
    device_class: str
    image: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PodFacts:
    """What the pods of the tests have in common."""

    image: str
    priority_class: str
    priority: int
    namespace_prefix: str


@dataclass(frozen=True, slots=True, kw_only=True)
class StackFacts:
    """All of it; see the file's head."""

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
    """Return the facts.

    Raises:
        InputError: the file is not what it should be.
    """
    path = RECIPES / "gpu_stack.yaml"
    return decode(StackFacts, read_yaml(path), str(path))
