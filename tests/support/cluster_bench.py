# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""A rehearsal without Ansible: simulated nodes on a real control plane, and a model that can be broken and mended."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeVar

from rehearsal_harness import ROOT
from waiting import await_model

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.clients.kube.cluster import Cluster
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.clients.kube.connection import Connection
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.hardware.sku import load_hardware
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.runtime.process import CommandResult, run_command
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.runtime.progress import Progress, silent
from ansible_collections.gpufleet.rehearsal.plugins.plugin_utils.charts.mirror import build_mirror
from ansible_collections.gpufleet.rehearsal.plugins.plugin_utils.control_plane.kwok import NodeSpec
from ansible_collections.gpufleet.rehearsal.plugins.plugin_utils.control_plane.plan import (
    WAVE_READY,
    ControlPlane,
    plan_control_plane,
)
from ansible_collections.gpufleet.rehearsal.plugins.plugin_utils.controllers.pod_ports import exec_shims
from ansible_collections.gpufleet.rehearsal.plugins.plugin_utils.hosts.prepare import prepare_hosts
from ansible_collections.gpufleet.rehearsal.plugins.plugin_utils.lifecycle.controller import (
    alive_check,
    controller_process,
)
from ansible_collections.gpufleet.rehearsal.plugins.plugin_utils.lifecycle.starter import new_id, start, stop
from ansible_collections.gpufleet.rehearsal.plugins.plugin_utils.model.patch import build_model
from ansible_collections.gpufleet.rehearsal.plugins.plugin_utils.model.spec import (
    Fault,
    ModelSpec,
    numbered_nodes,
    write_spec,
)
from ansible_collections.gpufleet.rehearsal.plugins.plugin_utils.places import python_argv
from ansible_collections.gpufleet.rehearsal.plugins.plugin_utils.processes.spec import (
    ProcessSpec,
    SupervisorSpec,
)
from ansible_collections.gpufleet.rehearsal.plugins.plugin_utils.toolchain.ensure import (
    Workshop,
    ensure_toolchain,
)
from ansible_collections.gpufleet.rehearsal.plugins.plugin_utils.toolchain.store import default_cache

MODEL = "model.yaml"
CHARTS = "charts"


@dataclass(frozen=True)
class ClusterBench:
    """The cluster, the model of its hardware, and Helm."""

    directory: Path
    helm: Path
    kubeconfig: Path
    spec: ModelSpec
    cluster: Cluster

    def with_faults(self, *faults: Fault) -> None:
        """Let the hardware have exactly these faults, and wait until the operators know."""
        write_spec(replace(self.spec, faults=faults), self.directory / MODEL)
        await_model(self.directory / MODEL)

    def install(
        self, name: str, version: str, *flags: str, namespace: str = "", directory: str = CHARTS
    ) -> CommandResult:
        """Install a stand-in chart, or what changed in its values."""
        chart = self.directory / directory / f"{name}-{version}.tgz"
        words = ("--wait", "--timeout=40s", "--create-namespace", "--kubeconfig", str(self.kubeconfig), *flags)
        return run_command(
            [str(self.helm), "upgrade", "--install", name, str(chart), "-n", namespace or name, *words], 60
        )


_Bench = TypeVar("_Bench", bound=ClusterBench)


@contextmanager
def cluster_bench(
    kind: type[_Bench],
    directory: Path,
    count: int,
    charts: Mapping[str, str],
    capacity: Mapping[str, str] | None = None,
) -> Iterator[_Bench]:
    """Yield a bench that is up; end it.

    Args:
        kind: the bench, or one with more methods.
        directory: an empty one.
        count: how many nodes.
        charts: versions of the charts of its mirror, by name.
        capacity: what every node offers, if not what a node without GPU operator does.
    """
    owner = controller_process()
    alive, progress = alive_check(owner), Progress(silent)
    sources = ROOT / "rehearsal" / "roles" / "rehearsal" / "files"
    programs = ensure_toolchain(Workshop(sources / "toolchain", default_cache(os.environ), os.environ, progress, alive))
    spec = ModelSpec(name="bench", seed=7, nodes=numbered_nodes(count, "dgx-h100"))
    write_spec(spec, directory / MODEL)
    model = build_model(spec, load_hardware([ROOT / "recipes" / "hardware"]))
    prepare_hosts(model, directory, ROOT / "rehearsal" / "recipes")
    build_mirror(directory / CHARTS, [{"name": n, "chart": n, "version": v} for n, v in charts.items()])
    offered = {"capacity": dict(capacity)} if capacity is not None else {}
    nodes = tuple(NodeSpec(name=node.name, **offered) for node in spec.nodes)
    paths = {name: program.path for name, program in programs.items()}
    plane = plan_control_plane(directory / "cluster", paths, nodes, sources / "kwok" / "stages.yaml.tpl")
    supervisor = SupervisorSpec(
        rehearsal_id=new_id(directory), directory=str(directory), controller_pid=owner.pid,
        controller_start=owner.start_ticks, keep=False, processes=_processes(directory, plane),
        volatile=(str(plane.directory),), ports=plane.ports, kubeconfig=str(plane.kubeconfig),
    )  # fmt: skip
    try:
        start(supervisor, progress, alive)
        with Cluster(Connection(kubeconfig=str(plane.kubeconfig))) as cluster:
            yield kind(directory, programs["helm"].path, plane.kubeconfig, spec, cluster)
    finally:
        stop(directory)


def _processes(directory: Path, plane: ControlPlane) -> tuple[ProcessSpec, ...]:
    """The control plane with the tools of the hosts behind `exec`, and the operators."""
    model = ("--kubeconfig", str(plane.kubeconfig), "--model", str(directory / MODEL))
    operators = ProcessSpec(
        name="controllers", argv=python_argv("rehearsal.controllers", *model), wave=WAVE_READY + 1, grace_s=2.0
    )
    tools = {"PATH": str(exec_shims(directory))}
    return (*(replace(p, env=tools) if p.name == "kwok" else p for p in plane.processes), operators)
