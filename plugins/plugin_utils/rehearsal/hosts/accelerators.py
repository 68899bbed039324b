# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""What the simulated tools know about a kind of GPU: recipes/rehearsal/accelerators.yaml."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from ...outcome.errors import InputError
from ...runtime.strict import decode, read_yaml


@dataclass(frozen=True, slots=True, kw_only=True)
class Accelerator:
    """Printed facts of one kind of GPU."""

    architecture: str
    title: str
    vbios: str
    board_part: str
    gpu_part: str
    inforom: str
    pci_sub_system_id: str
    reserved_mib: int
    bar1_mib: int
    power_limit_w: int
    power_limit_min_w: int
    max_clock_mhz: int
    mem_clock_mhz: int
    mem_clock_low_mhz: int
    remap_banks: int
    nvlink_gbytes_per_s: str
    diag_gflops: float


def load_accelerators(directory: Path) -> dict[str, Accelerator]:
    """Return the printed facts by kind of GPU; `default` is among them.

    Raises:
        InputError: the file cannot be read or a fact is unknown, missing or of the wrong type.
    """
    path = directory / "accelerators.yaml"
    data = read_yaml(path)
    if not isinstance(data, dict) or not isinstance(data.get("default"), dict):
        raise InputError(str(path), "has no mapping 'default'.", "correct the file")
    return {
        name: decode(Accelerator, {**data["default"], **(facts or {})}, f"{path}: {name}")
        for name, facts in data.items()
    }


def printed_facts(accelerators: dict[str, Accelerator], name: str) -> Accelerator:
    """Return the printed facts of that kind of GPU, the default ones if it has none of its own."""
    return accelerators.get(name, accelerators["default"])
