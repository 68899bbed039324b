# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Resources of simulated BMCs and rack PDUs: a Redfish service by path, in the format of the schemas."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from ..model.bmc import Bmc, BmcFan, RackUnit, Supply

# Resources of a simulated BMC: a Redfish service by path, in the format of the schemas.
#
# Written after public mock-ups: public-rackmount1 of DMTF/Redfish-Mockup-Server (PowerSubsystem, ThermalSubsystem; also
# that a bay without a supply reports only its absence), Dell's Power and Thermal in influxdata/telegraf
# (plugins/inputs/redfish/testdata), Supermicro's GB300 tray in spyroot/redfish_ctl (tests/supermicro_fixtures: an empty
# collection of supplies, fans and board inlets among the sensors, no intake of the chassis), the firmware ids of a DGX
# in NVIDIA/bare-metal-manager-core.

Json = dict[str, Any]
Tree = dict[str, Json]
ROOT, SESSIONS = "/redfish/v1", "/redfish/v1/SessionService/Sessions"
_CHASSIS, _SYSTEM, _MANAGER = f"{ROOT}/Chassis/Chassis_0", f"{ROOT}/Systems/System_0", f"{ROOT}/Managers/BMC"
_THERMAL = f"{_CHASSIS}/ThermalSubsystem"
# Page size of a log: OpenBMC returns at most so many entries at once.
_PAGE = 50


def tree_of(bmc: Bmc, serial: str, now: datetime | None = None) -> Tree:
    """Return every resource of the service by path, without a slash at its end."""
    at = now or datetime.now(UTC)
    tree: Tree = {
        ROOT: service_root({"Chassis", "Systems", "Managers", "UpdateService"}),
        **_collection(f"{ROOT}/Chassis", "ChassisCollection", [_CHASSIS]),
        **_collection(f"{ROOT}/Systems", "ComputerSystemCollection", [_SYSTEM]),
        **_collection(f"{ROOT}/Managers", "ManagerCollection", [_MANAGER]),
        _SYSTEM: {
            **_head(_SYSTEM, "ComputerSystem.v1_20_0.ComputerSystem"), "SerialNumber": serial, "PowerState": "On",
            "Status": _status("Enabled", "OK"), "LogServices": _link(f"{_SYSTEM}/LogServices"),
        },
        _MANAGER: {
            **_head(_MANAGER, "Manager.v1_18_0.Manager"), "ManagerType": "BMC", "Status": _status("Enabled", "OK"),
            "LogServices": _link(f"{_MANAGER}/LogServices"),
        },
        **_collection(f"{_MANAGER}/LogServices", "LogServiceCollection", [f"{_MANAGER}/LogServices/Journal"]),
        **_logs(bmc, at),
        **_firmware(bmc),
    }  # fmt: skip
    chassis = {
        **_head(_CHASSIS, "Chassis.v1_23_0.Chassis"), "ChassisType": "RackMount", "SerialNumber": serial,
        "Status": _status("Enabled", "OK"), "PowerState": "On",
    }  # fmt: skip
    makers = {"subsystem": _subsystem, "classic": _classic, "tray": _tray}
    more, parts = _domains(bmc) if bmc.domains else makers[bmc.schema](bmc)
    if bmc.leaks:
        parts |= _leaks(bmc, parts)
        more["ThermalSubsystem"] = _link(_THERMAL)
    return {**tree, _CHASSIS: {**chassis, **more}, **parts}


def service_root(names: set[str]) -> Json:
    """Return a service root that links these collections and its sessions."""
    return {
        "@odata.id": f"{ROOT}/", "@odata.type": "#ServiceRoot.v1_15_0.ServiceRoot", "Id": "RootService",
        "Name": "Root Service", "RedfishVersion": "1.15.0", "Links": {"Sessions": _link(SESSIONS)},
        "SessionService": _link(f"{ROOT}/SessionService"),
        **{name: _link(f"{ROOT}/{name}") for name in sorted(names)},
    }  # fmt: skip


