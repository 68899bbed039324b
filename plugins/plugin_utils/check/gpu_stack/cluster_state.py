# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""What the gate observed in the cluster, as one typed value that all of its judges share."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

from ...clients.kube.permission import AskedPermission
from ...component_stack.facts import stack_facts
from ...component_stack.promised import Promised
from ...component_stack.workloads import Workload, workload_title
from ...workload.capacity import is_gpu


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeState:
    """A node.

    Attributes:
        name: its name.
        ready: status of its condition Ready (`True`, `False`, `Unknown`); empty: it has none.
        reason: reason and message of that condition.
        unschedulable: it is cordoned.
        pressures: its conditions of pressure that are true.
        allocatable: what device plugins of all vendors offer.
        capacity: the same for the GPU vendor, including devices that the plugin marks unhealthy.
        taints: as `key=value:effect`.
        labels: the labels that the gate judges by.
        os_image: its operating system.
        kernel: its kernel.
    """

    name: str
    ready: str
    reason: str = ""
    unschedulable: bool = False
    pressures: tuple[str, ...] = ()
    allocatable: dict[str, int] = field(default_factory=dict)
    capacity: dict[str, int] = field(default_factory=dict)
    taints: tuple[str, ...] = ()
    labels: dict[str, str] = field(default_factory=dict)
    os_image: str = ""
    kernel: str = ""

    @property
    def gpus(self) -> dict[str, int]:
        """The GPU resources that the node offers, whole or in parts."""
        return {name: number for name, number in self.allocatable.items() if number and is_gpu(name)}


@dataclass(frozen=True, slots=True, kw_only=True)
class ComponentState:
    """A component of the recipe as installed.

    Attributes:
        name: its name.
        release: `namespace/name`; empty: none.
        status: status of the release.
        version: version of its chart.
        ours: this collection installed it.
        owner: who installed what is used in the component's place; empty: it is managed by this collection, or not
            known.
        used: controllers that are used then (`Deployment namespace/name`).
        promised: the workloads in its manifest; None: that was not read.
        unread: why not.
        by_hand: values and fields of its objects that were changed by hand and that this run does not revert.
        installing: state that the installer reported (`waiting`, `failed`, `refused`, ...).
        installing_cause: slug, if it failed.
        installing_reason: its reason.
        installing_hint: its hint.
    """

    name: str
    release: str = ""
    status: str = ""
    version: str = ""
    ours: bool = False
    owner: str = ""
    used: tuple[str, ...] = ()
    promised: tuple[Promised, ...] | None = None
    unread: str = ""
    by_hand: tuple[str, ...] = ()
    installing: str = ""
    installing_cause: str = ""
    installing_reason: str = ""
    installing_hint: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyState:
    """A ClusterPolicy or NicClusterPolicy: its state, and its own messages about what is wrong."""

    name: str
    state: str
    messages: tuple[str, ...] = ()

    @property
    def is_ignored(self) -> bool:
        """Whether its operator ignores it: `ignored` of recipes/gpu_stack.yaml."""
        conditions = (entry for entries in stack_facts().ready_when.values() for entry in entries)
        return any(self.state == entry.ignored for entry in conditions if entry.ignored)


@dataclass(frozen=True, slots=True, kw_only=True)
class OperandState:
    """What the GPU operator runs on the nodes, in order of dependency. `title` is its common name."""

    title: str
    workload: Workload


@dataclass(frozen=True, slots=True, kw_only=True)
class SliceState:
    """A ResourceSlice: its pool, how many slices the pool should have, and how many whole GPUs it offers."""

    driver: str
    node: str
    pool: str
    generation: int
    slice_count: int
    gpus: int
    devices: int


@dataclass(frozen=True, kw_only=True)
class ClusterState:
    """The whole observation.

    A field is None if the server does not serve the kind, or a missing permission stopped the gate.

    `permissions_asked` is the number of permissions that were checked. 0: saved by a release that did not count them.
    """

    version: str
    permissions: tuple[AskedPermission, ...] = ()
    permissions_asked: int = 0
    nodes: tuple[NodeState, ...] | None = None
    components: tuple[ComponentState, ...] | None = None
    workloads: tuple[Workload, ...] | None = None
    cluster_policies: tuple[PolicyState, ...] | None = None
    nic_cluster_policies: tuple[PolicyState, ...] | None = None
    operands: tuple[OperandState, ...] | None = None
    device_classes: tuple[str, ...] | None = None
    slices: tuple[SliceState, ...] | None = None
    schema_version: int = 1

    @property
    def denied(self) -> tuple[AskedPermission, ...]:
        """The permissions that the server denies."""
        return tuple(permission for permission in self.permissions if not permission.allowed)

    def node(self, name: str) -> NodeState | None:
        """Return the node of that name. None: the cluster has none."""
        return self._by_name.get(name)

    def slices_on(self, node: str) -> tuple[SliceState, ...]:
        """Return the ResourceSlices of a node."""
        return tuple(self._slices_by_node.get(node, ()))

    @cached_property
    def _by_name(self) -> dict[str, NodeState]:
        return {node.name: node for node in self.nodes or ()}

    @cached_property
    def _slices_by_node(self) -> dict[str, list[SliceState]]:
        found: dict[str, list[SliceState]] = {}
        for entry in self.slices or ():
            found.setdefault(entry.node, []).append(entry)
        return found

    def component(self, name: str) -> ComponentState | None:
        """Return the component of that name. None: it was not observed."""
        return next((component for component in self.components or () if component.name == name), None)

    def workloads_for(self, component: ComponentState) -> tuple[Workload, ...]:
        """Return the workloads of a component: those of its release, and the controllers that are used in its place."""
        return tuple(
            workload
            for workload in self.workloads or ()
            if (component.release and workload.release == component.release)
            or workload_title(workload) in component.used
        )

    def own_workloads(self) -> tuple[Workload, ...]:
        """Return the workloads of all components, and what the GPU operator runs on the nodes."""
        components = (workload for component in self.components or () for workload in self.workloads_for(component))
        return (*components, *(operand.workload for operand in self.operands or ()))
