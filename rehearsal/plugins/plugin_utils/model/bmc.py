# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The BMC of a host: its data on power, air, firmware and events, and how it responds."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.hardware.sku import Sku

# subsystem: PowerSubsystem and ThermalSubsystem; classic: Power and Thermal; tray: no supplies, fans only as sensors.
BmcSchema = Literal["subsystem", "classic", "tray"]
BmcAnswers = Literal["ok", "busy", "nobody", "login-refused"]
BmcCertificate = Literal["good", "expired", "stranger"]
_SUPPLIES = 6
_USUAL_W = 3000


@dataclass(frozen=True, slots=True, kw_only=True)
class Supply:
    """One power supply: values of Redfish, and the volts at its input."""

    state: str = "Enabled"
    health: str = "OK"
    line_input: str = "Normal"
    input_v: float = 230.0


@dataclass(frozen=True, slots=True, kw_only=True)
class BmcFan:
    """One fan."""

    state: str = "Enabled"
    health: str = "OK"
    rpm: int = 9000


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """One entry of the event log, `days_ago` days before today."""

    severity: str
    message: str
    message_id: str = "OpenBMC.0.4.Event"
    days_ago: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Bmc:
    """One BMC.

    - `supply_w`: capacity of a supply.
    - `firmware`: version of every part by id.
    - `leaks`: state of each leak detector of a tray.
    - `domains`: part of the host that each supply feeds, in HPE's names (System, GPU); empty: all supplies feed
      everything. Such a BMC responds like iLO: both schemas, and groups have members only in the old one
      (spyroot/redfish_ctl, tests/hpe_fixtures).
    - `domain_words`: HPE's values for the redundancy of a domain, by default Redundant.
    """

    schema: BmcSchema = "subsystem"
    answers: BmcAnswers = "ok"
    certificate: BmcCertificate = "good"
    supplies: tuple[Supply, ...] = ()
    supply_w: int = _USUAL_W
    redundancy: str = "NPlusM"
    redundancy_health: str = "OK"
    domains: tuple[str, ...] = ()
    domain_words: dict[str, str] = field(default_factory=dict)
    inlet_c: float = 23.5
    fans: tuple[BmcFan, ...] = (BmcFan(),) * 4
    leaks: tuple[str, ...] = ()
    firmware: dict[str, str] = field(default_factory=dict)
    events: tuple[Event, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class RackUnit:
    """One PDU of a rack with Redfish: volts of its phases, watts drawn, its breaker. `answers` is as for a BMC."""

    volts: float = 231.0
    watts: float = 4000.0
    breaker: str = "Normal"
    health: str = "OK"
    answers: BmcAnswers = "ok"
    certificate: BmcCertificate = "good"


def bmc_of(sku: Sku, index: int) -> Bmc:
    """Return the healthy BMC of a host of that SKU. Hosts alternate between the two schemas.

    Six supplies of which four carry the whole host are those of a DGX H100 (six of 3.3 kW, 4+2: NVIDIA DGX H100 user
    guide). A tray of a rack system has no supplies (GB300 tray in spyroot/redfish_ctl, tests/supermicro_fixtures).
    """
    firmware = {"HostBMC_0": "24.09.17", "HostBIOS_0": "1.05.03", "CPLDMB_0": "0.2.1.9"}
    if sku.nvswitches or sku.rack_hosts:
        firmware["HGX_FW_BMC_0"] = "HGX-22.10-1-rc80"
    # A normal event of the first day in service, which needs no action.
    events = (Event(severity="OK", message="Log cleared", days_ago=20),)
    if sku.rack_hosts:
        return Bmc(schema="tray", firmware=firmware, events=events, leaks=("OK",) * 4)
    carried = sku.power_max_w or 4 * _USUAL_W
    return Bmc(
        schema="classic" if index % 3 == 2 else "subsystem",
        supplies=(Supply(),) * _SUPPLIES,
        supply_w=-(-carried // 4 // 100) * 100 + 100,
        firmware=firmware,
        events=events,
    )
