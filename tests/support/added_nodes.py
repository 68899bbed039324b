# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Check cluster-autoscaling on a simulated cluster whose nodes come and go, tried with the roles of its gate alone."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import date
from typing import Any

from cluster_bench import ClusterBench
from role_bench import role_user
from sites import make_site
from waiting import eventually

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.gpu_stack import cluster_autoscaling
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.gpu_stack.observe_scaling import observe
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.spec import JudgeContext, ObserveContext
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.clients.kube import objects
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.model import Outcome
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.site.model import Host
from ansible_collections.gpufleet.rehearsal.plugins.plugin_utils.model.spec import Change, Fault

Json = dict[str, Any]
POOLS = objects.Kind("karpenter.sh/v1", "NodePool", "nodepools", namespaced=False)
CLAIMS = objects.Kind("karpenter.sh/v1", "NodeClaim", "nodeclaims", namespaced=False)
_DEFINITIONS = objects.Kind(
    "apiextensions.k8s.io/v1", "CustomResourceDefinition", "customresourcedefinitions", namespaced=False
)
RECIPE: Json = {"componentRefs": [], "deploymentOrder": [], "constraints": []}
POOL_LABELS = {"node.lab/pool": "gpu"}


def _definition(kind: objects.Kind) -> Json:
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    names = {"kind": kind.kind, "plural": kind.plural, "singular": kind.kind.lower(), "listKind": f"{kind.kind}List"}
    return {
        "metadata": {"name": f"{kind.plural}.karpenter.sh"},
        "spec": {
            "group": "karpenter.sh", "scope": "Cluster", "names": names,
            "versions": [{**version, "subresources": {"status": {}}}],
        },
    }  # fmt: skip


@contextmanager
def node_pool(bench: ClusterBench, limit: int = 16) -> Iterator[None]:
    """Have a NodePool of Karpenter that is Ready, with the kinds of its API, for so many GPUs."""
    for kind in (POOLS, CLAIMS):
        bench.cluster.apply(_DEFINITIONS, _definition(kind))
    eventually(lambda: bench.cluster.find_all(POOLS) is not None and bench.cluster.find_all(CLAIMS) is not None)
    template = {"metadata": {"labels": POOL_LABELS}}
    spec = {"template": template, "limits": {"nvidia.com/gpu": limit}}
    bench.cluster.apply(POOLS, {"metadata": {"name": "gpu"}, "spec": spec})
    ready = {"type": "Ready", "status": "True", "reason": "Ready", "message": ""}
    bench.cluster.transport.json(
        "PATCH", POOLS.path("gpu", "", "status"), body={"status": {"conditions": [ready]}},
        content_type="application/merge-patch+json",
    )  # fmt: skip
    try:
        yield
    finally:
        for kind in (POOLS, CLAIMS):
            bench.cluster.delete(_DEFINITIONS, f"{kind.plural}.karpenter.sh")


def with_autoscaler(bench: ClusterBench, who: str, becomes: str = "comes") -> None:
    """Let somebody add nodes, and say what becomes of them."""
    said = {"node_autoscaler": who, "added_node": becomes}
    patch = tuple(Change(at=f"cluster.stack.{name}", set=value) for name, value in said.items())
    bench.with_faults(Fault(id="nodes", kind="cluster", subject="bench", patch=patch))


def tried(bench: ClusterBench, **settings: Any) -> Outcome:
    """Return what the check says, asked by somebody who has just the roles of gate gpu_stack."""
    stated = {"answer_s": 15.0, "up_s": 30.0, "down_s": 15.0, **settings}
    hosts = tuple(Host(name=node.name, sku="dgx-h100", node_name=node.name) for node in bench.spec.nodes)
    site = make_site(hosts, settings={"cluster-autoscaling": stated}, capabilities=("kubernetes", "node_autoscaler"))
    user = role_user("gpu_stack", str(bench.kubeconfig), site, RECIPE)
    context = ObserveContext(
        site=site, run_dir=bench.directory, today=date.today(), recipe=RECIPE, connections=user.connections
    )
    seen = observe(context)
    (outcome,) = cluster_autoscaling.judge(
        seen, JudgeContext(gate="gpu_stack", site=site, today=date.today(), recipe=RECIPE)
    )
    return outcome


def added(bench: ClusterBench) -> list[str]:
    """Return the names of the nodes that were added and are there."""
    planned = {node.name for node in bench.spec.nodes}
    names = {item["name"] for item in bench.cluster.list_metadata(objects.NODES)}
    return sorted(names - planned)
