# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Parser of what a BMC says of the coolant of its host: leak detectors, and sensors of the liquid.

`LeakDetector` lies below `ThermalSubsystem/LeakDetection` of a chassis, or below the chassis itself; the liquid's
temperature, flow and pressure are plain `Sensor`s whose name says so. Sources: DMTF DSP0268 (LeakDetector 1.4, Sensor);
the GB300 tray of Supermicro in spyroot/redfish_ctl, tests (`Chassis_0_LeakDetector_0_ColdPlate`, without `Enabled`).
"""

from __future__ import annotations

from dataclasses import dataclass

from .redfish_json import Condition, Resource, condition, number, reading, unlike, words

_LIQUID = ("coolant", "liquid")
_UNITS = {"Cel": "C", "L/min": "l/min", "kPa": "kPa", "Pa": "Pa"}


@dataclass(frozen=True, slots=True, kw_only=True)
class LeakDetector:
    """One detector: `state` is what it detects (OK, Warning, Critical, ...), empty where it says nothing; not
    `enabled`: somebody turned it off."""

    name: str
    condition: Condition
    state: str = ""
    enabled: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class CoolantSensor:
    """One reading of the liquid in `units` (C, l/min, kPa, Pa), None where there is none now; the critical limits are
    the BMC's own, None without."""

    name: str
    condition: Condition
    units: str
    value: float | None = None
    critical_low: float | None = None
    critical_high: float | None = None


def parse_detector(body: Resource) -> LeakDetector:
    """Return a resource `LeakDetector`; where it has no state of its own, its health is what it detects.

    Raises:
        InputError: it is not what a Redfish service writes.
    """
    enabled = body.get("Enabled", True)
    if not isinstance(enabled, bool):
        raise unlike("Enabled", enabled, "true or false")
    found = condition(body)
    state = words(body, "DetectorState") or found.health
    return LeakDetector(name=words(body, "Name") or words(body, "Id"), condition=found, state=state, enabled=enabled)


def parse_coolant(body: Resource) -> CoolantSensor | None:
    """Return a resource `Sensor` of the liquid, None if it measures something that has no limit here (a valve, a pump).

    Raises:
        InputError: it is not what a Redfish service writes.
    """
    units, limits = words(body, "ReadingUnits"), body.get("Thresholds") or {}
    if not isinstance(limits, dict):
        raise unlike("Thresholds", limits, "an object")
    if units not in _UNITS:
        return None
    return CoolantSensor(
        name=words(body, "Name") or words(body, "Id"),
        condition=condition(body),
        units=_UNITS[units],
        value=number(body, "Reading"),
        critical_low=reading(limits, "LowerCritical"),
        critical_high=reading(limits, "UpperCritical"),
    )


def tells_of_coolant(path: str) -> bool:
    """Tell whether a sensor of that path is of the liquid; a tray may have hundreds of others."""
    name = path.rpartition("/")[2].lower()
    return any(word in name for word in _LIQUID)
