# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A process that installs a recipe as the action of component_stack does, so that a test can end it at any moment."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.clients.helm.helm import Helm
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.clients.kube.cluster import Cluster
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.clients.kube.connection import Connection
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.component_stack.drift import with_drift
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.component_stack.install import Installer, Limits
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.component_stack.model import components_of
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.component_stack.plan import make_plan
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.component_stack.read import installed
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.component_stack.remove import with_existing
from ansible_collections.gpufleet.rehearsal.plugins.plugin_utils.processes.spec import (
    descendants,
    kill_all,
)


def begin(kubeconfig: str, helm: str, mirror: Path, recipe: Mapping[str, Any]) -> subprocess.Popen[str]:
    """Start a process that installs a recipe; it ends with 0 when all of it is ready, and says what is not."""
    order = mirror.parent / "order.json"
    order.write_text(json.dumps({"kubeconfig": kubeconfig, "helm": helm, "mirror": str(mirror), "recipe": recipe}))
    argv = [sys.executable, __file__, str(order)]
    return subprocess.Popen(argv, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=os.environ.copy())


def kill(process: subprocess.Popen[str], *, helm_too: bool) -> None:
    """End it at once; with `helm_too` what it started as well, which otherwise is asked to end by the kernel."""
    children = descendants(process.pid) if helm_too else []
    process.send_signal(signal.SIGKILL)
    kill_all(children)
    process.communicate()


def main(order: Path) -> int:
    """Install what is ordered."""
    told: dict[str, Any] = json.loads(order.read_text())
    connection = Connection(kubeconfig=told["kubeconfig"])
    helm, components = Helm(connection, binary=told["helm"]), components_of(told["recipe"])
    with Cluster(connection) as cluster:
        found = with_drift(helm, cluster, components, installed(helm, cluster, components))
        plan = make_plan(components, with_existing(cluster, components, found))
        limits = Limits(ready_s=60, pull_grace_s=5, poll_s=0.2)
        done = Installer(helm, cluster, told["mirror"], limits).run(plan, components)
    for entry in done:
        step = plan.step(entry.component)
        print(f"{entry.component}: {step.action.value}, {entry.state} {entry.reason} ({step.found_version})")
    return int(any(entry.state != "ready" for entry in done))


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