def _subsystem(bmc: Bmc) -> tuple[Json, Tree]:
    power, thermal = f"{_CHASSIS}/PowerSubsystem", f"{_CHASSIS}/ThermalSubsystem"
    bays = [f"{power}/PowerSupplies/PSU{number}" for number in range(len(bmc.supplies))]
    tree: Tree = {
        power: {
            **_head(power, "PowerSubsystem.v1_1_0.PowerSubsystem"), "Status": _status("Enabled", "OK"),
            "CapacityWatts": bmc.supply_w * len(bays), "PowerSupplies": _link(f"{power}/PowerSupplies"),
            "PowerSupplyRedundancy": [
                {
                    "RedundancyType": bmc.redundancy, "MinNeededInGroup": 4, "MaxSupportedInGroup": len(bays),
                    "RedundancyGroup": [_link(path) for path in bays],
                    "Status": _status("Enabled", bmc.redundancy_health),
                }
            ],
        },
        thermal: {
            **_head(thermal, "ThermalSubsystem.v1_1_0.ThermalSubsystem"), "Status": _status("Enabled", "OK"),
            "Fans": _link(f"{thermal}/Fans"), "ThermalMetrics": _link(f"{thermal}/ThermalMetrics"),
        },
        f"{thermal}/ThermalMetrics": {
            **_head(f"{thermal}/ThermalMetrics", "ThermalMetrics.v1_1_0.ThermalMetrics"),
            "TemperatureSummaryCelsius": {"Intake": {"Reading": bmc.inlet_c}, "Exhaust": {"Reading": 41.5}},
            "TemperatureReadingsCelsius": [{"DeviceName": "CPU 0", "Reading": 55.0}],
        },
        **_collection(f"{power}/PowerSupplies", "PowerSupplyCollection", bays),
        **_collection(f"{thermal}/Fans", "FanCollection", [f"{thermal}/Fans/Fan{n}" for n in range(len(bmc.fans))]),
    }  # fmt: skip
    for number, (path, supply) in enumerate(zip(bays, bmc.supplies, strict=True)):
        tree |= _bay(path, f"PSU{number}", supply, bmc.supply_w)
    for number, fan in enumerate(bmc.fans):
        path = f"{thermal}/Fans/Fan{number}"
        tree[path] = {
            **_head(path, "Fan.v1_3_0.Fan"), "Status": _status(fan.state, fan.health),
            "SpeedPercent": {"Reading": round(fan.rpm / 200), "SpeedRPM": fan.rpm},
        }  # fmt: skip
    return {"PowerSubsystem": _link(power), "ThermalSubsystem": _link(thermal)}, tree


def _bay(path: str, name: str, supply: Supply, watts: int) -> Tree:
    head = {**_head(path, "PowerSupply.v1_5_0.PowerSupply"), "Name": f"Power Supply {name}"}
    if supply.state == "Absent":
        return {path: {**head, "Status": {"State": "Absent"}}}
    carries = supply.state == "Enabled" and supply.input_v > 0
    return {
        path: {
            **head, "Status": _status(supply.state, supply.health), "LineInputStatus": supply.line_input,
            "PowerCapacityWatts": watts, "Metrics": _link(f"{path}/Metrics"), "FirmwareVersion": "0202",
        },
        f"{path}/Metrics": {
            **_head(f"{path}/Metrics", "PowerSupplyMetrics.v1_0_1.PowerSupplyMetrics"),
            "InputVoltage": {"Reading": supply.input_v},
            "InputPowerWatts": {"Reading": round(watts * 0.2) if carries else 0},
            "OutputPowerWatts": {"Reading": round(watts * 0.19) if carries else 0},
        },
    }  # fmt: skip


