# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Settings of gate gpu_stack."""

from __future__ import annotations

from dataclasses import dataclass

from ..kit.settings import setting

GATE = "gpu_stack"


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuStackSettings:
    """Settings of gate gpu_stack."""

    settle_s: float = setting(
        "How long the gate looks again until what was installed has settled.",
        default=45.0,
        unit="s",
        minimum=0,
        use="run",
    )
    stays_ready_s: float = setting(
        "How long what was installed must have been ready without a break; one window for all components at once.",
        default=60.0,
        unit="s",
        minimum=0,
    )
    tolerations: tuple[str, ...] = setting(
        "Taints of the site's GPU nodes that test pods tolerate in every gate, as `key=value:effect`, value and effect "
        "optional; those of platforms (recipes/workloads/tolerations.yaml) are tolerated anyway. Charts with "
        "pods on GPU nodes get them as well.",
        default=[],
    )
    cluster_queue: str = setting(
        "ClusterQueue of Kueue through which the jobs of tests go in every gate, where Kueue manages the namespaces of "
        "tests; each test makes a LocalQueue for it in its namespace and removes it again. Empty: none.",
        default="",
        use="run",
    )
    system_selector: dict[str, str] = setting(
        "Labels of the nodes on which operators and servers of the stack run; empty: any node.", default={}, use="run"
    )
    system_tolerations: tuple[str, ...] = setting(
        "Taints of those nodes, as `key=value:effect`, which operators and servers of the stack tolerate.",
        default=[],
        use="run",
    )
    storage_class: str = setting(
        "StorageClass of the volumes that the recipe asks for; empty: the default.", default="", use="run"
    )
    shared_storage_class: str = setting(
        "StorageClass of volumes that many nodes write at once, where a chart has such; never `storage_class` instead.",
        default="",
        use="run",
    )
    image_registry: str = setting(
        "Registry, with a path or without, that has the images of charts.", default="", use="run"
    )
    pull_secrets: tuple[str, ...] = setting(
        "Names of Secrets with which images are pulled; they have to be in the namespaces of the components.",
        default=[],
        use="run",
    )
    proxy: dict[str, str] = setting(
        "Proxy of what loads something at run time: `http`, `https` and `no` (what is asked directly).",
        default={},
        use="run",
        keys=("http", "https", "no"),
    )


SETTINGS = GpuStackSettings
