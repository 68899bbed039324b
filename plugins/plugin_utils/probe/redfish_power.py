# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Parser of power supplies and their redundancy, in both schemas of Redfish.

`Power` (until schema release 2020.4) has supplies and redundancy in one resource; `PowerSubsystem` links a collection
of `PowerSupply`, each with `PowerSupplyMetrics`. Sources: DMTF DSP0268; mock-up public-rackmount1 of
DMTF/Redfish-Mockup-Server; Dell `Power` in influxdata/telegraf, plugins/inputs/redfish/testdata; HPE in
spyroot/redfish_ctl, tests/hpe_fixtures (groups of redundancy whose members are empty objects, two domains System and
GPU).
"""

from __future__ import annotations

from dataclasses import dataclass

from .redfish_json import Condition, Resource, above_zero, condition, number, objects, path_of, reading, unlike, words


@dataclass(frozen=True, slots=True, kw_only=True)
class PowerSupply:
    """One bay for a supply. What the BMC does not state is None or empty; watts of 0 mean that it cannot tell.

    `line_input` is LineInputStatus (Normal, LossOfInput, OutOfRange); `outlet` the outlet of a PDU that it hangs on.
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
    """One group of redundant supplies as the BMC states it: its mode (Failover, NPlusM, Sharing, NotRedundant), and how
    many it needs. The numbers alone are not to be trusted: HPE states 2 of 2 for supplies that may fail one by one."""

    name: str
    mode: str
    condition: Condition
    needed: int | None = None
    largest: int | None = None
    members: tuple[str, ...] = ()


def parse_supply(body: Resource, metrics: Resource | None = None) -> PowerSupply:
    """Return a supply of either schema; `metrics` is its PowerSupplyMetrics, where it links one.

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
        # HPE calls all of them HpeServerPowerSupply.
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
    """Return what a resource `Power` says of its supplies and of their redundancy.

    Raises:
        InputError: it has no array PowerSupplies, or is not what a Redfish service writes.
    """
    if "PowerSupplies" not in body:
        raise unlike("Power", sorted(body), "an array PowerSupplies")
    supplies = tuple(parse_supply(entry) for entry in objects(body, "PowerSupplies"))
    return supplies, tuple(_redundancy(entry) for entry in objects(body, "Redundancy"))


def parse_redundancy(body: Resource) -> tuple[Redundancy, ...]:
    """Return the groups of a resource `PowerSubsystem`.

    Raises:
        InputError: they are not what a Redfish service writes.
    """
    return tuple(_redundancy(entry) for entry in objects(body, "PowerSupplyRedundancy"))


def _redundancy(body: Resource) -> Redundancy:
    numbers = [
        number(body, old) if number(body, new) is None else number(body, new)
        for new, old in (("MinNeededInGroup", "MinNumNeeded"), ("MaxSupportedInGroup", "MaxNumSupported"))
    ]
    entries = (*objects(body, "RedundancyGroup"), *objects(body, "RedundancySet"))
    return Redundancy(
        name=words(body, "Name") or words(body, "MemberId") or words(body, "GroupName"),
        mode=words(body, "RedundancyType") or words(body, "Mode"),
        condition=condition(body),
        needed=None if numbers[0] is None else int(numbers[0]),
        largest=None if numbers[1] is None else int(numbers[1]),
        members=tuple(path_of(entry) for entry in entries if entry),
    )
