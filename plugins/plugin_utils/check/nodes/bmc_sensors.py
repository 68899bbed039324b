# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Check bmc-sensors: no sensor of the host's management controller is beyond its limits.

It is read on the host, so it needs no network of management controllers; where the inventory has their addresses, gate
facility reads them over Redfish. Limits are the controller's own (ipmitool(1): nc non-critical, cr critical, nr
non-recoverable, with l and u for the lower and the upper one).

Parser of `ipmitool sdr`: a row for each sensor of the machine's management controller.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from ...collect.host_facts import FleetFacts
from ...collect.tool_reading import ProbeFailure
from ...outcome.model import Basis, Expectation, Measure, Outcome, SubjectKind
from ...outcome.wording import count
from ...probe.text import plain, unreadable
from ..kit.finding import Finding, Report
from ..kit.settings import setting
from ..spec import Check, CheckSpec, Disturbance, JudgeContext, needs
from .node_context import NodeContext, per_host
from .observe_hosts import OBSERVER

_TOOL = "ipmitool sdr"
_ROW = re.compile(r"([^|]{1,40})\|([^|]{1,60})\|\s{0,20}([a-z]{2,3})\s{0,20}")
_READING = re.compile(r"(-?\d{1,9}(?:\.\d{1,6})?) ([A-Za-z%][A-Za-z %]{0,30})")
_DISCRETE = re.compile(r"0x[0-9a-fA-F]{1,8}")
# ipmitool.1: ok, not readable, and non-critical, critical, non-recoverable, below or above the limits.
_STATES = ("ok", "ns", "nc", "cr", "nr", "lnc", "lcr", "lnr", "unc", "ucr", "unr")


@dataclass(frozen=True, slots=True)
class Sensor:
    """One sensor: `value` is None for states in bits (`0x00`), and for one that cannot be read (`ns`)."""

    name: str
    state: str
    value: float | None
    unit: str = ""


def parse(text: str) -> tuple[Sensor, ...]:
    """Return the sensors in the tool's order; two may have one name.

    Raises:
        InputError: no row, one of another kind, or a state that nobody knows.
    """
    found = tuple(_sensor(line) for line in plain(text).splitlines() if line.strip())
    if not found:
        raise unreadable(_TOOL, text[:80], "at least one sensor")
    return found


def _sensor(line: str) -> Sensor:
    match = _ROW.fullmatch(line.rstrip())
    if match is None or match.group(3) not in _STATES:
        raise unreadable(_TOOL, line, "`Ambient Temp | 20 degrees C | ok`")
    name, reported, state = (part.strip() for part in match.groups())
    reading = _READING.fullmatch(reported)
    if reading is not None:
        return Sensor(name, state, float(reading.group(1)), reading.group(2))
    if not _DISCRETE.fullmatch(reported) and state == "ok":
        raise unreadable(_TOOL, line, "a number with its unit, or bits such as 0x00")
    return Sensor(name, state, None)


@dataclass(frozen=True, slots=True, kw_only=True)
class BmcSensorsSettings:
    """Settings of check bmc-sensors."""

    ignore: tuple[str, ...] = setting(
        "Names of sensors that are not judged, such as that of a fan that is not fitted.", default=[]
    )
    required: bool = setting(
        "Whether a host whose controller cannot be asked is held; false: it passes with the note that "
        "nothing was read.",
        default=True,
    )


SPEC = CheckSpec(
    id="bmc-sensors",
    gate="nodes",
    title="Sensors of the host within their limits",
    per=SubjectKind.NODE,
    disturbs=Disturbance.HOST_COMMAND,
    applies=(needs("host_access"),),
    causes=("bmc-sensor-critical",),
    settings=BmcSensorsSettings,
)
_FACT, _BARE_METAL = "sensors", "none"
_GOOD, _UNREADABLE = "ok", "ns"
_WARNING = ("nc", "lnc", "unc")
_NO_DEVICE = "could not open device"


def judge(observed: FleetFacts, context: JudgeContext) -> tuple[Outcome, ...]:
    """Judge every host: critical fails, non-critical is for a person to decide."""
    return per_host(SPEC, observed, context, _judge)


def _judge(host: NodeContext) -> Report | Outcome:
    sensors, virtual = host.facts.read(_FACT, tuple), host.facts.read("virtual", str)
    required, proof = host.settings(BmcSensorsSettings).required, host.evidence(_FACT)
    if isinstance(sensors, ProbeFailure):
        if isinstance(virtual, str) and virtual != _BARE_METAL:
            return Report(summary=f"a virtual machine ({virtual}) has no management controller", evidence=proof)
        absent = sensors.kind == "missing" or _NO_DEVICE in sensors.text.lower()
        if absent and not required:
            return Report(summary=f"no sensor was read: {sensors.text}"[:200], evidence=proof)
        return host.tool_failure(_FACT, sensors)
    ignored = host.settings(BmcSensorsSettings).ignore
    judged: list[Sensor] = [sensor for sensor in sensors if sensor.name not in ignored]
    read = [sensor for sensor in judged if sensor.state != _UNREADABLE]
    if not read:
        text = f"none of {count(len(sensors), 'sensor')} could be read"
        return host.answer.unknown("bmc-sensors-not-read", text, "`ipmitool sdr` on the node", evidence=proof)
    bad = [sensor for sensor in read if sensor.state != _GOOD]
    return Report(
        summary=f"{count(len(read), 'sensor')} within their limits",
        findings=tuple(_finding(sensor) for sensor in bad),
        measured=(Measure("sensors_beyond_limits", len(bad), "count"),),
        expected=(Expectation("sensors_beyond_limits", "==", 0, Basis.RULE, "count"),),
        evidence=proof,
    )


def _finding(sensor: Sensor) -> Finding:
    marginal = sensor.state in _WARNING
    value = "" if sensor.value is None else f"{sensor.value:g} {sensor.unit}, "
    text = f"{sensor.name}: {value}state {sensor.state}"
    hint = f"`ipmitool sensor get '{sensor.name}'` shows its limits; where it says nothing of this machine: ignore it"
    cause = "bmc-sensor-warning" if marginal else "bmc-sensor-critical"
    return Finding(cause=cause, text=text, hint=f"{hint} (gpufleet_settings: bmc-sensors)", marginal=marginal)


CHECK = Check(SPEC, OBSERVER, judge)
