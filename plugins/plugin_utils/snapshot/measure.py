# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Measures a recipe's constraints and criteria in a snapshot. What was not observed is unmeasured, never a pass."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any

from ..constraint.declared import (
    DRIVER_VERSION,
    GPU_NODE_LABEL,
    KERNEL_RELEASE,
    LABEL_COUNT,
    OKE_LEGACY_PLUGIN,
    OPERATOR_VERSION,
    OS_ID,
    OS_VERSION,
    PROVIDER,
    declared_constraint,
    is_measurable,
)
from ..constraint.evaluate import Constraint, ConstraintResult, ConstraintStatus, evaluate, evaluate_nodes
from ..outcome.gates import READINESS
from ..outcome.model import Scalar
from ..outcome.wording import count, first_of
from ..recipe.detect import ClusterFacts, NodeFacts
from ..recipe.os_image import os_release
from .formats import PROVIDERS
from .model import Collected, Host, Node, Snapshot, Workload, gpu_count, gpu_product, has_gpus

# Measures the constraints of a recipe in a snapshot. What was not observed is unmeasured, which is never a pass.
#
# Labels of nodes are those of Node Feature Discovery and GPU Feature Discovery (their documentation, "Feature labels"):
# an upstream snapshot records the operating system of one node and the labels of all of them.

_FEATURE = "feature.node.kubernetes.io/"
_OPERATOR = "gpu-operator"
# Status of a Helm release in use; empty where the snapshot does not record it.
_IN_FORCE = ("deployed", "")
# `key=value`, where the value may be empty like a label's, or `!key`.
_LABEL = re.compile(r"!\s*[^!=\s]+|[^!=\s]+\s*=[^=]*")
Value = str | int | bool | None
Read = Callable[[Node, Host], Value]


def evaluate_in(
    constraint: Constraint, snapshot: Snapshot, nodes: Iterable[str], hosts: Mapping[str, str] | None = None
) -> ConstraintResult:
    """Return whether a constraint holds in a snapshot.

    Args:
        constraint: the constraint.
        snapshot: of the cluster.
        nodes: the nodes that it is about, by their names in the cluster.
        hosts: names in the inventory by those names, where they differ.
    """
    name = constraint.name
    if name in PROVIDER:
        return _of_provider(constraint, snapshot)
    if name == OKE_LEGACY_PLUGIN:
        return _with_reason(evaluate(constraint, _legacy_plugin(snapshot)), snapshot, "workloads")
    if name in _CLUSTER:
        return _with_reason(evaluate(constraint, _CLUSTER[name](snapshot)), snapshot, "server", "nodes", "releases")
    prefix = next((prefix for prefix in _SEVERAL if name.startswith(prefix)), "")
    if prefix:
        collector, several = _SEVERAL[prefix]
        # An upstream snapshot has images although workloads were not requested.
        cut = snapshot.collectors[collector].state is Collected.FAILED
        found = {} if cut else several(name.removeprefix(prefix), snapshot)
        return _with_reason(evaluate_nodes(constraint, found), snapshot, "workloads", "policies")
    read = _reader(name)
    if read is None or not snapshot.whole("nodes"):
        return _with_reason(_of_a_part(constraint, snapshot, read), snapshot, "nodes")
    names = {node: (hosts or {}).get(node, node) for node in nodes}
    values = {
        node: read(snapshot.nodes.get(node, Node()), snapshot.hosts.get(host, Host())) for node, host in names.items()
    }
    if name == GPU_NODE_LABEL:
        labelled = replace(_labelled(constraint, snapshot, tuple(names)), measured_on=len(names))
        return _with_reason(labelled, snapshot, "nodes")
    measured = replace(evaluate_nodes(constraint, values), measured_on=len(values))
    result = _with_reason(measured, snapshot, "nodes", "hosts", "devices")
    lost = {host: snapshot.hosts[host].not_read for host in names.values() if host in snapshot.hosts}
    reported = [f"{host} ({why})" for host, why in sorted(lost.items()) if why]
    if result.status is not ConstraintStatus.MISSING or not reported:
        return result
    return replace(result, reason=f"{result.reason} Not read: {first_of(reported, 8, '; ')}.")


def _of_provider(constraint: Constraint, snapshot: Snapshot) -> ConstraintResult:
    """Return whether a constraint holds on the output of the provider's own tool, which the user has to give."""
    _k8s, part, key = constraint.name.split(".")
    result = evaluate(constraint, _first(_plain(snapshot.provider.get(part, {}).get(key))))
    if result.status is not ConstraintStatus.MISSING:
        return result
    fix = f"Give what the provider lists: -e gpufleet_snapshot_provider={part}=FILE (docs/snapshot.md)."
    return replace(result, reason=f"{result.reason} {fix}")


