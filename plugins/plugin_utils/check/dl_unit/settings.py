# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Settings of the DL unit test, wherever it is run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from ..kit.settings import setting
from ..node_tests.settings import NodeTestSettings

ID = "dl_unit"


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
