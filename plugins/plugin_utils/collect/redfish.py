# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Reads a BMC's data of its host and a rack PDU's data of its feeds, following links from the service root."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from ..clients.redfish.wire import NotRedfishError, StatusError
from ..outcome.errors import InputError
from ..probe import redfish_coolant, redfish_firmware, redfish_log, redfish_power, redfish_thermal
from ..probe.redfish_coolant import CoolantSensor, LeakDetector
from ..probe.redfish_firmware import Firmware
from ..probe.redfish_json import Members, Resource, link, members, words
from ..probe.redfish_log import LogEntry
from ..probe.redfish_pdu import Pdu, parse_pdu
from ..probe.redfish_power import PowerSupply, Redundancy
from ..probe.redfish_thermal import Fan, Temperature

# Data of one BMC about its host: power, air, firmware and events.
#
# Both schemas of Redfish are followed, the newer one first: Power and Thermal are deprecated since release 2020.4, and
# a BMC may have either or both. Every chassis is read, since the first one is not always the host's. A part that cannot
# be read is a problem with its reason and never an empty part.

Get = Callable[[str], Resource]
POWER, THERMAL, COOLANT, FIRMWARE, EVENTS = "power", "thermal", "coolant", "firmware", "events"
_MOST_PAGES, _MOST_SINGLE, _MOST_SENSORS = 400, 1000, 300


@dataclass(frozen=True, slots=True, kw_only=True)
class BmcFacts:
    """Report of a BMC.

    - `problems`: by part (power, thermal, coolant, firmware, events) why it could not be read completely.
    - `events`: those of the `entries` in all `logs` that are not OK, or that begin or end one.
    """

    redfish: str
    supplies: tuple[PowerSupply, ...] = ()
    redundancy: tuple[Redundancy, ...] = ()
    temperatures: tuple[Temperature, ...] = ()
    fans: tuple[Fan, ...] = ()
    leak_detectors: tuple[LeakDetector, ...] = ()
    coolant: tuple[CoolantSensor, ...] = ()
    firmware: tuple[Firmware, ...] = ()
    events: tuple[LogEntry, ...] = ()
    logs: tuple[str, ...] = ()
    entries: int = 0
    problems: dict[str, str] = field(default_factory=dict)


@dataclass(slots=True)
class _Found:
    """Collects the parts while they are read."""

    supplies: list[PowerSupply] = field(default_factory=list)
    redundancy: list[Redundancy] = field(default_factory=list)
    temperatures: list[Temperature] = field(default_factory=list)
    fans: list[Fan] = field(default_factory=list)
    leak_detectors: dict[str, LeakDetector] = field(default_factory=dict)
    coolant: list[CoolantSensor] = field(default_factory=list)
    firmware: list[Firmware] = field(default_factory=list)
    events: list[LogEntry] = field(default_factory=list)
    logs: list[str] = field(default_factory=list)
    entries: int = 0
    power: list[str] = field(default_factory=list)


def read_bmc(root: Resource, get: Get) -> BmcFacts:
    """Return the report of a BMC.

    Args:
        root: the service root.
        get: returns the resource of a path.

    Raises:
        RedfishError: the service stopped responding (raised by `get`). A single resource that is refused is a problem
            of its part.
    """
    found, problems = _Found(), dict[str, str]()

    def part(name: str, read: Callable[[], None]) -> None:
        try:
            read()
        except (InputError, StatusError, NotRedfishError) as error:
            problems.setdefault(name, f"{error.subject}: {error.reason}"[:400])

    chassis: list[Resource] = []
    part(POWER, lambda: chassis.extend(body for _path, body in every_member(get, needed_link(root, "Chassis"))))
    if problems:
        problems[THERMAL] = problems[COOLANT] = problems[POWER]
    for body in chassis:
        part(POWER, partial(_power, body, get, found))
        part(THERMAL, partial(_thermal, body, get, found))
        part(COOLANT, partial(_coolant, body, get, found))
    part(FIRMWARE, partial(_firmware, root, get, found))
    part(EVENTS, partial(_events, root, get, found))
    return BmcFacts(
        redfish=words(root, "RedfishVersion"), supplies=tuple(found.supplies), redundancy=tuple(found.redundancy),
        temperatures=tuple(found.temperatures), fans=tuple(found.fans),
        leak_detectors=tuple(found.leak_detectors.values()), coolant=tuple(found.coolant),
        firmware=tuple(found.firmware), events=tuple(found.events), logs=tuple(found.logs),
        entries=found.entries, problems=problems,
    )  # fmt: skip


