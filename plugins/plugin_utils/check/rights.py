# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""What each gate must be allowed to do on the cluster, taken from the permissions that the gates' own code lists.

Preflight checks what the gates in scope need with the site's choices. docs/rbac/roles.yaml is made from the same with
every choice. The levels: `observe` reads, `test` makes objects, `install` puts the recipe on the cluster.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from ..clients.kube.permission import Permission, stream_permissions
from ..component_stack.facts import stack_facts
from ..component_stack.manifest import manifests_of
from ..hardware.sku import Sku
from ..outcome.gates import API_GATES, STACK_GATE
from ..site.model import DriverOwner, Site
from ..workload.job import JobKind
from ..workload.namespace import BASIC, HOLDING, job_permissions
from ..workload.queue import PERMISSIONS as QUEUED
from .kit.settings_layers import checked_settings

T = TypeVar("T")
LEVELS = ("observe", "test", "install")
# Every gate with a cluster needs these: to identify the cluster, and to find whether its nodes are simulated.
CONTACT = (Permission("get", "namespaces"), Permission("list", "nodes"))
_READING = ("get", "list", "watch")
_WAYS = {
    "port-forward": stream_permissions("portforward"),
    "service-proxy": tuple(Permission(verb, "services", subresource="proxy") for verb in ("get", "create")),
}
# What the test of gangs does with pod groups, and what removing them takes.
_OF_GROUPS = ("get", "create", "list", "delete", "patch")
_OF_CLUSTERS = ("get", "create", "list", "delete")
# For components with webhooks: the webhooks, and the endpoints that serve them.
_SERVED = (
    Permission("list", "validatingwebhookconfigurations", "admissionregistration.k8s.io"),
    Permission("list", "mutatingwebhookconfigurations", "admissionregistration.k8s.io"),
    Permission("list", "endpointslices", "discovery.k8s.io"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Choices:
    """Choices of a site that change how its gates work.

    Attributes:
        gangs: schedulers that admit gangs (names of recipes/gpu_stack.yaml).
        kinds: how jobs are launched.
        by_dra: GPUs are allocated by resource claims.
        ways: how Prometheus is reached.
        servers: settings of the inference servers.
        rack_wide: NVLink reaches the hosts of a rack.
        driver_in_pods: the driver's tools are in pods.
        queued: jobs go through a queue of Kueue.
        controllers: components of recipes/gpu_stack.yaml that are checked beyond the health of their workloads.
        autoscaled: metrics of GPUs scale pods.
        adds_nodes: an autoscaler adds nodes.
        by_quota: gangs are admitted by quota alone.
        manifests: kinds of objects in the manifests of its recipe, of those in recipes/gpu_stack.yaml.
        slurm: its recipe has a Slurm in pods.
        ray: KubeRay has gangs.
    """

    gangs: tuple[str, ...]
    kinds: tuple[JobKind, ...]
    by_dra: bool
    ways: tuple[str, ...]
    servers: tuple[Any, ...]
    rack_wide: bool = False
    driver_in_pods: bool = False
    queued: bool = False
    controllers: tuple[str, ...] = ()
    autoscaled: bool = False
    adds_nodes: bool = False
    by_quota: bool = False
    manifests: tuple[str, ...] = ()
    slurm: bool = False
    ray: bool = False


def every_choice() -> Choices:
    """Return the union of all choices that a site can make, secrets apart."""
    from .inference_acceptance.settings import GATE, InferenceSettings

    shipped = checked_settings(InferenceSettings, GATE, {})
    other = replace(shipped.server, reach="service-proxy", claim={"accessModes": ["ReadWriteMany"]})
    servers = (shipped, replace(shipped, server=other))
    return Choices(
        gangs=tuple(stack_facts().gangs), kinds=("gang-job", "mpijob"), by_dra=True, ways=tuple(_WAYS), servers=servers,
        rack_wide=True, driver_in_pods=True, queued=True, controllers=tuple(stack_facts().controllers),
        autoscaled=True, adds_nodes=True, by_quota=True, manifests=tuple(stack_facts().manifests),
        slurm=True, ray=True,
    )  # fmt: skip


def choices_of(
    site: Site,
    recipe: Mapping[str, Any] | None,
    hardware: Mapping[str, Sku] | None = None,
    saved: Mapping[str, Mapping[str, Any]] | None = None,
) -> Choices:
    """Return the choices of a site, with the settings of the gates in its scope and the facts of its SKUs.

    Args:
        site: the site.
        recipe: the resolved recipe.
        hardware: the SKUs.
        saved: the settings that were saved with the run, by gate and name.

    Raises:
        ProblemsError: a setting is wrong.
    """

    def stated_of(kind: type[T], key: str) -> T:
        return checked_settings(kind, key, site.settings.get(key, {}), (saved or {}).get(key))

    components = [str(name) for name in (recipe or {}).get("deploymentOrder") or ()]
    gang, by_quota = _gang_of(site, components)
    kinds: tuple[JobKind, ...] = ()
    ways: tuple[str, ...] = ()
    servers: tuple[Any, ...] = ()
    if "fabric_validation" in site.gates:
        from .fabric_validation.settings import GATE as NCCL
        from .fabric_validation.settings import FabricValidationSettings

        kinds = (stated_of(FabricValidationSettings, NCCL).run.kind,)
    if "telemetry" in site.gates:
        from .telemetry.settings import GATE as TELEMETRY
        from .telemetry.settings import TelemetrySettings

        metrics = stated_of(TelemetrySettings, TELEMETRY).metrics
        ways = () if metrics.url else (metrics.way,)
    if "inference_acceptance" in site.gates:
        from .inference_acceptance.settings import GATE as INFERENCE
        from .inference_acceptance.settings import InferenceSettings

        servers = (stated_of(InferenceSettings, INFERENCE),)
    from .gpu_stack.ray_gang import ray_provider
    from .gpu_stack.settings import GATE as STACK
    from .gpu_stack.settings import GpuStackSettings

    stack = stated_of(GpuStackSettings, STACK)
    by_ray = ray_provider(recipe)
    gangs = tuple(dict.fromkeys(filter(None, (gang, by_ray)))) if len(site.in_scope) > 1 else ()
    skus = ((hardware or {}).get(host.sku) for host in site.in_scope)
    return Choices(
        gangs=gangs, kinds=kinds, by_dra="dra" in site.capabilities, ways=ways, servers=servers,
        rack_wide=len(site.in_scope) > 1 and any(sku is not None and sku.nvlink_domain == "rack" for sku in skus),
        driver_in_pods=site.driver_owner is DriverOwner.OPERATOR, queued=bool(stack.cluster_queue),
        controllers=tuple(name for name in stack_facts().controllers if name in components),
        autoscaled=stack_facts().autoscaling.component in components,
        adds_nodes=bool(site.adds_nodes), by_quota=by_quota and len(site.in_scope) > 1,
        manifests=_kinds_of(recipe or {}), slurm=stack_facts().slurm.component in components,
        ray=bool(by_ray) and len(site.in_scope) > 1,
    )  # fmt: skip


def _gang_of(site: Site, components: Sequence[str]) -> tuple[str, bool]:
    """Return the scheduler that places gangs at a site, and whether a quota admits them."""
    configured = str(site.settings.get("gang-admission", {}).get("provider") or "")
    gang = configured if configured in stack_facts().gangs else ""
    placing = [name for name in stack_facts().gangs if name in components]
    quota = stack_facts().quota_gangs
    by_quota = configured in quota or (not (configured or placing) and any(name in components for name in quota))
    return gang or next(iter(placing), "native"), by_quota


def _kinds_of(recipe: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the kinds of objects in a recipe's manifests. What is wrong with a manifest is reported where it is
    planned."""
    entries = recipe.get("componentRefs") or ()
    found = {str(manifest.body["kind"]) for entry in entries for manifest in manifests_of(entry, "", [])}
    return tuple(kind for kind in stack_facts().manifests if kind in found)


def gate_permissions(gate: str, level: str, choices: Choices) -> tuple[Permission, ...]:
    """Return what that gate needs at that level, beyond the levels before it.

    Args:
        gate: gate id.
        level: one of LEVELS.
        choices: the site's choices.
    """
    if gate not in API_GATES:
        return ()
    if level == "install":
        return stack_facts().permissions["install"] if gate == STACK_GATE else ()
    wanted = (*CONTACT, *HOLDING, *_MAKERS[gate](choices))
    reads = level == "observe"
    return tuple(dict.fromkeys(entry for entry in wanted if (entry.verb in _READING and _plain(entry)) is reads))


def needed_permissions(gates: Iterable[str], levels: Iterable[str], choices: Choices) -> tuple[Permission, ...]:
    """Return what those gates need at those levels, each once."""
    return tuple(needed_rights(gates, levels, choices))


def needed_rights(gates: Iterable[str], levels: Iterable[str], choices: Choices) -> dict[Permission, str]:
    """Return what those gates need at those levels, each with the role that grants it: the highest of these levels."""
    found: dict[Permission, str] = {}
    levels = tuple(levels)
    for gate in gates:
        wanted = {level: gate_permissions(gate, level, choices) for level in levels}
        role = role_name(gate, next((level for level in reversed(levels) if wanted[level]), ""))
        found = dict.fromkeys((entry for level in levels for entry in wanted[level]), role) | found
    return found


def role_name(subject: str, level: str) -> str:
    """Return the name of the role of a gate, or of another subject with a role, at a level (docs/rbac/roles.yaml)."""
    return f"gpufleet-{subject.replace('_', '-')}-{level}"


def _plain(permission: Permission) -> bool:
    # A proxy or stream reaches what is behind it, so it is no plain read. The Lease is for runs that test.
    return permission.subresource not in ("proxy", "portforward", "exec") and permission.resource != "leases"


def _gpu_stack(choices: Choices) -> tuple[Permission, ...]:
    known = stack_facts().permissions
    slurm = stack_facts().slurm.permissions if choices.slurm else ()
    tools = stream_permissions("exec") if choices.driver_in_pods or choices.slurm else ()
    scaling = stack_facts().node_scaling if choices.adds_nodes else ()
    manifests = (stack_facts().manifests[kind] for kind in choices.manifests)
    return (
        *BASIC, *known["observe"], *manifests, *known["test"], *_groups(choices), *_controllers(choices), *scaling,
        *slurm, *tools, *_queue(choices),
    )  # fmt: skip


def _telemetry(choices: Choices) -> tuple[Permission, ...]:
    from .telemetry.settings import GATE, TelemetrySettings

    configured = checked_settings(TelemetrySettings, GATE, {}).permissions
    scaling = stack_facts().autoscaling.permissions if choices.autoscaled else ()
    return (*configured, *(entry for way in choices.ways for entry in _WAYS[way]), *scaling)


def _nccl(choices: Choices) -> tuple[Permission, ...]:
    # The DL unit test of one host has its program in a ConfigMap.
    unit = job_permissions("plain-job", files=True, by_dra=choices.by_dra)
    ranks = job_permissions("ranks", by_dra=choices.by_dra)
    jobs = (entry for kind in choices.kinds for entry in _jobs(kind, choices))
    return (*BASIC, *jobs, *unit, *ranks, *_queue(choices))


def _training(choices: Choices) -> tuple[Permission, ...]:
    return (*BASIC, *_jobs("torchrun", choices), *_queue(choices))


def _inference(choices: Choices) -> tuple[Permission, ...]:
    from .inference_acceptance.observe_inference import permissions

    servers = (entry for settings in choices.servers for entry in permissions(settings, by_dra=choices.by_dra))
    return (*BASIC, *servers, *_queue(choices))


def _queue(choices: Choices) -> tuple[Permission, ...]:
    return QUEUED if choices.queued else ()


def _jobs(kind: JobKind, choices: Choices) -> tuple[Permission, ...]:
    apis = [stack_facts().gangs[name].api_version for name in choices.gangs] or [""]
    return tuple(
        entry
        for api in apis
        for entry in job_permissions(kind, gang_api=api, by_dra=choices.by_dra, imex=choices.rack_wide)
    )


def _controllers(choices: Choices) -> tuple[Permission, ...]:
    facts = [stack_facts().controllers[name] for name in choices.controllers]
    served = _SERVED if any(entry.webhooks for entry in facts) else ()
    return (*served, *(permission for entry in facts for permission in entry.permissions))


def _groups(choices: Choices) -> tuple[Permission, ...]:
    groups = dict.fromkeys(stack_facts().gangs[name].api_version.partition("/")[0] for name in choices.gangs)
    quota = stack_facts().quota_permissions if choices.by_quota else ()
    ray = [Permission(verb, "rayclusters", "ray.io") for verb in _OF_CLUSTERS] if choices.ray else []
    return (*(Permission(verb, "podgroups", group) for group in groups for verb in _OF_GROUPS), *quota, *ray)


# What each gate with needs_api does on the API server.
_MAKERS = {
    "gpu_stack": _gpu_stack,
    "telemetry": _telemetry,
    "fabric_validation": _nccl,
    "training_acceptance": _training,
    "inference_acceptance": _inference,
}
