# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Parser of `rdma link` (iproute2), as text or with `-j`: state and network device of every RDMA port."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from .json_output import a_list, an_object, read_json, words
from .text import plain, unreadable

TOOL = "rdma link"
# Older releases number the ports: `1/1: mlx5_0/1: state ACTIVE`.
_LINK = re.compile(r"(?:link |\d{1,5}/\d{1,3}: )([\w.-]{1,40})/(\d{1,3}):? (.+)")


@dataclass(frozen=True, slots=True)
class RdmaLink:
    """One port. `netdev` is empty where the kernel has no network device for it."""

    device: str
    port: int
    state: str
    physical_state: str
    netdev: str = ""

    @property
    def up(self) -> bool:
        """Whether it carries data."""
        return self.state == "ACTIVE" and self.physical_state == "LINK_UP"


def parse(text: str) -> tuple[RdmaLink, ...]:
    """Return the ports in the tool's order.

    Raises:
        InputError: no port, one twice, one without its states, or a line of another kind.
    """
    # As JSON all ports are on one line.
    json = text.lstrip()[:1] == "["
    found = (
        _from_json(text) if json else tuple(_link(line.strip()) for line in plain(text).splitlines() if line.strip())
    )
    if not found:
        raise unreadable(TOOL, text[:80], "at least one port")
    if len({(link.device, link.port) for link in found}) < len(found):
        raise unreadable(TOOL, "a port twice", "every port once")
    return found


def _link(line: str) -> RdmaLink:
    match = _LINK.fullmatch(line)
    if match is None:
        raise unreadable(TOOL, line, "`link mlx5_0/1 state ACTIVE physical_state LINK_UP netdev eth0`")
    parts = match.group(3).split()
    if len(parts) % 2:
        raise unreadable(TOOL, line, "names and values in turn")
    return _made(match.group(1), int(match.group(2)), dict(zip(parts[::2], parts[1::2], strict=True)))


def _from_json(text: str) -> tuple[RdmaLink, ...]:
    found = []
    for value in a_list(read_json(text, TOOL), TOOL, "the document"):
        entry = an_object(value, TOOL, "a port")
        port = entry.get("port")
        if isinstance(port, bool) or not isinstance(port, int):
            raise unreadable(TOOL, f"port {port!r}", "the number of a port")
        found.append(_made(words(entry, "ifname", TOOL), port, entry))
    return tuple(found)


def _made(device: str, port: int, fields: dict[str, Any]) -> RdmaLink:
    state, physical = words(fields, "state", TOOL), words(fields, "physical_state", TOOL)
    if not (device and state and physical):
        raise unreadable(TOOL, f"{device}/{port} with state {state!r} and {physical!r}", "state and physical_state")
    return RdmaLink(device, port, state, physical, words(fields, "netdev", TOOL))
