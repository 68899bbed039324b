# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Recipes of the catalogue, one after the other, installed by the product on a rehearsal's control plane.

One cluster is used for all: from one recipe to the next, what the next has not is removed, and what differs is
installed or upgraded. `make rehearse-catalogue` goes through all of them; tests draw some.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from cloud_storage import CloudStorage
from cluster_bench import CHARTS, ClusterBench, cluster_bench
from google_admission import admit_as
from looking import LookingAlone
from rehearsal_harness import ROOT
from seeds import drawing, run_seed

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.clients.helm.helm import Helm
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.clients.kube.cluster import Cluster
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.clients.kube.connection import Connection
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.clients.kube.objects import (
    CRDS,
    DEPLOYMENTS,
    STATEFUL_SETS,
    Kind,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.component_stack.install import (
    Done,
    Installer,
    Limits,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.component_stack.manifest import Manifest
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.component_stack.model import (
    Component,
    components_of,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.component_stack.plan import make_plan
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.component_stack.read import installed
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.component_stack.render import (
    Renderer,
    rendered,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.errors import BringupError
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.recipe.hydrate import hydrated
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.recipe.load import load_catalogue
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.recipe.resolve import resolve
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.recipe.support import supported_combinations
from ansible_collections.gpufleet.rehearsal.plugins.plugin_utils.charts.chart import (
    crd_document,
    parse_crd,
    stand_in_for,
)
from ansible_collections.gpufleet.rehearsal.plugins.plugin_utils.charts.mirror import build_mirror

Json = dict[str, Any]
# Long enough for a slow moment of a shared machine: what never becomes ready costs it, what does goes on at once.
LIMITS = Limits(ready_s=180, pull_grace_s=5, poll_s=0.2)
_NODES = 2
_OLM = (
    "operators.coreos.com/v1 OperatorGroup operatorgroups Namespaced",
    "operators.coreos.com/v1alpha1 Subscription subscriptions Namespaced status",
    "operators.coreos.com/v1alpha1 ClusterServiceVersion clusterserviceversions Namespaced status",
    "nfd.openshift.io/v1 NodeFeatureDiscovery nodefeaturediscoveries Namespaced",
)
_SUBSCRIPTIONS = Kind("operators.coreos.com/v1alpha1", "Subscription", "subscriptions")
_VERSIONS = Kind("operators.coreos.com/v1alpha1", "ClusterServiceVersion", "clusterserviceversions")
# What is left of a Subscription's package name in that of its versions.
_PACKAGES = {"openshift-cert-manager-operator": "cert-manager-operator"}
_GPU_OPERATOR = "gpu-operator-certified"


@dataclass(frozen=True)
class Leaf:
    """One question that the catalogue supports, and its recipe with values and manifests."""

    name: str
    recipe: Mapping[str, Any]


def leaves() -> list[Leaf]:
    """Return every question that a layer of the catalogue is for, neighbours beside each other."""
    catalogue = load_catalogue([ROOT / "recipes"])
    found = []
    for criteria in supported_combinations(catalogue):
        name = ",".join(f"{key}={value}" for key, value in criteria.stated)
        found.append(Leaf(name, hydrated(resolve(criteria, catalogue), catalogue)))
    return sorted(found, key=lambda leaf: (leaf.recipe["metadata"]["appliedOverlays"], leaf.name))


@dataclass(frozen=True)
class CatalogueBench(ClusterBench):
    """The cluster, and which components it has now."""

    there: dict[str, Component] = field(default_factory=dict)

    @cached_property
    def storage(self) -> CloudStorage:
        """What gives volumes to claims."""
        return CloudStorage(self.cluster)

    @property
    def client(self) -> Helm:
        """Helm, as the product uses it."""
        return Helm(Connection(kubeconfig=str(self.kubeconfig)), binary=str(self.helm))

    def components(self, recipe: Mapping[str, Any]) -> tuple[Component, ...]:
        """Return the components of a recipe, their charts in the mirror, ready to be installed."""
        self.fill(recipe)
        mirror = self.directory / CHARTS
        return components_of(rendered(recipe, Renderer(helm=str(self.helm), mirror=str(mirror))))

    def fill(self, recipe: Mapping[str, Any]) -> None:
        """Write stand-ins of a recipe's charts into the mirror."""
        build_mirror(self.directory / CHARTS, recipe["componentRefs"])

    def serve(self, recipe: Mapping[str, Any]) -> None:
        """Be a cluster of the recipe's service: its volumes, and what it refuses."""
        service = str((recipe.get("criteria") or {}).get("service") or "")
        self.storage.serve(service)
        admit_as(self.cluster, service)

    def become(self, recipe: Mapping[str, Any], limits: Limits = LIMITS) -> tuple[Done, ...]:
        """Install a recipe in the place of whatever is there, and return what became of each component."""
        components = self.components(recipe)
        self.serve(recipe)
        self._leave({component.release: component for component in components})
        self.there.update({component.release: component for component in components})
        plan = make_plan(components, installed(self.client, self.cluster, components))
        return Installer(self.client, self.cluster, str(self.directory / CHARTS), limits).run(plan, components)

    def clear(self) -> None:
        """Remove what was installed."""
        self._leave({})

    def _leave(self, wanted: Mapping[str, Component]) -> None:
        """Remove what is not wanted, the last first: objects of manifests, then releases."""
        kept = {_key(component, manifest) for component in wanted.values() for manifest in component.manifests}
        for release, component in reversed(list(self.there.items())):
            for manifest in reversed(component.manifests):
                if _key(component, manifest) not in kept and manifest.body["kind"] != "Namespace":
                    self._delete(component, manifest)
            if release not in wanted or self._has_other_volumes(component, wanted[release]):
                if component.has_chart:
                    self.client.uninstall(component.name, component.namespace)
                del self.there[release]

    def _has_other_volumes(self, there: Component, wanted: Component) -> bool:
        """Whether an upgrade might change a StatefulSet's volumes, which nobody can: no site becomes another's."""
        if there.digest == wanted.digest:
            return False
        return bool(self.cluster.list_objects(STATEFUL_SETS, there.namespace))

    def _delete(self, component: Component, manifest: Manifest) -> None:
        try:
            kind = self.cluster.kind(manifest.body["apiVersion"], manifest.body["kind"])
        except BringupError:
            return
        namespace = manifest.body["metadata"].get("namespace") or component.namespace if kind.namespaced else ""
        self.cluster.delete(kind, manifest.body["metadata"]["name"], namespace)


def _key(component: Component, manifest: Manifest) -> tuple[str, ...]:
    metadata = manifest.body["metadata"]
    return manifest.body["kind"], metadata["name"], metadata.get("namespace") or component.namespace


class Olm(LookingAlone):
    """Does what OpenShift's Operator Lifecycle Manager does: a Subscription gets a version, and that its operator."""

    called = "OLM"

    def __init__(self, bench: CatalogueBench) -> None:
        """Make the kinds that OpenShift has."""
        # It waits for none of the installer's requests.
        super().__init__(Cluster(Connection(kubeconfig=str(bench.kubeconfig))))
        for line in _OLM:
            self._cluster.apply(CRDS, crd_document(parse_crd(line)))

    def _look(self) -> None:
        wanted = {
            (f"{_PACKAGES.get(item['spec']['name'], item['spec']['name'])}.v1", item["metadata"]["namespace"])
            for item in self._cluster.list_objects(_SUBSCRIPTIONS)
        }
        versions = {(i["metadata"]["name"], i["metadata"]["namespace"]) for i in self._cluster.list_objects(_VERSIONS)}
        for name, namespace in sorted(wanted - versions):
            if name.startswith(_GPU_OPERATOR):
                self._gpu_operator(namespace)
            self._cluster.apply(_VERSIONS, {"metadata": {"name": name}, "spec": {}}, namespace)
            status = {"metadata": {"name": name}, "status": {"phase": "Succeeded"}}
            path = f"{_VERSIONS.path(name, namespace)}/status"
            self._cluster.transport.json("PATCH", path, body=status, content_type="application/merge-patch+json")
        for name, namespace in sorted(versions - wanted):
            self._cluster.delete(_VERSIONS, name, namespace)
            if name.startswith(_GPU_OPERATOR):
                self._cluster.delete(DEPLOYMENTS, "gpu-operator", namespace)

    def _gpu_operator(self, namespace: str) -> None:
        for crd in stand_in_for("gpu-operator").crds:
            self._cluster.apply(CRDS, crd_document(crd))
        labels = {"app": "gpu-operator"}
        pod = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "operator", "image": "rehearsal/x:1"}]}}
        spec = {"replicas": 1, "selector": {"matchLabels": labels}, "template": pod}
        body = {"metadata": {"name": "gpu-operator", "labels": labels}, "spec": spec}
        self._cluster.apply(DEPLOYMENTS, body, namespace)


