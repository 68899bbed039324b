# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Facts of a GPU model that the simulated tools print, beyond those of the SKU."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.hardware.accelerator import Accelerator
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.errors import InputError
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.runtime.strict import decode, read_yaml


@dataclass(frozen=True, slots=True, kw_only=True)
class PrintedFacts:
    """Facts of one GPU model that the simulated tools print. No check reads them."""

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
    nvswitch: str
    fabric_health: str


@cache
def _defaults(path: Path) -> Mapping[str, Any]:
    data = read_yaml(path)
    if not isinstance(data, dict):
        raise InputError(str(path), "has no mapping of facts.", "correct the file")
    return data


def printed_facts(kind: Accelerator, directory: Path) -> PrintedFacts:
    """Return what the tools print for a GPU model. Missing facts come from accelerators.yaml in the directory.

    Raises:
        InputError: the file cannot be read, or a fact is unknown, missing or of the wrong type.
    """
    facts = {**_defaults(directory / "accelerators.yaml"), **kind.simulated.printed}
    return decode(PrintedFacts, facts, f"accelerator {kind.name}: simulated.printed")
