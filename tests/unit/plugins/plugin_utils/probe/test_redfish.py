# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Redfish resources of both schemas and of several vendors; what is missing is never taken for good."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.errors import InputError
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.probe import (
    redfish_firmware,
    redfish_json,
    redfish_log,
    redfish_pdu,
    redfish_power,
    redfish_thermal,
)

Json = dict[str, Any]
OK = {"State": "Enabled", "Health": "OK"}
# After HPE's GPU server in spyroot/redfish_ctl: old schema, a redundancy group whose members are empty objects.
HPE_POWER = {
    "@odata.id": "/redfish/v1/Chassis/1/Power",
    "PowerSupplies": [
        {
            "@odata.id": f"/redfish/v1/Chassis/1/Power#PowerSupplies/{n}", "MemberId": str(n), "Status": OK,
            "Name": "HpeServerPowerSupply", "LineInputVoltage": 209, "LastPowerOutputWatts": 222,
            "PowerCapacityWatts": 2200,
        }
        for n in range(2)
    ],
    "Redundancy": [
        {
            "MemberId": "0", "Mode": "Failover", "MinNumNeeded": 2, "MaxNumSupported": 2, "RedundancySet": [{}, {}],
            "Status": OK,
        }
    ],
}  # fmt: skip
CIRCUIT = {
    "@odata.id": "/redfish/v1/PowerEquipment/RackPDUs/1/Mains/AC1", "Id": "AC1", "Status": OK, "BreakerState": "Normal",
    "NominalVoltage": "AC230V", "RatedCurrentAmps": 32, "PowerWatts": {"Reading": 5400.5},
    "PolyPhaseVoltage": {"Line1ToNeutral": {"Reading": 231.0}, "Line2ToNeutral": {"Reading": "229.5"}},
}  # fmt: skip
OUTLET = {
    "@odata.id": "/redfish/v1/PowerEquipment/RackPDUs/1/Outlets/A1", "Id": "A1", "Status": OK, "PowerState": "On",
    "PowerWatts": {"Reading": 900},
}  # fmt: skip
ENTRY = {"@odata.id": "/e/7", "Id": 7, "Created": "2026-06-01T08:00:00+02:00", "Severity": "Critical",
         "Message": "PSU 2 lost input", "MessageId": "Platform.1.0.PSU"}  # fmt: skip


def captured(shared: Path, name: str) -> Json:
    found: Json = json.loads((shared / "captures" / "redfish" / name).read_text())
    return found


def test_dells_old_power_has_one_supply_and_no_redundancy(shared: Path) -> None:
    supplies, redundancy = redfish_power.parse_power(captured(shared, "dell-power.json"))
    (supply,) = supplies
    assert supply.name == "PS1 Status (PSU.Slot.1)" and str(supply.condition) == "State Enabled, Health OK"
    assert (supply.input_v, supply.output_w, supply.capacity_w) == (206, 203, 750)
    assert redundancy == ()


def test_dells_old_thermal_has_sixteen_fans_by_turns(shared: Path) -> None:
    temperatures, fans = redfish_thermal.parse_thermal(captured(shared, "dell-thermal.json"))
    assert len(fans) == 16 and (fans[0].name, fans[0].rpm, fans[0].percent) == ("System Board Fan1A", 17760, None)
    assert [(entry.name, entry.reading_c, entry.intake) for entry in temperatures] == [("CPU1 Temp", 40, False)]


def test_a_supply_with_a_warning_is_not_a_good_one(shared: Path) -> None:
    supply = redfish_power.parse_supply(captured(shared, "dmtf-powersupply-bay1.json"))
    assert (supply.condition.state, supply.condition.health, supply.line_input) == ("Enabled", "Warning", "Normal")
    assert supply.outlet == "https://redfishpdu.contoso.com/redfish/v1/PowerEquipment/RackPDUs/1/Outlets/A4"


