# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Which GPUs must have metrics, as well as it is known.

What nvidia-smi said on the host in this run comes first. Where no gate asked it, the DRA driver's list counts if it has
as many GPUs as the SKU; else only their number is expected, and any UUID will do.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ...collect.host_facts import load_hosts
from ...hardware.sku import Sku
from ...probe.nvidia_smi_model import Gpu, SmiLog
from ...site.model import Host, Site
from .model import EVIDENCE, SKU, SLICES, ExpectedGpu, ExpectedHost

DRA_DRIVER = "gpu.nvidia.com"


def expected_hosts(
    site: Site, run_dir: Path, hardware: Mapping[str, Sku], slices: Sequence[dict[str, Any]]
) -> tuple[ExpectedHost, ...]:
    """Return what every host of the inventory must have metrics of.

    Args:
        site: the site.
        run_dir: the run, whose evidence holds what nvidia-smi printed.
        hardware: SKU facts.
        slices: the cluster's ResourceSlices; none where there is no cluster.
    """
    facts = load_hosts(run_dir, site, only=("smi",))
    listed = uuids_by_node(slices)
    found = []
    for host in site.hosts:
        smi, sku = facts[host.name].smi, hardware.get(host.sku)
        log = smi if isinstance(smi, SmiLog) else None
        found.append(_expected(host, log, listed.get(host.node_name, ()), sku, host.name not in site.quarantined))
    return tuple(found)


def _expected(host: Host, smi: SmiLog | None, listed: Sequence[str], sku: Sku | None, in_scope: bool) -> ExpectedHost:
    gpus: tuple[ExpectedGpu, ...] = ()
    source, count = SKU, sku.gpus if sku is not None else 0
    if smi is not None:
        gpus, source = tuple(map(_gpu, smi.gpus)), EVIDENCE
    elif listed and len(listed) == count:
        gpus, source = tuple(ExpectedGpu(uuid=uuid) for uuid in listed), SLICES
    node = host.node_name or host.name
    return ExpectedHost(
        name=host.name, node=node, count=len(gpus) or count, source=source, gpus=gpus, in_scope=in_scope
    )


def _gpu(gpu: Gpu) -> ExpectedGpu:
    instances = {device.instance for device in gpu.mig_devices if device.instance is not None}
    return ExpectedGpu(uuid=gpu.uuid, mig=gpu.mig_current == "Enabled", instances=tuple(sorted(instances)))


def uuids_by_node(slices: Sequence[dict[str, Any]]) -> dict[str, tuple[str, ...]]:
    """Return the UUIDs of whole GPUs that the DRA driver lists, by node."""
    found: dict[str, list[str]] = {}
    for item in slices:
        spec = item.get("spec") or {}
        if spec.get("driver") != DRA_DRIVER or not spec.get("nodeName"):
            continue
        for device in spec.get("devices") or []:
            # Until v1beta1 the attributes lay one level deeper.
            attributes = (device.get("basic") or device).get("attributes") or {}
            uuid = (attributes.get("uuid") or {}).get("string", "")
            if uuid.startswith("GPU-"):
                found.setdefault(spec["nodeName"], []).append(uuid)
    return {node: tuple(sorted(set(uuids))) for node, uuids in found.items()}
