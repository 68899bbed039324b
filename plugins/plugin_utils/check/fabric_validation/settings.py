# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Settings of gate fabric_validation: how nccl-tests is run, how it is judged, and the networks of NCCL."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from ...outcome.errors import InputError
from ...verdict.ceiling import CeilingLimits
from ...verdict.peers import PeerLimits
from ...workload.job import PodNeeds
from ..benchmark.settings import JobSettings
from ..kit.peer_settings import cohort_share, peer_spreads, peer_tolerance, peers_least
from ..kit.settings import part, release_data, setting, with_default

GATE = "fabric_validation"
ALL_NODES = "nccl-all-nodes-bw"
# Buffers of nccl-tests, and the fraction of a GPU's memory that they may take beside those of NCCL.
_COPIES, _USED = 3, 0.9
# At each of these numbers of GPUs the largest message is doubled.
_GROWS_FROM = (512, 4096)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSettings(JobSettings):
    """How nccl-tests is run."""

    timeout_s: float = with_default(JobSettings, "timeout_s", 900)
    total_s: float = with_default(JobSettings, "total_s", 10800)
    image: str = setting(
        "Image with nccl-tests, Open MPI, sshd and the NCCL plugin of the fabric; empty: the one that is known for the "
        "fabric. An air-gapped site names its own.",
        default="",
    )
    program: str = setting("Path of all_reduce_perf in the image; empty: where the fabric's image has it.", default="")
    kind: Literal["gang-job", "mpijob"] = setting(
        "How jobs are launched; mpijob needs the MPI operator.", default="gang-job"
    )
    smallest: int = setting("Smallest message.", default=8, unit="bytes", minimum=1)
    largest: int = setting(
        "Largest message; bandwidth at this size is judged. Of runs over 512 GPUs and more it is twice as large, over "
        "4096 and more four times, as far as the memory of a GPU holds it.",
        default=8589934592,
        unit="bytes",
        minimum=1,
    )
    factor: int = setting("By how much each message is larger than the one before.", default=2, minimum=2)
    rail_smallest: int = setting(
        "Smallest message of runs over adapters alone, which need large ones only.",
        default=1073741824,
        unit="bytes",
        minimum=1,
    )
    parallel: int = setting("Most jobs at a time.", default=64, unit="jobs", minimum=1)
    rail_samples: int = setting(
        "How many pairs of hosts are measured adapter by adapter when the fabric as a whole is slow, so that a single "
        "slow rail is found.",
        default=3,
        unit="pairs",
        minimum=1,
    )
    rdma_resource: str = setting(
        "Extended resource that brings adapters into a pod, or deviceclass.resource.kubernetes.io/ and the DRA device "
        "class of which pods claim them; empty: the one that most nodes offer; none: no pod asks.",
        default="",
    )
    rdma_count: int = setting(
        "How many of it a pod asks for; 0: all that a node offers where a unit is one adapter (it offers no more than "
        "the host has), else one.",
        default=0,
        minimum=0,
    )
    privileged: bool = setting(
        "Whether test pods are privileged, for nodes that offer no resource for their adapters.", default=False
    )
    host_network: bool = setting("Whether test pods are in the network of their node.", default=False)
    hcas: tuple[str, ...] = setting(
        "Adapters for GPU traffic, such as [mlx5_0, mlx5_3]; empty: those of the cabling plan, else mlx5_0 and so on.",
        default=[],
    )
    env: dict[str, str] = setting("Environment of the jobs, for example NCCL variables.", default={})
    annotations: dict[str, str] = setting("Annotations of their pods, for example of a secondary network.", default={})

    def largest_for(self, gpus: int, memory_mib: int) -> int:
        """Return the largest message of a run in bytes, for a number of GPUs with this much memory.

        At 8 GiB the steps of a ring over 1,000 GPUs take a fifth of the time (verdict.ceiling). nccl-tests allocates it
        three times: for what is sent, what is received, and what is expected.
        """
        fitting = (size for size in self.largest_sizes(gpus) if size * _COPIES <= memory_mib * 2**20 * _USED)
        return max(fitting, default=self.largest)

    def largest_sizes(self, gpus: int) -> tuple[int, ...]:
        """Return the possible largest messages of a run in bytes, for this many GPUs."""
        steps = sum(gpus >= least for least in _GROWS_FROM)
        return tuple(self.largest * 2**step for step in range(steps + 1))

    def __post_init__(self) -> None:
        if self.smallest >= self.largest:
            reason = f"smallest is {self.smallest}, expected less than largest ({self.largest})."
            raise InputError(f"settings of {GATE}", reason, "correct one of them")


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgeSettings:
    """How bandwidths are judged."""

    bad: float = setting(
        "A bandwidth under this part of the ceiling is bad. The ceiling is the most that the topology allows: what the "
        "adapters of a node carry (number x rate / 8), capped by the best published figure within a node.",
        default=0.75,
        above=0,
        maximum=1,
    )
    marginal: float = setting(
        "A bandwidth under this part of the ceiling, and not bad, is marginal: a person decides.",
        default=0.85,
        above=0,
        maximum=1,
    )
    taper: float = setting(
        "Designed oversubscription above the leaf switches: 2 where hosts share uplinks with half of the bandwidth of "
        "their adapters, 1 for none. Between hosts on different leaves that much less is expected.",
        default=1.0,
        minimum=1,
    )
    plateau_gain: float = setting(
        "When a curve counts as settled: relative gain of the last doubling of the message size (bandwidth at the "
        "largest size / bandwidth at the size before - 1). With a larger gain a low figure says something about the "
        "size, not the fabric, and is marginal instead of bad; raise largest.",
        default=0.05,
        minimum=0,
    )
    peer_tolerance: float = peer_tolerance(default=0.05)
    peer_spreads: float = peer_spreads(default=3.0)
    peers_least: int = peers_least(default=4)
    cohort_share: float = cohort_share(default=0.5)
    gpudirect: bool = setting(
        "Whether data must go from the GPU to the adapter without a stop in host memory.", default=True
    )

    @property
    def ceiling(self) -> CeilingLimits:
        """The limits of the ceiling rule."""
        return CeilingLimits(bad=self.bad, marginal=self.marginal, plateau_gain=self.plateau_gain)

    @property
    def peers(self) -> PeerLimits:
        """The limits of the peer comparison."""
        return PeerLimits(
            tolerance=self.peer_tolerance,
            spreads=self.peer_spreads,
            least=self.peers_least,
            share=self.cohort_share,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class AllNodesSettings:
    """Settings of check nccl-all-nodes-bw. They are not saved with the observation."""

    sharp: bool = setting(
        "Whether all hosts together must reduce in the switches of InfiniBand (SHARP). Their runs get "
        "NCCL_COLLNET_ENABLE=1; the image needs the plugin (nccl-rdma-sharp-plugins, in HPC-X).",
        default=False,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class NetworkFacts:
    """NCCL's network on a fabric.

    Attributes:
        names: prefixes of its name in the log.
        plugin: it is a plugin.
        efficiency: fraction of the adapters' rate that it is published to carry, by rule of the ceiling (`ring`,
            `hierarchical`); 1 if not given.
    """

    names: tuple[str, ...]
    plugin: bool
    efficiency: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageFacts:
    """An image for runs on a fabric, and the path of its all_reduce_perf."""

    image: str
    program: str


@dataclass(frozen=True, slots=True, kw_only=True)
class FabricValidationSettings:
    """Settings of gate fabric_validation; saved with the observation."""

    run: RunSettings = part("run")
    judge: JudgeSettings = part()
    networks: dict[str, NetworkFacts] = release_data(
        "Names that NCCL's networks have on each fabric (how they begin), and whether the network is a plugin."
    )
    images: dict[str, ImageFacts] = release_data("Images with nccl-tests and the NCCL plugin of each fabric.")
    beside_resources: dict[str, dict[str, str]] = release_data(
        "What pods ask for beside resources that begin so, on nodes that offer huge pages."
    )
    pods: dict[str, PodNeeds] = release_data(
        "What pods between hosts need beside adapters on each fabric: annotations, environment, directories of the "
        "node, a container beside the ranks."
    )
    rdma_resources: tuple[str, ...] = release_data(
        "Extended resources that stand for network adapters (how they begin)."
    )
    rdma_classes: tuple[str, ...] = release_data(
        "DRA device classes of network adapters, of which pods claim them where nodes offer no such resource."
    )


SETTINGS = FabricValidationSettings