def test_a_supply_of_the_new_schema_is_read(shared: Path) -> None:
    supply = redfish_power.parse_supply(captured(shared, "hpe-powersupply-new-schema.json"))
    assert supply.condition.health == "Warning" and supply.path.endswith("/PowerSupply1")


def test_supplies_of_one_name_are_told_apart_by_their_bay() -> None:
    supplies, (group,) = redfish_power.parse_power(HPE_POWER)
    assert [supply.name for supply in supplies] == ["HpeServerPowerSupply (0)", "HpeServerPowerSupply (1)"]
    assert (group.mode, group.needed, group.largest, group.members) == ("Failover", 2, 2, ())


def test_an_old_idrac_writes_its_mode_as_a_list_and_ok_in_small_letters() -> None:
    group = {
        "Name": "System Board PS Redundancy", "Mode": [{"Member": "N+1"}], "MinNumNeeded": 2, "RedundancySet": [],
        "Status": {"Health": "Ok", "State": "Disabled"},
    }  # fmt: skip
    (found,) = redfish_power.parse_redundancy({"PowerSupplyRedundancy": [group]})
    assert (found.mode, str(found.condition)) == ("N+1", "State Disabled, Health OK")


def of_domain(n: int, domain: str) -> Json:
    """Return a supply as iLO has it: spyroot/redfish_ctl, tests/hpe_fixtures."""
    return {**HPE_POWER["PowerSupplies"][0], "@odata.id": f"/redfish/v1/Chassis/1/Power#PowerSupplies/{n}",
            "Oem": {"Hpe": {"BayNumber": n + 1, "Domain": domain, "PowerSupplyStatus": {"State": "Ok"}}}}  # fmt: skip


def test_supplies_of_hpe_have_domains_and_a_word_on_each() -> None:
    body = {
        "PowerSupplies": [of_domain(n, "System" if n < 2 else "GPU") for n in range(3)],
        "Oem": {"Hpe": {"Domains": [
            {"DomainName": "System", "PowerSupplyRedundancy": "Redundant", "Status": {"Health": "OK"}},
            {"DomainName": "GPU", "PowerSupplyRedundancy": "NonRedundant", "Status": {"Health": "OK"}},
        ]}},
    }  # fmt: skip
    groups = redfish_power.parse_power(body)[1]
    assert [(g.name, g.mode, g.condition.state, len(g.members)) for g in groups] == [
        ("System", "PowerDomain", "Redundant", 2), ("GPU", "PowerDomain", "NonRedundant", 1),
    ]  # fmt: skip


def test_a_domain_may_name_its_supplies_itself() -> None:
    link = {"@odata.id": "/redfish/v1/Chassis/1/Power#PowerSupplies/0"}
    domain = {"DomainName": "System", "PowerSupplies": [link, {}]}
    (supply, *_rest) = HPE_POWER["PowerSupplies"]
    (group,) = redfish_power.parse_power({"PowerSupplies": [supply], "Oem": {"Hpe": {"Domains": [domain]}}})[1]
    assert (group.name, group.members, group.condition.state) == ("System", (link["@odata.id"],), "")


def test_supplies_of_different_outputs_share_no_bus() -> None:
    """Rails stand in ascending order of their volts (DSP0268, PowerSupply.OutputRails); a standby rail is the least."""
    bays = [
        {"@odata.id": f"/p/{n}", "Id": str(n), "OutputRails": [{"NominalVoltage": 5}, {"NominalVoltage": volts}]}
        for n, volts in enumerate((12, 12, 54, 54))
    ]
    assert [(g.name, g.members) for g in redfish_power.parse_redundancy({}, bays)] == [
        ("12 V", ("/p/0", "/p/1")), ("54 V", ("/p/2", "/p/3")),
    ]  # fmt: skip
    assert redfish_power.parse_redundancy({}, bays[:2]) == ()


