# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A test of gangs in a process of its own, to be ended in the middle."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

from waiting import eventually

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.clients.kube.cluster import Cluster
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.clients.kube.objects import PODS


def start_gang_test(
    cluster: Cluster, kubeconfig: str, recipe: dict[str, Any], skus: Path, nodes: int, labels: str
) -> subprocess.Popen[str]:
    """Run the gang test so that it holds its gangs for a minute; return when the first pod has its node."""
    code = f"""
import sys
sys.path[:0] = {sys.path!r}
from datetime import date
from pathlib import Path
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.gpu_stack import observe_gang
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.spec import ObserveContext
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.site.model import Host, Site, SiteProfile
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.hardware.sku import load_hardware
hosts = tuple(Host(name=f"gpu{{n:02d}}", sku="dgx-h100", node_name=f"gpu{{n:02d}}") for n in range(1, {nodes + 1}))
site = Site(name="lab", profile=SiteProfile.CLOUD, hosts=hosts, settings={{"gang-admission": {{"settle_s": 60}}}})
observe_gang.observe(ObserveContext(site=site, run_dir=Path("."), today=date.today(), recipe={recipe!r},
                                    hardware=load_hardware([Path({str(skus)!r})]),
                                    connections={{"kubeconfig": {kubeconfig!r}}}))
"""
    victim = subprocess.Popen([sys.executable, "-c", code], stderr=subprocess.PIPE, text=True)

    def placed() -> bool:
        assert victim.poll() is None, victim.stderr.read() if victim.stderr else ""
        return any(pod["spec"].get("nodeName") for pod in cluster.list_objects(PODS, labels=labels))

    eventually(placed)
    return victim