def _legacy_plugin(snapshot: Snapshot) -> Value:
    """Return `none` if there is no DaemonSet of that name.

    Whether an existing one provides GPUs follows from its labels and status. Our snapshots do not have these;
    upstream's has the result.
    """
    _k8s, part, key = OKE_LEGACY_PLUGIN.split(".")
    reported = _plain(snapshot.provider.get(part, {}).get(key))
    if reported is not None or not snapshot.whole("workloads"):
        return reported
    return None if f"DaemonSet kube-system/{key}" in snapshot.workloads else "none"


def _of_a_part(constraint: Constraint, snapshot: Snapshot, read: Read | None) -> ConstraintResult:
    """Return an unmeasured result for a constraint whose nodes are not all known, with the values that were read.

    An upstream snapshot without a list of nodes still has the facts of the node on which it was taken.
    """
    result = evaluate(constraint, None)
    names = sorted({*snapshot.nodes, *snapshot.hosts}) if read is not None else ()
    observed = {
        name: read(snapshot.nodes.get(name, Node()), snapshot.hosts.get(name, Host())) for name in names if read
    }
    reported = [
        f"{value} on {name or 'the node that it was taken on'}" for name, value in observed.items() if value is not None
    ]
    if not reported:
        return result
    known = f"{constraint.name} is {first_of(reported, 8)}; of the other nodes it was not measured"
    return replace(result, reason=f"{known}, and {constraint.value} is required of all.")


def collectors_for(name: str) -> tuple[str, ...]:
    """Return the collectors of a snapshot that measure a constraint of that name."""
    if name in PROVIDER:
        return ()
    if name == OKE_LEGACY_PLUGIN:
        return ("workloads",)
    if name == OPERATOR_VERSION:
        return ("releases", "workloads")
    prefix = next((prefix for prefix in _SEVERAL if name.startswith(prefix)), "")
    if prefix:
        return (_SEVERAL[prefix][0],)
    return ("server",) if name.startswith("K8s.server.") else ("nodes", "devices", "hosts")


def _with_reason(result: ConstraintResult, snapshot: Snapshot, *collectors: str) -> ConstraintResult:
    """Return the result. If it is unmeasured, add why these collectors found nothing."""
    if result.status is not ConstraintStatus.MISSING:
        return result
    reported = [f"{name}: {snapshot.collectors[name].reason}" for name in collectors if not snapshot.whole(name)]
    more = f" Not seen: {'; '.join(reported)}." if reported else ""
    return replace(result, reason=f"{result.reason}{more}")


def _reader(name: str) -> Read | None:
    if name in _NODE:
        return _NODE[name]
    prefix = next((prefix for prefix in _OPEN if name.startswith(prefix)), "")
    if not prefix or not is_measurable(name):
        return None
    rest, read = name.removeprefix(prefix), _OPEN[prefix]
    return lambda node, host: read(rest, node, host)


def _plain(value: Scalar) -> Value:
    return value if isinstance(value, str | int | bool) or value is None else str(value)


def _first(*values: Value) -> Value:
    return next((value for value in values if value not in (None, "")), None)


def _of_release(key: str, node: Node, host: Host) -> Value:
    reported = {"ID": 0, "VERSION_ID": 1}
    image = os_release(node.os_image)[reported[key]] if key in reported else None
    return _first(image, host.os.get(key), node.labels.get(f"{_FEATURE}system-os_release.{key}"))


def _sysctl(rest: str, _node: Node, host: Host) -> Value:
    return _first(host.sysctl.get(f"/proc/sys/{rest}"))


def _module(rest: str, _node: Node, host: Host) -> Value:
    return rest in host.modules if host.modules else None


def _unit(rest: str, _node: Node, host: Host) -> Value:
    # The name of a unit has dots, too: `containerd.service.ActiveState`.
    unit, _dot, key = rest.rpartition(".")
    return _plain(host.units.get(unit, {}).get(key))


def _driver(node: Node, host: Host) -> Value:
    parts = [node.labels.get(f"nvidia.com/cuda.driver.{part}", "") for part in ("major", "minor", "rev")]
    older = ".".join(filter(None, parts))
    return _first(
        host.driver, _device(node, "driverVersion"), node.labels.get("nvidia.com/cuda.driver-version.full"), older
    )


def _cuda(node: Node, host: Host) -> Value:
    labels = node.labels
    older = ".".join(filter(None, (labels.get(f"nvidia.com/cuda.runtime.{part}", "") for part in ("major", "minor"))))
    full = labels.get("nvidia.com/cuda.runtime-version.full")
    return _first(host.cuda, _device(node, "cudaDriverVersion"), full, older)


