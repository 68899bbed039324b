# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Parser of the files of adapters below /sys/class/infiniband, as `grep -s ""` prints them (Linux:
Documentation/ABI/stable/sysfs-class-infiniband)."""

from __future__ import annotations

import re
from dataclasses import dataclass

from .text import guid, guid_text, plain, unreadable

TOOL = 'grep -s "" /sys/class/infiniband/*/...'
NONE = "no adapters"
_LINE = re.compile(
    r"/sys/class/infiniband/(?P<name>[^/]+)/(?P<file>fw_ver|hca_type|node_guid|ports/\d+/link_layer):(?P<value>.*)"
)


@dataclass(frozen=True, slots=True)
class Adapter:
    """One adapter. A field without a file of its driver is empty."""

    kind: str
    firmware: str
    node_guid: str
    link_layers: tuple[str, ...]


def parse(text: str) -> dict[str, Adapter]:
    """Return the adapters by name; empty if the kernel has none.

    Raises:
        InputError: no text, or a line of another kind.
    """
    lines = plain(text).strip().splitlines()
    if lines == [NONE]:
        return {}
    reported: dict[str, dict[str, str]] = {}
    for line in lines:
        match = _LINE.fullmatch(line)
        if match is None:
            raise unreadable(TOOL, line, "ADAPTER/FILE:VALUE")
        reported.setdefault(match["name"], {})[match["file"]] = match["value"].strip()
    if not reported:
        raise unreadable(TOOL, "no adapter", f"at least one, or {NONE!r}")
    return {name: _adapter(files) for name, files in sorted(reported.items())}


def _adapter(files: dict[str, str]) -> Adapter:
    layers = sorted({value for name, value in files.items() if name.startswith("ports/")})
    # sysfs groups its digits: 506b:4b03:00d2:1b4a.
    digits = files.get("node_guid", "").replace(":", "")
    known = guid_text(guid(digits, TOOL)) if digits else ""
    return Adapter(files.get("hca_type", ""), files.get("fw_ver", ""), known, tuple(layers))
