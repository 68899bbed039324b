# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Reads every PDU with an address in the site's settings, with the account of the BMCs."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ...clients.redfish.service import RedfishService
from ...clients.redfish.wire import RedfishError
from ...collect.redfish import read_pdus
from ...outcome.errors import InputError
from ...probe.redfish_pdu import Pdu
from ...runtime.files import write_atomic
from ...runtime.pool import map_bounded
from ...runtime.redaction import redact_data
from ...site.inventory import service_url
from ..kit.settings import setting
from ..spec import ObserveContext, observer_of
from .bmc_access import BMC_REACHED, BmcAccess

# PDUs that are read over Redfish: the site's settings for them, and their observation.

PDU_FEEDS = "pdu-feeds"


@dataclass(frozen=True, slots=True, kw_only=True)
class RackPdu:
    """A PDU as the site configures it: its address, its rack, its feed, and the most that it may deliver."""

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
        default={},
        use="run",
    )
    redundant: bool = setting("Every rack must run on when any one of its feeds is lost.", default=False)
    # IEC 60038: a tenth either way.
    voltage_tolerance: float = setting(
        "How far volts may be from the nominal ones, as a share of these.", default=0.1, above=0, maximum=0.5
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class SeenPdu:
    """One PDU: the units that its Redfish service has, or why there are none (a cause, a reason and a hint)."""

    name: str
    stated: RackPdu
    units: tuple[Pdu, ...] = ()
    cause: str = ""
    reason: str = ""
    hint: str = ""
    file: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class SeenPdus:
    """All PDUs that the site configures."""

    pdus: tuple[SeenPdu, ...]


def observe(context: ObserveContext) -> SeenPdus:
    """Return the units of every PDU, or why it could not be read."""
    access = context.settings_of(BMC_REACHED, BmcAccess)
    configured = context.settings_of(PDU_FEEDS, PduSettings).pdus
    found = map_bounded(lambda name: _look(context, access, name, configured[name]), sorted(configured), access.at_once)
    context.emit(f"{sum(bool(pdu.units) for pdu in found)} of {len(found)} PDUs read")
    return SeenPdus(pdus=tuple(found))


def _look(context: ObserveContext, access: BmcAccess, name: str, configured: RackPdu) -> SeenPdu:
    resources: dict[str, Any] = {}
    try:
        url = service_url(configured.address)
        with RedfishService(url, f"PDU {name}", access.account(name), access.access) as service:

            def get(path: str) -> Mapping[str, Any]:
                found = service.get(path)
                resources[path] = found
                return found

            units = read_pdus(service.root, get)
    except ValueError as error:
        hint = f"correct gpufleet_settings pdu-feeds.pdus.{name}.address"
        return SeenPdu(
            name=name, stated=configured, cause="pdu-address-wrong", reason=f"its address {error}", hint=hint
        )
    except RedfishError as error:
        cause = error.cause.replace("bmc-", "pdu-", 1)
        return SeenPdu(
            name=name, stated=configured, cause=cause, reason=f"{error.subject}: {error.reason}", hint=error.hint
        )
    except InputError as error:
        reason = f"{error.subject}: {error.reason}"
        hint = error.hint or "look at the PDU's own page"
        return SeenPdu(name=name, stated=configured, cause="pdu-not-read", reason=reason, hint=hint)
    file = f"evidence/facility/pdu-{name.replace('/', '_')}.json"
    write_atomic(context.run_dir / file, json.dumps(redact_data(resources), indent=1, sort_keys=True) + "\n")
    return SeenPdu(name=name, stated=configured, units=units, file=file)


OBSERVER = observer_of("pdus", SeenPdus, observe)
