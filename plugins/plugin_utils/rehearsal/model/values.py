# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The cluster model: the only source of truth of every simulator of a rehearsal."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Literal

from ...hardware.accelerator import Accelerator
from .bmc import Bmc, RackUnit
from .host_setup import HostSetup, PortSetup
from .infiniband import Cable, InfiniBand
from .kubernetes_node import KubernetesNode
from .site import FacilityRecord, Nccl, Stack
from .storage import Storage
from .training import HeldDown, Training, TrainingState

SCHEMA_VERSION = 1

Presence = Literal["ok", "unlisted", "missing", "lost"]
ToolState = Literal["ok", "hang", "empty", "garbage", "missing"]
DiagStatus = Literal["Pass", "Warn", "Fail", "Skip"]
PortState = Literal["Active", "Initializing", "Armed", "Down"]
PhysicalState = Literal["LinkUp", "Polling", "Disabled"]
PduState = Literal["ok", "dead", "unlisted"]
NicView = Literal["switch", "pairs", "apart", "hidden"]
ExporterState = Literal["ok", "down", "frozen", "twice", "stranger", "no-profiling", "no-xids"]
Slowdown = Literal["", "hw_thermal_slowdown", "sw_thermal_slowdown", "hw_power_brake_slowdown"]
BenchmarkState = Literal["ok", "hangs", "truncated", "crashes"]
NumericsState = Literal["ok", "gemm-wrong", "bit-flips", "known-wrong", "copies-wrong", "inexact", "crashes"]
UnitTestState = Literal["ok", "image-missing", "ends-early"]
ServerState = Literal[
    "ok", "kv-cache-full", "memory-full", "memory-taken", "no-gpus", "crashing", "model-missing", "hub-unreachable",
    "image-missing", "engine-dead"
]  # fmt: skip
AnswerState = Literal["right", "empty", "gibberish", "refused", "malformed", "unsteady"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Ecc:
    """Error counters of one GPU's memory; volatile ones count since the driver was loaded."""

    volatile_correctable: int = 0
    volatile_uncorrectable: int = 0
    aggregate_correctable: int = 0
    aggregate_uncorrectable: int = 0
    sram_threshold_exceeded: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class RemappedRows:
    """Rows of one GPU's memory that were replaced by spare ones."""

    correctable: int = 0
    uncorrectable: int = 0
    pending: bool = False
    failure: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Gpu:
    """One GPU. `missing`: not on the bus at all; `unlisted`: on the bus, but the driver could not start it; `lost`:
    listed, no longer answering. `compute` is the part of its rate of arithmetic that it has when it is busy, `training`
    what happens to a rank of a training on it. `power_limit` is the part of its default limit that it is held to,
    `slowdown` the reason for which its clock is lowered, `vbios` its own where it is not that of its kind,
    `compute_mode` whose programs may use it, `gsp` whether its own processor runs the driver's firmware,
    `clock_limit_mhz` the limit that somebody set for its clock (0: none), `held_down` what heat or power do to it
    under a long load, `under_load` what the load of Node.hurt_by does to it. `nvlink_failures` of
    recovery its first NVLink has counted; of its links that are up `nvlinks_slow` run at half of their rate. Under
    load its PCIe link has `loaded_generation` and `loaded_width`, 0: all that it is able to. In the DL unit test
    `numerics` is what its arithmetic does, `gemm` the part of its rate of matrix products, `hbm` of copies within its
    memory."""

    index: int
    uuid: str
    serial: str
    pci_bus_id: str
    module_id: int
    product: str
    memory_mib: int
    nvlinks: int
    nvlinks_up: int
    pcie_generation: int
    pcie_width: int
    pcie_width_max: int
    temperature_c: int
    power_w: float
    replay_counter: int
    presence: Presence = "ok"
    nvlinks_slow: int = 0
    ecc: Ecc = Ecc()
    remapped_rows: RemappedRows = RemappedRows()
    recovery_action: str = "None"
    mig: bool = False
    persistence: bool = True
    fabric_state: str = "Completed"
    fabric_status: str = "Success"
    fabric_cluster: str = ""
    diag: dict[str, DiagStatus] = field(default_factory=dict)
    computes_right: bool = True
    exported: bool = True
    compute: float = 1.0
    training: TrainingState = "ok"
    power_limit: float = 1.0
    slowdown: Slowdown = ""
    vbios: str = ""
    compute_mode: str = "Default"
    gsp: bool = True
    clock_limit_mhz: int = 0
    under_load: Literal["", "lost", "nvlink-errors"] = ""
    nvlink_failures: int = 0
    loaded_generation: int = 0
    loaded_width: int = 0
    held_down: HeldDown = field(default_factory=HeldDown)
    numerics: NumericsState = "ok"
    gemm: float = 1.0
    hbm: float = 1.0

    @property
    def pci(self) -> str:
        """The bus id as the kernel writes it: `0000:1b:00.0`."""
        return self.pci_bus_id[-12:].lower()


@dataclass(frozen=True, slots=True, kw_only=True)
class Hca:
    """One network adapter port of the compute fabric; not `present`: the adapter is not on the bus. `goodput` is the
    part of its rate that data gets through; no tool but a benchmark shows it. It lost its link `link_downed` times, and
    once more (or drops packets) `under_load` of Node.hurt_by. `raw_ber` and `effective_ber` are its bit error rates
    before and behind the correction as mlxlink prints them, `module_c` the temperature of its cable's module. Of RoCE,
    not `routable`: it has link-local addresses alone; `mtu` is the data that its packets carry."""

    index: int
    name: str
    guid: str
    pci: str
    model: str
    firmware: str
    rate_gbps: int
    lid: int
    link_layer: str = "InfiniBand"
    state: PortState = "Active"
    physical_state: PhysicalState = "LinkUp"
    sm_lid: int = 1
    present: bool = True
    cable: Cable = field(default_factory=Cable)
    goodput: float = 1.0
    under_load: Literal["", "lost", "drops"] = ""
    link_downed: int = 0
    raw_ber: str = "4E-9"
    effective_ber: str = "15E-255"
    module_c: int = 52
    routable: bool = True
    mtu: int = 4096
    setup: PortSetup = field(default_factory=PortSetup)

    @property
    def slot(self) -> int:
        """Its place among the adapters of the host: that of its rail, unless somebody put it elsewhere."""
        return self.index if self.setup.slot < 0 else self.setup.slot


def _natural(name: str) -> tuple[tuple[int, str | int], ...]:
    """The order in which tools list names: mlx5_2 before mlx5_10."""
    return tuple((0, int(part)) if part.isdecimal() else (1, part) for part in re.split(r"(\d+)", name))


@dataclass(frozen=True, slots=True, kw_only=True)
class Clock:
    """What the time daemon of a node says; `ahead_s` is what it does not: how far its clock is ahead of all others."""

    synchronised: bool = True
    stratum: int = 3
    offset_s: float = 0.0000047
    reference: str = "ntp1.example.org"
    ahead_s: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class LogLine:
    """One line of the kernel log, so many seconds after the boot, and so many `times`, one `every_s` seconds."""

    at_s: float
    text: str
    times: int = 1
    every_s: float = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Performance:
    """What only a benchmark on the node shows: parts of the speed it should have, and what its pods get.

    `network` and `nvlink` are parts of their speed; `gpudirect`: adapters reach GPU memory; `rdma_devices`: pods see
    the adapters; `rdma_libraries`: the container can load the network plugin; `memory_lock`: locked memory is not
    limited; `memory_registers`: the kernel lets adapters register memory.
    `adapter_prefix`: how containers call the adapters, where that is not as the host does."""

    network: float = 1.0
    nvlink: float = 1.0
    gpudirect: bool = True
    rdma_devices: bool = True
    rdma_libraries: bool = True
    memory_lock: bool = True
    memory_registers: bool = True
    adapter_prefix: str = ""
    benchmark: BenchmarkState = "ok"


@dataclass(frozen=True, slots=True, kw_only=True)
class Serving:
    """How a language model's server on the node behaves, and the benchmark beside it.

    `model`: what it serves, empty for what it was asked to. `answer` is how it answers, `odd_engine` the only copy of
    the model that does so (-1: all of them), `mute_engine` one that answers nothing, for its requests go to others. The
    model hub refuses a server `hub_refusals` times (HTTP 429) before it has its weights. `rate` is the part of tokens
    per second that it should have, `prefill` that part where a prompt is not in the cache; `stall_ms` is added to every
    eighth first token, `slow_copy_ms` to every token of the first copy of the model, `cold_ms` to the first request of
    each copy. Every `fail_every`th request fails, every `short_every`th answer ends early; 0: none does."""

    state: ServerState = "ok"
    model: str = ""
    answer: AnswerState = "right"
    odd_engine: int = -1
    mute_engine: int = -1
    hub_refusals: int = 0
    rate: float = 1.0
    prefill: float = 1.0
    stall_ms: float = 0.0
    slow_copy_ms: float = 0.0
    cold_ms: float = 0.0
    fail_every: int = 0
    short_every: int = 0
    benchmark: BenchmarkState = "ok"


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """One GPU host. `others` are ports of adapters that carry no GPU traffic; hosts of different `unit` share no leaf.

    `printed` is by program what it prints in place of its usual output, for programs whose script in
    recipes/rehearsal/tools/ reads it (`out/<program>.printed`); `smi_xml` what elements of `nvidia-smi -q -x` read for
    every GPU, by their path in nvidia_smi_580.yaml, where "(absent)" leaves one out. `nic_view`: each adapter is below
    the PCIe `switch` of a GPU, two below that of two GPUs (`pairs`), those beside other GPUs are across the processors
    (`apart`), or the hypervisor hides it all (`hidden`). `virtualisation` is what `systemd-detect-virt --vm` prints,
    `bridged_gpus` is how many neighbouring GPUs a bridge connects by NVLink (0: all of the host),
    `acs` the access control of the PCIe switches above GPUs and adapters as lspci prints it. `hurt_by` is the program
    (`dcgmi`, or that of a pod simulator) whose load adds `log_under_load` to the kernel log, and does to GPUs and
    adapters what they say. `dcgm_health` is what DCGM's watches say (Healthy, Warning, Failure), empty where nobody set
    any. `fabric` is that of its SKU, `pfc` are the priorities that its RoCE ports pause. `unit_test` is what becomes of
    the pod of the DL unit test."""

    name: str
    rack: str
    sku: str
    accelerator: Accelerator
    serial: str
    machine_id: str
    driver_version: str
    cuda_version: str
    gpu_pci_id: str
    nvswitches: int
    gpus: tuple[Gpu, ...]
    hcas: tuple[Hca, ...]
    others: tuple[Hca, ...] = ()
    unit: int = 0
    kernel: str = "6.8.0-79-generic"
    os_name: str = "Ubuntu"
    os_version: str = "24.04.3"
    ofed_version: str = "OFED-internal-25.07-0.9.7"
    dcgm_version: str = "4.4.1"
    bios_version: str = "2.5.4"
    dcgm_health: str = ""
    reachable: bool = True
    clock: Clock = Clock()
    services: dict[str, str] = field(default_factory=dict)
    tools: dict[str, ToolState] = field(default_factory=dict)
    printed: dict[str, str] = field(default_factory=dict)
    smi_xml: dict[str, str] = field(default_factory=dict)
    nic_view: NicView = "switch"
    virtualisation: str = "none"
    fabric: str = "infiniband"
    pfc: tuple[int, ...] = (3,)
    hurt_by: str = ""
    bridged_gpus: int = 0
    log_under_load: tuple[LogLine, ...] = ()
    acs: str = "SrcValid- TransBlk- ReqRedir- CmpltRedir- UpstreamFwd- EgressCtrl- DirectTrans-"
    kernel_log: tuple[LogLine, ...] = ()
    kubernetes: KubernetesNode = field(default_factory=KubernetesNode)
    performance: Performance = Performance()
    serving: Serving = Serving()
    exporter: ExporterState = "ok"
    exporter_label: str = "Hostname"
    training: Training = field(default_factory=Training)
    storage: Storage = field(default_factory=Storage)
    unit_test: UnitTestState = "ok"
    setup: HostSetup = field(default_factory=HostSetup)
    bmc: Bmc = field(default_factory=Bmc)

    @property
    def listed_gpus(self) -> tuple[Gpu, ...]:
        """The GPUs that the driver still lists, lost ones included."""
        return tuple(gpu for gpu in self.gpus if gpu.presence in ("ok", "lost"))

    @property
    def gpus_on_bus(self) -> tuple[Gpu, ...]:
        """The GPUs that the PCI bus shows."""
        return tuple(gpu for gpu in self.gpus if gpu.presence != "missing")

    @property
    def working_gpus(self) -> tuple[Gpu, ...]:
        """The GPUs that answer."""
        return tuple(gpu for gpu in self.gpus if gpu.presence == "ok")

    @property
    def present_hcas(self) -> tuple[Hca, ...]:
        """The adapters that the machine has."""
        return tuple(hca for hca in self.hcas if hca.present)

    @property
    def all_hcas(self) -> tuple[Hca, ...]:
        """Every adapter port that the operating system shows, in the order of their names."""
        return tuple(sorted((*self.present_hcas, *self.others), key=lambda hca: _natural(hca.name)))

    @property
    def advertised_gpus(self) -> int:
        """How many GPUs the device plugin offers."""
        told = self.kubernetes.device_plugin_gpus
        return len(self.working_gpus) if told is None else told

    @property
    def dra_device_count(self) -> int:
        """How many GPUs the DRA driver lists in its ResourceSlice."""
        told = self.kubernetes.dra_devices
        return len(self.working_gpus) if told is None else told


@dataclass(frozen=True, slots=True, kw_only=True)
class Rack:
    """One rack: what the signed record allows it, and its power units as the record has
    them (all energized, one dead, none listed) and as they say themselves (`units`, one on each feed)."""

    name: str
    power_w: int
    cooling_w: int
    floor_load_kg: float
    nodes: tuple[str, ...]
    pdus: PduState = "ok"
    units: tuple[RackUnit, ...] = (RackUnit(), RackUnit())


@dataclass(frozen=True, slots=True, kw_only=True)
class Rail:
    """The leaf switches that connect adapter `index` of every node; `goodput` as for an adapter, `firmware` that of all
    these adapters, where it is not that of their type."""

    name: str
    index: int
    goodput: float = 1.0
    firmware: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterModel:
    """The whole simulated cluster, faults already in it."""

    name: str
    seed: int
    racks: tuple[Rack, ...]
    nodes: tuple[Node, ...]
    facility: FacilityRecord = field(default_factory=FacilityRecord)
    stack: Stack = field(default_factory=Stack)
    rails: tuple[Rail, ...] = ()
    infiniband: InfiniBand = field(default_factory=InfiniBand)
    nccl: Nccl = field(default_factory=Nccl)
    schema_version: int = SCHEMA_VERSION

    def node(self, name: str) -> Node:
        """Return the node of that name.

        Raises:
            KeyError: no such node.
        """
        for node in self.nodes:
            if node.name == name:
                return node
        raise KeyError(name)
