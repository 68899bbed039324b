# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""How long an installation takes against the critical path of its components, over ten random graphs.

    .cache/venv/bin/python bench/install.py [--graphs 10] [--seed 1]

The installer is the product's; helm takes as long as it is told and a component gets ready as long after it. The
critical path is the longest chain of components, each with both times; no installation is faster. Graphs have 8 to 24
components in the shape of recipes (a few that much depends on, chains of two to five), times of 0.1 to 1 s for helm and
of 0.5 to 15 s until ready. All graphs run at once: they wait, and hardly compute.
"""

from __future__ import annotations

import argparse
import random
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from time import monotonic, sleep
from typing import Any, cast

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.clients.helm.helm import Helm, Release, ReleaseRequest
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.clients.kube.cluster import Cluster
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.clients.kube.objects import DEPLOYMENTS, Kind
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.component_stack.install import Installer
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.component_stack.installation import Installed
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.component_stack.model import Component
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.component_stack.plan import make_plan

BUDGET = 1.15
Json = dict[str, Any]


@dataclass(frozen=True)
class Times:
    """Seconds that helm takes for a component, and until it is ready then."""

    helm_s: float
    ready_s: float


@dataclass
class World:
    """Helm and the cluster in one: when which component was applied."""

    times: dict[str, Times]
    applied: dict[str, float] = field(default_factory=dict)

    @property
    def transport(self) -> World:
        """What the cluster is asked by."""
        return self

    def now(self) -> datetime:
        """Return the time of the cluster's clock."""
        return datetime.now(UTC)

    def version(self) -> str:
        """Answer for the cluster."""
        return "v1.34.0"

    def crds(self, _request: ReleaseRequest, _kube_version: str) -> str:
        """Answer for helm: no chart has definitions."""
        return ""

    def manifest(self, _name: str, _namespace: str) -> str:
        """Answer for helm: no release defines kinds."""
        return ""

    def releases(self) -> dict[str, Release]:
        """Answer for helm: nothing is recorded."""
        return {}

    def upgrade(self, request: ReleaseRequest, **_more: Any) -> str:
        """Install."""
        sleep(self.times[request.name].helm_s)
        self.applied[request.name] = monotonic()
        return ""

    def list_objects(self, kind: Kind, namespace: str = "") -> list[Json]:
        """Return the Deployment of a component that was applied, ready when it is time."""
        begun = self.applied.get(namespace)
        if kind is not DEPLOYMENTS or begun is None:
            return []
        ready = int(monotonic() - begun >= self.times[namespace].ready_s)
        notes = {"meta.helm.sh/release-name": namespace, "meta.helm.sh/release-namespace": namespace}
        since = (datetime.now(UTC) - timedelta(hours=1)).isoformat()
        metadata = {"name": namespace, "namespace": namespace, "annotations": notes, "creationTimestamp": since}
        return [{"metadata": metadata, "spec": {}, "status": {"readyReplicas": ready, "updatedReplicas": 1}}]


def graph(draw: random.Random) -> tuple[tuple[Component, ...], dict[str, Times]]:
    """Return components in the order of their installation, and their times."""
    found: list[Component] = []
    times: dict[str, Times] = {}
    for number in range(draw.randint(8, 24)):
        name = f"part-{number:02}"
        # Later ones depend on what came shortly before them, or on one of the first that many need.
        near = [entry.name for entry in found[-6:] if draw.random() < 0.25]
        common = [entry.name for entry in found[:3] if draw.random() < 0.3]
        needs = tuple(sorted({*near, *common}))
        found.append(
            Component(
                name=name,
                namespace=name,
                chart=name,
                version="1.0.0",
                source="https://charts.example",
                depends_on=needs,
            )
        )
        times[name] = Times(draw.uniform(0.1, 1.0), draw.choice((draw.uniform(0.5, 4.0), draw.uniform(4.0, 15.0))))
    return tuple(found), times


def critical_path_s(components: Sequence[Component], times: dict[str, Times]) -> float:
    """Return the time of the longest chain."""
    ends: dict[str, float] = {}
    for component in components:
        begin = max((ends[name] for name in component.depends_on), default=0.0)
        ends[component.name] = begin + times[component.name].helm_s + times[component.name].ready_s
    return max(ends.values())


def installed_in_s(components: tuple[Component, ...], times: dict[str, Times]) -> float:
    """Return how long the product takes."""
    world = World(times)
    installer = Installer(cast(Helm, world), cast(Cluster, world))
    started = monotonic()
    done = installer.run(make_plan(components, Installed()), components)
    wrong = [f"{entry.component}: {entry.state} {entry.reason}" for entry in done if entry.state != "ready"]
    if wrong:
        raise SystemExit("\n".join(wrong))
    return monotonic() - started


def main(argv: Sequence[str]) -> int:
    """Measure, print, and return 1 if a graph took too long."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--graphs", type=int, default=10)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args(argv)
    graphs = [graph(random.Random(f"{given.seed}/{number}")) for number in range(given.graphs)]
    with ThreadPoolExecutor(given.graphs) as pool:
        taken = list(pool.map(lambda made: installed_in_s(*made), graphs))
    print("components   critical path     taken   ratio")
    worst = 0.0
    for (components, times), taken_s in zip(graphs, taken, strict=True):
        least_s = critical_path_s(components, times)
        worst = max(worst, taken_s / least_s)
        print(f"{len(components):10} {least_s:13.1f} s {taken_s:7.1f} s {taken_s / least_s:7.3f}")
    print(f"worst ratio {worst:.3f}, budget {BUDGET}")
    return int(worst > BUDGET)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