def _all_of(values: Iterable[Value]) -> Value:
    """Return the value of all GPUs of a node: each value where they differ, None if one GPU has none.

    No GPU counts for another: a node with one GPU of another product does not have that product.
    """
    reported = {"" if value is None else str(value) for value in values}
    return None if "" in reported else ", ".join(sorted(reported)) or None


def _device(node: Node, key: str) -> Value:
    # Devices of other drivers, such as network adapters, have no such attribute.
    return _all_of(_plain(attributes[key]) for attributes in node.devices.values() if key in attributes)


def _count(node: Node, host: Host) -> Value:
    return host.gpu_count or gpu_count(node) or None


def _model(node: Node, host: Host) -> Value:
    return _first(_all_of(gpu.product for gpu in host.gpus.values()), gpu_product(node))


def _vbios(_node: Node, host: Host) -> Value:
    return _all_of(gpu.vbios for gpu in host.gpus.values())


def _kernel(node: Node, host: Host) -> Value:
    return _first(node.kernel, host.kernel, node.labels.get(f"{_FEATURE}kernel-version.full"))


def _runtime(part: int) -> Read:
    return lambda node, _host: _first(node.container_runtime.partition("://")[part])


_NODE: dict[str, Read] = {
    OS_ID: lambda node, host: _of_release("ID", node, host),
    OS_VERSION: lambda node, host: _of_release("VERSION_ID", node, host),
    KERNEL_RELEASE: _kernel,
    DRIVER_VERSION: _driver,
    GPU_NODE_LABEL: lambda _node, _host: None,
    "K8s.node.provider": lambda node, _host: _first(PROVIDERS.get(node.provider, node.provider)),
    "K8s.node.provider-id": lambda node, _host: _first(node.provider_id),
    "K8s.node.container-runtime-id": lambda node, _host: _first(node.container_runtime),
    "K8s.node.container-runtime-name": _runtime(0),
    "K8s.node.container-runtime-version": _runtime(2),
    "K8s.node.kubelet-version": lambda node, _host: _first(node.kubelet),
    "K8s.node.kernel-version": _kernel,
    "K8s.node.operating-system": lambda node, _host: _first(node.operating_system),
    "K8s.node.os-image": lambda node, _host: _first(node.os_image),
    "GPU.smi.driver": _driver,
    "GPU.smi.cuda-version": _cuda,
    "GPU.smi.gpu-count": _count,
    "GPU.smi.gpu.model": _model,
    "GPU.smi.gpu.vbios-version": _vbios,
}
_OPEN: dict[str, Callable[[str, Node, Host], Value]] = {
    "OS.release.": _of_release,
    "OS.sysctl./proc/sys/": _sysctl,
    "OS.grub.": lambda rest, _node, host: _first(host.boot.get(rest)),
    "OS.kmod.": _module,
    "SystemD.": _unit,
}


def _operator(snapshot: Snapshot) -> Value:
    """Return the version of the GPU operator: of its Helm release, else the tag of its Deployment's image.

    Helm lists the last attempted revision, so the version of a release that is not deployed means nothing. If two
    operators or two images differ, there is no version.
    """
    mine = (release for release in snapshot.releases.values() if release.chart == _OPERATOR)
    found = {release.version for release in mine if release.status in _IN_FORCE} or {
        tag
        for title, entry in snapshot.workloads.items()
        if title.startswith("Deployment ") and title.endswith(f"/{_OPERATOR}")
        for tag in _tags_of_operator(entry)
    }
    return _first(next(iter(found))) if len(found) == 1 else None


def _tags_of_operator(entry: Workload) -> set[str]:
    """Return the image tags of the operator's own container, `""` for an image without a tag.

    A service mesh or a proxy adds containers with their own tags. A single container may have any name.
    """
    only = next(iter(entry.images.values())) if len(entry.images) == 1 else ()
    images = entry.images.get(_OPERATOR, only)
    return {image.partition("@")[0].rpartition("/")[2].partition(":")[2] for image in images}


def _counted(snapshot: Snapshot, what: str) -> Value:
    if not snapshot.whole("nodes"):
        return None
    nodes = snapshot.nodes.values()
    if what == "node-count":
        return len(snapshot.nodes)
    if what == "taint-count":
        return len({taint for node in nodes for taint in node.taints})
    return len({pair for node in nodes for pair in node.labels.items()})


_CLUSTER: dict[str, Callable[[Snapshot], Value]] = {
    "K8s.server.version": lambda snapshot: _first(snapshot.server.version),
    "K8s.server.platform": lambda snapshot: _first(snapshot.server.platform),
    "K8s.server.goVersion": lambda snapshot: _first(snapshot.server.go_version),
    "NodeTopology.summary.node-count": lambda snapshot: _counted(snapshot, "node-count"),
    "NodeTopology.summary.taint-count": lambda snapshot: _counted(snapshot, "taint-count"),
    LABEL_COUNT: lambda snapshot: _counted(snapshot, "label-count"),
    OPERATOR_VERSION: _operator,
}