@contextmanager
def catalogue_bench(directory: Path) -> Iterator[CatalogueBench]:
    """Yield a cluster on which recipes can be installed; end it."""
    with cluster_bench(CatalogueBench, directory, _NODES, {}) as bench:
        helpers = (Olm(bench), bench.storage)
        for helper in helpers:
            helper.start()
        try:
            yield bench
        finally:
            for helper in helpers:
                helper.stopped.set()
                helper.join()


def not_ready(done: Sequence[Done]) -> list[str]:
    """Return what is wrong with an installation, one line for each component that is not ready."""
    return [f"{entry.component}: {entry.state}: {entry.reason}" for entry in done if entry.state != "ready"]


def main(argv: Sequence[str]) -> int:
    """Install every recipe of the catalogue in turn; return 1 if any is not ready."""
    parser = argparse.ArgumentParser(prog="rehearse-catalogue", description=main.__doc__)
    parser.add_argument("--draw", type=int, default=0, help="only so many, drawn by GPUFLEET_TEST_SEED")
    parser.add_argument("--only", default="", help="only those in whose name this is, such as service=gke")
    given = parser.parse_args(list(argv))
    chosen = [leaf for leaf in leaves() if given.only in leaf.name]
    if given.draw:
        print(f"seed {run_seed()}")
        drawn = set(drawing("catalogue").sample(range(len(chosen)), min(given.draw, len(chosen))))
        chosen = [leaf for number, leaf in enumerate(chosen) if number in drawn]
    started, bad = time.monotonic(), 0
    with tempfile.TemporaryDirectory(prefix="catalogue-") as directory, catalogue_bench(Path(directory)) as bench:
        for number, leaf in enumerate(chosen, 1):
            before = time.monotonic()
            wrong = not_ready(bench.become(leaf.recipe))
            bad += bool(wrong)
            said = "; ".join(wrong) or "ready"
            print(f"{number}/{len(chosen)} {time.monotonic() - before:5.1f} s {leaf.name}: {said}", flush=True)
    print(f"{len(chosen)} recipes, {bad} not ready, {time.monotonic() - started:.0f} s")
    return int(bool(bad))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
