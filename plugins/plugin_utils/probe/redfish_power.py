# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Parser of power supplies and their redundancy, in both schemas of Redfish.

`Power` (until schema release 2020.4) has supplies and redundancy in one resource; `PowerSubsystem` links a collection
of `PowerSupply`, each with `PowerSupplyMetrics`. Sources: DMTF DSP0268; mock-up public-rackmount1 of
DMTF/Redfish-Mockup-Server; Dell `Power` in influxdata/telegraf, plugins/inputs/redfish/testdata; HPE in
spyroot/redfish_ctl, tests/hpe_fixtures (PowerSubsystem with two groups of redundancy whose members are empty objects,
Power with two domains System and GPU) and HPEDevCom/redfishdocs, changelog of iLO 5 (`Oem.Hpe.Domains` and its words).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from .redfish_json import Condition, Resource, above_zero, condition, number, objects, path_of, reading, unlike, words

# Mode of a group without redundancy: its supplies feed a part of the host that no other supply feeds.
POWER_DOMAIN = "PowerDomain"
# HPE's values for the redundancy of a domain are Redundant, NonRedundant, FailedRedundant, Unknown. These mean none.
DENIED = frozenset({"NonRedundant", "FailedRedundant"})
REDUNDANT = "Redundant"


@dataclass(frozen=True, slots=True, kw_only=True)
class PowerSupply:
    """One bay for a supply. Values that the BMC does not report are None or empty. 0 W means that it cannot measure.

    - `line_input`: LineInputStatus (Normal, LossOfInput, OutOfRange).
    - `outlet`: outlet of the PDU that feeds it.
    """

    path: str
    name: str
    condition: Condition
    line_input: str = ""
    input_v: float | None = None
    input_w: float | None = None
    output_w: float | None = None
    capacity_w: float | None = None
    outlet: str = ""
    model: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Redundancy:
    """One group of redundant supplies as the BMC reports it.

    - Mode: Failover, NPlusM, Sharing, NotRedundant. With PowerDomain it has the supplies of one part of the host (HPE:
      System, GPU), and the state is HPE's value for it.
    - Number of required supplies. It cannot be trusted alone: HPE reports 2 of 2 for supplies that may fail one by one.
    """

    name: str
    mode: str
    condition: Condition
    needed: int | None = None
    largest: int | None = None
    members: tuple[str, ...] = ()


def parse_supply(body: Resource, metrics: Resource | None = None) -> PowerSupply:
    """Return a supply of either schema. `metrics` is its PowerSupplyMetrics, if it links one.

    Raises:
        InputError: it is not what a Redfish service writes.
    """
    path = path_of(body)
    name = words(body, "Name") or words(body, "MemberId") or words(body, "Id")
    bay = words(body, "Id") or words(body, "MemberId")
    measured = metrics or {}
    links = body.get("Links") or {}
    if not isinstance(links, dict):
        raise unlike("Links", links, "an object")
    outlets = [links.get("Outlet"), *objects(links, "PowerOutlets")]
    named = [str(entry["@odata.id"]) for entry in outlets if isinstance(entry, dict) and "@odata.id" in entry]
    supplied = above_zero(body, "PowerOutputWatts")
    return PowerSupply(
        path=path,
        # HPE gives all of them the name HpeServerPowerSupply.
        name=f"{name} ({bay})" if bay and bay not in name else name or path.rpartition("/")[2],
        condition=condition(body),
        line_input=words(body, "LineInputStatus"),
        input_v=reading(measured, "InputVoltage") if metrics else number(body, "LineInputVoltage"),
        input_w=reading(measured, "InputPowerWatts") if metrics else above_zero(body, "PowerInputWatts"),
        output_w=reading(measured, "OutputPowerWatts")
        if metrics
        else (supplied if supplied is not None else above_zero(body, "LastPowerOutputWatts")),
        capacity_w=above_zero(body, "PowerCapacityWatts"),
        outlet=named[0][:400] if named else "",
        model=words(body, "Model"),
    )


