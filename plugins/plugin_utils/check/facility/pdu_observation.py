# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""PDUs that are asked over Redfish: what a site states of them, and what the observer saw."""

from __future__ import annotations

from dataclasses import dataclass

from ...probe.redfish_pdu import Pdu
from ..kit.settings import setting

PDU_FEEDS = "pdu-feeds"


@dataclass(frozen=True, slots=True, kw_only=True)
class RackPdu:
    """A PDU as the site states it: its address, its rack, the feed that it hangs on, and what it may deliver."""

    address: str
    rack: str
    feed: str = ""
    capacity_kw: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class PduSettings:
    """Settings of check pdu-feeds."""

    pdus: dict[str, RackPdu] = setting(
        "PDUs that speak Redfish, by name: `address`, `rack`, `feed` (such as A) and `capacity_kw`, what the unit may "
        "deliver. Account and certificate authority are those of bmc-reached.",
        use="run",
    )
    redundant: bool = setting("Every rack must run on when any one of its feeds is lost.")
    voltage_tolerance: float = setting(
        "How far volts may be from the nominal ones, as a share of these.", above=0, maximum=0.5
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class SeenPdu:
    """One PDU: the units that its service speaks for, or why there are none (a cause, a reason and a hint)."""

    name: str
    stated: RackPdu
    units: tuple[Pdu, ...] = ()
    cause: str = ""
    reason: str = ""
    hint: str = ""
    file: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class SeenPdus:
    """All PDUs that the site states."""

    pdus: tuple[SeenPdu, ...]
