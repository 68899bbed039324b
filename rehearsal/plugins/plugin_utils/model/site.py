# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Parts of the cluster model beyond the machines: the facility record, the cluster's software, NCCL's bandwidth."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

GangBehaviour = Literal["all-or-nothing", "partial", "not-running"]
DraBehaviour = Literal["allocates", "never-allocates"]
ComponentState = Literal["ok", "never-ready", "install-fails", "image-missing", "deleted", "scaled-to-zero"]
AdapterState = Literal["answers", "blind", "stuck"]
NodeAutoscaler = Literal["none", "karpenter", "cluster-autoscaler"]
SlurmState = Literal["ok", "silent", "nodes-down", "no-jobs"]
RayBehaviour = Literal["ok", "makes-nothing", "groups-nothing"]
AddedNode = Literal["comes", "never-comes", "without-gpus", "stays", "at-limit"]
Signer = Literal["facility", "stranger", "nobody"]


@dataclass(frozen=True, slots=True, kw_only=True)
class FacilityRecord:
    """State of the room's signed record: its signer, and what was changed after the signature.

    - `issued_days_ago`: below 0 is a future day.
    - `evidence_listed`: it names its evidence reports.
    - `site`: site of the record, empty for this one.
    """

    signer: Signer = "facility"
    issued_days_ago: int = 30
    valid_days: int = 365
    tampered: bool = False
    evidence_changed: bool = False
    evidence_missing: bool = False
    evidence_listed: bool = True
    site: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Telemetry:
    """Path of metrics and alerts.

    - `scraped`: the exporters are scraped.
    - `prometheus`: it serves its port.
    - `rules`: the operator loads rules.
    - `wired`: Prometheus is connected to its Alertmanager.
    - `delivers`: Alertmanager reaches receivers in other namespaces.
    - `adapter`: external metrics are those of Prometheus, are missing, or never change.
    """

    scraped: bool = True
    prometheus: bool = True
    rules: bool = True
    wired: bool = True
    delivers: bool = True
    adapter: AdapterState = "answers"


@dataclass(frozen=True, slots=True, kw_only=True)
class Stack:
    """Behaviour of the cluster's software.

    - `components`: only those that do not work.
    - `gang_largest`: groups of more pods are no gang to the gang scheduler (0: no limit).
    - `training_efficiency`: share of a good training image's speed.
    - `training_learns`: the training image computes correct gradients.
    - `image_pull_s`: time for which test pods wait for their image; read at the start of the rehearsal.
    - `system_nodes`: number of nodes without GPUs, for the cluster's own software; read at the start of the rehearsal.
    - `training_torch`: PyTorch is in the training image.
    - `unit_torch`: PyTorch is in the image of the DL unit test.
    - `unit_efficiency`: share of the rate that its matrix products reach on all GPUs.
    - `storage_speed`: share of the shared volume's usual speed on all hosts.
    - `storage_noise`: standard deviation between hosts and between runs.
    - `node_autoscaler`: adds nodes for pending pods.
    - `added_node`: state of such a node. A NodePool of Karpenter has its own limits, so `at-limit` applies only to
      cluster-autoscaler's group.
    - `slurm`: how Slurm in pods responds to its own commands.
    - `ray`: whether KubeRay creates pods, and groups them.
    """

    gang_scheduler: GangBehaviour = "all-or-nothing"
    gang_largest: int = 0
    training_efficiency: float = 1.0
    training_learns: bool = True
    image_pull_s: float = 0.0
    system_nodes: int = 0
    training_torch: bool = True
    unit_torch: bool = True
    unit_efficiency: float = 1.0
    storage_speed: float = 1.0
    storage_noise: float = 0.05
    dra_driver: DraBehaviour = "allocates"
    cluster_policy: str = "ready"
    components: dict[str, ComponentState] = field(default_factory=dict)
    telemetry: Telemetry = Telemetry()
    node_autoscaler: NodeAutoscaler = "none"
    added_node: AddedNode = "comes"
    slurm: SlurmState = "ok"
    ray: RayBehaviour = "ok"


@dataclass(frozen=True, slots=True, kw_only=True)
class Nccl:
    """NCCL's bandwidth at this site, where a source publishes it.

    - `busbw_gbps`: bus bandwidth of an all_reduce over all adapters at the largest size, by number of nodes, or "*" for
      all other numbers.
    - `algorithm`: NCCL_ALGO of the measurement, empty for NCCL's own choice.
    """

    algorithm: str = ""
    busbw_gbps: dict[str, float] = field(default_factory=dict)