def test_figures_of_the_metrics_resource_belong_to_the_supply() -> None:
    body = {"@odata.id": "/redfish/v1/Chassis/1U/PowerSubsystem/PowerSupplies/Bay1", "Id": "Bay1", "Status": OK}
    metrics = {"InputVoltage": {"Reading": 230.2}, "InputPowerWatts": {"Reading": "937.4"}, "OutputPowerWatts": None}
    supply = redfish_power.parse_supply(body, metrics)
    assert (supply.input_v, supply.input_w, supply.output_w, supply.capacity_w) == (230.2, 937.4, None, None)


def test_watts_of_zero_are_those_of_a_bmc_that_cannot_tell() -> None:
    body = {"@odata.id": "/p", "Id": "0", "Status": OK, "PowerCapacityWatts": 0, "PowerInputWatts": 0}
    supply = redfish_power.parse_supply(body)
    assert supply.capacity_w is None and supply.input_w is None


def test_a_missing_status_stays_unknown() -> None:
    supply = redfish_power.parse_supply({"@odata.id": "/p", "Id": "0"})
    assert (supply.condition.state, supply.condition.health) == ("", "")


@pytest.mark.parametrize(
    ("context", "name", "intake"),
    [
        ("Intake", "T1", True), ("SystemBoard", "System Board Inlet Temp", True), ("", "TEMP_AMBIENT", True),
        ("Intake", "01-Inlet Ambient", True), ("CPU", "CPU1 Temp", False), ("", "PDB 0 Inlet Temp 0", False),
        ("", "HGX ProcessorModule 0 Inlet Temp 1", False), ("", "System Board Exhaust Temp", False),
    ],
)  # fmt: skip
def test_the_air_inlet_of_the_host_is_told_from_those_of_its_boards(context: str, name: str, intake: bool) -> None:
    body = {"Temperatures": [{"Name": name, "PhysicalContext": context, "ReadingCelsius": 24, "Status": OK}]}
    assert redfish_thermal.parse_thermal(body)[0][0].intake is intake


def test_the_summary_of_the_new_schema_names_the_intake() -> None:
    body = {
        "TemperatureSummaryCelsius": {"Intake": {"Reading": 24.8}, "Exhaust": {"Reading": 40.5}},
        "TemperatureReadingsCelsius": [{"DeviceName": "CPU", "Reading": 60}],
    }
    found = redfish_thermal.parse_metrics(body)
    assert [(entry.name, entry.reading_c, entry.intake) for entry in found] == [
        ("Intake", 24.8, True),
        ("CPU", 60, False),
    ]


def test_a_tray_has_its_fans_among_the_sensors() -> None:
    fan = redfish_thermal.parse_sensor(
        {"Name": "Chassis 0 FAN 1 FRONT", "ReadingUnits": "RPM", "Reading": 9800, "Status": OK}
    )
    assert isinstance(fan, redfish_thermal.Fan) and fan.speed == 9800
    board = redfish_thermal.parse_sensor({
        "Name": "PDB 0 Inlet Temp 0", "ReadingUnits": "Cel", "Reading": 36.9, "Status": OK,
        "Thresholds": {"UpperCaution": {"Reading": 80.0}, "UpperCritical": {"Reading": 83.0}},
    })  # fmt: skip
    assert isinstance(board, redfish_thermal.Temperature) and not board.intake
    assert (board.upper_warning_c, board.upper_critical_c) == (80, 83)
    assert redfish_thermal.parse_sensor({"Name": "PWM", "ReadingUnits": "%", "Reading": 40}) is None


@pytest.mark.parametrize(
    ("id", "name", "part"),
    [
        ("HGX_FW_BMC_0", "", "HGX_FW_BMC_0"), ("1", "iLO 6", "iLO 6"),
        ("Installed-25227-7.10.30.00", "Integrated Dell Remote Access Controller",
         "25227 Integrated Dell Remote Access Controller"),
        ("Installed-106560-22.31.1014__NIC.Slot.1-1-1", "Mellanox", "106560 Mellanox NIC.Slot.1-1-1"),
    ],
)  # fmt: skip
def test_the_same_part_has_one_name_on_every_host(id: str, name: str, part: str) -> None:
    entry = redfish_firmware.parse({"@odata.id": "/x", "Id": id, "Name": name, "Version": "1"})
    assert redfish_firmware.part_of(entry) == part and entry.running


