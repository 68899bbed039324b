# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The rules of gate nodes as data: limits (recipes/thresholds/nodes.yaml) and the XID catalogue (recipes/xid.yaml)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Literal

from ..outcome.errors import InputError
from ..runtime.recipe_files import RECIPES
from ..runtime.strict import decode, read_yaml


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeLimits:
    """The limits that checks judge against; a site may set each one in the settings of the check that uses it.

    `near_paths` lists, by NVLink domain (`node`, `rack`), the topology words that count as near for a GPU and its NIC.
    `diag_required` lists, by level of `dcgmi diag`, the tests that must have run.
    """

    clock_offset_s: float
    gpu_memory_tolerance: float
    ecc_dram_correctable: int
    ecc_sram_correctable: int
    link_flaps: int
    fabric_state_from_nvlink_generation: int
    near_paths: dict[str, tuple[str, ...]]
    diag_required: dict[str, tuple[str, ...]]


@dataclass(frozen=True, slots=True, kw_only=True)
class XidRule:
    """What an XID means: `fatal` (the GPU or node must be mended), `marginal` (a person looks), `note` (told only).

    `by_text`: the driver says Fatal or Nonfatal in the line itself, and only a fatal one is.
    """

    number: int
    name: str
    meaning: Literal["fatal", "marginal", "note"]
    action: str
    source: str
    by_text: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class XidCatalogue:
    """Every XID that is known; one that is not counts as marginal."""

    xids: tuple[XidRule, ...]

    def __post_init__(self) -> None:
        numbers = [rule.number for rule in self.xids]
        twice = sorted({number for number in numbers if numbers.count(number) > 1})
        if twice or not numbers:
            raise InputError("recipes/xid.yaml", f"XIDs given twice: {twice}." if twice else "lists no XID.")

    def rule(self, number: int) -> XidRule | None:
        """Return what is known about that XID."""
        return next((rule for rule in self.xids if rule.number == number), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeRules:
    """Limits and catalogue together; they are saved with the observation, so that a verdict can be computed again."""

    limits: NodeLimits
    catalogue: XidCatalogue


@cache
def load_node_rules(recipes: Path = RECIPES) -> NodeRules:
    """Return the rules that this release ships.

    Raises:
        InputError: a file is missing or invalid.
    """
    limits, catalogue = recipes / "thresholds" / "nodes.yaml", recipes / "xid.yaml"
    return NodeRules(
        limits=decode(NodeLimits, read_yaml(limits), str(limits)),
        catalogue=decode(XidCatalogue, read_yaml(catalogue), str(catalogue)),
    )
