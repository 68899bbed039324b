# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The cluster model: the single source of truth of all simulators of a rehearsal."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Literal

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.hardware.accelerator import Accelerator

from .bmc import Bmc, RackUnit
from .site import FacilityRecord, Nccl, Stack

# The InfiniBand fabric: cables, switches, other adapters, subnet managers.

LinkWidth = Literal["4x", "2x", "1x"]
LinkSpeed = Literal["HDR", "EDR", "FDR", "QDR"]
SubnetManagers = Literal["both", "no-standby", "none"]
Sharp = Literal["ready", "no-manager"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Cable:
    """One cable of the compute fabric, within the limits of the simulator.

    - `errors`: counted before the gate reads the counters.
    - `errors_per_s`: added while it reads them.
    - `errors_under_load`: added by the load of NCCL.
    - `downed`: how often the link went down so far.
    - `swapped`: its switch end is in the place of the next adapter's.
    """

    up: bool = True
    width: LinkWidth = "4x"
    speed: LinkSpeed = "HDR"
    errors: int = 0
    errors_per_s: int = 0
    errors_under_load: int = 0
    downed: int = 0
    swapped: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Switch:
    """One switch of the compute fabric.

    - `alive`: false: it has no power.
    - `description`: its node description, if that differs from its name.
    """

    name: str
    alive: bool = True
    description: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Uplink:
    """One cable between two switches, named after its lower end: `leaf-g1-rail0:33`."""

    name: str
    cable: Cable = Cable()


@dataclass(frozen=True, slots=True, kw_only=True)
class Stranger:
    """An adapter on the fabric that belongs to no GPU host: of a storage host, or a switch's own for aggregation.

    `name` is its node description. It is connected to a free port of `switch`.
    """

    name: str
    switch: str
    cable: Cable = Cable()


@dataclass(frozen=True, slots=True, kw_only=True)
class InfiniBand:
    """Switches, the cables between them and subnet managers; all empty for hosts without InfiniBand.

    - `adapter_description`: node description of adapters, with `{host}`, `{hca}` and `{number}` (from 1).
    - `priorities`: those of the subnet managers.
    - `taper`: ratio of the leaves' capacity down to that up.
    - `sharp`: the aggregation manager creates jobs on request.
    """

    switches: tuple[Switch, ...] = ()
    uplinks: tuple[Uplink, ...] = ()
    strangers: tuple[Stranger, ...] = ()
    subnet_managers: SubnetManagers = "both"
    adapter_description: str = "{host} {hca}"
    priorities: tuple[int, int] = (15, 1)
    taper: float = 1.0
    sharp: Sharp = "ready"


# Setup of a simulated host beside its GPUs: limits of its units, CPU clocks, cgroups, and configuration of its network
# ports.


@dataclass(frozen=True, slots=True, kw_only=True)
class HostSetup:
    """Setup of a host.

    - `memlock`, `nofile`: limits of every unit as systemd prints them.
    - `governor`: of all CPUs (empty: the kernel sets no frequency, as in a virtual machine).
    - `cgroup`: the file system at /sys/fs/cgroup.
    - `root_used_percent`: used part of the root file system.
    - `stuck`: a program that waits for ever.
    - `module_licence`: of the driver's kernel module.
    - `nvme_drives`: the first has the warning bits `nvme_warning` and wear `nvme_used_percent`.
    - `mounts`: its network file systems, with `mount_options`.
    - `sensor`: one more sensor of its BMC, as `ipmitool sdr` prints it.
    - `imex`: output of its IMEX service, if it has one.
    - `processors`: number of CPUs. `processor` is their model.
    - `clock_source`: of the kernel's time.
    - `memory_gib`: main memory, of which the firmware keeps `reserved_mib`.
    - `sysctls`: kernel settings by name that differ from those of the machine below.
    - `cmdline`: boot parameters, empty for those of the machine below.
    """

    memlock: str = "infinity"
    nofile: str = "1048576"
    governor: str = "performance"
    cgroup: str = "cgroup2fs"
    root_used_percent: int = 31
    stuck: str = ""
    module_licence: str = "Dual MIT/GPL"
    nvme_drives: int = 2
    nvme_warning: int = 0
    nvme_used_percent: int = 3
    mounts: tuple[str, ...] = ("/shared",)
    mount_options: str = "rw,relatime,vers=4.2,hard,proto=tcp"
    sensor: str = ""
    imex: str = "READY"
    processors: int = 192
    processor: str = "Intel(R) Xeon(R) Platinum 8468"
    memory_gib: int = 2048
    reserved_mib: int = 33210
    clock_source: str = "tsc"
    sysctls: dict[str, str] = field(default_factory=dict)
    cmdline: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class PortSetup:
    """Setup of a port.

    - `pkeys`: partition keys that the subnet manager gave an InfiniBand port, as the kernel prints them.
    - `drops`: packets for which an EFA device or RoCE port had no buffer.
    - `ecn`: priorities on which a RoCE port marks and obeys congestion (the adapter's default: all).
    - `slot`: place of the adapter in its host, -1 for that of its rail.
    """

    pkeys: tuple[str, ...] = ("0xffff",)
    drops: int = 0
    ecn: tuple[int, ...] = (0, 1, 2, 3, 4, 5, 6, 7)
    slot: int = -1


# The shared volume on a node.


@dataclass(frozen=True, slots=True, kw_only=True)
class Storage:
    """Behaviour of the shared volume on the node.

    - `speed`: share of the usual speed.
    - `tail`: factor on the 99th percentile of the latency.
    - `corrupts`: a block is read back with other content.
    """

    speed: float = 1.0
    tail: float = 1.0
    corrupts: bool = False


# The part of the cluster model that shows only in a training.

TrainingState = Literal[
    "ok",
    "out-of-memory",
    "crashes",
    "hangs",
    "not-a-number",
    "other-weights",
    "wrong-arithmetic",
    "wrong-bits",
    "wrong-when-hot",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldDown:
    """What lowers the clock of a busy GPU.

    - `reason`: in nvidia-smi's words (empty: nothing).
    - `after_s`: seconds under load until it begins.
    - `share`: share of the time.
    - `clock`: share of its clock that remains then.
    """

    reason: str = ""
    after_s: float = 0.0
    share: float = 1.0
    clock: float = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Training:
    """Conditions of a training on the node.

    - `pace`: share of their speed that all of its GPUs have together.
    - `cpu`: share of the speed of its CPUs.
    - `growth`: share by which its work on a step has grown at the end of a run.
    - `jitter`: share by which every fifth step takes longer.
    - `delay_s`: delay of its container (image, disk).
    - `name_s`: delay until it resolves its peers.
    - `loading_s`: extra time for loading PyTorch.
    - `ready_s`: delay until its GPUs are ready.
    - `names`: pods can resolve names at all.
    - `image`: false: its pods get no image.
    - `torch`: release of PyTorch in its image, if it is another one.
    - `log_cut`: the end of the log is lost.
    """

    pace: float = 1.0
    growth: float = 0.0
    jitter: float = 0.0
    delay_s: float = 0.0
    name_s: float = 0.0
    loading_s: float = 0.0
    ready_s: float = 0.0
    names: bool = True
    image: bool = True
    torch: str = ""
    cpu: float = 1.0
    log_cut: bool = False


# A simulated host in Kubernetes.

AdapterUnits = Literal["all", "each"]


@dataclass(frozen=True, slots=True, kw_only=True)
class KubernetesNode:
    """State of a node in Kubernetes. None for a count means all working GPUs.

    - `memory_gib`: allocatable to pods.
    - `adapters`: extended resources for adapters in pods, None for those of the shared device plugin.
    - `adapter_units`: whether one unit of them is all adapters or one.
    - `member`: false: the host is neither in Kubernetes nor in the inventory.
    - `unhealthy_gpus`: in the capacity, but not allocatable.
    - `resources`: offered in place of whole GPUs, as with MIG or time-slicing.
    - `replicas`: value of the node's label in that case.
    - `mig_config`: configuration requested from the MIG manager. `mig_state` is its progress.
    - `cut_networks`: networks (eth0, net1, dns) without a connection.
    - `open_devices`: pods without GPUs get access to all.
    - `blind_containers`: pods with GPUs get access to none.
    """

    device_plugin_gpus: int | None = None
    dra_devices: int | None = None
    unhealthy_gpus: int = 0
    resources: dict[str, int] = field(default_factory=dict)
    replicas: int = 1
    mig_config: str = ""
    mig_state: str = ""
    open_devices: bool = False
    blind_containers: bool = False
    cut_networks: tuple[str, ...] = ()
    cordoned: bool = False
    operands_ready: bool = True
    failing_operand: str = ""
    memory_gib: int = 2048
    adapters: dict[str, int] | None = None
    adapter_units: AdapterUnits = "all"
    member: bool = True
    taints: tuple[dict[str, str], ...] = ()


# The cluster model.

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
    """Error counters of one GPU's memory. Volatile ones count since the driver was loaded."""

    volatile_correctable: int = 0
    volatile_uncorrectable: int = 0
    aggregate_correctable: int = 0
    aggregate_uncorrectable: int = 0
    sram_threshold_exceeded: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class RemappedRows:
    """Remapped rows of one GPU's memory."""

    correctable: int = 0
    uncorrectable: int = 0
    pending: bool = False
    failure: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Gpu:
    """One GPU.

    - `presence`: `missing` is not on the bus; `unlisted` is on the bus, but the driver could not start it; `lost` is
      listed, but does not respond.
    - `compute`: share of its rate of arithmetic under load.
    - `training`: what happens to a rank of a training on it.
    - `power_limit`: share of its default limit to which it is limited.
    - `slowdown`: reason for which its clock is lowered.
    - `vbios`: its own, if it is not that of its model.
    - `compute_mode`: whose programs may use it.
    - `gsp`: its own processor runs the driver's firmware.
    - `clock_limit_mhz`: configured limit of its clock (0: none).
    - `held_down`: effect of heat or power under a long load.
    - `under_load`: effect of the load of Node.hurt_by.
    - `nvlink_failures`: failed recoveries that its first NVLink has counted.
    - `nvlinks_slow`: number of active links at half of their rate.
    - `loaded_generation`, `loaded_width`: of its PCIe link under load; 0: all that it supports.
    - `numerics`: behaviour of its arithmetic in the DL unit test.
    - `gemm`, `hbm`: share of its rate of matrix products, and of copies within its memory, in the DL unit test.
    """

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
        """Bus id as the kernel writes it: `0000:1b:00.0`."""
        return self.pci_bus_id[-12:].lower()


@dataclass(frozen=True, slots=True, kw_only=True)
class Hca:
    """One network adapter port of the compute fabric.

    - `present`: false: the adapter is not on the bus.
    - `goodput`: share of its rate that data reaches; only a benchmark shows it.
    - `link_downed`: how often it lost its link.
    - `under_load`: it loses its link once more, or drops packets, under the load of Node.hurt_by.
    - `raw_ber`, `effective_ber`: bit error rates before and after the correction as mlxlink prints them.
    - `module_c`: temperature of its cable's module.
    - `routable`: false: a RoCE port has only link-local addresses.
    - `mtu`: payload of its packets in bytes.
    """

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
        """Place among the adapters of the host: that of its rail, unless it was configured otherwise."""
        return self.index if self.setup.slot < 0 else self.setup.slot


def _natural(name: str) -> tuple[tuple[int, str | int], ...]:
    """Return a key for the order in which tools list names: mlx5_2 before mlx5_10."""
    return tuple((0, int(part)) if part.isdecimal() else (1, part) for part in re.split(r"(\d+)", name))


@dataclass(frozen=True, slots=True, kw_only=True)
class Clock:
    """Report of a node's time daemon. `ahead_s` is hidden from it: how far the clock is ahead of all others."""

    synchronised: bool = True
    stratum: int = 3
    offset_s: float = 0.0000047
    reference: str = "ntp1.example.org"
    ahead_s: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class LogLine:
    """One line of the kernel log, `at_s` seconds after the boot, `times` times, once every `every_s` seconds."""

    at_s: float
    text: str
    times: int = 1
    every_s: float = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Performance:
    """Properties that only a benchmark on the node shows: shares of the expected speed, and what its pods get.

    - `network`, `nvlink`: share of their speed.
    - `gpudirect`: adapters reach GPU memory.
    - `rdma_devices`: pods have access to the adapters.
    - `rdma_libraries`: the container can load the network plugin.
    - `memory_lock`: locked memory is not limited.
    - `memory_registers`: the kernel lets adapters register memory.
    - `adapter_prefix`: prefix of adapter names in containers, if it differs from the host's.
    """

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
    """Behaviour of a language model's server on the node, and of the benchmark beside it.

    - `model`: the model that it serves, empty for the requested one.
    - `answer`: kind of its responses.
    - `odd_engine`: the only copy of the model that responds so (-1: all of them).
    - `mute_engine`: a copy that gets no requests, since they go to the next one (-1: none).
    - `hub_refusals`: how often the model hub refuses a server (HTTP 429) before it has its weights.
    - `rate`: share of the expected tokens per second.
    - `prefill`: the same for a prompt that is not in the cache.
    - `stall_ms`: added to every eighth first token.
    - `slow_copy_ms`: added to every token of the first copy of the model.
    - `cold_ms`: added to the first request of each copy.
    - `fail_every`: every n-th request fails; 0: none.
    - `short_every`: every n-th response ends early; 0: none.
    """

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
    """One GPU host.

    - `others`: ports of adapters without GPU traffic.
    - `unit`: hosts of different units share no leaf.
    - `printed`: by program its output in place of the usual one, for programs without a script in
      rehearsal/recipes/tools/, and those whose script reads it (`out/<program>.printed`).
    - `smi_xml`: values of elements of `nvidia-smi -q -x` for every GPU, by path in nvidia_smi_580.yaml, where
      "(absent)" leaves one out.
    - `nic_view`: each adapter is below the PCIe `switch` of a GPU, two below that of two GPUs (`pairs`), those of other
      GPUs are on the other CPU socket (`apart`), or the hypervisor hides it all (`hidden`).
    - `virtualisation`: output of `systemd-detect-virt --vm`.
    - `bridged_gpus`: number of neighbouring GPUs that an NVLink bridge connects (0: all of the host).
    - `acs`: access control of the PCIe switches above GPUs and adapters as lspci prints it.
    - `hurt_by`: program (`dcgmi`, or that of a pod simulator) whose load adds `log_under_load` to the kernel log, and
      triggers the `under_load` of GPUs and adapters.
    - `dcgm_health`: result of DCGM's health watches (Healthy, Warning, Failure), empty if none is set.
    - `fabric`: that of its SKU.
    - `pfc`: priorities that its RoCE ports pause.
    - `unit_test`: state of the pod of the DL unit test.
    """

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
        """GPUs that the driver still lists, including lost ones."""
        return tuple(gpu for gpu in self.gpus if gpu.presence in ("ok", "lost"))

    @property
    def gpus_on_bus(self) -> tuple[Gpu, ...]:
        """GPUs on the PCI bus."""
        return tuple(gpu for gpu in self.gpus if gpu.presence != "missing")

    @property
    def working_gpus(self) -> tuple[Gpu, ...]:
        """GPUs that respond."""
        return tuple(gpu for gpu in self.gpus if gpu.presence == "ok")

    @property
    def present_hcas(self) -> tuple[Hca, ...]:
        """Adapters that the machine has."""
        return tuple(hca for hca in self.hcas if hca.present)

    @property
    def all_hcas(self) -> tuple[Hca, ...]:
        """Every adapter port in the operating system, in the order of the names."""
        return tuple(sorted((*self.present_hcas, *self.others), key=lambda hca: _natural(hca.name)))

    @property
    def advertised_gpus(self) -> int:
        """Number of GPUs that the device plugin offers."""
        reported = self.kubernetes.device_plugin_gpus
        return len(self.working_gpus) if reported is None else reported

    @property
    def dra_device_count(self) -> int:
        """Number of GPUs in the DRA driver's ResourceSlice."""
        reported = self.kubernetes.dra_devices
        return len(self.working_gpus) if reported is None else reported


@dataclass(frozen=True, slots=True, kw_only=True)
class Rack:
    """One rack: its limits in the signed record, and its PDUs.

    The PDUs are given as the record has them (all energized, one dead, none listed) and as they report themselves
    (`units`, one on each feed).
    """

    name: str
    power_w: int
    cooling_w: int
    floor_load_kg: float
    nodes: tuple[str, ...]
    pdus: PduState = "ok"
    units: tuple[RackUnit, ...] = (RackUnit(), RackUnit())


@dataclass(frozen=True, slots=True, kw_only=True)
class Rail:
    """The leaf switches that connect adapter `index` of every node.

    - `goodput`: as for an adapter.
    - `firmware`: of all these adapters, if it is not that of their type.
    """

    name: str
    index: int
    goodput: float = 1.0
    firmware: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterModel:
    """The whole simulated cluster, with its faults."""

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