def _classic(bmc: Bmc) -> tuple[Json, Tree]:
    power, thermal = f"{_CHASSIS}/Power", f"{_CHASSIS}/Thermal"
    supplies: list[Json] = [
        {
            "@odata.id": f"{power}#/PowerSupplies/{number}", "MemberId": str(number), "Name": f"PSU{number}",
            "Status": {"State": "Absent"} if supply.state == "Absent" else _status(supply.state, supply.health),
            "LineInputVoltage": supply.input_v, "PowerCapacityWatts": bmc.supply_w, "PowerSupplyType": "AC",
            "LastPowerOutputWatts": round(bmc.supply_w * 0.19),
        }
        for number, supply in enumerate(bmc.supplies)
    ]  # fmt: skip
    group = {
        "@odata.id": f"{power}#/Redundancy/0", "MemberId": "0", "Name": "PowerSupply Redundancy",
        "Mode": "N+m" if bmc.redundancy == "NPlusM" else bmc.redundancy, "MinNumNeeded": 4,
        "MaxNumSupported": len(supplies), "RedundancySet": [_link(entry["@odata.id"]) for entry in supplies],
        "Status": _status("Enabled", bmc.redundancy_health),
    }  # fmt: skip
    temperatures = [
        _temperature(thermal, 0, "System Board Inlet Temp", "SystemBoard", bmc.inlet_c, 43),
        _temperature(thermal, 1, "CPU1 Temp", "CPU", 55.0, 98),
    ]
    return {"Power": _link(power), "Thermal": _link(thermal)}, {
        power: {**_head(power, "Power.v1_7_1.Power"), "PowerSupplies": supplies, "Redundancy": [group]},
        thermal: {
            **_head(thermal, "Thermal.v1_7_1.Thermal"), "Temperatures": temperatures,
            "Fans": [
                {
                    "@odata.id": f"{thermal}#/Fans/{number}", "MemberId": str(number), "Name": f"Fan {number}",
                    "Status": _status(fan.state, fan.health), "Reading": fan.rpm, "ReadingUnits": "RPM",
                    "LowerThresholdCritical": 600,
                }
                for number, fan in enumerate(bmc.fans)
            ],
        },
    }  # fmt: skip


def _domains(bmc: Bmc) -> tuple[Json, Tree]:
    """Return power and air of an HPE host.

    Its PowerSubsystem has groups of empty objects, and Power has the names.
    """
    newer, tree = _subsystem(bmc)
    older, more = _classic(bmc)
    tree |= more
    power, subsystem = f"{_CHASSIS}/Power", f"{_CHASSIS}/PowerSubsystem"
    supplies, names = tree[power]["PowerSupplies"], list(dict.fromkeys(bmc.domains))
    for entry, domain in zip(supplies, bmc.domains, strict=True):
        entry["Oem"] = {"Hpe": {"BayNumber": int(entry["MemberId"]) + 1, "Domain": domain, "Mismatched": False}}
    members = {
        name: [_link(entry["@odata.id"]) for entry in supplies if entry["Oem"]["Hpe"]["Domain"] == name]
        for name in names
    }
    # iLO reports 2 needed of 2 for supplies that may fail one by one.
    group = {**tree[power]["Redundancy"][0], "Mode": "Failover"}
    tree[power]["Redundancy"] = [
        {**group, "Name": f"{name} PowerSupply Redundancy", "RedundancySet": found, "MinNumNeeded": len(found)}
        for name, found in members.items()
    ]
    tree[power]["Oem"] = {"Hpe": {"Domains": [
        {
            "DomainName": name, "PowerSupplies": found, "Status": {"Health": bmc.redundancy_health},
            "PowerSupplyRedundancy": bmc.domain_words.get(name, "Redundant"),
        }
        for name, found in members.items()
    ]}}  # fmt: skip
    tree[subsystem]["PowerSupplyRedundancy"] = [
        {
            "RedundancyType": "Failover", "MinNeededInGroup": len(found), "MaxSupportedInGroup": len(found),
            "RedundancyGroup": [{}] * len(found), "Status": _status("Enabled", bmc.redundancy_health),
        }
        for found in members.values()
    ]  # fmt: skip
    return {**newer, **older}, tree


def _temperature(thermal: str, number: int, name: str, context: str, value: float, critical: int) -> Json:
    return {
        "@odata.id": f"{thermal}#/Temperatures/{number}", "MemberId": str(number), "Name": name,
        "PhysicalContext": context, "ReadingCelsius": value, "Status": _status("Enabled", "OK"),
        "UpperThresholdNonCritical": critical - 5, "UpperThresholdCritical": critical,
    }  # fmt: skip


