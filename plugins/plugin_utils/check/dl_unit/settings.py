# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Settings of the DL unit test, wherever it is run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from ...verdict.peers import PeerLimits
from ..kit.peer_settings import cohort_share, peer_spreads, peer_tolerance, peers_least
from ..kit.settings import setting
from ..node_tests.settings import NodeTestSettings

ID = "dl_unit"
RATE = "gpu-gemm-rate"


@dataclass(frozen=True, slots=True, kw_only=True)
class DlUnitSettings(NodeTestSettings):
    """How every GPU of a node is tested."""

    image: str = setting(
        "Image with PyTorch 2.4 or newer; an air-gapped site names its own. The program comes with the collection.",
        use="run",
    )
    device: Literal["cuda", "cpu"] = setting("Device of PyTorch.", use="run")
    repeats: int = setting(
        "How often each operation is done; its bits must be the same each time, the last time when the GPU is hot.",
        minimum=2, use="run",
    )  # fmt: skip
    size: int = setting(
        "Rows and columns of the matrices, a multiple of 256. Above 4096 bfloat16 no longer holds the exact products.",
        minimum=256, maximum=4096, use="run",
    )  # fmt: skip
    rate_size: int = setting("Rows and columns of the products whose rate is measured.", minimum=16, use="run")
    rate_s: float = setting("How long each rate of a GPU is measured.", unit="s", above=0, use="run")
    seed: int = setting("Seed of the numbers; digests of another seed are others.", minimum=0, use="run")
    requests: dict[str, str] = setting("What the pod asks for beside its GPUs.", use="run")


@dataclass(frozen=True, slots=True, kw_only=True)
class GemmRateSettings:
    """The limits by which the rates of GPUs are judged."""

    repeats: int = setting(
        "How often a host with a slow GPU is tested before that counts; the median is judged.", minimum=1, use="run"
    )
    floor: dict[str, float] = setting(
        "Part of the peak of the SKU's facts that the median of the faster GPUs reaches at least, by rate; below it "
        "all are slow alike. Rates of which the SKU states no peak are compared with peers alone.",
        above=0,
        maximum=1,
        keys=("gemm-bf16", "gemm-fp8", "memory-copy"),
    )
    peer_margin: float = setting(
        "Part by which a GPU may be slower than the faster of its peers before a person decides; peer_tolerance is "
        "where it fails.",
        above=0,
        below=1,
    )
    peer_tolerance: float = peer_tolerance()
    peer_spreads: float = peer_spreads()
    peers_least: int = peers_least()
    cohort_share: float = cohort_share()

    @property
    def peers(self) -> PeerLimits:
        """The peer rule."""
        return PeerLimits(
            tolerance=self.peer_tolerance, spreads=self.peer_spreads, least=self.peers_least, share=self.cohort_share
        )