def test_versions_that_are_none_and_images_that_do_not_run_are_known() -> None:
    assert redfish_firmware.parse({"@odata.id": "/x/PSU1", "Version": "0.00"}).version == ""
    assert not redfish_firmware.parse({"@odata.id": "/x", "Id": "Previous-1-2", "Version": "1"}).running
    assert not redfish_firmware.parse({"@odata.id": "/x", "Id": "a", "Status": {"State": "Absent"}}).running


def test_an_event_has_its_time_in_utc_and_none_where_the_clock_was_lost() -> None:
    entry = redfish_log.parse_entry(ENTRY, "SEL")
    assert (entry.id, entry.created, entry.severity) == ("7", "2026-06-01T06:00:00+00:00", "Critical")
    assert redfish_log.parse_entry({**ENTRY, "Created": "1970-01-01T00:00:09Z"}, "SEL").created == ""
    assert redfish_log.parse_entry({**ENTRY, "Created": "soon"}, "SEL").created == ""


@pytest.mark.parametrize(
    ("path", "wanted"),
    [
        ("/redfish/v1/Managers/iDRAC.Embedded.1/LogServices/Sel", True),
        ("/redfish/v1/Systems/1/LogServices/IML", True),
        ("/redfish/v1/Managers/1/LogServices/IEL", False), ("/redfish/v1/Managers/1/LogServices/Log1", False),
        ("/redfish/v1/Systems/1/LogServices/Log1", True), ("/redfish/v1/Managers/BMC/LogServices/SEL", True),
        ("/redfish/v1/Systems/HGX_Baseboard_0/LogServices/EventLog", True),
        ("/redfish/v1/Systems/HGX_Baseboard_0/LogServices/Dump", False),
    ],
)  # fmt: skip
def test_logs_of_hardware_are_told_from_chatter(path: str, wanted: bool) -> None:
    assert redfish_log.tells_of_hardware(path) is wanted


def test_a_pdu_has_its_inputs_outlets_and_load() -> None:
    body = {"@odata.id": "/redfish/v1/PowerEquipment/RackPDUs/1", "Id": "1", "Name": "pdu-a", "Status": OK}
    pdu = redfish_pdu.parse_pdu(body, (CIRCUIT,), (OUTLET,))
    (mains,), (outlet,) = pdu.mains, pdu.outlets
    assert (mains.volts, mains.nominal_v, mains.breaker, mains.rated_a) == ((231.0, 229.5), 230, "Normal", 32)
    assert (outlet.name, outlet.power, outlet.watts) == ("A1", "On", 900)
    assert pdu.load_w == 5400.5
    assert redfish_pdu.parse_pdu(body, (CIRCUIT, {**CIRCUIT, "PowerWatts": None})).load_w is None
    assert redfish_pdu.parse_pdu(body, metrics={"PowerWatts": {"Reading": 3000}}).load_w == 3000


def test_pages_of_a_collection_and_members_that_stand_in_it() -> None:
    page = redfish_json.members(
        {"Members": [{"@odata.id": "/e/1"}, ENTRY], "Members@odata.nextLink": "/e?$skip=2", "Members@odata.count": "3"}
    )
    assert (page.paths, len(page.whole), page.next_page, page.total) == (("/e/1", "/e/7"), 1, "/e?$skip=2", 3)


@pytest.mark.parametrize("link", ["https://elsewhere.example.org/x", "//elsewhere/x", "x", "/a b", "/../x", 7, [], {}])
def test_a_link_that_leads_elsewhere_is_refused(link: object) -> None:
    with pytest.raises(InputError, match="link"):
        redfish_json.link({"Chassis": {"@odata.id": link}}, "Chassis")