def parse_power(body: Resource) -> tuple[tuple[PowerSupply, ...], tuple[Redundancy, ...]]:
    """Return the supplies and redundancy groups of a resource `Power`.

    Raises:
        InputError: it has no array PowerSupplies, or is not what a Redfish service writes.
    """
    if "PowerSupplies" not in body:
        raise unlike("Power", sorted(body), "an array PowerSupplies")
    entries = objects(body, "PowerSupplies")
    groups = tuple(_redundancy(entry) for entry in objects(body, "Redundancy"))
    return tuple(parse_supply(entry) for entry in entries), (*groups, *_domains(body, entries))


def parse_redundancy(body: Resource, supplies: Sequence[Resource] = ()) -> tuple[Redundancy, ...]:
    """Return the groups of a resource `PowerSubsystem`, and the domains of its supplies.

    Raises:
        InputError: they are not what a Redfish service writes.
    """
    groups = tuple(_redundancy(entry) for entry in objects(body, "PowerSupplyRedundancy"))
    return (*groups, *_domains(body, supplies))


def hides_members(groups: Sequence[Redundancy]) -> bool:
    """Tell whether there are several groups, and at least one does not list its supplies."""
    return len(groups) > 1 and not all(group.members for group in groups)


def _domains(body: Resource, supplies: Sequence[Resource]) -> tuple[Redundancy, ...]:
    """Return which supplies feed a part of the host that no other supply feeds; empty if the BMC does not report it.

    HPE names the domain of a supply. Otherwise supplies with different highest output voltages (12 V beside 54 V) share
    no bus. Supplies of one voltage may or may not share one.
    """
    named = {path_of(entry): words(_oem(entry), "Domain") for entry in supplies}
    reported = {words(entry, "DomainName"): entry for entry in objects(_oem(body), "Domains")}
    if not any(named.values()):
        for domain, entry in reported.items():
            named |= {path_of(member): domain for member in objects(entry, "PowerSupplies") if member}
    if not any(named.values()):
        volts = {path_of(entry): _highest_v(entry) for entry in supplies}
        if len({value for value in volts.values() if value is not None}) < 2:
            return ()
        named = {path: "" if value is None else f"{value:g} V" for path, value in volts.items()}
    names = [name for name in dict.fromkeys((*named.values(), *reported)) if name]
    return tuple(
        Redundancy(
            name=name,
            mode=POWER_DOMAIN,
            condition=Condition(
                words(reported.get(name, {}), "PowerSupplyRedundancy"), condition(reported.get(name, {})).health
            ),
            members=tuple(path for path, domain in named.items() if domain == name),
        )
        for name in names
    )


def _oem(body: Resource) -> Resource:
    """Return HPE's own part of a resource, `Hp` before iLO 5.

    Raises:
        InputError: it is something else.
    """
    place: Any = body.get("Oem") or {}
    if not isinstance(place, dict):
        raise unlike("Oem", place, "an object")
    own: Any = place.get("Hpe") or place.get("Hp") or {}
    if not isinstance(own, dict):
        raise unlike("Oem.Hpe", own, "an object")
    return own


def _highest_v(body: Resource) -> float | None:
    rails = [number(rail, "NominalVoltage") for rail in objects(body, "OutputRails")]
    return max((abs(value) for value in rails if value is not None), default=None)


def _mode(body: Resource) -> str:
    """Return the mode. Old iDRACs write it as a list of objects: `[{"Member": "N+1"}]`.

    Raises:
        InputError: it is something else.
    """
    place: Any = body.get("Mode")
    if not isinstance(place, list):
        return words(body, "Mode")
    return ", ".join(words(entry, "Member") for entry in objects(body, "Mode"))


def _redundancy(body: Resource) -> Redundancy:
    numbers = [
        number(body, old) if number(body, new) is None else number(body, new)
        for new, old in (("MinNeededInGroup", "MinNumNeeded"), ("MaxSupportedInGroup", "MaxNumSupported"))
    ]
    entries = (*objects(body, "RedundancyGroup"), *objects(body, "RedundancySet"))
    return Redundancy(
        name=words(body, "Name") or words(body, "MemberId") or words(body, "GroupName"),
        mode=words(body, "RedundancyType") or _mode(body),
        condition=condition(body),
        needed=None if numbers[0] is None else int(numbers[0]),
        largest=None if numbers[1] is None else int(numbers[1]),
        members=tuple(path_of(entry) for entry in entries if entry),
    )