def needed_link(body: Resource, name: str) -> str:
    """Return the path of a link.

    Raises:
        InputError: there is none.
    """
    path = link(body, name)
    if not path:
        raise InputError(f"Redfish {body.get('@odata.id', 'resource')}"[:200], f"has no link {name}.")
    return path


def _pages(get: Get, path: str) -> Iterator[Members]:
    """Yield the pages of a collection.

    Raises:
        InputError: more pages than any collection has, a circle of pages, or fewer members than the collection
            declares.
    """
    seen: set[str] = set()
    count, total = 0, None
    while path:
        if path in seen or len(seen) >= _MOST_PAGES:
            raise InputError(f"Redfish collection {path}"[:200], f"does not end after {len(seen)} pages.")
        seen.add(path)
        page = members(get(path))
        count, total = count + len(page.paths), page.total if page.total is not None else total
        yield page
        path = page.next_page
    if total is not None and count < total:
        raise InputError(f"Redfish collection {min(seen)}"[:200], f"holds {count} members and says {total}.")


def _paths(get: Get, path: str) -> list[str]:
    return [entry for page in _pages(get, path) for entry in page.paths]


def every_member(get: Get, path: str) -> list[tuple[str, Resource]]:
    """Return every member of a collection by its path.

    Raises:
        InputError: more members than can be read one by one, or fewer than the collection declares.
    """
    paths = _paths(get, path)
    if len(paths) > _MOST_SINGLE:
        raise InputError(
            f"Redfish collection {path}"[:200], f"has {len(paths)} members, expected {_MOST_SINGLE} at most."
        )
    return [(entry, get(entry)) for entry in paths]


def _power(chassis: Resource, get: Get, found: _Found) -> None:
    """Read the power supplies of a chassis, without those already found in another chassis.

    HPE's PowerSubsystem does not list which supplies are in which of its groups; the older Power does.
    """
    newer, older = link(chassis, "PowerSubsystem"), link(chassis, "Power")
    known = {supply.path for supply in found.supplies}
    supplies: list[PowerSupply] = []
    groups: tuple[Redundancy, ...] = ()
    if newer and newer not in found.power:
        found.power.append(newer)
        subsystem = get(newer)
        collection = link(subsystem, "PowerSupplies")
        bodies = every_member(get, collection) if collection else []
        for path, body in bodies:
            metrics = link(body, "Metrics")
            if path not in known:
                supplies.append(redfish_power.parse_supply(body, get(metrics) if metrics else None))
        groups = redfish_power.parse_redundancy(subsystem, [body for _path, body in bodies])
    if older and older not in found.power and (not supplies or redfish_power.hides_members(groups)):
        found.power.append(older)
        old_supplies, old_groups = redfish_power.parse_power(get(older))
        if len(old_supplies) >= max(1, len(supplies)):
            supplies = [supply for supply in old_supplies if supply.path not in known]
            groups = old_groups
    found.supplies.extend(supplies)
    found.redundancy.extend(groups)


