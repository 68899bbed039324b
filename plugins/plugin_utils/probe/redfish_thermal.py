# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Parser of temperatures and fans, in both schemas of Redfish and as plain sensors.

`Thermal` (until schema release 2020.4) has both in one resource; `ThermalSubsystem` links a collection of `Fan` and
`ThermalMetrics`. A GB300 tray has its fans only among the `Sensors`, and there a sensor `PDB_0_Inlet_Temp_0` of 37
degrees that is no air inlet of the host. Sources: DMTF DSP0268; public-rackmount1 of DMTF/Redfish-Mockup-Server; Dell
in influxdata/telegraf, plugins/inputs/redfish/testdata; HPE and Supermicro GB300 in spyroot/redfish_ctl, tests.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from .redfish_json import Condition, Resource, condition, number, objects, reading, unlike, words

_INTAKE = frozenset({"Intake", "Room"})
# Names of the host's air inlet where firmware marks it by name and not by context: Dell `System Board Inlet Temp`, AMI
# and NVIDIA `TEMP_AMBIENT`, HPE `01-Inlet Ambient`. A board's own inlet (`PDB 0 Inlet Temp 0`) is none.
_INTAKE_NAME = re.compile(
    r"(?i)(?:\d+-|system[ _]?board[ _]|chassis[ _]|front[ _](?:panel[ _])?|temp[ _])?(?:inlet|intake|ambient)"
    r"(?:[ _](?:air|ambient|temp(?:erature)?))*(?:[ _]?\d+)?"
)
_ROTATION = ("RPM", "{rev}/min")


@dataclass(frozen=True, slots=True, kw_only=True)
class Temperature:
    """One reading in degrees Celsius, None if there is none.

    - `intake`: it is the temperature of the air that the host takes in.
    - `upper_warning_c`, `upper_critical_c`: limits of the BMC, None without.
    """

    name: str
    condition: Condition
    reading_c: float | None = None
    intake: bool = False
    upper_warning_c: float | None = None
    upper_critical_c: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Fan:
    """One fan. Its speed is in revolutions per minute or in percent, as the BMC reports it."""

    name: str
    condition: Condition
    rpm: float | None = None
    percent: float | None = None
    lower_critical: float | None = None

    @property
    def speed(self) -> float | None:
        """The speed in either unit."""
        return self.rpm if self.rpm is not None else self.percent


def parse_thermal(body: Resource) -> tuple[tuple[Temperature, ...], tuple[Fan, ...]]:
    """Return temperatures and fans of a resource `Thermal`.

    Raises:
        InputError: it has neither Temperatures nor Fans, or is not what a Redfish service writes.
    """
    if "Temperatures" not in body and "Fans" not in body:
        raise unlike("Thermal", sorted(body), "arrays Temperatures and Fans")
    temperatures = tuple(
        Temperature(
            name=words(entry, "Name") or words(entry, "MemberId"),
            condition=condition(entry),
            reading_c=number(entry, "ReadingCelsius"),
            intake=_is_intake(words(entry, "PhysicalContext"), words(entry, "Name")),
            upper_warning_c=_limit(entry, "UpperThresholdNonCritical"),
            upper_critical_c=_limit(entry, "UpperThresholdCritical"),
        )
        for entry in objects(body, "Temperatures")
    )
    return temperatures, tuple(_old_fan(entry) for entry in objects(body, "Fans"))


def parse_metrics(body: Resource) -> tuple[Temperature, ...]:
    """Return the readings of a resource `ThermalMetrics`. Its summary names the intake, the list of readings may.

    Raises:
        InputError: it is not what a Redfish service writes.
    """
    summary = body.get("TemperatureSummaryCelsius") or {}
    if not isinstance(summary, dict):
        raise unlike("TemperatureSummaryCelsius", summary, "an object")
    found = []
    intake = reading(summary, "Intake")
    if intake is not None:
        found.append(Temperature(name="Intake", condition=Condition(), reading_c=intake, intake=True))
    for entry in objects(body, "TemperatureReadingsCelsius"):
        name = words(entry, "DeviceName") or words(entry, "DataSourceUri").rpartition("/")[2]
        inside = _is_intake(words(entry, "PhysicalContext"), name)
        value = number(entry, "Reading")
        found.append(Temperature(name=name, condition=Condition(), reading_c=value, intake=inside))
    return tuple(found)


def parse_fan(body: Resource) -> Fan:
    """Return a resource `Fan` of ThermalSubsystem.

    Raises:
        InputError: it is not what a Redfish service writes.
    """
    speed = body.get("SpeedPercent") or {}
    if not isinstance(speed, dict):
        raise unlike("SpeedPercent", speed, "an excerpt of a sensor")
    return Fan(
        name=words(body, "Name") or words(body, "Id"),
        condition=condition(body),
        rpm=number(speed, "SpeedRPM"),
        percent=number(speed, "Reading"),
    )


def parse_sensor(body: Resource) -> Temperature | Fan | None:
    """Return a resource `Sensor` as a temperature or a fan, None if it measures something else.

    Raises:
        InputError: it is not what a Redfish service writes.
    """
    units, name = words(body, "ReadingUnits"), words(body, "Name") or words(body, "Id")
    limits = body.get("Thresholds") or {}
    if not isinstance(limits, dict):
        raise unlike("Thresholds", limits, "an object")
    if units == "Cel":
        return Temperature(
            name=name,
            condition=condition(body),
            reading_c=number(body, "Reading"),
            intake=_is_intake(words(body, "PhysicalContext"), name),
            upper_warning_c=reading(limits, "UpperCaution"),
            upper_critical_c=reading(limits, "UpperCritical"),
        )
    if units in _ROTATION:
        critical = reading(limits, "LowerCritical")
        return Fan(name=name, condition=condition(body), rpm=number(body, "Reading"), lower_critical=critical)
    return None


def is_wanted_sensor(path: str) -> bool:
    """Tell whether a sensor of that path may be an air inlet or a fan. A host may have hundreds of others."""
    name = path.rpartition("/")[2].lower()
    return any(word in name for word in ("fan", "inlet", "intake", "ambient")) and "pwm" not in name


def _old_fan(entry: Resource) -> Fan:
    value = number(entry, "Reading")
    # The first versions of the schema had no ReadingUnits: then it is percent.
    turns = words(entry, "ReadingUnits") == "RPM" or number(entry, "ReadingRPM") is not None
    value = number(entry, "ReadingRPM") if value is None else value
    return Fan(
        name=words(entry, "Name") or words(entry, "FanName") or words(entry, "MemberId"),
        condition=condition(entry),
        rpm=value if turns else None,
        percent=None if turns else value,
        lower_critical=number(entry, "LowerThresholdCritical"),
    )


def _limit(entry: Resource, name: str) -> float | None:
    """Return a threshold. 0 means that the BMC has none."""
    value = number(entry, name)
    return value if value is not None and value > 0 else None


def _is_intake(context: str, name: str) -> bool:
    return context in _INTAKE or bool(_INTAKE_NAME.fullmatch(name.strip()))