def _tray(bmc: Bmc) -> tuple[Json, Tree]:
    power, sensors = f"{_CHASSIS}/PowerSubsystem", f"{_CHASSIS}/Sensors"
    thermal = f"{_CHASSIS}/ThermalSubsystem"
    tree: Tree = {
        power: {
            **_head(power, "PowerSubsystem.v1_1_0.PowerSubsystem"), "Status": _status("Enabled", "OK"),
            "PowerSupplies": _link(f"{power}/PowerSupplies"),
        },
        **_collection(f"{power}/PowerSupplies", "PowerSupplyCollection", []),
        thermal: {
            **_head(thermal, "ThermalSubsystem.v1_1_0.ThermalSubsystem"), "Status": _status("Enabled", "OK"),
            "Fans": _link(f"{thermal}/Fans"), "ThermalMetrics": _link(f"{thermal}/ThermalMetrics"),
        },
        **_collection(f"{thermal}/Fans", "FanCollection", []),
        f"{thermal}/ThermalMetrics": {
            **_head(f"{thermal}/ThermalMetrics", "ThermalMetrics.v1_0_0.ThermalMetrics"),
            "TemperatureReadingsCelsius": [{"DeviceName": "BMC_0_DCSCM_Temp_0", "Reading": 31.6}],
        },
    }  # fmt: skip
    found = {
        f"Chassis_0_FAN_{number}_FRONT": _sensor("RPM", fan.rpm, fan, {})
        for number, fan in enumerate(bmc.fans, 1)
    } | {
        "PDB_0_Inlet_Temp_0": _sensor("Cel", bmc.inlet_c + 13.4, BmcFan(), {"UpperCritical": {"Reading": 83.0}}),
        "Chassis_0_FAN_1_PWM": _sensor("%", 40, BmcFan(), {}),
    }  # fmt: skip
    paths = {name: f"{sensors}/{name}" for name in found}
    tree |= {
        path: {**_head(path, "Sensor.v1_7_0.Sensor"), "Name": name.replace("_", " "), **found[name]}
        for name, path in paths.items()
    }
    more = {"PowerSubsystem": _link(power), "ThermalSubsystem": _link(thermal), "Sensors": _link(sensors)}
    return more, {**tree, **_collection(sensors, "SensorCollection", list(paths.values()))}


def _leaks(bmc: Bmc, parts: Tree) -> Tree:
    """Return the leak detectors of a host: a cold plate and a manifold for each of its halves."""
    base = f"{_THERMAL}/LeakDetection"
    places = ("0_ColdPlate", "0_Manifold", "1_ColdPlate", "1_Manifold")
    names = [f"Chassis_0_LeakDetector_{place}" for place in places[: len(bmc.leaks)]]
    paths = [f"{base}/LeakDetectors/{name}" for name in names]
    known = parts.get(_THERMAL, _head(_THERMAL, "ThermalSubsystem.v1_1_0.ThermalSubsystem"))
    tree: Tree = {
        _THERMAL: {**known, "LeakDetection": _link(base)},
        base: {
            **_head(base, "LeakDetection.v1_0_1.LeakDetection"), "Status": _status("Enabled", "OK"),
            "LeakDetectors": _link(f"{base}/LeakDetectors"),
        },
        **_collection(f"{base}/LeakDetectors", "LeakDetectorCollection", paths),
    }  # fmt: skip
    for path, name, state in zip(paths, names, bmc.leaks, strict=True):
        tree[path] = {
            **_head(path, "LeakDetector.v1_1_0.LeakDetector"), "Name": name.replace("_", " "),
            "LeakDetectorType": "Moisture", "DetectorState": state, "Status": _status("Enabled", state),
        }  # fmt: skip
    return tree


def _sensor(units: str, value: float, part: BmcFan, limits: Json) -> Json:
    body = {"ReadingUnits": units, "Reading": value, "Status": _status(part.state, part.health)}
    return {**body, **({"Thresholds": limits} if limits else {})}


