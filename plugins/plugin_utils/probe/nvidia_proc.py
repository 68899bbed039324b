# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Parser of the files below /proc/driver/nvidia, as `grep -s "" version gpus/*/information` prints them.

The driver writes them, and they are readable without a query to the driver (NVIDIA/open-gpu-kernel-modules,
kernel-open/nvidia/nv-procfs.c; gpuInfoFrom of NVIDIA/go-nvlib): the release, and model, UUID and VBIOS of every GPU.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from .text import pci_address, plain, unreadable

TOOL = 'grep -s "" /proc/driver/nvidia/version /proc/driver/nvidia/gpus/*/information'
NONE = "no driver"
_LINE = re.compile(r"/proc/driver/nvidia/(?P<file>version|gpus/[^/:]+(?::[^/]+)?/information):(?P<text>.*)")
_RELEASE = re.compile(r"NVRM version:.*Kernel Module(?: for \S+)?\s+(?P<release>\d+(?:\.\d+){1,3})\b")


@dataclass(frozen=True, slots=True)
class DriverGpu:
    """One GPU. A value that the driver could not read is empty."""

    product: str
    uuid: str
    vbios: str


@dataclass(frozen=True, slots=True)
class DriverFiles:
    """Release of the loaded driver, empty if there is none, and its GPUs by PCI address."""

    release: str
    gpus: dict[str, DriverGpu]


def parse(text: str) -> DriverFiles:
    """Return the content of the files.

    Raises:
        InputError: no release, a GPU without a model, or a line of another kind.
    """
    release, fields = "", dict[str, dict[str, str]]()
    lines = plain(text).strip().splitlines()
    if lines == [NONE]:
        return DriverFiles("", {})
    for line in lines:
        match = _LINE.fullmatch(line)
        if match is None:
            raise unreadable(TOOL, line, "lines of version and information")
        if match["file"] == "version":
            found = _RELEASE.search(match["text"])
            release = found["release"] if found else release
            continue
        name, _colon, value = match["text"].partition(":")
        place = pci_address(match["file"].split("/")[1])
        fields.setdefault(place, {})[name.strip()] = value.strip()
    if not release:
        raise unreadable(TOOL, "no release", "a line NVRM version: ... Kernel Module RELEASE")
    return DriverFiles(release, {place: _gpu(place, reported) for place, reported in sorted(fields.items())})


def _gpu(place: str, reported: dict[str, str]) -> DriverGpu:
    if not reported.get("Model"):
        raise unreadable(TOOL, f"no Model of {place}", "a line Model: of every GPU")
    # The driver writes question marks for a value that it cannot read.
    known = {name: "" if "?" in value else value for name, value in reported.items()}
    return DriverGpu(reported["Model"], known.get("GPU UUID", ""), known.get("Video BIOS", ""))
