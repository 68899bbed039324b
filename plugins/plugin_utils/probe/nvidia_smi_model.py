# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""What `nvidia-smi -q -x` says, as values. None means: the tool says that there is no such thing (N/A)."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class EccCounters:
    """Error counts of one period; `sram_uncorrectable` sums parity and SEC-DED errors where the tool counts both."""

    sram_correctable: int | None = None
    sram_uncorrectable: int | None = None
    dram_correctable: int | None = None
    dram_uncorrectable: int | None = None
    sram_threshold_exceeded: bool | None = None

    @property
    def uncorrectable(self) -> int:
        """All uncorrectable errors that are reported."""
        return (self.sram_uncorrectable or 0) + (self.dram_uncorrectable or 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class RemappedRows:
    """Rows of memory that were replaced. `histogram` counts banks by spare rows left: max, high, partial, low, none."""

    correctable: int
    uncorrectable: int
    pending: bool
    failure: bool
    correctable_inactive: int | None = None
    uncorrectable_inactive: int | None = None
    histogram: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class RemappedBanks:
    """Banks of memory that were replaced (Rubin, driver 615): whether a remapping waits for a reset, and the number of
    groups of banks without a spare one."""

    pending: bool | None
    groups_without_spare: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuFabric:
    """The GPU's registration with its NVLink fabric; every field is None where there is no such fabric. `conditions`
    are the parts of its health that are not in order, as the driver names them."""

    state: str | None = None
    status: str | None = None
    clique_id: str | None = None
    cluster_uuid: str | None = None
    health: str | None = None
    conditions: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class MigDevice:
    """One slice of a GPU in MIG mode; `instance` is the id of its GPU instance, where the tool prints it, and
    `sram_uncorrectable` counts errors since the driver was loaded."""

    index: int
    memory_mib: int
    instance: str | None = None
    sram_uncorrectable: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Gpu:
    """One `<gpu>` element.

    `trouble` is what the driver prints in place of values when it cannot talk to the GPU ("GPU is lost"), else empty.
    `bus_id` is `dddd:bb:dd.f` in lower case. `clock_events` are the active reasons for lower clocks; None: the document
    lists no reasons. `temperature_margin_c` is what is left until the GPU slows down;
    `slowdown_us` counts microseconds by reason since the driver was loaded, where the driver counts them. `modes` are
    how it was set to work, as the document prints them, by name, where it has them; `module_id` is
    its place on the board.
    """

    bus_id: str
    uuid: str
    product: str
    trouble: str = ""
    serial: str | None = None
    memory_total_mib: int | None = None
    memory_used_mib: int | None = None
    ecc_current: str | None = None
    ecc_pending: str | None = None
    ecc_volatile: EccCounters = EccCounters()
    ecc_aggregate: EccCounters = EccCounters()
    channel_repair_pending: bool | None = None
    tpc_repair_pending: bool | None = None
    unrepairable_memory: bool | None = None
    remapped_rows: RemappedRows | None = None
    remapped_banks: RemappedBanks | None = None
    retired_pages_single_bit: int | None = None
    retired_pages_double_bit: int | None = None
    retirement_pending: bool | None = None
    mig_current: str | None = None
    mig_pending: str | None = None
    mig_devices: tuple[MigDevice, ...] = ()
    fabric: GpuFabric = GpuFabric()
    clock_events: tuple[str, ...] | None = None
    slowdown_us: dict[str, int] = field(default_factory=dict)
    link_gen_current: int | None = None
    link_gen_max: int | None = None
    link_width_current: int | None = None
    link_width_max: int | None = None
    replay_count: int | None = None
    recovery_action: str | None = None
    reset_status: str | None = None
    vbios: str | None = None
    virtualisation: str | None = None
    persistence: str | None = None
    temperature_c: int | None = None
    temperature_margin_c: int | None = None
    memory_temperature_c: int | None = None
    power_w: float | None = None
    power_limit_w: float | None = None
    power_limit_default_w: float | None = None
    processes: int = 0
    module_id: str | None = None
    modes: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class SmiLog:
    """The whole document: `schema` is the DTD (`v13`), `attached_gpus` what the driver counts, `gpus` what it lists,
    `warnings` are lines beside the document."""

    schema: str
    driver_version: str
    cuda_version: str
    attached_gpus: int
    gpus: tuple[Gpu, ...]
    warnings: tuple[str, ...] = ()

    @property
    def count_agrees(self) -> bool:
        """Whether the driver's count is the number of GPUs it lists."""
        return self.attached_gpus == len(self.gpus)
