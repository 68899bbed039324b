# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Lines of the kernel log in which the GPU driver reports why it does not start a GPU; none of them is an XID.

Sources: NVIDIA/open-gpu-kernel-modules#1027 and #1151 (`RmInitAdapter failed`, "requires use of the NVIDIA open kernel
modules"), NVIDIA/nvtrust#58 (`Cannot initialize GSP firmware RM`, `FSP command timed out`), NVIDIA/nvtrust#55 ("is not
supported by the NVIDIA 550.90.07 driver release"), kernel-open/nvidia of the first (other sentences).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from ..outcome.errors import InputError
from .text import pci_address

StartTrouble = Literal["module-kind", "driver-release", "bar", "fsp", "gsp", "versions", "init"]
# The first that a GPU has is what its start ended with; `init` is the consequence of any of them.
_KINDS: tuple[tuple[StartTrouble, re.Pattern[str]], ...] = (
    ("module-kind", re.compile(r"requires use of the NVIDIA open kernel modules|is not supported by open\b")),
    ("driver-release", re.compile(r"is not supported by the NVIDIA \S+ driver release|is not supported by the\s*$")),
    ("bar", re.compile(r"PCI I/O region assigned to your NVIDIA device is invalid")),
    ("fsp", re.compile(r"FSP command timed out|kfsp\w+: .*(?:failed|timed out)", re.I)),
    ("gsp", re.compile(r"Cannot initialize GSP firmware|GSP firmware .*(?:failed|missing)|Failed to load .*gsp", re.I)),
    ("versions", re.compile(r"API mismatch: the client has the version")),
    ("init", re.compile(r"RmInitAdapter failed|rm_init_adapter failed|probe routine failed for")),
)
_ADDRESS = re.compile(r"\bGPU (?:at PCI:)?([0-9a-fA-F]{4,8}:[0-9a-fA-F]{2}:[0-9a-fA-F]{2}\.[0-7])")
# A sentence about a GPU goes over several lines, and only the first one names the GPU.
_SENTENCE_LINES = 3


@dataclass(frozen=True, slots=True)
class StartFailure:
    """One line about a GPU that was not started; `address` is empty where no line near it names the GPU, `line` is its
    place in the log."""

    kind: StartTrouble
    address: str
    text: str
    line: int


def start_failures(messages: Sequence[str]) -> tuple[StartFailure, ...]:
    """Return what the driver reports of GPUs that it does not start, in the order of the log."""
    found: list[StartFailure] = []
    address, named_at = "", -_SENTENCE_LINES
    for number, message in enumerate(messages):
        if "NVRM: " not in message:
            continue
        if named := _ADDRESS.search(message):
            address, named_at = _short(named.group(1)), number
        kind = next((kind for kind, pattern in _KINDS if pattern.search(message)), None)
        if kind is not None:
            near = address if number - named_at < _SENTENCE_LINES else ""
            found.append(StartFailure(kind, near, message.partition("NVRM: ")[2].strip()[:200], number))
    return tuple(found)


def _short(text: str) -> str:
    try:
        return pci_address(text)
    except InputError:
        return text.lower()
