# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Speed of the simulated hardware: rehearsal/recipes/performance.yaml."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.runtime.strict import decode, read_yaml

from ..places import DATA

_FILE = DATA / "performance.yaml"


@dataclass(frozen=True, slots=True, kw_only=True)
class Latency:
    """Microseconds: base within a node, and for every doubling of nodes over RDMA and TCP."""

    node: float
    rdma: float
    socket: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Noise:
    """Standard deviation of a whole run and of one row, relative to the value."""

    run: float
    row: float


@dataclass(frozen=True, slots=True, kw_only=True)
class RunTime:
    """Duration of a simulated run in seconds."""

    base: float
    per_node: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Nvls:
    """Minimum number of GPUs per node with which NCCL uses reductions in NVLink switches."""

    gpus: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Versions:
    """Versions that the tools print."""

    nccl: str
    cuda: str
    nccl_tests: str
    nccl_code: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingSpeed:
    """Speed of a training.

    - `efficiency`: share of a GPU's peak that training reaches, if its model does not have it.
    - `gpu_noise`, `step_noise`: relative deviations.
    - `hidden`: share of the compute time that hides the exchange of gradients.
    - `data_us`: time of a CPU for one place of a sequence.
    - `loading_s`, `ready_s`: time of a pod to load PyTorch, and of a rank for its device.
    - `busy_clock`: share of the maximum clock that a busy GPU has.
    """

    efficiency: float
    gpu_noise: float
    step_noise: float
    hidden: float
    data_us: float
    loading_s: float
    ready_s: float
    clock_max_mhz: int
    busy_clock: float
    power_limit_w: float
    temperature_c: float


@dataclass(frozen=True, slots=True, kw_only=True)
class StorageSpeed:
    """Speed of a host on the shared volume in one pattern, and the 99th percentile of its latency."""

    mib_s: float
    p99_ms: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Performance:
    """The whole file. Its comments explain the fields."""

    nvlink_gb_per_s: dict[str, float]
    nvlink_efficiency: dict[str, float]
    pcie_busbw_gb_per_s: float
    network_efficiency: float
    without_gpudirect: float
    socket_gb_per_s: float
    overlap: float
    ramp_bytes: int
    latency_us: Latency
    noise: Noise
    run_s: RunTime
    training: TrainingSpeed
    storage: dict[str, StorageSpeed]
    nvls: Nvls
    versions: Versions


@cache
def performance() -> Performance:
    """Return the data.

    Raises:
        InputError: the file is not valid.
    """
    return decode(Performance, read_yaml(_FILE), str(_FILE))
