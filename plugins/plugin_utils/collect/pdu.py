# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""What a rack PDU says of its inputs, its outlets and its load, read by following links from the service root.

`PowerEquipment` links the RackPDUs (DMTF DSP2056); an older root links them itself as `PowerDistribution` (HPE G2). One
service may speak for several units in a chain: all of them are read.
"""

from __future__ import annotations

from ..outcome.errors import InputError
from ..probe.redfish_json import Resource, link
from ..probe.redfish_pdu import Pdu, parse_pdu
from .bmc import Get, every_member, needed_link


def read_pdus(root: Resource, get: Get) -> tuple[Pdu, ...]:
    """Return every unit that the service speaks for.

    Raises:
        InputError: it has none, or one is not what a Redfish service writes.
        RedfishError: what `get` raises.
    """
    equipment = link(root, "PowerEquipment")
    collection = needed_link(get(equipment), "RackPDUs") if equipment else needed_link(root, "PowerDistribution")
    found = []
    for _path, body in every_member(get, collection):
        parts = {name: link(body, name) for name in ("Mains", "Outlets", "Metrics")}
        mains, outlets = (
            tuple(entry for _at, entry in every_member(get, parts[name])) if parts[name] else ()
            for name in ("Mains", "Outlets")
        )
        found.append(parse_pdu(body, mains, outlets, get(parts["Metrics"]) if parts["Metrics"] else None))
    if not found:
        raise InputError(f"Redfish collection {collection}"[:200], "has no PDU.")
    return tuple(found)
