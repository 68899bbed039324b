# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""What a simulated rack PDU answers, after DMTF DSP2056 (Redfish for power distribution equipment): PowerEquipment with
one RackPDU, its mains of three phases, outlets of which some are not used, and metrics."""

from __future__ import annotations

from ..model.bmc import RackUnit
from .payloads import ROOT, Json, Tree, service_root

_EQUIPMENT = f"{ROOT}/PowerEquipment"
_UNIT = f"{_EQUIPMENT}/RackPDUs/1"
_OUTLETS = 4
FEEDS = ("A", "B")


def pdu_name(rack: str, number: int) -> str:
    """Return the name of a rack's PDU, as in the drawn facility record."""
    return f"{rack}-pdu-{FEEDS[number].lower()}"


def pdu_tree(unit: RackUnit) -> Tree:
    """Return every resource of the service by its path."""
    status = {"State": "Enabled", "Health": unit.health}
    mains, outlets = f"{_UNIT}/Mains/AC1", [f"{_UNIT}/Outlets/A{number}" for number in range(1, _OUTLETS + 1)]
    phases = {f"Line{number}ToNeutral": {"Reading": unit.volts} for number in (1, 2, 3)}
    tree: Tree = {
        ROOT: service_root({"PowerEquipment"}),
        _EQUIPMENT: {
            "@odata.id": _EQUIPMENT, "Id": "PowerEquipment", "RackPDUs": {"@odata.id": f"{_EQUIPMENT}/RackPDUs"},
        },
        _UNIT: {
            "@odata.id": _UNIT, "@odata.type": "#PowerDistribution.v1_3_0.PowerDistribution", "Id": "1",
            "EquipmentType": "RackPDU", "Name": "RackPDU", "Status": status,
            **{name: {"@odata.id": f"{_UNIT}/{name}"} for name in ("Mains", "Outlets", "Metrics")},
        },
        mains: {
            "@odata.id": mains, "@odata.type": "#Circuit.v1_7_0.Circuit", "Id": "AC1", "Status": status,
            "NominalVoltage": "AC230V", "RatedCurrentAmps": 63, "BreakerState": unit.breaker,
            "PolyPhaseVoltage": phases, "PowerWatts": {"Reading": unit.watts},
        },
        f"{_UNIT}/Metrics": {
            "@odata.id": f"{_UNIT}/Metrics", "Id": "Metrics", "PowerWatts": {"Reading": unit.watts},
        },
        **_collection(f"{_EQUIPMENT}/RackPDUs", [_UNIT]),
        **_collection(f"{_UNIT}/Mains", [mains]),
        **_collection(f"{_UNIT}/Outlets", outlets),
    }  # fmt: skip
    for number, path in enumerate(outlets):
        tree[path] = {
            "@odata.id": path, "Id": path.rpartition("/")[2], "Status": status,
            "PowerState": "On" if number % 2 == 0 else "Off", "PowerWatts": {"Reading": unit.watts / 2},
        }  # fmt: skip
    return tree


def _collection(path: str, members: list[str]) -> dict[str, Json]:
    entries = [{"@odata.id": entry} for entry in members]
    return {path: {"@odata.id": path, "Members": entries, "Members@odata.count": len(entries)}}
