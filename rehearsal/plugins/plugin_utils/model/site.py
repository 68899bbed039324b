# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""What of the cluster model is no part of a machine: the room's record, the cluster's software, what NCCL reaches."""

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
    """How the room's signed record is: who signed it, and what was changed after that.

    `issued_days_ago` below 0 is a day to come; `evidence_listed`: it names the reports that back it; `site` is whose
    record it is, empty for this one's.
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
    """How metrics and alerts get through: `scraped`: somebody asks the exporters; `prometheus`: it serves its port;
    `rules`: the operator takes up rules; `wired`: Prometheus knows its Alertmanager; `delivers`: Alertmanager reaches
    receivers in other namespaces. `adapter`: external metrics are those of Prometheus, there are none, or each says the
    same for ever."""

    scraped: bool = True
    prometheus: bool = True
    rules: bool = True
    wired: bool = True
    delivers: bool = True
    adapter: AdapterState = "answers"


@dataclass(frozen=True, slots=True, kw_only=True)
class Stack:
    """How the cluster's software behaves. `components` names only those that do not work. Groups of more than
    `gang_largest` pods are no gang to the gang scheduler (0: all are). The training image uses `training_efficiency` of
    what a good one would; `training_learns`: it computes right gradients. `image_pull_s`: pods of tests wait so long
    for their image; `system_nodes`: there are so many nodes without GPUs, for the cluster's own software; both are read
    when the rehearsal starts. `training_torch`: PyTorch is in the training image, `unit_torch`: in that of the DL unit
    test, whose products reach `unit_efficiency` of their rate on all GPUs. All hosts have `storage_speed` of the
    shared volume's usual speed, and differ from each other and from run to run by `storage_noise` (standard
    deviation). `node_autoscaler` adds nodes for pods that wait, and `added_node` is what becomes of such a node; a
    NodePool of Karpenter has limits of its own, so `at-limit` is said of cluster-autoscaler's group alone. `slurm` is
    how a Slurm in pods answers its own commands, `ray` whether KubeRay makes pods, and groups them."""

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
    """What NCCL reaches at this site where a source tells it: `busbw_gbps` is the bus bandwidth of an all_reduce over
    all adapters at the largest size, by the number of nodes, or "*" for every number that is not named; `algorithm` is
    the NCCL_ALGO with which it was measured, empty for NCCL's own choice."""

    algorithm: str = ""
    busbw_gbps: dict[str, float] = field(default_factory=dict)
