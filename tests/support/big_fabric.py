# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the InfiniBand tools print of a healthy fabric of any size: one leaf for 32 hosts of a rail, and spines.

The lines are those of infiniband-diags as the real tools print them over ibsim in a rehearsal.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.collect.host_evidence import ToolRun

_HOSTS_OF_LEAF, _TRUNKS, _LINKS_OF_SPINE = 32, 2, 64
_MASTER, _STANDBY = 1, 2
_FIRST_LID = 3


def guid_of_host(number: int) -> str:
    """Return how the GUIDs of a host's adapters begin."""
    return f"0x9c0591{number:08x}"


def with_guids(ibstat: str) -> str:
    """Return what `ibstat` prints of the first host, with a GUID for each port."""
    adapter = iter(range(256))
    return re.sub(
        r"(\t\tLink layer:)", lambda found: f"\t\tPort GUID: {guid_of_host(0)}{next(adapter):02x}\n{found[1]}", ibstat
    )


def fabric_tools(hosts: Sequence[str], rails: Sequence[str]) -> dict[str, ToolRun]:
    """Return what the tools of one host say of the fabric of all hosts, whose adapters are `rails`."""
    lines = list(_cables(hosts, rails))
    end = "## Thresholds: \n## Suppressed:\n"
    devices = len({line[0] for line in lines})
    links = "".join(_link(*line) for line in lines)
    errors = (
        f"\n## Summary: {devices} nodes checked, 0 bad nodes found\n"
        f"##          {len(lines)} ports checked, 0 ports have errors beyond threshold\n{end}"
    )
    managers = "".join(f"PortInfoRecord dump:\n\t\tEndPortLid..............{lid}\n" for lid in (_MASTER, _STANDBY))
    said = {
        "iblinkinfo": links, "iblinkinfo_again": links, "ibqueryerrors": errors, "ibqueryerrors_again": errors,
        "saquery": f"IsSM ports\n{managers}\nIsSMdisabled ports\n", "sminfo": _manager(_MASTER, 100, "3 SMINFO_MASTER"),
        "sminfo_again": _manager(_MASTER, 120, "3 SMINFO_MASTER"),
        "sminfo_1": _manager(_MASTER, 121, "3 SMINFO_MASTER"),
        "sminfo_2": _manager(_STANDBY, 50, "2 SMINFO_STANDBY"),
    }  # fmt: skip
    return {name: ToolRun(argv=(name.partition("_")[0],), rc=0, stdout=text) for name, text in said.items()}


def _manager(lid: int, activity: int, state: str) -> str:
    return (
        f"sminfo: sm lid {lid} sm guid 0x248a0700ffffff{lid:02x}, activity count {activity} priority 15 state {state}\n"
    )


_End = tuple[str, str, int, int]
"""GUID, name, LID and port."""


def _cables(hosts: Sequence[str], rails: Sequence[str]) -> Iterator[tuple[str, str, int, int, str, str, int, int]]:
    """Yield both ends of every cable, each once as the near one."""
    leaves = -(-len(hosts) // _HOSTS_OF_LEAF)
    first_leaf = _FIRST_LID + len(hosts) * len(rails)
    for rail in range(len(rails)):
        for number, host in enumerate(hosts):
            lid = _FIRST_LID + number * len(rails) + rail
            near = (f"{guid_of_host(number)}{rail:02x}", f"{host} {rails[rail]}", lid, 1)
            group, port = divmod(number, _HOSTS_OF_LEAF)
            yield from _both(near, _switch("leaf", rail * leaves + group, first_leaf, port + 1))
        for trunk in range(leaves * _TRUNKS):
            spine, port = divmod(rail * leaves * _TRUNKS + trunk, _LINKS_OF_SPINE)
            leaf = _switch("leaf", rail * leaves + trunk // _TRUNKS, first_leaf, _HOSTS_OF_LEAF + 1 + trunk % _TRUNKS)
            yield from _both(leaf, _switch("spine", spine, first_leaf + leaves * len(rails), port + 1))


def _switch(kind: str, number: int, first_lid: int, port: int) -> _End:
    return f"0x248a07{'01' if kind == 'leaf' else '02'}{number:08x}", f"{kind}{number}", first_lid + number, port


def _both(near: _End, far: _End) -> Iterator[tuple[str, str, int, int, str, str, int, int]]:
    yield (*near, *far)
    yield (*far, *near)


def _link(
    guid: str, name: str, lid: int, port: int, peer_guid: str, peer_name: str, peer_lid: int, peer_port: int
) -> str:
    return (
        f'{guid} "{name:>30}" {lid:6} {port:4}[  ] ==( 4X        106.25 Gbps Active/  LinkUp)==>  '
        f'{peer_guid} {peer_lid:6} {peer_port:4}[  ] "{peer_name}" ( )\n'
    )