def _thermal(chassis: Resource, get: Get, found: _Found) -> None:
    newer, older, sensors = (link(chassis, name) for name in ("ThermalSubsystem", "Thermal", "Sensors"))
    temperatures: list[Temperature] = []
    fans: list[Fan] = []
    if newer:
        subsystem = get(newer)
        collection, metrics = link(subsystem, "Fans"), link(subsystem, "ThermalMetrics")
        fans += [redfish_thermal.parse_fan(body) for _path, body in every_member(get, collection)] if collection else []
        temperatures += redfish_thermal.parse_metrics(get(metrics)) if metrics else ()
    if older and not (fans and _has_intake(temperatures)):
        old_temperatures, old_fans = redfish_thermal.parse_thermal(get(older))
        temperatures += [] if _has_intake(temperatures) else old_temperatures
        fans = fans or list(old_fans)
    if sensors and not (fans and _has_intake(temperatures)):
        wanted = [path for path in _paths(get, sensors) if redfish_thermal.is_wanted_sensor(path)]
        if len(wanted) > _MOST_SENSORS:
            raise InputError(f"Redfish {sensors}"[:200], f"has {len(wanted)} sensors of fans and inlets.")
        measured = [redfish_thermal.parse_sensor(get(path)) for path in wanted]
        fans = fans or [entry for entry in measured if isinstance(entry, Fan)]
        temperatures += [entry for entry in measured if isinstance(entry, Temperature)]
    found.temperatures += temperatures
    found.fans += fans


def _coolant(chassis: Resource, get: Get, found: _Found) -> None:
    """Read leak detectors, below the thermal subsystem or the chassis itself, and the coolant's sensors."""
    thermal = link(chassis, "ThermalSubsystem")
    detection = link(get(thermal), "LeakDetection") if thermal else ""
    places = [link(get(detection), "LeakDetectors") if detection else "", link(chassis, "LeakDetectors")]
    for place in filter(None, places):
        for path, body in every_member(get, place):
            found.leak_detectors[path] = redfish_coolant.parse_detector(body)
    sensors = link(chassis, "Sensors")
    wanted = [path for path in _paths(get, sensors) if redfish_coolant.tells_of_coolant(path)] if sensors else []
    if len(wanted) > _MOST_SENSORS:
        raise InputError(f"Redfish {sensors}"[:200], f"has {len(wanted)} sensors of coolant.")
    measured = (redfish_coolant.parse_coolant(get(path)) for path in wanted)
    found.coolant += [entry for entry in measured if entry is not None]


def _has_intake(temperatures: list[Temperature]) -> bool:
    return any(entry.intake and entry.reading_c is not None for entry in temperatures)


def _firmware(root: Resource, get: Get, found: _Found) -> None:
    service = get(needed_link(root, "UpdateService"))
    entries = [
        redfish_firmware.parse(body) for _path, body in every_member(get, needed_link(service, "FirmwareInventory"))
    ]
    found.firmware.extend(entries)


def _events(root: Resource, get: Get, found: _Found) -> None:
    for place in ("Systems", "Managers"):
        for _path, owner in every_member(get, link(root, place)) if link(root, place) else []:
            services = link(owner, "LogServices")
            for path in _paths(get, services) if services else []:
                if redfish_log.tells_of_hardware(path):
                    _log(path, get, found)
    if not found.logs:
        raise InputError("Redfish LogServices", "none of the systems and managers has a log of hardware events.")


def _log(path: str, get: Get, found: _Found) -> None:
    entries = link(get(path), "Entries")
    found.logs.append(path)
    single = 0
    for page in _pages(get, entries) if entries else ():
        whole: Mapping[str, Any] = {str(body["@odata.id"]): body for body in page.whole if "@odata.id" in body}
        for entry in page.paths:
            single += entry not in whole
            if single > _MOST_SINGLE:
                raise InputError(
                    f"Redfish {path}"[:200], f"has more than {_MOST_SINGLE} entries to be read one by one."
                )
            event = redfish_log.parse_entry(whole[entry] if entry in whole else get(entry), path)
            found.entries += 1
            if event.severity != "OK" or event.code:
                found.events.append(event)


# Data of a rack PDU about its inputs, outlets and load.
#
# `PowerEquipment` links the RackPDUs (DMTF DSP2056); an older root links them itself as `PowerDistribution` (HPE G2).
# One service may report several units in a chain: all of them are read.


def read_pdus(root: Resource, get: Get) -> tuple[Pdu, ...]:
    """Return every unit that the service reports.

    Raises:
        InputError: it has none, or one is not what a Redfish service writes.
        RedfishError: from `get`.
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