PARSERS: dict[str, tuple[Callable[[Json], Any], Json]] = {
    "power": (redfish_power.parse_power, HPE_POWER),
    "domains": (
        redfish_power.parse_power,
        {
            "PowerSupplies": [
                {
                    "@odata.id": "/p#0",
                    "MemberId": "0",
                    "Oem": {"Hpe": {"Domain": "GPU"}},
                    "OutputRails": [{"NominalVoltage": 12}],
                }
            ],
            "Oem": {"Hpe": {"Domains": [{"DomainName": "GPU", "PowerSupplies": [{"@odata.id": "/p#0"}]}]}},
        },
    ),
    "supply": (redfish_power.parse_supply, HPE_POWER["PowerSupplies"][0]),  # type: ignore[dict-item] # one object
    "redundancy": (redfish_power.parse_redundancy, {"PowerSupplyRedundancy": HPE_POWER["Redundancy"]}),
    "thermal": (redfish_thermal.parse_thermal, {"Fans": [{"Name": "Fan 1", "Reading": 23, "Status": OK}]}),
    "metrics": (redfish_thermal.parse_metrics, {"TemperatureSummaryCelsius": {"Intake": {"Reading": 24}}}),
    "fan": (redfish_thermal.parse_fan, {"Id": "Bay1", "SpeedPercent": {"Reading": 45, "SpeedRPM": 2200}}),
    "sensor": (redfish_thermal.parse_sensor, {"Name": "Intake", "ReadingUnits": "Cel", "Reading": 24}),
    "firmware": (redfish_firmware.parse, {"@odata.id": "/x", "Id": "BMC", "Version": "1.0", "Status": OK}),
    "log": (lambda body: redfish_log.parse_entry(body, "SEL"), ENTRY),
    "mains": (lambda body: redfish_pdu.parse_pdu({"@odata.id": "/p"}, (body,)), CIRCUIT),
    "outlet": (lambda body: redfish_pdu.parse_pdu({"@odata.id": "/p"}, (), (body,)), OUTLET),
    "collection": (redfish_json.members, {"Members": [{"@odata.id": "/a"}], "Members@odata.count": 1}),
}
ANY = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)


@pytest.mark.parametrize("name", PARSERS)
@given(data=st.data())
def test_a_resource_with_anything_anywhere_is_read_or_refused(name: str, data: st.DataObject) -> None:
    parse, sample = PARSERS[name]
    body: Any = json.loads(json.dumps(sample))
    place, key = body, data.draw(st.sampled_from(sorted(body)))
    while isinstance(place[key], (dict, list)) and place[key] and data.draw(st.booleans()):
        place = place[key]
        key = data.draw(st.sampled_from(sorted(place) if isinstance(place, dict) else list(range(len(place)))))
    place[key] = data.draw(ANY)
    with contextlib.suppress(InputError):
        parse(body)


@pytest.mark.parametrize("name", PARSERS)
@given(data=st.data())
def test_damaged_text_is_read_or_refused(name: str, data: st.DataObject) -> None:
    parse, sample = PARSERS[name]
    text = json.dumps(sample)
    at, length = data.draw(st.integers(0, len(text))), data.draw(st.integers(0, 12))
    with contextlib.suppress(InputError):
        parse(redfish_json.resource(text[:at] + data.draw(st.text(max_size=8)) + text[at + length :]))  # type: ignore[arg-type] # any mapping


@pytest.mark.parametrize("text", ["", "[]", "7", "<html>", "{", '{"a":' * 100_000])
def test_what_is_no_resource_is_refused(text: str) -> None:
    with pytest.raises(InputError, match="expected a JSON object"):
        redfish_json.resource(text)


@pytest.mark.parametrize(
    "parse", [redfish_power.parse_power, redfish_power.parse_supply, redfish_thermal.parse_thermal,
              redfish_firmware.parse, redfish_pdu.parse_pdu, redfish_json.members],
)  # fmt: skip
def test_an_empty_resource_is_refused(parse: Callable[[Json], Any]) -> None:
    with pytest.raises(InputError):
        parse({})
