# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The cluster model: the only source of truth of every simulator of a rehearsal."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Literal

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.hardware.accelerator import Accelerator

from .bmc import Bmc, RackUnit
from .site import FacilityRecord, Nccl, Stack

# The InfiniBand fabric of the cluster model: cables, switches, what else is connected, subnet managers.

LinkWidth = Literal["4x", "2x", "1x"]
LinkSpeed = Literal["HDR", "EDR", "FDR", "QDR"]
SubnetManagers = Literal["both", "no-standby", "none"]
Sharp = Literal["ready", "no-manager"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Cable:
    """One cable of the compute fabric, as the simulator of it can make it. `errors` were counted before the gate looks,
    `errors_per_s` are added while it looks, `errors_under_load` by the load of NCCL; `downed` is how often the link
    went down so far; `swapped`: its switch end sits where the next adapter's should."""

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
    """One switch of the compute fabric; not `alive`: it has no power. `description` is its node description where that
    is not its name."""

    name: str
    alive: bool = True
    description: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Uplink:
    """One cable between two switches; its name is its lower end, `leaf-g1-rail0:33`."""

    name: str
    cable: Cable = Cable()


@dataclass(frozen=True, slots=True, kw_only=True)
class Stranger:
    """An adapter on the fabric that is no GPU host's: of a storage host, or a switch's own for aggregation. `name` is
    its node description; it is cabled to a free port of `switch`."""

    name: str
    switch: str
    cable: Cable = Cable()


@dataclass(frozen=True, slots=True, kw_only=True)
class InfiniBand:
    """The switches, the cables between them and the subnet managers; all empty where the hosts have no InfiniBand.

    `adapter_description` is how adapters describe themselves, of `{host}`, `{hca}` and `{number}` (from 1);
    `priorities` are those of the subnet managers; `taper` is how much more the leaves carry down than up. `sharp`:
    whether the aggregation manager makes jobs for those who ask it.
    """

    switches: tuple[Switch, ...] = ()
    uplinks: tuple[Uplink, ...] = ()
    strangers: tuple[Stranger, ...] = ()
    subnet_managers: SubnetManagers = "both"
    adapter_description: str = "{host} {hca}"
    priorities: tuple[int, int] = (15, 1)
    taper: float = 1.0
    sharp: Sharp = "ready"


# How a simulated host is set up beside its GPUs: limits of its units, clocks of its processors, control groups, and
# what its network ports are told.


@dataclass(frozen=True, slots=True, kw_only=True)
class HostSetup:
    """`memlock` and `nofile` are limits of every unit as systemd prints them, `governor` is that of all processors
    (empty: the kernel sets no frequency, as in a virtual machine), `cgroup` the file system at /sys/fs/cgroup.
    `root_used_percent` is how full the root file system is, `stuck` a program that waits for ever, `module_licence`
    that of the driver's kernel module. Of its `nvme_drives` the first has the warning bits `nvme_warning` and is worn
    to `nvme_used_percent`. `mounts` are its file systems of the network, with `mount_options`. `sensor` is one more
    sensor of its management controller, as `ipmitool sdr` prints it; `imex` what its IMEX service says where it has
    one. So many `processors` of the kind `processor` run, `clock_source` keeps the kernel's time, and main memory is
    `memory_gib` less the `reserved_mib` that its firmware keeps. `sysctls` are settings of its kernel, by name, that
    are not those of the machine below, `cmdline` its parameters of the boot, empty for those of the machine below."""

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
    """`pkeys` are the partition keys that the subnet manager gave an InfiniBand port, as the kernel prints them,
    `drops` the packets that an EFA device or RoCE port had no buffer for, `ecn` the priorities on which a RoCE port
    marks and heeds congestion (the adapter's default: all). `slot` is the place of the adapter in its host, -1 for
    that of its rail."""

    pkeys: tuple[str, ...] = ("0xffff",)
    drops: int = 0
    ecn: tuple[int, ...] = (0, 1, 2, 3, 4, 5, 6, 7)
    slot: int = -1


# The shared volume as a node of the cluster model sees it.


@dataclass(frozen=True, slots=True, kw_only=True)
class Storage:
    """The shared volume as the node sees it: the part of the usual speed that it has, how many times as long the
    slowest request of a hundred takes (`tail`), and whether a block comes back other than written (`corrupts`)."""

    speed: float = 1.0
    tail: float = 1.0
    corrupts: bool = False


# The part of the cluster model that only a training shows.

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
    """What holds the clock of a busy GPU down: the reason in nvidia-smi's words (empty: nothing), after so many seconds
    under load, in what part of the time, and the part of its clock that is left then."""

    reason: str = ""
    after_s: float = 0.0
    share: float = 1.0
    clock: float = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Training:
    """What a training on the node meets.

    `pace` is the part of their speed that all of its GPUs have together, `cpu` that of its CPUs; `growth` is the part
    by which its work on a step has grown at the end of a run, `jitter` the part by which every fifth step takes longer.
    Its container begins `delay_s` late (image, disk), finds its fellows `name_s` late, loads PyTorch `loading_s`
    longer, and its GPUs are ready `ready_s` late. `names`: pods can resolve names at all; without `image` its pods get
    none; `torch` is the release of PyTorch in the image that it has, where that is another one; `log_cut`: the end of
    the log is lost.
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


# A simulated host as Kubernetes sees it.

AdapterUnits = Literal["all", "each"]


@dataclass(frozen=True, slots=True, kw_only=True)
class KubernetesNode:
    """What Kubernetes is told about a node: None for a count means all GPUs that work. `memory_gib` is what pods may
    ask for; `adapters` the extended resources that bring adapters into pods, None for those of the shared device
    plugin, and `adapter_units` whether one unit of them is all adapters or one. A host that is no `member` is not
    known to Kubernetes, nor stated in the inventory. `unhealthy_gpus` stay in the capacity and are not allocatable;
    `resources` are offered in place of whole GPUs, as with MIG or time-slicing, and `replicas` is what the node's label
    then says. `mig_config` is what was asked of the MIG manager, `mig_state` how far that came; `cut_networks` (eth0,
    net1, dns) lead nowhere; `open_devices`: pods without GPUs see all, `blind_containers`: those with GPUs none."""

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


# The cluster model: the only source of truth of every simulator of a rehearsal.

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
    rehearsal/recipes/tools/ reads it (`out/<program>.printed`); `smi_xml` what elements of `nvidia-smi -q -x` read for
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
