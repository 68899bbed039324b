# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Settings of the DL unit test, wherever it is run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from ...verdict.peers import PeerLimits
from ..kit.peer_settings import cohort_share, peer_spreads, peer_tolerance, peers_least
from ..kit.settings import setting, with_default
from ..node_tests.settings import NodeTestSettings

ID = "dl_unit"
RATE = "gpu-gemm-rate"


@dataclass(frozen=True, slots=True, kw_only=True)
class DlUnitSettings(NodeTestSettings):
    """How every GPU of a node is tested."""

    timeout_s: float = with_default(NodeTestSettings, "timeout_s", 900)
    pull_s: float = with_default(NodeTestSettings, "pull_s", 1800)
    image: str = setting(
        "Image with PyTorch 2.4 or newer; an air-gapped site names its own. The program comes with the collection.",
        use="run",
    )
    device: Literal["cuda", "cpu"] = setting("Device of PyTorch.", default="cuda", use="run")
    repeats: int = setting(
        "How often each operation is done; its bits must be the same each time, the last time when the GPU is hot.",
        default=3,
        minimum=2,
        use="run",
    )
    size: int = setting(
        "Rows and columns of the matrices, a multiple of 256. Above 4096 bfloat16 no longer holds the exact products.",
        default=4096,
        minimum=256,
        maximum=4096,
        use="run",
    )
    rate_size: int = setting(
        "Rows and columns of the products whose rate is measured.", default=8192, minimum=16, use="run"
    )
    rate_s: float = setting("How long each rate of a GPU is measured.", default=2, unit="s", above=0, use="run")
    seed: int = setting("Seed of the numbers; digests of another seed are others.", default=1, minimum=0, use="run")
    requests: dict[str, str] = setting("What the pod asks for beside its GPUs.", default={"memory": "16Gi"}, use="run")


@dataclass(frozen=True, slots=True, kw_only=True)
class GemmRateSettings:
    """The limits by which the rates of GPUs are judged."""

    repeats: int = setting(
        "How often a host with a slow GPU is tested before that counts; the median is judged.",
        default=3,
        minimum=1,
        use="run",
    )
    # Products in bfloat16 reach 0.74 (H100) to 0.87 (A100) of the peak, copies 0.86 to 0.93 (huggingface/gpu-fryer,
    # vendors' own figures); GPUs that are held to less power reach less.
    floor: dict[str, float] = setting(
        "Part of the peak of the SKU's facts that the median of the faster GPUs reaches at least, by rate; below it "
        "all are slow alike. Rates of which the SKU states no peak are compared with peers alone.",
        default={"gemm-bf16": 0.5, "memory-copy": 0.6},
        above=0,
        maximum=1,
        keys=("gemm-bf16", "gemm-fp8", "memory-copy"),
    )
    # Azure fails a node at 7 % below the others (azurehpc-health-checks, ubergemm), gpu-fryer a GPU at 10 %.
    peer_margin: float = setting(
        "Part by which a GPU may be slower than the faster of its peers before a person decides; peer_tolerance is "
        "where it fails.",
        default=0.05,
        above=0,
        below=1,
    )
    peer_tolerance: float = peer_tolerance(default=0.07)
    peer_spreads: float = peer_spreads(default=4.5)
    peers_least: int = peers_least(default=4)
    cohort_share: float = cohort_share(default=0.5)

    @property
    def peers(self) -> PeerLimits:
        """The peer rule."""
        return PeerLimits(
            tolerance=self.peer_tolerance, spreads=self.peer_spreads, least=self.peers_least, share=self.cohort_share
        )