def _logs(bmc: Bmc, now: datetime) -> Tree:
    service = f"{_SYSTEM}/LogServices/SEL"
    entries = [
        {
            "@odata.id": f"{service}/Entries/{number}", "@odata.type": "#LogEntry.v1_15_0.LogEntry", "Id": str(number),
            "Created": (now - timedelta(days=event.days_ago)).isoformat(timespec="seconds"), "EntryType": "SEL",
            "Severity": event.severity, "Message": event.message, "MessageId": event.message_id,
        }
        for number, event in enumerate(bmc.events, 1)
    ]  # fmt: skip
    tree: Tree = {
        **_collection(
            f"{_SYSTEM}/LogServices", "LogServiceCollection", [service, f"{_SYSTEM}/LogServices/PostCodes"]
        ),
        service: {
            **_head(service, "LogService.v1_4_0.LogService"), "Entries": _link(f"{service}/Entries"),
            "Status": _status("Enabled", "OK"),
        },
    }  # fmt: skip
    for begin in range(0, max(1, len(entries)), _PAGE):
        path = f"{service}/Entries" + (f"?$skip={begin}" if begin else "")
        page: Json = {
            **_head(f"{service}/Entries", "LogEntryCollection.LogEntryCollection"),
            "Members": entries[begin : begin + _PAGE], "Members@odata.count": len(entries),
        }  # fmt: skip
        if begin + _PAGE < len(entries):
            page["Members@odata.nextLink"] = f"{service}/Entries?$skip={begin + _PAGE}"
        tree[path] = page
    return tree


def _firmware(bmc: Bmc) -> Tree:
    base = f"{ROOT}/UpdateService/FirmwareInventory"
    tree: Tree = {
        f"{ROOT}/UpdateService": {
            **_head(f"{ROOT}/UpdateService", "UpdateService.v1_11_2.UpdateService"), "FirmwareInventory": _link(base),
        },
        **_collection(base, "SoftwareInventoryCollection", [f"{base}/{name}" for name in bmc.firmware]),
    }  # fmt: skip
    for name, version in bmc.firmware.items():
        head = _head(f"{base}/{name}", "SoftwareInventory.v1_4_0.SoftwareInventory")
        tree[f"{base}/{name}"] = {**head, "Version": version, "Status": _status("Enabled", "OK"), "Updateable": True}
    return tree


def _collection(path: str, kind: str, members: list[str]) -> Tree:
    body = {**_head(path, f"{kind}.{kind}"), "Members": [_link(entry) for entry in members]}
    return {path: {**body, "Members@odata.count": len(members)}}


def _head(path: str, kind: str) -> Json:
    name = path.rpartition("/")[2]
    return {"@odata.id": path, "@odata.type": f"#{kind}", "Id": name, "Name": name}


def _link(path: str) -> Json:
    return {"@odata.id": path}


def _status(state: str, health: str) -> Mapping[str, str]:
    return {"State": state, "Health": health}


# Resources of a simulated rack PDU, after DMTF DSP2056 (Redfish for power distribution equipment): PowerEquipment with
# one RackPDU, three-phase mains, partly unused outlets, and metrics.

_EQUIPMENT = f"{ROOT}/PowerEquipment"
_UNIT = f"{_EQUIPMENT}/RackPDUs/1"
_OUTLETS = 4
FEEDS = ("A", "B")


def pdu_name(rack: str, number: int) -> str:
    """Return the name of a rack's PDU, as in the drawn facility record."""
    return f"{rack}-pdu-{FEEDS[number].lower()}"


def pdu_tree(unit: RackUnit) -> Tree:
    """Return every resource of the service by path."""
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
        **_equipment_collection(f"{_EQUIPMENT}/RackPDUs", [_UNIT]),
        **_equipment_collection(f"{_UNIT}/Mains", [mains]),
        **_equipment_collection(f"{_UNIT}/Outlets", outlets),
    }  # fmt: skip
    for number, path in enumerate(outlets):
        tree[path] = {
            "@odata.id": path, "Id": path.rpartition("/")[2], "Status": status,
            "PowerState": "On" if number % 2 == 0 else "Off", "PowerWatts": {"Reading": unit.watts / 2},
        }  # fmt: skip
    return tree


def _equipment_collection(path: str, members: list[str]) -> dict[str, Json]:
    entries = [{"@odata.id": entry} for entry in members]
    return {path: {"@odata.id": path, "Members": entries, "Members@odata.count": len(entries)}}