def _images(name: str, snapshot: Snapshot) -> dict[str, Value]:
    """Return the tags of all images with that short name. Upstream keeps one of them."""
    plain = {image: image.partition("@")[0].rpartition("/")[2].partition(":") for image in snapshot.images}
    return {image: tag or None for image, (short, _colon, tag) in plain.items() if short == name}


def _policies(path: str, snapshot: Snapshot) -> dict[str, Value]:
    """Return a field of every ClusterPolicy."""
    titles = [title for title in snapshot.policies if title.startswith("ClusterPolicy ")]
    return {title: _plain(snapshot.policies[title].get(path)) for title in titles}


_SEVERAL: dict[str, tuple[str, Callable[[str, Snapshot], dict[str, Value]]]] = {
    "K8s.image.": ("workloads", _images),
    "K8s.policy.": ("policies", _policies),
}


def _labelled(constraint: Constraint, snapshot: Snapshot, nodes: tuple[str, ...]) -> ConstraintResult:
    """Return whether GPU nodes have a label: `key=value` on every one of them, `!key` on none."""
    wanted = constraint.value.strip()
    if _LABEL.fullmatch(wanted) is None:
        reason = f"{constraint.name}: {constraint.value!r} is neither key=value nor !key."
        return ConstraintResult(constraint=constraint, status=ConstraintStatus.ERROR, reason=reason)
    known = {name: snapshot.nodes[name].labels for name in nodes if name in snapshot.nodes}
    if not known or len(known) < len(nodes):
        return evaluate(constraint, None)
    key, _equals, value = wanted.partition("=")
    if wanted.startswith("!"):
        bad = [name for name, labels in known.items() if wanted[1:].strip() in labels]
    else:
        bad = [name for name, labels in known.items() if labels.get(key.strip()) != value.strip()]
    shown = ", ".join(sorted(bad)[:8])
    reason = f"{constraint.name}: {constraint.value} does not hold on {shown}." if bad else ""
    status = ConstraintStatus.FAIL if bad else ConstraintStatus.PASS
    return ConstraintResult(
        constraint=constraint,
        status=status,
        actual=shown or count(len(known), "node"),
        reason=reason,
        nodes=tuple(bad),
    )


# Facts in a snapshot from which criteria are detected.

_INSTANCE = "node.kubernetes.io/instance-type"


def cluster_facts(snapshot: Snapshot) -> ClusterFacts:
    """Return the facts of all nodes. What a node lacks comes from the host of the same name."""
    names = sorted({*snapshot.nodes, *snapshot.hosts})
    nodes = tuple(_facts(name, snapshot.nodes.get(name, Node()), snapshot.hosts.get(name, Host())) for name in names)
    return ClusterFacts(server_version=snapshot.server.version, nodes=nodes)


def _facts(name: str, node: Node, host: Host) -> NodeFacts:
    layers = {str(adapter.get("link_layer") or "") for adapter in host.adapters.values()}
    listed = {layer for text in layers for layer in text.split(",") if layer}
    product = gpu_product(node) or next((gpu.product for gpu in host.gpus.values() if gpu.product), "")
    # A name such as `rtx-pro-6000`, in the spelling by which products are recognised.
    product = product or next((gpu.kind.replace("-", " ").upper() for gpu in host.gpus.values() if gpu.kind), "")
    return NodeFacts(
        name=name,
        # Of parts of GPUs only their presence is known.
        gpus=gpu_count(node) or host.gpu_count or int(has_gpus(node)),
        gpu_product=product,
        os_id=os_release(node.os_image)[0] or host.os.get("ID", "").lower(),
        provider_id=node.provider_id,
        instance_type=node.labels.get(_INSTANCE, ""),
        labels=node.labels,
        resources=tuple(sorted(node.allocatable)),
        link_layers=tuple(sorted(listed)),
    )


def collectors_needed(recipe: Mapping[str, Any] | None) -> frozenset[str]:
    """Return the collectors that measure the recipe's constraints and the GPU models."""
    from ..recipe.sections import section_of

    own = section_of(recipe, READINESS)
    entries = [*((recipe or {}).get("constraints") or ()), *(own.get("constraints") or ())]
    entries += [entry for pool in (recipe or {}).get("pools") or () for entry in pool.get("constraints") or ()]
    needed = {name for entry in entries for name in collectors_for(declared_constraint(entry).name)}
    return frozenset(needed | {"server", "nodes", "devices", "hosts"})
