# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Tells what only one of two readings of a host has: what cannot be compared did not stay as it was.

A GPU, a link or a port that is gone after the load is a finding of its own; here is what a reading does not say.
"""

from __future__ import annotations

from collections.abc import Iterable

from ...probe.ibstat import Hca
from ...probe.nvidia_smi_model import Gpu, SmiLog
from ...probe.nvidia_smi_nvlink import NvlinkStatus

_LONGEST = 200


def unmatched_gpus(before: SmiLog, after: SmiLog) -> str:
    """Say which GPU, or which of its values that are compared, one reading lacks; empty if both have the same.

    Of a GPU that the driver cannot talk to there are no values.
    """
    lost = {gpu.bus_id for gpu in (*before.gpus, *after.gpus) if gpu.trouble}
    readings = [{word for gpu in log.gpus if gpu.bus_id not in lost for word in _said(gpu)} for log in (before, after)]
    return _only_one(*readings)


def unmatched_nvlinks(before: NvlinkStatus, after: NvlinkStatus) -> str:
    """Say which NVLink one reading does not list; empty if both list the same."""
    listed = [
        {f"GPU {gpu.index} link {link}" for gpu in log.gpus for link, _speed in gpu.links} for log in (before, after)
    ]
    return _only_one(*listed)


def unmatched_ports(before: tuple[Hca, ...], after: tuple[Hca, ...]) -> str:
    """Say which port of an adapter one reading does not list; empty if both list the same."""
    listed = [{f"{hca.name}:{port.number}" for hca in hcas for port in hca.ports} for hcas in (before, after)]
    return _only_one(*listed)


def _said(gpu: Gpu) -> Iterable[str]:
    values = {
        "recovery action": gpu.recovery_action,
        "PCIe replays": gpu.replay_count,
        "remapped rows": gpu.remapped_rows,
        "SRAM errors": gpu.ecc_volatile.sram_uncorrectable,
        "DRAM errors": gpu.ecc_volatile.dram_uncorrectable,
    }
    yield gpu.bus_id
    yield from (f"{gpu.bus_id} {name}" for name, value in values.items() if value is not None)
    yield from (f"{gpu.bus_id} {name}" for name in gpu.slowdown_us)


def _only_one(before: set[str], after: set[str]) -> str:
    return ", ".join(sorted(before ^ after))[:_LONGEST]
